//! Tests of both ends of an exchange of keys with certificates, without a socket.

use tcpx_protocol::types::encryption::Encryption;
use tcpx_testkit::certificates::{Authority, CertificateFolder, Files, Validity};

use super::tests::converse;
use super::*;
use crate::error::{CertificateFileProblem, Error, SettingProblem};

fn options(files: &Files) -> SessionOptions {
    SessionOptions::default()
        .encryption(Encryption::Require)
        .tls_cert(Some(files.cert.clone()))
        .tls_key(Some(files.key.clone()))
        .tls_ca(Some(files.ca.clone()))
}

fn credentials(files: &Files) -> Credentials {
    Credentials::new(&options(files)).expect("sound files")
}

/// Lets two ends meet. `peer` is the listener's name at the connector. Returns what each has found
/// wrong with the other.
fn meet(
    ours: &Credentials,
    theirs: &Credentials,
    peer: &str,
) -> [Result<PeerCredential, EncryptionProblem>; 2] {
    let mut connector = match connect(ours, theirs.session(), peer) {
        Ok(connector) => connector,
        Err(problem) => return [Err(problem), Err(EncryptionProblem::handshake("not asked"))],
    };
    let mut listener = listen(theirs).expect("sound settings");
    let [ours, theirs] = converse(&mut connector, &mut listener, |_| ());
    [
        ours.and_then(|()| Ok(connector.finish()?.peer)),
        theirs.and_then(|()| Ok(listener.finish()?.peer)),
    ]
}

fn hello(name: &str) -> Hello {
    let options = SessionOptions::default().name(name);
    let id = crate::control::identity::new_id(&options).expect("random bytes");
    let id = (Device::Host, id.0, id.1);
    let channels = crate::control::identity::ChannelOffer::Asked(2);
    crate::control::identity::Identity::new(id, &options, "soft", 1 << 19, channels)
        .hello([0; 32], 2)
}

fn certificate(problem: CertificateProblem) -> EncryptionProblem {
    EncryptionProblem::Certificate(problem)
}

#[test]
fn two_members_of_a_fleet_know_each_other_by_name() {
    let (folder, authority) = (CertificateFolder::new(), Authority::new());
    let [ours, theirs] = ["decode-0", "prefill-3.kv.example"]
        .map(|name| credentials(&folder.write(name, &authority, &[&authority], Validity::Now)));
    assert_eq!((ours.kind(), theirs.kind()), (Credential::Certificate, Credential::Certificate));
    let [listener, connector] = meet(&ours, &theirs, "prefill-3.kv.example");
    assert!(matches!(listener, Ok(PeerCredential::Certificate(_))), "{listener:?}");
    let connector = connector.expect("it was issued by the authority");
    assert_eq!(connector.check(&hello("decode-0")), Ok(()));
    let refused = connector.check(&hello("prefill-3.kv.example")).unwrap_err();
    let name = "prefill-3.kv.example".to_owned();
    assert_eq!(refused, certificate(CertificateProblem::OtherName(name)));
    assert_eq!(connector.check(&hello("")), Err(certificate(CertificateProblem::NoName)));
}

#[test]
fn a_listener_of_another_name_is_refused() {
    let (folder, authority) = (CertificateFolder::new(), Authority::new());
    let [ours, theirs] = ["a", "b"]
        .map(|name| credentials(&folder.write(name, &authority, &[&authority], Validity::Now)));
    for wanted in ["c", "not a name of the DNS", "10.0.0.1"] {
        let [refused, _] = meet(&ours, &theirs, wanted);
        let expected = certificate(CertificateProblem::OtherName(wanted.to_owned()));
        assert_eq!(refused, Err(expected), "{wanted}");
    }
}

#[test]
fn each_end_says_what_is_wrong_with_the_certificate_of_the_other() {
    let (folder, authority, other) = (CertificateFolder::new(), Authority::new(), Authority::new());
    let good = credentials(&folder.write("good", &authority, &[&authority], Validity::Now));
    for (issuer, validity, expected) in [
        (&other, Validity::Now, CertificateProblem::UnknownIssuer),
        (&authority, Validity::Over, CertificateProblem::Expired),
        (&authority, Validity::Later, CertificateProblem::NotYetValid),
    ] {
        let bad = credentials(&folder.write("bad", issuer, &[&authority], validity));
        let [by_connector, _] = meet(&good, &bad, "bad");
        assert_eq!(by_connector, Err(certificate(expected.clone())));
        let [_, by_listener] = meet(&bad, &good, "good");
        assert_eq!(by_listener, Err(certificate(expected)));
    }
}

