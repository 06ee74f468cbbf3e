//! `--timeout` bounds the whole command, whatever has become of the other end; and an end whose
//! other end is gone does not sit it out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::tcpx::between::{ANSWER, CONNECTED, From, GO, REQUEST, TIMES, Then, When, relay};
use crate::tcpx::{Finished, Server, Signal, Tcpx, assert_nothing_is_left, child_of, signal};
use serial_test::serial;

/// Of a command whose other end is disturbed. Enough for a slow machine to get there.
const TIMEOUT: &str = "8";
/// The command's work is over by then, and a quarter is kept for its end.
const WORK: &str = "within 6 s (of --timeout 8 s)";
/// The same for two ends that have to be well under way first.
const PAIR_TIMEOUT: &str = "16";
const PAIR_WORK: &str = "within 12 s (of --timeout 16 s)";
/// Far more than that, on a slow machine, too; and less than a single step may take without it.
const LATEST: Duration = Duration::from_secs(28);

/// The session's own wait for a goodbye. A command with a timeout must not sit it out.
const CLOSE_TIMEOUT: (&str, &str) = ("TCPX_CLOSE_TIMEOUT_MS", "60000");

/// A command, with a close timeout that shows if it counts.
fn command(words: &[&str]) -> Tcpx {
    // Every send waits for its receive.
    let command = Tcpx::new(words).env("TCPX_EAGER_BYTES", "0");
    match words.contains(&"--timeout") {
        true => command.env(CLOSE_TIMEOUT.0, CLOSE_TIMEOUT.1),
        false => command,
    }
}

/// How a disturbed command ended, and how long it took from its start.
struct Ending {
    finished: Finished,
    took: Duration,
}

impl Ending {
    fn of(tcpx: Tcpx) -> Self {
        let start = Instant::now();
        let finished = tcpx.run();
        Self { finished, took: start.elapsed() }
    }

    /// It failed in time with one error line that has one of `words`.
    fn expect(&self, words: &[&str]) {
        let Self { finished, took } = self;
        assert_eq!(finished.status, Some(1), "{finished}");
        // Sizes that were measured before are shown, but not as if all were well.
        assert!(!finished.stdout.contains("GB/s (10^9 bytes a second)"), "{finished}");
        let errors: Vec<&str> =
            finished.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "{finished}");
        assert!(words.iter().any(|words| errors[0].contains(words)), "{words:?}: {finished}");
        assert!(*took < LATEST, "{took:?}: {finished}");
    }
}

/// A point of the conversation: a message that has come so far, and is not passed on yet.
#[derive(Clone, Copy)]
struct Point {
    sender: From,
    kind: u16,
    /// It is the so many of its kind.
    count: usize,
    /// The other end's message of this kind was passed on before.
    after: Option<u16>,
}

fn first(sender: From, kind: u16) -> Point {
    Point { sender, kind, count: 1, after: None }
}

/// Both ends are connected, of which the server has not heard.
fn before_a_transfer() -> Point {
    Point { after: Some(CONNECTED), ..first(From::Client, CONNECTED) }
}

/// In the middle of many.
fn among_transfers() -> Point {
    Point { count: 4, ..first(From::Server, GO) }
}

/// Calls `act` at a point of the conversation.
fn at(
    point: Point,
    act: impl Fn() -> Then + Send + Sync,
) -> impl Fn(When, From, u16) -> Then + Send + Sync {
    let (seen, is_after) = (AtomicUsize::new(0), AtomicBool::new(point.after.is_none()));
    move |when, sender, kind| {
        let is_of_sender = sender == point.sender;
        match when {
            When::After if !is_of_sender && point.after == Some(kind) => {
                is_after.store(true, Ordering::Release);
            }
            When::Before
                if is_of_sender
                    && kind == point.kind
                    && seen.fetch_add(1, Ordering::Relaxed) + 1 == point.count =>
            {
                while !is_after.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                return act();
            }
            _ => {}
        }
        Then::Pass
    }
}

/// Does `act` with the server's process id at a point of its conversation with a client. Returns
/// how the client ended.
fn client_whose_server(
    words: &[&str],
    flags: &[&str],
    point: Point,
    act: fn(u32) -> Then,
) -> Ending {
    let mut server = Server::start(&[words[0], "server", "--timeout", "600"]);
    let pid = server.running().process.id();
    let address = format!("127.0.0.1:{}", relay(server.port, at(point, move || act(pid))));
    let client = command(&[&[words[0], "client", &address], &words[1..], flags].concat());
    let ending = Ending::of(client);
    // One that was killed before keeps its number until it is waited for.
    signal(Signal::KILL, pid);
    server.finish();
    ending
}

/// The same with the ends changed: the client is disturbed, and the server's ending is returned.
fn server_whose_client(flags: &[&str], point: Point, act: fn(u32) -> Then) -> Ending {
    let start = Instant::now();
    let server = Server::of(command(&[&["perf", "server"], flags].concat()));
    let client_pid = Arc::new(AtomicU32::new(0));
    let pid = Arc::clone(&client_pid);
    let known_pid = move || {
        while pid.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        pid.load(Ordering::Acquire)
    };
    let port = relay(server.port, at(point, move || act(known_pid())));
    let address = format!("127.0.0.1:{port}");
    let words = ["perf", "client", &address, "--size", "64K", "--iters", "10", "--timeout", "600"];
    let client = Tcpx::new(&words).start();
    client_pid.store(client.process.id(), Ordering::Release);
    let ending = Ending { finished: server.finish(), took: start.elapsed() };
    signal(Signal::KILL, client.process.id());
    client.finish();
    ending
}

