//! Tests of `--timeout`, which bounds the whole command, whatever has become of the other end; and
//! of an end whose other end is gone, which ends early.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tcpx_testkit::process::send;

use crate::tcpx::between::{ANSWER, REQUEST, RelayAction, Sender, relay};
use crate::tcpx::timeout::{Timeout, with_timeout};
use crate::tcpx::{Finished, Running, Server, Signal, Tcpx, child_of, client};

/// Of a command whose other end is disturbed, in seconds.
const TIMEOUT: u64 = 2;
const DEBUG: (&str, &str) = ("RUST_LOG", "tcpx=debug");
/// Far more than that, on a slow machine, too; and less than a single step may take without it.
const LATEST: Duration = Duration::from_secs(28);

/// A command, with a close timeout that shows if it counts.
fn command(tcpx: Tcpx, timeout: Option<Timeout>) -> Tcpx {
    // Every send waits for its receive.
    let tcpx = tcpx.env("TCPX_EAGER_BYTES", "0");
    match timeout {
        // The session's own wait for a goodbye, which a command with a timeout must not wait for.
        Some(timeout) => {
            tcpx.env("TCPX_CLOSE_TIMEOUT_MS", "60000").args(&["--timeout", &timeout.flag()])
        }
        // A stopped end does not say goodbye.
        None => tcpx.env("TCPX_CLOSE_TIMEOUT_MS", "300"),
    }
}

/// How a disturbed command ended, and how long it took from its start.
struct EndedCommand {
    finished: Finished,
    took: Duration,
}

impl EndedCommand {
    fn of(running: Running, start: Instant) -> Self {
        let finished = running.finish();
        Self { finished, took: start.elapsed() }
    }

    /// It failed in time with one error line that has one of `words`.
    fn expect(&self, words: &[&str]) {
        let Self { finished, took } = self;
        assert_eq!(finished.status, Some(1), "{finished}");
        // Sizes that were measured before are shown, but not as if all were well.
        assert!(!finished.stdout.contains("GB/s (10^9 bytes a second)"), "{finished}");
        let error = finished.error();
        assert!(words.iter().any(|words| error.contains(words)), "{words:?}: {finished}");
        assert!(*took < LATEST, "{took:?}: {finished}");
    }
}

/// A point at which an end is disturbed.
#[derive(Clone, Copy)]
enum DisturbancePoint {
    /// This message has come so far, and is not passed on yet.
    Message(Sender, u16),
    /// The end to be disturbed has written this to its log: both are connected.
    Line(&'static str),
}

/// Starts the relay in front of a server that calls `act` at the point, and notes when. Returns
/// where it listens.
fn relay_to(
    server: &Server,
    point: DisturbancePoint,
    reached: Arc<OnceLock<Instant>>,
    act: impl Fn() -> RelayAction + Send + Sync + 'static,
) -> String {
    let on_message = move |sender, kind| match point {
        DisturbancePoint::Message(from, of_kind) if (from, of_kind) == (sender, kind) => {
            let then = act();
            let _ = reached.set(Instant::now());
            then
        }
        _ => RelayAction::Pass,
    };
    format!("127.0.0.1:{}", relay(server.port, on_message))
}

/// What is done to an end at a point, and how the other end has to fail.
struct Disturbance {
    /// Of the client, without its end and address.
    words: &'static [&'static str],
    point: DisturbancePoint,
    act: fn(u32) -> RelayAction,
    /// One of these is in its error line, with the time of its work in place of `WORK`.
    errors: &'static [&'static str],
}

impl Disturbance {
    /// Does it to the server, and expects the client to fail. `None`: the machine is too slow.
    fn client_fails(&self, timeout: Option<Timeout>) -> Option<()> {
        let server = Tcpx::new(&[self.words[0], "server", "--timeout", "600"]);
        let server = Server::of(server.env(DEBUG.0, DEBUG.1));
        let pid = server.running.process.id();
        let (reached, act) = (Arc::new(OnceLock::new()), self.act);
        let address = relay_to(&server, self.point, Arc::clone(&reached), move || act(pid));
        let start = Instant::now();
        let running = command(client(&address, self.words), timeout).start();
        self.act_at_line(&server.running, &reached);
        let ended = EndedCommand::of(running, start);
        // One that was killed before keeps its number until it is waited for.
        server.running.process.signal(Signal::KILL);
        server.finish();
        self.judge(&ended, timeout, start, reached.get())
    }

