//! A flood of stray connections at the control port is a few lines of the log, which say where they
//! come from and carry nothing of theirs to the terminal. Nor do names that peers give themselves.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tcpx_core::Session;
use tcpx_testkit::{CapturedLog, PATIENCE, eventually, in_own_process, scaled};
use tcpx_tests::control_addresses;
use tcpx_tests::sessions::{lively, open, soft};

const STRAYS: usize = 200;
/// What a session writes in each minute.
const LINES_A_MINUTE: usize = 8;

/// Sends nonsense to a session until it closes the connection.
fn rejected(session: &Session, address: SocketAddr) -> SocketAddr {
    let mut stray = TcpStream::connect(address).expect("the system takes it in");
    stray.write_all(b"\x1b[2Jall is well\n[ERROR] \x07").expect("the connection is open");
    stray.set_nonblocking(true).expect("a socket");
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < PATIENCE, "the connection stays open");
        session.progress();
        match stray.read(&mut [0; 256]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(1..) => {}
            Ok(0) | Err(_) => return stray.local_addr().expect("a socket"),
        }
    }
}

#[test]
fn a_flood_of_connections_is_a_few_log_lines_with_their_addresses() {
    let (log, _logging) = CapturedLog::begin();
    let session = open(soft());
    let address = control_addresses(&session.listen().expect("listen"))[0];

    let begin = Instant::now();
    let strays: Vec<SocketAddr> = (0..STRAYS).map(|_| rejected(&session, address)).collect();
    let windows = begin.elapsed().as_secs() / 60 + 1;

    let text = log.text();
    let lines: Vec<&str> =
        text.lines().filter(|line| line.contains("control connection refused")).collect();
    let most = LINES_A_MINUTE * usize::try_from(windows).expect("a few");
    assert!((LINES_A_MINUTE..=most).contains(&lines.len()), "{} lines\n{text}", lines.len());
    for (line, stray) in lines.iter().zip(&strays).take(LINES_A_MINUTE) {
        assert!(line.contains(&stray.to_string()), "{stray}: {line}");
    }
    assert!(!text.contains(['\x1b', '\x07']), "{text:?}");
}

/// What would be a line of its own, and clear the screen.
const NASTY: &str = "a\n[ERROR] all is lost\u{1b}[2J\u{202e}";

/// With the secret a peer may come in under any name. It stays in the lines that speak of it.
#[test]
fn a_name_that_a_peer_gives_itself_stays_in_its_line() {
    in_own_process!();
    // Sessions have threads.
    let log = CapturedLog::of_all_threads();
    for accepts_all in [true, false] {
        // Where it is not accepted, the goodbye has no answer.
        let options = || lively().close_timeout(scaled(Duration::from_millis(300)));
        let session = open(options().accept_all(accepts_all));
        let peer = open(options().name(NASTY));
        peer.load_remote_conn_info("other", &session.listen().expect("listen")).expect("own bytes");
        peer.start_connect("other").expect("it is known");
        let name = eventually(|| {
            let name = session.stats().peers.first()?.name.clone();
            log.text().contains(&format!("peer is up peer={name} ")).then_some(name)
        });
        drop(peer);
        drop(session);
        let text = log.text();
        for text in [&name, &text] {
            assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
            assert!(!text.lines().any(|line| line.starts_with("[ERROR]")), "{text:?}");
        }
    }
}