fn stop(pid: u32) -> Then {
    signal(Signal::STOP, pid);
    Then::Pass
}

fn kill(pid: u32) -> Then {
    signal(Signal::KILL, pid);
    Then::Pass
}

fn stop_and_hang_up(pid: u32) -> Then {
    signal(Signal::STOP, pid);
    Then::PassAndHangUp
}

const PERF: [&str; 5] = ["perf", "--size", "64K", "--iters", "10"];

#[test]
#[serial]
fn a_client_whose_server_stops_ends_in_time_and_says_where() {
    let stopped = |words: &[&str], point, expected: &[&str]| {
        client_whose_server(words, &["--timeout", TIMEOUT], point, stop).expect(expected);
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let sent_no = format!("sent no answer {WORK}");
            stopped(&PERF, first(From::Client, REQUEST), &[&sent_no]);
        });
        scope.spawn(|| {
            stopped(&PERF, first(From::Server, ANSWER), &["during connect"]);
        });
        scope.spawn(|| {
            let point = before_a_transfer();
            stopped(&["transfer"], point, &["during send"]);
        });
        scope.spawn(|| {
            let sent_no = format!("sent no go {WORK}");
            stopped(&PERF, among_transfers(), &["during send", &sent_no]);
        });
        scope.spawn(|| {
            // It may have said what comes next before it stopped.
            let sent_no = format!("sent no word of what comes next {WORK}");
            stopped(&PERF, first(From::Server, TIMES), &["during close", &sent_no]);
        });
    });
    assert_nothing_is_left();
}

#[test]
#[serial]
fn a_server_whose_client_stops_ends_in_time_and_says_where() {
    let stopped = |point, expected: &[&str]| {
        server_whose_client(&["--timeout", TIMEOUT], point, stop).expect(expected);
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            stopped(first(From::Client, REQUEST), &["during accept"]);
        });
        scope.spawn(|| {
            let sent_no = format!("sent no times {WORK}");
            stopped(among_transfers(), &["during receive", &sent_no]);
        });
        scope.spawn(|| {
            stopped(first(From::Client, TIMES), &["during close"]);
        });
    });
    assert_nothing_is_left();
}

/// Each step of these has 30 s.
#[test]
#[serial]
fn an_end_that_is_gone_is_not_waited_for() {
    thread::scope(|scope| {
        scope.spawn(|| {
            let answered = first(From::Server, ANSWER);
            // All connections of a process that is killed end at once.
            client_whose_server(&PERF, &[], answered, kill).expect(&[
                "closed the connection while this end was connecting to its session",
                "its control link closed without a goodbye",
                "Connection refused",
            ]);
        });
        scope.spawn(|| {
            let asked = first(From::Client, REQUEST);
            server_whose_client(&[], asked, kill)
                .expect(&["while this end was waiting for its session to connect"]);
        });
        // Only the connection over which they met is gone.
        scope.spawn(|| {
            let point = before_a_transfer();
            client_whose_server(&["transfer"], &[], point, stop_and_hang_up)
                .expect(&["closed the connection while this end was waiting for a transfer"]);
        });
        scope.spawn(|| {
            let answered = first(From::Server, ANSWER);
            client_whose_server(&PERF, &[], answered, stop_and_hang_up)
                .expect(&["closed the connection while this end was connecting to its session"]);
        });
    });
    assert_nothing_is_left();
}

#[test]
#[serial]
fn a_pair_whose_started_end_stops_ends_in_time() {
    let pair = || {
        let words = ["--size", "64K", "--iters", "100000", "--timeout", PAIR_TIMEOUT];
        let start = Instant::now();
        let perf = command(&[&["perf"], &words[..]].concat());
        (start, perf.env("RUST_LOG", "tcpx=debug").start())
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let (start, running) = pair();
            let child = wait_for_child(running.process.id());
            signal(Signal::STOP, child);
            // However far it came.
            let expected = &[PAIR_WORK, "during connect", "during send"];
            Ending { finished: running.finish(), took: start.elapsed() }.expect(expected);
        });
        scope.spawn(|| {
            let (start, running) = pair();
            running.wait_for_line("iteration=3");
            signal(Signal::STOP, child_of(running.process.id()).unwrap());
            let expected = &[PAIR_WORK, "during send"];
            Ending { finished: running.finish(), took: start.elapsed() }.expect(expected);
        });
    });
    assert_nothing_is_left();
}

/// Both ends are well, and come to the end of the time in the middle of their work.
#[test]
#[serial]
fn a_run_that_takes_too_long_says_so_once() {
    let words = ["perf", "--size", "64K", "--iters", "100000", "--timeout", TIMEOUT];
    let ending = Ending::of(command(&words));
    ending.expect(&["(of --timeout ", "deadline of 5.", "deadline of 6s"]);
    let stderr = &ending.finished.stderr;
    assert!(stderr.matches("the other end failed: ").count() <= 1, "{stderr}");
    assert_nothing_is_left();
}

/// The one child of a process, once it is there.
fn wait_for_child(pid: u32) -> u32 {
    let deadline = Instant::now() + LATEST;
    loop {
        if let Some(child) = child_of(pid) {
            return child;
        }
        assert!(Instant::now() < deadline, "process {pid} starts another");
        thread::yield_now();
    }
}
