//! Trouble that a session notices while it runs: provoked through the software plugin's fault
//! script, logged once with its id, counted in the statistics.

use std::fs::File;
use std::process::Command as Process;
use std::time::{Duration, Instant};

use serde_json::Value;
use tcpx_testkit::PATIENCE;
use tcpx_tests::script::{Command, Memory, Options, PATIENCE_MS, PostSpec};
use tcpx_tests::{Agent, Pair, Side};
use tempfile::TempDir;

use crate::peers_to_run;

const CHUNK: u64 = 65_536;
/// For what is to stand still: short to wait for, long for a busy machine to stand still by itself.
const STALL: Option<u64> = Some(1500);

/// Two connected peers, and what each of them has logged.
struct LoggedPair {
    pair: Pair,
    logs: TempDir,
}

impl LoggedPair {
    /// Nothing is to stand still.
    fn sound() -> Self {
        Self::start(None, &[], &[])
    }

    /// `left` and `right` prepare each end's environment.
    fn start(stall_after_ms: Option<u64>, left: &[(&str, &str)], right: &[(&str, &str)]) -> Self {
        let logs = TempDir::new().expect("a directory");
        let agent = |name: &str, variables: &[(&str, &str)]| {
            let log = File::create(logs.path().join(name)).expect("a file");
            let mut process = Process::new(peers_to_run::PROGRAM);
            process
                .env("RUST_LOG", "warn")
                .env("NO_COLOR", "1")
                .envs(variables.iter().copied())
                .stderr(log);
            Agent::start_with(process)
        };
        let options = Options {
            channels: Some(1),
            chunk_bytes: Some(CHUNK as u32),
            recv_window: Some(4),
            send_window: Some(8),
            stall_after_ms,
            progress_thread: true,
            ..Options::default()
        };
        let (left, right) = (agent("left", left), agent("right", right));
        Self { pair: Pair::connect(left, right, options.clone(), options), logs }
    }

    /// Posts one message from left to right in device memory, filled or as it was allocated.
    fn post(&mut self, bytes: u64, is_filled: bool, tags: (i64, i64)) -> (usize, usize) {
        let (from, to) = self.pair.allocate(bytes, Memory::Device);
        if is_filled {
            self.pair.left.run(Command::Fill { memory: from, offset: 0, bytes, seed: 3 });
        }
        let post = |memory, tag| vec![PostSpec { memory, offset: 0, bytes, tag }];
        let to = self.pair.post(Side::Right, false, post(to, tags.1));
        (self.pair.post(Side::Left, true, post(from, tags.0)), to)
    }

    fn alarms(&mut self, side: Side) -> Vec<(String, u64)> {
        let stats: Value = self.pair.end(side).0.get(Command::Stats);
        let alarms = stats["alarms"].as_array().expect("a list").iter();
        alarms
            .map(|alarm| {
                let id = alarm["id"].as_str().expect("an id").to_owned();
                (id, alarm["count"].as_u64().expect("a count"))
            })
            .collect()
    }

    /// Waits until an end has noticed something; it must be this, once, in one line of its log with
    /// these words.
    fn expect(&mut self, side: Side, id: &str, words: &str) {
        let give_up_at = Instant::now() + PATIENCE;
        while self.alarms(side).is_empty() {
            assert!(Instant::now() < give_up_at, "{id} was not noticed");
            self.pair.end(side).0.run(Command::Progress { time_ms: 20 });
        }
        self.expect_now(side, id, words);
    }

    fn expect_now(&mut self, side: Side, id: &str, words: &str) {
        assert_eq!(self.alarms(side), [(id.to_owned(), 1)]);
        let name = if side == Side::Left { "left" } else { "right" };
        let log = std::fs::read_to_string(self.logs.path().join(name)).expect("a log");
        let lines: Vec<&str> =
            log.lines().filter(|line| line.contains(&format!("[{id}]"))).collect();
        assert_eq!(lines.len(), 1, "{log}");
        for word in ["WARN", "cure=", words] {
            assert!(lines[0].contains(word), "{word:?} is missing: {log}");
        }
    }

    fn expect_none(&mut self, side: Side) {
        assert_eq!(self.alarms(side), []);
    }
}

