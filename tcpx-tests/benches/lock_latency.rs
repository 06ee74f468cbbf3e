//! Bench of calls that do not wait, from a thread of their own, while 64 MiB messages come in:
//! `is_complete`, `counts` and `post_recv`, with a progress thread and with waiting threads, which
//! hold the session's lock most of the time. Beside them a control thread, in the same run, gives
//! its processor away and takes it back, without a lock: that is what the machine costs.
//!
//! `cargo bench -p tcpx-tests --bench lock_latency [-- --json]`. The bars: p50 at most 10 µs, p99
//! at most 1.5 times the control's.

#![allow(clippy::print_stdout, reason = "the table is what the bench is for")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tcpx_core::{MemoryId, MemoryType, PluginChoice, Post, Session, SessionOptions, Transfer};
use tcpx_tests::Agent;
use tcpx_tests::script::{Command, Memory, Options, PostSpec};

const BYTES: u64 = 64 << 20;
const MESSAGES: i64 = 32;
/// Between two looks of a thread.
const PERIOD: Duration = Duration::from_micros(200);
const PATIENCE: Duration = Duration::from_secs(120);

/// Who makes progress.
#[derive(Clone, Copy)]
struct Drivers {
    name: &'static str,
    progress_thread: bool,
    waiters: usize,
}

const DRIVERS: [Drivers; 3] = [
    Drivers { name: "progress thread", progress_thread: true, waiters: 0 },
    Drivers { name: "two waiters", progress_thread: false, waiters: 2 },
    Drivers { name: "progress thread and two waiters", progress_thread: true, waiters: 2 },
];

/// Samples of one kind.
#[derive(Default)]
struct Samples(Vec<Duration>);

impl Samples {
    fn measure<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let answer = call();
        self.0.push(start.elapsed());
        answer
    }

    /// The time that `percent` of 100 do not exceed, in microseconds.
    fn percentile(&mut self, percent: usize) -> f64 {
        self.0.sort_unstable();
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0[rank.saturating_sub(1)].as_secs_f64() * 1e6
    }
}

/// What a run has measured.
#[derive(Default)]
struct CallTimes {
    is_complete: Samples,
    counts: Samples,
    post: Samples,
    control: Samples,
}

/// Receives what the peer sends, and measures meanwhile.
struct Receiver {
    session: Session,
    memory: MemoryId,
    bulk: Transfer,
    /// Receives of messages that never come.
    others: Transfer,
}

impl Receiver {
    /// Connects to a peer that then waits for the command to send.
    fn connect(peer: &mut Agent, drivers: Drivers) -> tcpx_core::Result<Self> {
        let options = SessionOptions::default()
            .plugin(PluginChoice::Soft)
            .progress_thread(drivers.progress_thread);
        let session = Session::new(options)?;
        peer.run(Command::New(Options::default()));
        peer.run(Command::Load { peer: "receiver".into(), conn_info: session.listen()? });
        peer.send_command(Command::Connect { peer: "receiver".into() });
        session.accept("sender")?;
        peer.receive_reply(PATIENCE).expect("the peer connects");
        let memory = session.allocate(BYTES, MemoryType::Host)?;
        let (bulk, others) =
            (session.create_transfer("sender")?, session.create_transfer("sender")?);
        Ok(Self { session, memory, bulk, others })
    }

    fn post(&self, transfer: &Transfer, bytes: u64, tag: i64) -> tcpx_core::Result<()> {
        transfer.post_recv(Post { memory: self.memory, offset: 0, bytes, tag })
    }

    /// Calls from this thread until all messages are in.
    fn call_until_over(&self, figures: &mut CallTimes) -> tcpx_core::Result<()> {
        for tag in MESSAGES.. {
            let is_over = figures.is_complete.measure(|| self.bulk.is_complete())?;
            if is_over {
                break;
            }
            thread::sleep(PERIOD);
            figures.counts.measure(|| self.bulk.counts())?;
            thread::sleep(PERIOD);
            figures.post.measure(|| self.post(&self.others, 64, tag))?;
            thread::sleep(PERIOD);
        }
        Ok(())
    }
}

fn control(is_over: &AtomicBool) -> Samples {
    let mut times = Samples::default();
    while !is_over.load(Ordering::Acquire) {
        times.measure(thread::yield_now);
        thread::sleep(PERIOD);
    }
    times
}

fn run(drivers: Drivers) -> tcpx_core::Result<CallTimes> {
    let mut peer = Agent::start(env!("CARGO_BIN_EXE_tcpx-peer"));
    let receiver = Receiver::connect(&mut peer, drivers)?;
    let memory = peer.get(Command::Allocate { bytes: BYTES, memory: Memory::Host });
    let transfer = peer.get(Command::Transfer { peer: "receiver".into() });
    let posts = |tag| PostSpec { memory, offset: 0, bytes: BYTES, tag };
    for tag in 0..MESSAGES {
        receiver.post(&receiver.bulk, BYTES, tag)?;
    }
    peer.run(Command::Send { transfer, posts: (0..MESSAGES).map(posts).collect() });
    peer.send_command(Command::Wait { transfer, timeout_ms: PATIENCE.as_millis() as u64 });

    let (mut figures, is_over) = (CallTimes::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let control = scope.spawn(|| control(&is_over));
        for _ in 0..drivers.waiters {
            scope.spawn(|| receiver.bulk.wait(Some(PATIENCE)));
        }
        let outcome = receiver.call_until_over(&mut figures);
        is_over.store(true, Ordering::Release);
        figures.control = control.join().expect("the control thread only looks at the clock");
        outcome
    })?;
    peer.receive_reply(PATIENCE).expect("the peer has sent everything");
    drop(peer);
    // The peer is gone, so a goodbye to it may end with an error.
    let _ = receiver.session.close();
    Ok(figures)
}

fn print(drivers: Drivers, mut figures: CallTimes, is_json: bool) {
    let control = [50, 99].map(|percent| figures.control.percentile(percent));
    let calls = [
        ("is_complete", &mut figures.is_complete),
        ("counts", &mut figures.counts),
        ("post_recv", &mut figures.post),
    ];
    for (call, times) in calls {
        let own = [50, 99].map(|percent| times.percentile(percent));
        if is_json {
            let line = json!({
                "call": call, "driven_by": drivers.name, "samples": times.0.len(),
                "p50_us": own[0], "p99_us": own[1],
                "control_p50_us": control[0], "control_p99_us": control[1],
            });
            println!("{line}");
        } else {
            println!(
                "{call:<12} {:<32} {:>7} {:>10.1} {:>10.1} {:>12.1} {:>12.1}",
                drivers.name,
                times.0.len(),
                own[0],
                own[1],
                control[0],
                control[1]
            );
        }
    }
}

fn main() -> tcpx_core::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // Cargo passes this to `cargo bench` and not to `cargo test`.
    if !words.iter().any(|word| word == "--bench") {
        return Ok(());
    }
    let is_json = words.iter().any(|word| word == "--json");
    if !is_json {
        println!(
            "{:<12} {:<32} {:>7} {:>10} {:>10} {:>12} {:>12}",
            "call", "driven by", "samples", "p50 us", "p99 us", "control p50", "control p99"
        );
    }
    for drivers in DRIVERS {
        print(drivers, run(drivers)?, is_json);
    }
    Ok(())
}
