//! One peer of the hub after the other, all of one name, and what is done with them.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread;

use rustix::process::Signal;
use serde_json::Value;
use tcpx_core::{Error, MemoryId, MemoryType, Phase, Post, Session};
use tcpx_testkit::{Random, pattern};
use tcpx_tests::Agent;
use tcpx_tests::script::{Command, Memory, Options, PATIENCE_MS, PostSpec};

use super::fate::PeerFate;
use super::{PATIENCE, Totals};
use crate::peers_to_run;

const MAX_MESSAGES: usize = 6;
const MAX_BYTES: usize = 4 << 20;

#[derive(Clone, Copy)]
struct Message {
    to_hub: bool,
    bytes: u64,
    hub_memory: MemoryId,
    peer_memory: u64,
    tag: i64,
    seed: u64,
}

pub(super) struct Lane<'a> {
    pub(super) hub: &'a Session,
    pub(super) conn_info: &'a [u8],
    pub(super) accepting: &'a Mutex<()>,
    pub(super) name: String,
    pub(super) random: Random,
    pub(super) totals: &'a Totals,
}

/// Bytes of a message: small, middle and large ones, empty ones too.
fn some_bytes(random: &mut Random) -> u64 {
    let limit = random.pick(&[9, 10_000, 300_000, MAX_BYTES + 1]);
    random.below(limit) as u64
}