#[test]
fn the_first_message_is_lost() {
    let mut watched = LoggedPair::start(STALL, &[("TCPX_SOFT_FAULTS", "lose:send@1")], &[]);
    let (sent, _) = watched.post(CHUNK, true, (1, 1));
    watched.pair.left.run(Command::Wait { transfer: sent, timeout_ms: PATIENCE_MS });
    watched.expect(Side::Right, "TCPX-916", "nothing ever came");
    watched.expect_none(Side::Left);
}

#[test]
fn a_transfer_is_stuck_while_the_peer_answers() {
    let mut watched = LoggedPair::start(STALL, &[("TCPX_SOFT_FAULTS", "lose:send@3")], &[]);
    let (sent, _) = watched.post(3 * CHUNK, true, (1, 1));
    watched.pair.left.run(Command::Wait { transfer: sent, timeout_ms: PATIENCE_MS });
    watched.expect(Side::Right, "TCPX-902", "channel 0");
    watched.expect_none(Side::Left);
}

#[test]
fn tags_that_never_meet() {
    let mut watched = LoggedPair::start(STALL, &[], &[]);
    let (sent, received) = watched.post(CHUNK, true, (7, 8));
    watched.expect(Side::Left, "TCPX-902", "with tag 7");
    // A receive may wait for its send as long as it likes.
    watched.expect_none(Side::Right);
    // A wait with a deadline fails with an error that says what each transfer waits for.
    let (sent, received) = watched.pair.wait_replies(sent, received, Duration::from_millis(1));
    for (reply, words) in [
        (sent, "the send with tag 7 waits for the peer's receive"),
        (received, "the receive with tag 8 waits for the peer's send"),
    ] {
        let text = reply.expect_err("they never meet").failure().text;
        assert!(text.contains(words) && text.ends_with("[TCPX-902]"), "{text}");
    }
}

#[test]
fn pages_that_never_come_back() {
    let pool = [("TCPX_SOFT_FAULTS", "leak:recv@3"), ("TCPX_SOFT_POOL_BYTES", "4194304")];
    let mut watched = LoggedPair::start(STALL, &[], &pool);
    watched.post(1000 * CHUNK, true, (1, 1));
    watched.expect(Side::Right, "TCPX-815", "channel 0");
    // The sender sees only that its peer takes no chunks.
    watched.expect(Side::Left, "TCPX-902", "the peer takes nothing");
}

#[test]
fn a_buffer_that_was_never_filled() {
    let mut watched = LoggedPair::sound();
    let (sent, received) = watched.post(20 * CHUNK, false, (1, 1));
    watched.pair.wait_both(sent, received);
    watched.expect(Side::Right, "TCPX-904", "begins with zeros");
    watched.expect_none(Side::Left);
}

#[test]
#[ignore = "deep: five seconds of traffic"]
fn a_window_that_is_never_full() {
    let mut watched = LoggedPair::sound();
    let (left, right) = watched.pair.allocate(CHUNK, Memory::Device);
    watched.pair.left.run(Command::Fill { memory: left, offset: 0, bytes: CHUNK, seed: 3 });
    let give_up_at = Instant::now() + PATIENCE;
    while watched.alarms(Side::Left).is_empty() || watched.alarms(Side::Right).is_empty() {
        assert!(Instant::now() < give_up_at, "nothing was noticed");
        for _ in 0..16 {
            let post = |memory| vec![PostSpec { memory, offset: 0, bytes: CHUNK, tag: 1 }];
            let received = watched.pair.post(Side::Right, false, post(right));
            let sent = watched.pair.post(Side::Left, true, post(left));
            watched.pair.wait_both(sent, received);
            watched.pair.left.run(Command::Release { transfer: sent });
            watched.pair.right.run(Command::Release { transfer: received });
        }
    }
    for side in [Side::Left, Side::Right] {
        watched.expect_now(side, "TCPX-915", "channel 0");
    }
}

#[test]
fn sound_transfers_raise_no_alarm() {
    let mut watched = LoggedPair::sound();
    for _ in 0..3 {
        let (sent, received) = watched.post(200 * CHUNK, true, (1, 1));
        watched.pair.wait_both(sent, received);
        // Several looks pass while nothing is posted, and while a receive waits for its send.
        watched.pair.left.run(Command::Progress { time_ms: 1500 });
    }
    watched.expect_none(Side::Left);
    watched.expect_none(Side::Right);
    watched.pair.disconnect();
}
