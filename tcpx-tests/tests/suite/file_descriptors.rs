//! A session whose process has run out of file descriptors: it says so once, and goes on when there
//! are some again. The limit is the whole process's, so the test runs in one of its own.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tcpx_core::Session;
use tcpx_testkit::{CapturedLog, PATIENCE, in_own_process};
use tcpx_tests::control_addresses;
use tcpx_tests::sessions::{open, soft};

fn complaints(log: &CapturedLog) -> usize {
    let log = log.text();
    let lines = log.lines().filter(|line| line.contains("accepting control connections fails"));
    lines.inspect(|line| assert!(line.contains("ERROR"), "{line}")).count()
}

/// Makes progress until `is_over`.
fn progress_until(session: &Session, what: &str, mut is_over: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_over() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        session.progress();
    }
}

#[test]
fn peers_come_in_once_there_are_file_descriptors_again() {
    in_own_process!();
    let (log, _logging) = CapturedLog::begin();
    let session = open(soft());
    let addresses = control_addresses(&session.listen().expect("listen"));

    let mut peer = TcpStream::connect(addresses[0]).expect("the system takes it in");
    peer.set_nonblocking(true).expect("a socket");
    let before = getrlimit(Resource::Nofile);
    let lowest_free = std::fs::File::open("/dev/null").expect("a file").as_raw_fd() as u64;
    setrlimit(Resource::Nofile, Rlimit { current: Some(lowest_free), ..before })
        .expect("a lower one");
    progress_until(&session, "it is logged", || complaints(&log) > 0);
    let begin = Instant::now();
    progress_until(&session, "time passes", || begin.elapsed() > Duration::from_millis(350));
    assert_eq!(complaints(&log), 1, "once, though it was tried again");
    let read = peer.read(&mut [0; 64]);
    assert!(
        read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock),
        "the connection is not accepted"
    );

    setrlimit(Resource::Nofile, before).expect("back to what it was");
    progress_until(&session, "the session greets the waiting peer", || {
        peer.read(&mut [0; 64]).is_ok_and(|count| count > 0)
    });
    assert_eq!(complaints(&log), 1);
}
