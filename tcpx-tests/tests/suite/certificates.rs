//! Sessions of a fleet with certificates: peers that know each other by name, and each way in which
//! they do not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tcpx_core::Encryption::{Off, Prefer, Require};
use tcpx_core::{
    Device, Encryption, EncryptionProblem, Error, MemoryRange, OperationKind, RemoteRange, Session,
    SessionOptions,
};
use tcpx_testkit::PATIENCE;
use tcpx_testkit::certificates::{Authority, CertificateFolder, Files, Validity};
use tcpx_tests::sessions::{export, join, open};

use crate::encrypted_ends::{
    LONG, SHORT, is_encrypted, is_full_of, message, options, write_and_read,
};

/// Authority whose members trust it alone.
struct Fleet {
    folder: CertificateFolder,
    authority: Authority,
}

impl Fleet {
    fn new() -> Self {
        Self { folder: CertificateFolder::new(), authority: Authority::new() }
    }

    fn files(&self, name: &str) -> Files {
        self.folder.write(name, &self.authority, &[&self.authority], Validity::Now)
    }

    fn open(&self, name: &str) -> Session {
        open(with_files(options(Require), &self.files(name)).name(name))
    }
}

fn with_files(options: SessionOptions, files: &Files) -> SessionOptions {
    let [cert, key, ca] = [&files.cert, &files.key, &files.ca].map(|file| Some(file.clone()));
    options.tls_cert(cert).tls_key(key).tls_ca(ca)
}

/// Has `from` connect to `to`, which it knows as `name`, and returns why it is refused.
fn refusal(from: &Session, to: &Session, name: &str) -> Error {
    let info = to.listen().expect("listen");
    from.load_remote_conn_info(name, &info).expect("own bytes load");
    from.connect(name).expect_err("it is refused")
}

/// Returns the id at the end of an error.
fn id(error: &Error) -> String {
    error.diagnosis().map_or_else(|| format!("no id: {error}"), |found| found.code.to_string())
}

#[test]
fn members_of_a_fleet_move_everything() {
    let fleet = Fleet::new();
    let [left, right] = ["left", "right"].map(|name| fleet.open(name));
    join((&left, "left"), (&right, "right"));
    assert!(is_encrypted(&left) && is_encrypted(&right));
    for bytes in [SHORT, LONG] {
        message((&left, "left"), (&right, "right"), bytes, 5);
        write_and_read((&right, "right"), (&left, "left"), bytes);
    }
}

/// The devices of a session prove themselves with the session's certificate and name.
#[test]
fn a_group_proves_itself_for_all_its_devices() {
    const BYTES: u64 = 4096;
    let fleet = Fleet::new();
    let group = |name: &str| {
        let options = with_files(options(Require), &fleet.files(name)).name(name);
        Session::new(options.all_devices(true).emulated_gpus(2)).expect("soft")
    };
    let [left, right] = ["left", "right"].map(group);
    let info = right.listen().expect("listen");
    left.load_remote_conn_info("right", &info).expect("own bytes load");
    let memory = |group: &Session, device, byte| {
        let memory = group.allocate(BYTES, device).expect("memory");
        group.write_memory(memory, 0, &[byte; BYTES as usize]).expect("nothing uses it");
        memory
    };
    for (here, there) in [(Device::Host, Device::Gpu(1)), (Device::Gpu(0), Device::Gpu(0))] {
        let [written, exported] = [memory(&left, here, 7), memory(&right, there, 0)];
        let key = export(&right, exported);
        let range = MemoryRange { memory: written, offset: 0, bytes: BYTES };
        let remote = RemoteRange { key: &key, offset: 0, bytes: BYTES };
        let write = left.prepare("right", OperationKind::Write, &[range], &[remote]);
        let write = write.expect("it fits");
        write.post(None).expect("it is not under way");
        write.wait(Some(PATIENCE)).expect("it is served");
        assert!(is_full_of(&right, exported, 7, BYTES as usize));
    }
    assert!(is_encrypted(&left) && is_encrypted(&right));
}

