//! Secrets of sessions that encrypt: no text that a session makes shows one, the log at its highest
//! level among them.

use tcpx_core::Encryption::Require;
use tcpx_core::{LinkBytes, Session};
use tcpx_testkit::certificates::{Authority, CertificateFolder, Validity};
use tcpx_testkit::dropped::assert_not_shown;
use tcpx_testkit::{CapturedLog, in_own_process};
use tcpx_tests::secret_of;
use tcpx_tests::sessions::{disconnect_both, export, join_by, open};

use crate::encrypted_ends::{LONG, SHORT, memory, message, options, write_and_read};

/// All that a session says of itself.
fn texts(session: &Session) -> [String; 4] {
    let stats = session.stats();
    [format!("{session:?}"), format!("{session:#?}"), format!("{stats:?}"), session.metrics_text()]
}

#[test]
fn no_text_of_a_session_has_a_secret() {
    in_own_process!();
    let log = CapturedLog::of_all_threads_and_levels();
    let (folder, authority) = (CertificateFolder::new(), Authority::new());
    let mut known: Vec<Vec<u8>> = Vec::new();
    let mut shown = Vec::new();
    for has_certificates in [false, true] {
        let [left, right] = ["left", "right"].map(|name| {
            let options = options(Require).name(name).link_bytes(LinkBytes::Most(SHORT as u64));
            if !has_certificates {
                return open(options);
            }
            let files = folder.write(name, &authority, &[&authority], Validity::Now);
            let pem = std::fs::read_to_string(&files.key).expect("it was written");
            known.extend(pem.lines().filter(|it| it.len() == 64).map(|it| it.as_bytes().to_vec()));
            let options = options.tls_cert(Some(files.cert)).tls_key(Some(files.key));
            open(options.tls_ca(Some(files.ca)))
        });
        let infos = [&left, &right].map(|session| session.listen().expect("it listens"));
        known.extend(infos.iter().map(|info| secret_of(info).to_vec()));
        shown.push(format!("{:?}", left.load_remote_conn_info("broken", &infos[1][1..])));
        join_by((&left, "left"), (&right, "right"), &infos[1]);
        for bytes in [SHORT, LONG] {
            message((&left, "left"), (&right, "right"), bytes, 5);
            write_and_read((&right, "right"), (&left, "left"), bytes);
        }
        let key = export(&right, memory(&right, 1, LONG));
        known.push(key.secret.to_wire().to_vec());
        shown.push(format!("{key:?}"));
        shown.extend([&left, &right].iter().flat_map(|session| texts(session)));
        disconnect_both(&left, &right);
    }
    shown.push(log.text());
    assert!(log.text().contains("right") && known.len() >= 6, "{}", log.text());
    for (text, secret) in shown.iter().flat_map(|text| known.iter().map(move |it| (text, it))) {
        assert_not_shown(text, secret);
    }
}
