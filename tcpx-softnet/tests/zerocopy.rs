//! Sends in place. Over loopback the system copies nevertheless, once for the receiver, and says
//! so; all the rest is as over a NIC.

mod support;

use std::ptr;

use support::edges::Edges;
use support::exchange::{SIZES, exchange};
use support::sockets::{self, FITS_BYTES, OVERFLOWS_BYTES};
use support::{KINDS, Memory, Net, Receiver, Sender, Word, peer_command, settings};
use tcpx_softnet::{Helpers, ZeroCopy, ZeroCopyStats, zerocopy_stats};
use tcpx_sys::PTR_CUDA;
use tracing_subscriber::filter::LevelFilter;

const CHUNK: usize = 100_000;
const LARGE: usize = OVERFLOWS_BYTES;

/// Two sockets that send in place as the environment says, with or without helper threads.
fn net() -> Net {
    support::net(|| {
        let mut settings = settings();
        settings.sockets = 2;
        settings.threads = 2;
        settings.chunk_bytes = CHUNK as u32;
        let helpers = std::env::var("HELPERS").is_ok_and(|helpers| helpers == "1");
        settings.helpers = if helpers { Helpers::On } else { Helpers::Off };
        #[cfg(feature = "faults")]
        if let Ok(shape) = std::env::var("SHAPE") {
            settings.script.shape = shape.parse().expect("a shape");
        }
        assert_ne!(settings.zerocopy, ZeroCopy::Off, "started by a test below");
        settings
    })
}

/// Runs an ignored test of this file with helper threads and without, and these variables. What it
/// says.
fn run(test: &str, zerocopy: &str, variables: &[(&str, &str)]) -> [String; 2] {
    ["0", "1"].map(|helpers| {
        let own = [("TCPX_SOFT_ZEROCOPY", zerocopy), ("HELPERS", helpers)];
        let ran = peer_command(test, &[&own, variables].concat()).output().expect("it starts");
        let [out, errors] = [&ran.stdout, &ran.stderr].map(|text| String::from_utf8_lossy(text));
        let has_run = ran.status.success() && out.contains("1 passed");
        assert!(has_run, "{own:?} {variables:?}\n{out}\n{errors}");
        out.into_owned()
    })
}

/// Whether the system lets this process send in place at all; without privileges it may not pin the
/// memory.
fn is_refused(stats: ZeroCopyStats) -> bool {
    let is_refused = stats == ZeroCopyStats::default();
    if is_refused {
        support::say("skipped: the system does not send in place");
    }
    is_refused
}

#[test]
#[ignore = "started with its settings by the test below"]
fn every_size() {
    for kind in KINDS {
        exchange(net().pair(), (kind, kind), &SIZES, 1);
    }
    let sizes: Vec<_> = (0..200).map(|k| SIZES[k * 7 % 11] + k % 3).collect();
    exchange(net().pair(), (KINDS[0], KINDS[1]), &sizes, 16);
    let stats = zerocopy_stats();
    support::say(&format!("{stats:?}"));
    assert!(is_refused(stats) || stats.copied_bytes > 0, "loopback copies");
}

#[test]
fn every_size_arrives() {
    run("every_size", "on", &[]);
    run("every_size", "auto", &[]);
}

#[cfg(feature = "faults")]
#[test]
fn tiny_pieces_and_pauses_change_nothing() {
    run("every_size", "on", &[("SHAPE", "fragments,short,again,delay")]);
    run("every_size", "auto", &[("SHAPE", "short")]);
}

#[test]
#[ignore = "started with its settings by the test below"]
fn fallback() {
    let log = tracing_subscriber::fmt().with_max_level(LevelFilter::DEBUG).with_test_writer();
    log.try_init().expect("the first one");
    exchange(net().pair(), (KINDS[0], KINDS[0]), &[LARGE], 1);
    if is_refused(zerocopy_stats()) {
        return;
    }
    let (sender, mut receiver) = net().pair();
    let mut memory = Memory::patterned(LARGE, 0);
    let (_, mhandle) = sender.net.register(sender.comm, memory.data(), LARGE, PTR_CUDA);
    let mut send = || {
        let (rc, send) = sender.net.isend(sender.comm, memory.data(), LARGE as i32, mhandle);
        assert_eq!(rc, 0);
        let (number, recv) = receiver.post(ptr::null_mut(), LARGE, mhandle);
        sender.net.finish_both(send, recv);
        assert!(receiver.unpack(number, LARGE) == memory.bytes());
        assert_eq!(sender.net.consumed(receiver.comm, recv), 0);
        zerocopy_stats()
    };
    // Both sockets have sent some of it.
    let first = send();
    assert!(first.copied_bytes > 0 && first.sent_bytes == 0, "{first:?}");
    for _ in 0..10 {
        assert_eq!(send(), first, "it has given up");
    }
    assert_eq!((sender.net.close(sender.comm), sender.net.close(receiver.comm)), (0, 0));
}