#[test]
fn each_end_hears_why_a_certificate_is_refused() {
    let fleet = Fleet::new();
    let good = fleet.open("good");
    let stranger = Authority::new();
    for (authority, validity, expected) in [
        (&stranger, Validity::Now, "TCPX-746"),
        (&fleet.authority, Validity::Over, "TCPX-747"),
        (&fleet.authority, Validity::Later, "TCPX-748"),
    ] {
        let files = fleet.folder.write("bad", authority, &[&fleet.authority], validity);
        let bad = open(with_files(options(Require), &files).name("bad"));
        let found = refusal(&good, &bad, "bad");
        assert_eq!(id(&found), expected, "{found}");
        let said = refusal(&bad, &good, "good");
        assert_eq!(id(&said), expected, "{said}");
    }
    // Nothing of this kept others out.
    let other = fleet.open("other");
    join((&other, "other"), (&good, "good"));
    message((&other, "other"), (&good, "good"), SHORT, 5);
}

#[test]
fn a_name_belongs_to_those_whose_certificate_has_it() {
    let fleet = Fleet::new();
    let [left, right] = ["left", "right"].map(|name| fleet.open(name));
    let error = refusal(&left, &right, "other");
    assert_eq!(id(&error), "TCPX-749", "{error}");
    assert!(error.to_string().contains("\"other\" is not among"), "{error}");
    // Certificates of the fleet, under names that are not theirs, and without a name.
    for (name, said) in [("left", "\"left\" is not among"), ("", "no name of its own")] {
        let options = with_files(options(Require), &fleet.files("pretender"));
        let pretender = open(options.name(name));
        let error = refusal(&pretender, &right, "right");
        assert_eq!(id(&error), "TCPX-749", "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn an_end_without_a_certificate_and_one_with_it_do_not_talk() {
    let fleet = Fleet::new();
    let [with, without] = [fleet.open("with"), open(options(Require).name("without"))];
    for (from, to, name) in [(&with, &without, "without"), (&without, &with, "with")] {
        let error = refusal(from, to, name);
        let Error::Encryption { problem: EncryptionProblem::Credentials(_), .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(id(&error), "TCPX-745");
    }
}

/// Where encryption is preferred, a peer that has it off is reached in clear, as without
/// certificates.
#[test]
fn certificates_do_not_change_what_the_settings_agree_on() {
    let fleet = Fleet::new();
    let prefers = open(with_files(options(Prefer), &fleet.files("prefers")).name("prefers"));
    let off = open(options(Encryption::Off).name("off"));
    join((&prefers, "prefers"), (&off, "off"));
    assert!(!is_encrypted(&prefers));
    message((&prefers, "prefers"), (&off, "off"), SHORT, 5);
    let error = Session::new(with_files(options(Off), &fleet.files("off"))).expect_err("no use");
    assert_eq!(id(&error), "TCPX-751", "{error}");
}

/// A fleet replaces its certificates and its authority while peers work and come and go.
#[test]
fn certificates_are_rotated_under_load() {
    let (fleet, next) = (Fleet::new(), Authority::new());
    let (old, both) = (&fleet.authority, [&fleet.authority, &next]);
    let files = ["left", "right"].map(|name| fleet.files(name));
    let [left, right] = ["left", "right"].map(|name| fleet.open(name));
    join((&left, "left"), (&right, "right"));
    let is_over = AtomicBool::new(false);
    let moved = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut moved = 0;
            while !is_over.load(Ordering::Relaxed) || moved == 0 {
                write_and_read((&left, "left"), (&right, "right"), LONG);
                moved += 1;
            }
            moved
        });
        let comes_and_goes = |name: &str, issuer: &Authority, trusted: &[&Authority]| {
            let files = fleet.folder.write(name, issuer, trusted, Validity::Now);
            let newcomer = open(with_files(options(Require), &files).name(name));
            join((&newcomer, name), (&right, "right"));
            message((&newcomer, name), (&right, "right"), SHORT, 5);
            drop(newcomer);
        };
        comes_and_goes("newcomer-1", old, &[old]);
        files.iter().for_each(|files| files.trust(&both));
        comes_and_goes("newcomer-2", &next, &both);
        fleet.folder.write("right", &next, &both, Validity::Now);
        comes_and_goes("newcomer-3", &next, &[&next]);
        // The old authority is revoked. Links that it vouched for go on.
        files[1].trust(&[&next]);
        let files = fleet.folder.write("newcomer-4", old, &both, Validity::Now);
        let revoked = open(with_files(options(Require), &files).name("newcomer-4"));
        let error = refusal(&revoked, &right, "right");
        assert_eq!(id(&error), "TCPX-746", "{error}");
        is_over.store(true, Ordering::Relaxed);
        worker.join().expect("it moves on")
    });
    assert!(moved > 0);
    message((&left, "left"), (&right, "right"), LONG, 6);
}