    /// Does it to the client, and expects the server to fail.
    fn server_fails(&self, timeout: Option<Timeout>) -> Option<()> {
        let start = Instant::now();
        let server = Server::of(command(Tcpx::new(&[self.words[0], "server"]), timeout));
        let (pid, reached) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
        let (known, act) = (Arc::clone(&pid), self.act);
        let act = move || act(*known.wait());
        let address = relay_to(&server, self.point, Arc::clone(&reached), act);
        let client = client(&address, &[self.words, &["--timeout", "600"]].concat());
        let client = client.env(DEBUG.0, DEBUG.1).start();
        pid.set(client.process.id()).expect("it is not known yet");
        self.act_at_line(&client, &reached);
        let ended = EndedCommand::of(server.running, start);
        client.process.signal(Signal::KILL);
        client.finish();
        self.judge(&ended, timeout, start, reached.get())
    }

    /// Waits until `end` comes to the point, if it is one of its log.
    fn act_at_line(&self, end: &Running, reached: &OnceLock<Instant>) {
        let DisturbancePoint::Line(words) = self.point else { return };
        if end.find_line(words).is_some() {
            (self.act)(end.process.id());
            let _ = reached.set(Instant::now());
        }
    }

    fn judge(
        &self,
        ended: &EndedCommand,
        timeout: Option<Timeout>,
        start: Instant,
        reached: Option<&Instant>,
    ) -> Option<()> {
        let work = match timeout {
            Some(timeout) => {
                reached.filter(|moment| timeout.had_half(start, **moment))?;
                timeout.work()
            }
            None => String::new(),
        };
        let errors: Vec<String> =
            self.errors.iter().map(|words| words.replace("WORK", &work)).collect();
        ended.expect(&errors.iter().map(String::as_str).collect::<Vec<_>>());
        Some(())
    }
}

fn stop(pid: u32) -> RelayAction {
    send(Signal::STOP, pid).unwrap();
    RelayAction::Pass
}

fn kill(pid: u32) -> RelayAction {
    send(Signal::KILL, pid).unwrap();
    RelayAction::Pass
}

fn stop_and_hang_up(pid: u32) -> RelayAction {
    send(Signal::STOP, pid).unwrap();
    RelayAction::PassAndHangUp
}

const PERF: &[&str] = &["perf", "--size", "64K", "--iters", "10"];
/// Far more than there is time for.
const LONG_PERF: &[&str] = &["perf", "--size", "64K", "--iters", "100000"];
const AMONG_TRANSFERS: DisturbancePoint = DisturbancePoint::Line("iteration=3");

/// Servers that stop.
const STOPPED_SERVERS: [Disturbance; 3] = [
    Disturbance {
        words: PERF,
        point: DisturbancePoint::Message(Sender::Client, REQUEST),
        act: stop,
        errors: &["sent no answer WORK"],
    },
    Disturbance {
        words: LONG_PERF,
        point: AMONG_TRANSFERS,
        act: stop,
        errors: &["during send", "sent no go WORK", "sent no times WORK", "what comes next WORK"],
    },
    Disturbance {
        words: PERF,
        point: DisturbancePoint::Message(Sender::Server, ANSWER),
        act: stop,
        errors: &["during connect"],
    },
];

/// Clients that stop.
const STOPPED_CLIENTS: [Disturbance; 2] = [
    Disturbance {
        words: LONG_PERF,
        point: AMONG_TRANSFERS,
        act: stop,
        errors: &["during receive", "sent no times WORK"],
    },
    Disturbance {
        words: PERF,
        point: DisturbancePoint::Message(Sender::Client, REQUEST),
        act: stop,
        errors: &["during accept"],
    },
];