#[test]
fn files_that_are_replaced_serve_from_the_next_link_on() {
    let (folder, old, new) = (CertificateFolder::new(), Authority::new(), Authority::new());
    let files = ["a", "b"].map(|name| folder.write(name, &old, &[&old], Validity::Now));
    let [ours, theirs] = [&files[0], &files[1]].map(credentials);
    assert!(meet(&ours, &theirs, "b").iter().all(Result::is_ok));
    // The fleet goes over to another authority: first all trust it, then it issues.
    files.iter().for_each(|files| files.trust(&[&old, &new]));
    assert!(meet(&ours, &theirs, "b").iter().all(Result::is_ok));
    folder.write("b", &new, &[&old, &new], Validity::Now);
    assert!(meet(&ours, &theirs, "b").iter().all(Result::is_ok));
    // An end whose authority is no longer trusted is revoked.
    files[1].trust(&[&new]);
    let [_, by_listener] = meet(&ours, &theirs, "b");
    assert_eq!(by_listener, Err(certificate(CertificateProblem::UnknownIssuer)));
    // Files that cannot be used leave the last good ones in place.
    std::fs::write(&files[0].cert, "half a certificate").unwrap();
    files[1].trust(&[&old, &new]);
    assert!(meet(&ours, &theirs, "b").iter().all(Result::is_ok));
    std::fs::remove_file(&files[0].key).unwrap();
    assert!(meet(&ours, &theirs, "b").iter().all(Result::is_ok));
    folder.write("a", &new, &[&old], Validity::Now);
    let [by_connector, _] = meet(&ours, &theirs, "b");
    assert_eq!(by_connector, Err(certificate(CertificateProblem::UnknownIssuer)));
}

#[test]
fn each_way_in_which_files_are_unusable_has_words_of_its_own() {
    let (folder, authority) = (CertificateFolder::new(), Authority::new());
    let good = folder.write("good", &authority, &[&authority], Validity::Now);
    let other = folder.write("other", &authority, &[&authority], Validity::Now);
    let empty = folder.file("empty");
    std::fs::write(&empty, "").unwrap();
    let refused = |options: SessionOptions, setting: &str| {
        let error = Credentials::new(&options).expect_err(setting);
        match error.clone() {
            Error::Setting { name, problem: SettingProblem::Certificate(problem), .. } => {
                assert_eq!(name, setting, "{error}");
                (problem, error.diagnosis().expect("each has an id").code.to_string())
            }
            other => panic!("{other:?}"),
        }
    };
    let sound = || options(&good);
    let (problem, id) = refused(sound().tls_key(None), "tls_cert");
    assert_eq!((problem, id.as_str()), (CertificateFileProblem::Incomplete, "TCPX-751"));
    let (problem, _) = refused(sound().encryption(Encryption::Off), "tls_cert");
    assert_eq!(problem, CertificateFileProblem::NotEncrypted);
    let (problem, id) = refused(sound().tls_key(Some(folder.file("none"))), "tls_key");
    assert_eq!((problem, id.as_str()), (CertificateFileProblem::Missing, "TCPX-752"));
    for (options, setting) in [
        (sound().tls_cert(Some(empty.clone())), "tls_cert"),
        (sound().tls_key(Some(good.cert.clone())), "tls_key"),
        (sound().tls_ca(Some(folder.file(""))), "tls_ca"),
    ] {
        let (problem, id) = refused(options, setting);
        assert!(matches!(problem, CertificateFileProblem::Holds(_)), "{problem:?}");
        assert_eq!(id, "TCPX-753");
    }
    // Also for root, who may read what others may not.
    let link = folder.file("link to itself");
    std::os::unix::fs::symlink(&link, &link).unwrap();
    let (problem, id) = refused(sound().tls_cert(Some(link)), "tls_cert");
    assert!(matches!(problem, CertificateFileProblem::Unreadable(_)), "{problem:?}");
    assert_eq!(id, "TCPX-753");
    let (problem, id) = refused(sound().tls_key(Some(other.key)), "tls_key");
    assert_eq!((problem, id.as_str()), (CertificateFileProblem::KeyDiffers, "TCPX-754"));
}

#[test]
fn keys_of_files_are_never_shown() {
    let (folder, authority) = (CertificateFolder::new(), Authority::new());
    let files = folder.write("a", &authority, &[&authority], Validity::Now);
    let key = std::fs::read_to_string(&files.key).unwrap();
    let shown = format!("{:?}", credentials(&files));
    let secret = key.lines().nth(1).expect("PEM");
    assert!(shown.contains("a.key.pem") && !shown.contains(secret), "{shown}");
}
