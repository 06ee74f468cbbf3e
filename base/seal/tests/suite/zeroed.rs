//! Secrets in memory and in texts. Keys of the cipher and of the exchange are in memory of AWS-LC,
//! which overwrites them when it frees them; that cannot be seen from here.

use tcpx_seal::exchange::{Answer, Offer};
use tcpx_seal::record::{Opener, Sealer};
use tcpx_seal::secret::{SharedSecret, TrafficSecret};
use tcpx_seal::suite::Suite;
use tcpx_testkit::dropped::{Remains, assert_not_shown};

const SECRET: [u8; 32] = *b"\x9a\x01secret of thirty-two bytes\xfe\x7f\xc3\x11";
const SUITES: [Suite; 2] = [Suite::Aes256Gcm, Suite::ChaCha20Poly1305];

fn traffic() -> TrafficSecret {
    TrafficSecret::new(SECRET)
}

fn shared() -> SharedSecret {
    SharedSecret::new(SECRET)
}

#[test]
fn secrets_are_zeroed_when_they_are_dropped() {
    Remains::of(traffic()).assert_zeroed(&SECRET);
    Remains::of(shared()).assert_zeroed(&SECRET);
    Remains::of(shared().clone()).assert_zeroed(&SECRET);
    let derived = shared().derive("label", b"context");
    let bytes = *derived.bytes();
    Remains::of(derived).assert_zeroed(&bytes);
}

#[test]
fn what_holds_a_secret_leaves_nothing_of_it() {
    for suite in SUITES {
        Remains::of(Sealer::new(suite, traffic())).assert_zeroed(&SECRET);
        Remains::of(Opener::new(suite, traffic())).assert_zeroed(&SECRET);
        Remains::of(Offer::new(&shared(), suite, b"hello").unwrap()).assert_zeroed(&SECRET);
    }
}

#[test]
fn nothing_that_holds_a_secret_shows_it() {
    let offer = Offer::new(&shared(), Suite::fastest(), b"hello").unwrap();
    let answer = Answer::new(&shared(), Suite::fastest(), b"hello", offer.bytes(), b"").unwrap();
    let sealer = Sealer::new(Suite::fastest(), traffic());
    let opener = Opener::new(Suite::fastest(), traffic());
    let shown = format!(
        "{:?} {:?} {sealer:?} {opener:?} {offer:?} {answer:?} {:#?}",
        traffic(),
        shared(),
        answer.keys
    );
    assert!(shown.contains("Sealer") && shown.contains("Offer"), "{shown}");
    assert_not_shown(&shown, &SECRET);
}
