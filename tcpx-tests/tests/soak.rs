//! A hub and eight peers: random sizes, random posting order, both directions, every fragment
//! shape, peers killed at random and replaced. Every byte is verified; at the end files, threads
//! and bounce pages are what they were.
//!
//! Runs for ten seconds; `TCPX_SOAK_SECONDS=600` for a real soak. The seed is printed and can be
//! set with `TCPX_SOAK_SEED`.

use std::process::Command as Process;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tcpx_core::{MemoryId, MemoryType, PluginChoice, Post, Session, SessionOptions};
use tcpx_tests::script::{Command, Memory, Options, PostSpec};
use tcpx_tests::{Agent, pattern};

const PEERS: u64 = 8;
const MAX_BYTES: u64 = 4 << 20;
const MAX_MESSAGES: u64 = 6;
const PATIENCE: Duration = Duration::from_secs(120);

/// SplitMix64 once more: a test's dice.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    /// Small, middle and large ones, empty ones too.
    fn bytes(&mut self) -> u64 {
        match self.roll(4) {
            0 => self.roll(9),
            1 => self.roll(10_000),
            2 => self.roll(300_000),
            _ => self.roll(MAX_BYTES + 1),
        }
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.roll(index as u64 + 1) as usize);
        }
    }
}

#[derive(Clone, Copy)]
struct Message {
    to_hub: bool,
    bytes: u64,
    hub_memory: MemoryId,
    peer_memory: u64,
    tag: i32,
    seed: u64,
}

struct Lane<'a> {
    hub: &'a Session,
    conn_info: &'a [u8],
    accepting: &'a Mutex<()>,
    name: String,
    dice: Dice,
    totals: &'a Totals,
}

#[derive(Default)]
struct Totals {
    messages: AtomicU64,
    bytes: AtomicU64,
    kills: AtomicU64,
}

fn shapes(process: &mut Process, seed: u64) {
    process
        .env("TCPX_SOFT_SHAPE", "all")
        .env("TCPX_SOFT_SEED", seed.to_string())
        .env("TCPX_SOFT_POISON", "1");
}

impl Lane<'_> {
    fn start_peer(&mut self) -> Agent {
        let mut process = Process::new(env!("CARGO_BIN_EXE_tcpx-peer"));
        shapes(&mut process, self.dice.roll(u64::MAX));
        let mut agent = Agent::start_with(process);
        agent.run(Command::New(Options {
            name: Some(self.name.clone()),
            chunk_bytes: Some(65_536 << self.dice.roll(3)),
            channels: Some(1 + self.dice.roll(3) as u16),
            progress_thread: true,
            ..Options::default()
        }));
        agent.run(Command::Load { peer: "hub".into(), conn_info: self.conn_info.to_vec() });
        agent.tell(Command::Connect { peer: "hub".into() });
        {
            let _one_at_a_time = self.accepting.lock().unwrap();
            self.hub.accept(&self.name).unwrap();
        }
        agent.hear(PATIENCE).unwrap();
        agent
    }

    fn messages(&mut self, agent: &mut Agent) -> Vec<Message> {
        (0..1 + self.dice.roll(MAX_MESSAGES))
            .map(|number| {
                let bytes = self.dice.bytes();
                let (kind, memory) = match self.dice.roll(3) {
                    0 => (MemoryType::Host, Memory::Host),
                    _ => (MemoryType::Device, Memory::Device),
                };
                let message = Message {
                    to_hub: self.dice.roll(2) == 0,
                    bytes,
                    hub_memory: self.hub.allocate(bytes.max(1), kind).unwrap(),
                    peer_memory: agent.get(Command::Allocate { bytes: bytes.max(1), memory }),
                    // Equal tags on purpose: they match in order, and order is kept below for each
                    // direction.
                    tag: number as i32,
                    seed: self.dice.roll(u64::MAX),
                };
                let mut data = vec![0; bytes as usize];
                pattern::fill(message.seed, 0, &mut data);
                if message.to_hub {
                    let fill = Command::Fill {
                        memory: message.peer_memory,
                        offset: 0,
                        bytes,
                        seed: message.seed,
                    };
                    agent.run(fill);
                } else {
                    self.hub.write_memory(message.hub_memory, 0, &data).unwrap();
                }
                message
            })
            .collect()
    }

    /// One round of messages. Returns the peer, or a new one when the old one was killed on the
    /// way.
    fn round(&mut self, mut agent: Agent) -> Agent {
        let messages = self.messages(&mut agent);
        let transfer = self.hub.create_transfer(&self.name).unwrap();
        let theirs: usize = agent.get(Command::Transfer { peer: "hub".into() });
        let mut order: Vec<(usize, bool)> =
            (0..messages.len()).flat_map(|m| [(m, true), (m, false)]).collect();
        self.dice.shuffle(&mut order);
        for (index, at_hub) in order {
            let message = messages[index];
            if at_hub {
                let post = Post {
                    memory: message.hub_memory,
                    offset: 0,
                    bytes: message.bytes,
                    tag: message.tag,
                };
                if message.to_hub {
                    transfer.post_recv(post).unwrap()
                } else {
                    transfer.post_send(post).unwrap()
                }
            } else {
                let (memory, bytes, tag) = (message.peer_memory, message.bytes, message.tag);
                let posts = vec![PostSpec { memory, offset: 0, bytes, tag }];
                agent.run(if message.to_hub {
                    Command::Send { transfer: theirs, posts }
                } else {
                    Command::Receive { transfer: theirs, posts }
                });
            }
        }
        let is_killed = self.dice.roll(12) == 0;
        if is_killed {
            agent.kill();
            self.totals.kills.fetch_add(1, Ordering::Relaxed);
        } else {
            agent.tell(Command::Wait { transfer: theirs, timeout_ms: PATIENCE.as_millis() as u64 });
        }
        let outcome = transfer.wait(Some(PATIENCE));
        if is_killed {
            // What came in time may be whole; then the end of the peer shows later.
            drop(transfer);
            self.free_hub(&messages);
            let _ = self.hub.disconnect(&self.name);
            return self.start_peer();
        }
        outcome.unwrap();
        agent.hear(PATIENCE).unwrap();
        for message in &messages {
            self.verify(message, &mut agent);
            agent.run(Command::Deregister { memory: message.peer_memory });
        }
        agent.run(Command::Release { transfer: theirs });
        self.free_hub(&messages);
        agent
    }

    fn verify(&self, message: &Message, agent: &mut Agent) {
        let Message { bytes, seed, .. } = *message;
        if message.to_hub {
            let mut data = vec![0; bytes as usize];
            self.hub.read_memory(message.hub_memory, 0, &mut data).unwrap();
            assert_eq!(pattern::first_difference(seed, 0, &data), None, "{bytes} bytes to the hub");
        } else {
            let verify = Command::Verify { memory: message.peer_memory, offset: 0, bytes, seed };
            let difference: Value = agent.get(verify);
            assert_eq!(difference, Value::Null, "{bytes} bytes from the hub");
        }
        self.totals.messages.fetch_add(1, Ordering::Relaxed);
        self.totals.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn free_hub(&self, messages: &[Message]) {
        for message in messages {
            self.hub.deregister_memory(message.hub_memory).unwrap();
        }
    }
}

fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn soak() {
    let seconds =
        std::env::var("TCPX_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let seed = std::env::var("TCPX_SOAK_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("TCPX_SOAK_SEED={seed} TCPX_SOAK_SECONDS={seconds}");
    let options = SessionOptions::default()
        .plugin(PluginChoice::Soft)
        .name("hub")
        .channels(2)
        .chunk_bytes(131_072)
        .connect_timeout(PATIENCE)
        .close_timeout(PATIENCE)
        .peer_timeout(Some(PATIENCE));
    let hub = Session::new(options).unwrap();
    let conn_info = hub.listen().unwrap();
    let (before_files, before_threads) = (count("/proc/self/fd"), count("/proc/self/task"));
    let end = Instant::now() + Duration::from_secs(seconds);
    let (accepting, totals) = (Mutex::new(()), Totals::default());
    thread::scope(|scope| {
        for number in 0..PEERS {
            let mut lane = Lane {
                hub: &hub,
                conn_info: &conn_info,
                accepting: &accepting,
                name: format!("peer-{number}"),
                dice: Dice(seed * 1000 + number),
                totals: &totals,
            };
            scope.spawn(move || {
                let mut agent = lane.start_peer();
                while Instant::now() < end {
                    agent = lane.round(agent);
                }
                agent.tell(Command::Disconnect { peer: "hub".into() });
                lane.hub.disconnect(&lane.name).unwrap();
                agent.hear(PATIENCE).unwrap();
            });
        }
    });
    let stats = hub.stats();
    let messages = totals.messages.load(Ordering::Relaxed);
    println!(
        "{messages} messages, {} MB, {} peers killed, {} failed",
        totals.bytes.load(Ordering::Relaxed) / 1_000_000,
        totals.kills.load(Ordering::Relaxed),
        stats.peers_failed
    );
    assert!(messages > PEERS && stats.peers.is_empty());
    assert_eq!(stats.alarms, [], "nothing was wrong");
    // The threads that read the peers' answers end by themselves, a moment after their peers.
    let give_up_at = Instant::now() + PATIENCE;
    let footprint = || (count("/proc/self/fd"), count("/proc/self/task"));
    while footprint() != (before_files, before_threads) && Instant::now() < give_up_at {
        thread::yield_now();
    }
    assert_eq!(footprint(), (before_files, before_threads));
    let pool = tcpx_softnet::pool_stats();
    assert_eq!(pool.free_pages, pool.total_pages, "bounce pages were lost");
}