/// Servers that are gone. Each step has 30 s.
const GONE_SERVERS: [Disturbance; 3] = [
    // All connections of a process that is killed end at once.
    Disturbance {
        words: PERF,
        point: DisturbancePoint::Message(Sender::Server, ANSWER),
        act: kill,
        errors: &[
            "closed the connection while this end was connecting to its session",
            "its control link closed without a goodbye",
            "Connection refused",
            "Connection reset",
        ],
    },
    // Only the connection over which they met is gone.
    Disturbance {
        words: PERF,
        point: DisturbancePoint::Message(Sender::Server, ANSWER),
        act: stop_and_hang_up,
        errors: &["closed the connection while this end was connecting to its session"],
    },
    // There is the session only.
    Disturbance {
        words: LONG_PERF,
        point: AMONG_TRANSFERS,
        act: kill,
        errors: &["its control link closed without a goodbye", "its control link failed"],
    },
];

/// Does `each` with all of them at once.
fn all(disturbances: &[Disturbance], each: impl Fn(&Disturbance) + Sync) {
    thread::scope(|scope| {
        for disturbance in disturbances {
            scope.spawn(|| each(disturbance));
        }
    });
}

#[test]
fn a_client_whose_server_stops_ends_in_time_and_says_where() {
    all(&STOPPED_SERVERS, |it| with_timeout(TIMEOUT, |time| it.client_fails(Some(time))));
}

#[test]
fn a_server_whose_client_stops_ends_in_time_and_says_where() {
    all(&STOPPED_CLIENTS, |it| with_timeout(TIMEOUT, |time| it.server_fails(Some(time))));
}

#[test]
fn an_end_that_is_gone_is_not_waited_for() {
    all(&GONE_SERVERS, |it| it.client_fails(None).expect("a judgement"));
    let killed_client = Disturbance {
        words: PERF,
        point: DisturbancePoint::Message(Sender::Client, REQUEST),
        act: kill,
        errors: &["while this end was waiting for its session to connect"],
    };
    killed_client.server_fails(None).expect("a judgement");
}

/// Starts a pair that has far more to do than its time allows.
fn long_pair(timeout: Timeout) -> (Instant, Running) {
    let start = Instant::now();
    (start, command(Tcpx::new(LONG_PERF).env(DEBUG.0, DEBUG.1), Some(timeout)).start())
}

/// Stops the started end of a pair once `child` finds it, and expects the pair to fail.
fn pair_fails(timeout: Timeout, child: fn(&Running) -> Option<u32>, errors: &[&str]) -> Option<()> {
    let (start, running) = long_pair(timeout);
    let child = child(&running);
    if let Some(child) = child {
        stop(child);
    }
    let stopped = Instant::now();
    let ended = EndedCommand::of(running, start);
    child.filter(|_| timeout.had_half(start, stopped))?;
    ended.expect(&[&[timeout.work().as_str()], errors].concat());
    Some(())
}

/// However far it came.
#[test]
fn a_pair_whose_started_end_stops_ends_in_time() {
    let is_there = |running: &Running| {
        let pid = running.process.id();
        let deadline = Instant::now() + LATEST;
        while Instant::now() < deadline {
            let child = child_of(pid);
            if child.is_some() {
                return child;
            }
            thread::yield_now();
        }
        None
    };
    with_timeout(TIMEOUT, |time| pair_fails(time, is_there, &["during connect", "during send"]));
}

#[test]
fn a_pair_whose_started_end_stops_while_it_measures_ends_in_time() {
    let measures = |running: &Running| {
        running.find_line("iteration=3")?;
        child_of(running.process.id())
    };
    with_timeout(TIMEOUT, |time| pair_fails(time, measures, &["during send"]));
}

/// Both ends are well, and come to the end of the time in the middle of their work.
#[test]
fn a_run_that_takes_too_long_says_so_once() {
    with_timeout(1, |timeout| {
        let (start, running) = long_pair(timeout);
        let measured = running.find_line("iteration=3").map(|_| Instant::now());
        let ended = EndedCommand::of(running, start);
        measured.filter(|moment| timeout.had_half(start, *moment))?;
        ended.expect(&["(of --timeout ", "deadline of "]);
        assert!(ended.took >= timeout.of_work(), "{}", ended.finished);
        let stderr = &ended.finished.stderr;
        assert!(stderr.matches("the other end failed: ").count() <= 1, "{stderr}");
        Some(())
    });
}