#[test]
fn auto_gives_up_where_the_system_copies() {
    for out in run("fallback", "auto", &[]) {
        let lines = out.matches("the system does not send in place: it copies").count();
        assert!(lines == 4 || out.contains("skipped"), "one for each of 2 × 2 sockets\n{out}");
    }
}

/// A pair with a send of so many bytes under way, as far as that goes while nobody receives.
struct Sending {
    net: Net,
    sender: Sender,
    receiver: Receiver,
    memory: Memory,
    mhandle: Word,
    send: Word,
}

impl Sending {
    fn begin(bytes: usize) -> Self {
        let net = net();
        let (sender, receiver) = net.pair();
        sockets::level();
        let mut memory = Memory::patterned(LARGE, 0);
        let (rc, mhandle) = net.register(sender.comm, memory.data(), LARGE, PTR_CUDA);
        assert_eq!(rc, 0);
        let (rc, send) = net.isend(sender.comm, memory.data(), bytes as i32, mhandle);
        assert_eq!(rc, 0);
        net.test(send);
        if bytes == LARGE {
            support::poll(|| {
                assert_eq!(net.test(send), (0, 0), "it does not fit");
                sockets::is_any_held_up().then_some(())
            });
        }
        Self { net, sender, receiver, memory, mhandle, send }
    }

    /// Closes the send comm and changes the memory.
    fn close_and_overwrite(&mut self) {
        assert_eq!(self.net.close(self.sender.comm), 0);
        assert_eq!(self.net.deregister(ptr::null_mut(), self.mhandle), 0);
        self.memory.fill(0xee);
    }
}

#[test]
#[ignore = "started with its settings by the test below"]
fn close_in_mid_send() {
    let whole = Memory::patterned(LARGE, 0);
    for bytes in [FITS_BYTES, LARGE] {
        let mut ends = Sending::begin(bytes);
        ends.close_and_overwrite();
        let place = ends.memory.data();
        let (_, mhandle) = ends.net.register(ends.receiver.comm, place, LARGE, PTR_CUDA);
        let (number, recv) = ends.receiver.post(ptr::null_mut(), LARGE, mhandle);
        let rc = support::poll(|| {
            let (rc, done) = ends.net.test(recv);
            (rc != 0 || done == 1).then_some(rc)
        });
        support::say(&format!("{bytes} bytes: {rc}"));
        match rc {
            // Also when it was closed before all was sent.
            2 => {}
            0 => {
                assert_eq!(bytes, FITS_BYTES, "the other does not fit");
                assert!(ends.receiver.unpack(number, bytes) == whole.bytes()[..bytes]);
            }
            _ => panic!("rc {rc}"),
        }
        assert_eq!(ends.net.close(ends.receiver.comm), 0);
    }
}

#[test]
fn whoever_closes_in_mid_send_may_change_the_memory() {
    run("close_in_mid_send", "on", &[]);
}

#[test]
#[ignore = "started with its settings by the test below"]
fn peer_goes() {
    let ends = Sending::begin(LARGE);
    let busy = ends.net.deregister(ptr::null_mut(), ends.mhandle);
    assert_eq!(busy, 3, "it is being sent");
    assert_eq!(ends.net.close(ends.receiver.comm), 0);
    assert_eq!(Edges::of(ends.net, ends.sender.comm).finish(ends.send), 2);
    assert_eq!(ends.net.close(ends.sender.comm), 0);
    assert_eq!(ends.net.deregister(ptr::null_mut(), ends.mhandle), 0);
}

#[test]
fn a_peer_that_goes_fails_the_send() {
    run("peer_goes", "on", &[]);
}
