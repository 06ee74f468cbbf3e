#![allow(unsafe_code)]
//! Tests of the options of a session, as C programs fill them in.

use std::path::PathBuf;

use tcpx_core::{Encryption, PluginChoice, UnpackChoice};

use super::*;
use crate::tcpx_status::{TCPX_ERR_ARGUMENT, TCPX_OK};

fn from_defaults() -> tcpx_session_options {
    tcpx_session_options::from_core(&SessionOptions::default())
}

fn convert(options: tcpx_session_options) -> Result<SessionOptions, tcpx_status> {
    // SAFETY: a whole struct; every test's texts are C strings.
    let converted = unsafe { to_core(&raw const options) };
    converted.map_err(|failure| failure.status)
}

#[test]
fn every_member_reaches_core() {
    let options = tcpx_session_options {
        plugin: c"/lib/plugin.so".as_ptr(),
        unpack: c"host".as_ptr(),
        name: c"me".as_ptr(),
        nics: c"eth1, eth2,".as_ptr(),
        listen: c"127.0.0.1:99".as_ptr(),
        advertise: c"10.0.0.1,::1".as_ptr(),
        gpu: 3,
        channels: 4,
        chunk_bytes: 8192,
        recv_window: 5,
        send_window: 6,
        connect_timeout_ms: 7,
        close_timeout_ms: 8,
        spin_us: 9,
        progress_thread: 1,
        peer_timeout_ms: 10,
        staging_bytes: 11 << 32,
        preflight: 0,
        keep_sigpipe: 1,
        eager_bytes: 12,
        eager_buffer_bytes: 13,
        notification_bytes: 14,
        accept_all: 1,
        kept_for_peers_bytes: 15 << 32,
        encryption: c"require".as_ptr(),
        tls_cert: c"/tls/cert.pem".as_ptr(),
        tls_key: c"/tls/key.pem".as_ptr(),
        tls_ca: c"/tls/ca.pem".as_ptr(),
        ..from_defaults()
    };
    let core = convert(options).unwrap();
    assert_eq!(core.plugin, PluginChoice::Path("/lib/plugin.so".into()));
    assert_eq!(core.unpack, UnpackChoice::Host);
    assert_eq!(
        (core.name.as_str(), core.nics.as_slice()),
        ("me", &["eth1".into(), "eth2".into()][..])
    );
    assert_eq!(core.listen.to_string(), "127.0.0.1:99");
    assert_eq!(core.advertise.len(), 2);
    assert_eq!((core.gpu, core.channels, core.chunk_bytes), (Some(3), Some(4), Some(8192)));
    assert_eq!((core.recv_window, core.send_window, core.progress_thread), (5, 6, true));
    assert_eq!(core.connect_timeout, Duration::from_millis(7));
    assert_eq!(core.close_timeout, Duration::from_millis(8));
    assert_eq!(core.spin, Duration::from_micros(9));
    assert_eq!(core.peer_timeout, Some(Duration::from_millis(10)));
    assert_eq!(core.staging_bytes, 11 << 32);
    assert_eq!((core.preflight, core.keep_sigpipe), (false, true));
    assert_eq!((core.eager_bytes, core.eager_buffer_bytes), (12, 13));
    assert_eq!((core.notification_bytes, core.accept_all), (14, true));
    assert_eq!(core.encryption, Encryption::Require);
    let files = [core.tls_cert, core.tls_key, core.tls_ca].map(Option::unwrap);
    assert_eq!(files, ["/tls/cert.pem", "/tls/key.pem", "/tls/ca.pem"].map(PathBuf::from));
    assert_eq!(core.kept_for_peers_bytes, 15 << 32);
    let endless = convert(tcpx_session_options { peer_timeout_ms: 0, ..from_defaults() }).unwrap();
    assert_eq!(endless.peer_timeout, None);
}

#[test]
fn values_that_core_cannot_hold_are_refused_by_name() {
    for (options, status) in [
        (tcpx_session_options { gpu: -2, ..from_defaults() }, TCPX_ERR_SETTING),
        (tcpx_session_options { channels: 65_537, ..from_defaults() }, TCPX_ERR_SETTING),
        (tcpx_session_options { listen: c"nowhere".as_ptr(), ..from_defaults() }, TCPX_ERR_SETTING),
        (tcpx_session_options { unpack: c"gpu".as_ptr(), ..from_defaults() }, TCPX_ERR_SETTING),
        (tcpx_session_options { progress_thread: 2, ..from_defaults() }, TCPX_ERR_ARGUMENT),
        (tcpx_session_options { preflight: -1, ..from_defaults() }, TCPX_ERR_ARGUMENT),
        (tcpx_session_options { keep_sigpipe: 2, ..from_defaults() }, TCPX_ERR_ARGUMENT),
        (tcpx_session_options { accept_all: 2, ..from_defaults() }, TCPX_ERR_ARGUMENT),
        (tcpx_session_options { group: 2, ..from_defaults() }, TCPX_ERR_ARGUMENT),
        (tcpx_session_options { authenticate_link: 2, ..from_defaults() }, TCPX_ERR_ARGUMENT),
        (tcpx_session_options { authenticate_link: 1, ..from_defaults() }, TCPX_ERR_SETTING),
        (tcpx_session_options { encryption: c"1".as_ptr(), ..from_defaults() }, TCPX_ERR_SETTING),
        (tcpx_session_options { size: 0, ..from_defaults() }, TCPX_ERR_ARGUMENT),
    ] {
        assert_eq!(convert(options).unwrap_err(), status);
    }
}

#[test]
fn init_gives_the_defaults() {
    let mut options = from_defaults();
    options.channels = 0;
    // SAFETY: a local struct of this size.
    let status = unsafe { tcpx_session_options_init(&raw mut options, size_of_val(&options)) };
    assert_eq!(status, TCPX_OK);
    let core = convert(options).unwrap();
    assert_eq!(core.chunk_bytes, SessionOptions::from_env().unwrap().chunk_bytes);
    assert_eq!(core.plugin, SessionOptions::from_env().unwrap().plugin);
    assert!(std::env::var_os("TCPX_PROGRESS_THREAD").is_some() || core.progress_thread);
}
