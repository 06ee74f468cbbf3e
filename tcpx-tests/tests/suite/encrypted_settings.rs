//! Settings of encryption: which of them fit together, and transports that cannot encrypt.

use std::net::Ipv4Addr;

use tcpx_core::Encryption::{Off, Prefer, Require};
use tcpx_core::{Encryption, EncryptionProblem, Error, PluginChoice, Session, SettingProblem};
use tcpx_testkit::{CapturedLog, in_own_process};
use tcpx_tests::proxy::{Direction, LinkProxy, kind};
use tcpx_tests::sessions::open;

use crate::encrypted_ends::{LONG, SHORT, is_encrypted, message, options, pair, write_and_read};

const SETTINGS: [Encryption; 3] = [Off, Prefer, Require];

#[test]
fn everything_travels_between_settings_that_fit_and_nothing_between_others() {
    for (left, right) in SETTINGS.iter().flat_map(|left| SETTINGS.map(|right| (*left, right))) {
        let name = format!("{left} and {right}");
        if matches!((left, right), (Off, Require) | (Require, Off)) {
            refused(left, right);
            continue;
        }
        let [left_session, right_session] = pair(left, right);
        let ends = [(&left_session, "left"), (&right_session, "right")];
        for end in ends {
            assert_eq!(is_encrypted(end.0), left != Off && right != Off, "{name}");
        }
        for [from, to] in [ends, [ends[1], ends[0]]] {
            message(from, to, 0, 1);
            message(from, to, SHORT, 1);
            message(from, to, LONG, 2);
            write_and_read(from, to, SHORT);
            write_and_read(from, to, LONG);
        }
        left_session.disconnect("right").expect("both say goodbye");
    }
}

/// A transport that has no way to encrypt: a session that must is not made, and one that prefers to
/// says to its peers that it does not.
#[test]
fn a_transport_that_cannot_encrypt_is_never_taken_for_one_that_does() {
    let over_another = |encryption| {
        let plugin = PluginChoice::Path(tcpx_tests::null::plugin());
        Session::new(options(encryption).plugin(plugin).preflight(false))
    };
    let error = over_another(Require).expect_err("it cannot");
    let is_typed = |error: &Error| {
        matches!(error, Error::Setting { problem: SettingProblem::CannotEncrypt { .. }, .. })
    };
    assert!(is_typed(&error) && error.to_string().ends_with("[TCPX-744]"), "{error}");
    let prefers = over_another(Prefer).expect("it goes without");
    let stats = prefers.stats();
    let reason = stats.not_encrypted.expect("it is not what was asked for");
    assert!(error.to_string().contains(&reason), "{error}");
    assert!(reason.contains("no functions") && stats.encryption == "off", "{reason}");
    assert!(prefers.metrics_text().contains(&format!("not_encrypted=\"{reason}\"")));
    let requires = open(options(Require));
    let info = prefers.listen().expect("listen");
    requires.load_remote_conn_info("plain", &info).expect("own bytes load");
    let error = requires.connect("plain").expect_err("it would not be encrypted").to_string();
    assert!(error.contains("encryption = require here, off there"), "{error}");
}

/// Two sessions whose settings contradict each other: the one that connects says nothing.
fn refused(left: Encryption, right: Encryption) {
    let [left_session, right_session] = [left, right].map(|encryption| open(options(encryption)));
    let info = right_session.listen().expect("listen");
    let proxy = LinkProxy::of_records(tcpx_tests::control_addresses(&info)[0]);
    let info = tcpx_tests::with_address(&info, Ipv4Addr::LOCALHOST, proxy.address().port());
    left_session.load_remote_conn_info("right", &info).expect("own bytes load");
    let error = left_session.connect("right").expect_err("the settings contradict each other");
    let Error::Encryption { peer, problem: EncryptionProblem::Mismatch(_) } = &error else {
        panic!("{error}");
    };
    assert_eq!(peer, "right");
    let text = error.to_string();
    assert!(text.contains(&format!("encryption = {left} here, {right} there")), "{text}");
    assert!(text.ends_with("[TCPX-741]"), "{text}");
    for kind in [kind::HELLO, kind::OPENING, kind::TLS] {
        assert!(proxy.passed(Direction::ToListener, kind).is_empty(), "{text}");
    }
}

/// A process with many sessions says it once.
#[test]
fn a_transport_that_cannot_encrypt_is_said_once() {
    in_own_process!();
    let (log, _logging) = CapturedLog::begin();
    for setting in [Prefer, Off, Prefer] {
        let plugin = PluginChoice::Path(tcpx_tests::null::plugin());
        let options = options(setting).plugin(plugin).preflight(false);
        let stats = Session::new(options).expect("it goes without").stats();
        assert_eq!(stats.not_encrypted.is_some(), setting == Prefer);
    }
    let text = log.text();
    let said = text.lines().filter(|line| line.contains("TCPX-744")).collect::<Vec<_>>();
    assert!(said.len() == 1 && said[0].contains("no functions that take a secret"), "{text}");
}