impl Lane<'_> {
    pub(super) fn start_peer(&mut self) -> Agent {
        let mut agent = peers_to_run::agent_with(&[
            ("TCPX_SOFT_SHAPE", "all"),
            ("TCPX_SOFT_SEED", &self.random.next().to_string()),
            ("TCPX_SOFT_POISON", "1"),
        ]);
        agent.run(Command::New(Options {
            name: Some(self.name.clone()),
            chunk_bytes: Some(65_536 << self.random.below(3)),
            channels: Some(1 + self.random.below(3) as u16),
            progress_thread: true,
            ..Options::default()
        }));
        agent.run(Command::Load { peer: "hub".into(), conn_info: self.conn_info.to_vec() });
        agent.send_command(Command::Connect { peer: "hub".into() });
        {
            let _one_at_a_time = self.accepting.lock().unwrap();
            self.hub.accept(&self.name).unwrap();
        }
        agent.receive_reply(PATIENCE).unwrap();
        agent
    }

    fn messages(&mut self, agent: &mut Agent) -> Vec<Message> {
        (0..1 + self.random.below(MAX_MESSAGES))
            .map(|number| {
                let bytes = some_bytes(&mut self.random);
                let (kind, memory) = match self.random.below(3) {
                    0 => (MemoryType::Host, Memory::Host),
                    _ => (MemoryType::Device, Memory::Device),
                };
                let message = Message {
                    to_hub: self.random.one_in(2),
                    bytes,
                    hub_memory: self.hub.allocate(bytes.max(1), kind).unwrap(),
                    peer_memory: agent.get(Command::Allocate { bytes: bytes.max(1), memory }),
                    // Equal tags on purpose: they match in order, and order is kept below for each
                    // direction.
                    tag: number as i64,
                    seed: self.random.next(),
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

    /// Operations that are posted at one end and withdrawn there.
    fn cancelled(&mut self, agent: &mut Agent) {
        if !self.random.one_in(4) {
            return;
        }
        self.totals.cancels.fetch_add(1, Ordering::Relaxed);
        // No message of a round has this tag. A shorter send would go ahead, and be done.
        let (bytes, tag) = (65_537 + some_bytes(&mut self.random), -1);
        let is_send = self.random.one_in(2);
        if self.random.one_in(2) {
            let memory = agent.get(Command::Allocate { bytes, memory: Memory::Device });
            let transfer: usize = agent.get(Command::Transfer { peer: "hub".into() });
            let posts = vec![PostSpec { memory, offset: 0, bytes, tag }; 3];
            agent.run(match is_send {
                true => Command::Send { transfer, posts },
                false => Command::Receive { transfer, posts },
            });
            agent.run(Command::Cancel { transfer });
            let wait = Command::Wait { transfer, timeout_ms: PATIENCE_MS };
            let failure = agent.ask(wait).expect_err("withdrawn").failure();
            assert_eq!(failure.kind, "Cancelled", "{}", failure.text);
            agent.run(Command::Deregister { memory });
            return agent.run(Command::Release { transfer });
        }
        let memory = self.hub.allocate(bytes, MemoryType::Device).unwrap();
        let transfer = self.hub.create_transfer(&self.name).unwrap();
        let posts = [Post { memory, offset: 0, bytes, tag }; 3];
        match is_send {
            true => transfer.post_send_batch(&posts).unwrap(),
            false => transfer.post_recv_batch(&posts).unwrap(),
        }
        transfer.cancel();
        assert!(matches!(transfer.wait(Some(PATIENCE)), Err(Error::Cancelled)));
        self.hub.deregister_memory(memory).unwrap();
    }

    /// Several threads take leave of the peer at once: one of them ends it, and none does anything
    /// to the one of the same name that comes next.
    fn disconnect(&self) {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| match self.hub.disconnect(&self.name) {
                    // It was killed or frozen, or another thread was first.
                    Ok(()) | Err(Error::PeerGone { .. } | Error::UnknownPeer { .. }) => {}
                    Err(Error::Deadline { phase: Phase::Close, .. }) => {}
                    Err(error) => panic!("{error}"),
                });
            }
        });
    }

    /// One round of messages. Returns the peer, or a new one when the old one has gone on the way.
    pub(super) fn round(&mut self, mut agent: Agent) -> Agent {
        self.cancelled(&mut agent);
        let messages = self.messages(&mut agent);
        let fate = PeerFate::draw(&mut self.random);
        let transfer = self.hub.create_transfer(&self.name).unwrap();
        let theirs: usize = agent.get(Command::Transfer { peer: "hub".into() });
        let order: Vec<(usize, bool)> =
            (0..messages.len()).flat_map(|m| [(m, true), (m, false)]).collect();
        let mut order = self.random.shuffled(&order);
        if fate == PeerFate::FrozenForAWhile {
            // The hub posts while the peer is frozen; the peer posts afterwards.
            order.sort_by_key(|(_, at_hub)| !at_hub);
            self.totals.freezes.fetch_add(1, Ordering::Relaxed);
            agent.signal(Signal::STOP);
            assert!(agent.wait_until_stopped(PATIENCE));
        }
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
                self.continue_after_progress(&agent, fate);
                let (memory, bytes, tag) = (message.peer_memory, message.bytes, message.tag);
                let posts = vec![PostSpec { memory, offset: 0, bytes, tag }];
                agent.run(if message.to_hub {
                    Command::Send { transfer: theirs, posts }
                } else {
                    Command::Receive { transfer: theirs, posts }
                });
            }
        }
        match fate {
            PeerFate::Killed => {
                agent.kill();
                self.totals.kills.fetch_add(1, Ordering::Relaxed);
            }
            PeerFate::Frozen => {
                agent.signal(Signal::STOP);
                self.totals.frozen_for_good.fetch_add(1, Ordering::Relaxed);
                self.disconnect();
            }
            _ => agent.send_command(Command::Wait { transfer: theirs, timeout_ms: PATIENCE_MS }),
        }
        let outcome = transfer.wait(Some(PATIENCE));
        let counts = transfer.counts().unwrap();
        assert_eq!(counts.operations_done, counts.operations_posted, "{fate:?}: {outcome:?}");
        if matches!(fate, PeerFate::Killed | PeerFate::Frozen) {
            // What came in time may be whole; then the end of the peer shows later.
            if let Err(error) = outcome {
                // Withdrawn by our own leave, or lost with the peer.
                let is_typed = matches!(error, Error::PeerGone { .. } | Error::Closed);
                assert!(is_typed, "{fate:?}: {error}");
            }
            drop(transfer);
            self.free_hub(&messages);
            self.disconnect();
            return self.start_peer();
        }
        outcome.unwrap();
        agent.receive_reply(PATIENCE).unwrap();
        for message in &messages {
            self.verify(message, &mut agent);
            agent.run(Command::Deregister { memory: message.peer_memory });
        }
        agent.run(Command::Release { transfer: theirs });
        drop(transfer);
        self.free_hub(&messages);
        if fate == PeerFate::Leaves {
            self.totals.departures.fetch_add(1, Ordering::Relaxed);
            agent.send_command(Command::Disconnect { peer: "hub".into() });
            self.disconnect();
            agent.receive_reply(PATIENCE).unwrap();
            return self.start_peer();
        }
        agent
    }

    /// Continues a peer that is frozen for a while, after the hub has done without it.
    fn continue_after_progress(&self, agent: &Agent, fate: PeerFate) {
        if fate == PeerFate::FrozenForAWhile {
            for _ in 0..1000 {
                self.hub.progress();
            }
            agent.signal(Signal::CONT);
        }
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
