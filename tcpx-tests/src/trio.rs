//! Three sessions: the one under test, a peer to which things happen, and a peer that must not
//! notice.

use std::time::Duration;

use serde_json::Value;
use tcpx_testkit::PATIENCE;

use crate::agent::{Agent, Reply};
use crate::script::{Command, Failure, Memory, Options, PATIENCE_MS, PostSpec};

/// Bytes of the message with which things happen: 46 chunks.
const MESSAGE_BYTES: u64 = 3_000_000;
const CHUNK_BYTES: u32 = 65_536;

/// A hub with two peers. Each has a thread for progress, so that what happens to one finds the
/// others alive.
#[derive(Debug)]
pub struct Trio {
    /// The session under test.
    pub hub: Agent,
    /// The peer to which things happen.
    pub victim: Agent,
    /// The peer that must not notice.
    pub witness: Agent,
    options: Options,
    seed: u64,
}

/// Options of the three, unless told otherwise.
fn options(connect_timeout_ms: u64) -> Options {
    Options {
        channels: Some(1),
        chunk_bytes: Some(CHUNK_BYTES),
        connect_timeout_ms: Some(connect_timeout_ms),
        close_timeout_ms: Some(connect_timeout_ms),
        progress_thread: true,
        ..Options::default()
    }
}

/// Creates a session of this name.
fn open(agent: &mut Agent, name: &str, options: &Options) {
    agent.run(Command::New(Options { name: Some(name.into()), ..options.clone() }));
}

impl Trio {
    /// Opens the three sessions, and connects hub and witness. `connect_timeout_ms` is also how
    /// long they wait for each other's goodbye.
    ///
    /// # Panics
    /// When a step fails.
    #[must_use]
    pub fn new(hub: Agent, victim: Agent, witness: Agent, connect_timeout_ms: u64) -> Self {
        Self::with([hub, victim, witness], options(connect_timeout_ms))
    }

    /// The same with these options of each, but for the name: of the hub, the victim and the
    /// witness.
    ///
    /// # Panics
    /// When a step fails.
    #[must_use]
    pub fn with([hub, victim, witness]: [Agent; 3], options: Options) -> Self {
        let mut trio = Self { hub, victim, witness, options, seed: 1 };
        open(&mut trio.hub, "hub", &trio.options);
        open(&mut trio.victim, "victim", &trio.options);
        open(&mut trio.witness, "witness", &trio.options);
        let conn_info = trio.hub.get(Command::Listen);
        trio.witness.run(Command::Load { peer: "hub".into(), conn_info });
        trio.witness.send_command(Command::Connect { peer: "hub".into() });
        trio.hub.run(Command::Accept { peer: "witness".into() });
        trio.witness.receive_reply(PATIENCE).expect("the witness connects");
        trio
    }

    /// Gives the hub the victim's connection info.
    ///
    /// # Panics
    /// When a step fails.
    pub fn introduce(&mut self) -> Vec<u8> {
        let conn_info: Vec<u8> = self.victim.get(Command::Listen);
        self.hub.run(Command::Load { peer: "victim".into(), conn_info: conn_info.clone() });
        conn_info
    }

    /// Lets the hub connect to the victim, without waiting.
    pub fn begin_to_connect(&mut self) {
        self.victim.send_command(Command::Accept { peer: "hub".into() });
        self.hub.send_command(Command::Connect { peer: "victim".into() });
    }

    /// Connects hub and victim.
    ///
    /// # Panics
    /// When a step fails.
    pub fn connect(&mut self) {
        self.begin_to_connect();
        let replies = (self.hub.receive_reply(PATIENCE), self.victim.receive_reply(PATIENCE));
        assert!(replies.0.is_ok() && replies.1.is_ok(), "{replies:?}");
    }

    /// Posts a message between hub and victim, and one more send without a posted receive: small
    /// messages are sent once the system has them, whatever becomes of the receiver. Where the
    /// victim sends, its answer to that is left to be heard, for it may never come. Returns the
    /// hub's transfer.
    ///
    /// # Panics
    /// When a step fails.
    pub fn post_with_victim(&mut self, hub_sends: bool) -> usize {
        let (sender, receiver) = if hub_sends {
            (&mut self.hub, &mut self.victim)
        } else {
            (&mut self.victim, &mut self.hub)
        };
        let allocate = Command::Allocate { bytes: MESSAGE_BYTES, memory: Memory::Device };
        let (source, target): (u64, u64) = (sender.get(allocate.clone()), receiver.get(allocate));
        let names = if hub_sends { ("victim", "hub") } else { ("hub", "victim") };
        let send: usize = sender.get(Command::Transfer { peer: names.0.into() });
        let receive: usize = receiver.get(Command::Transfer { peer: names.1.into() });
        receiver.run(Command::Receive { transfer: receive, posts: vec![whole(target, 1)] });
        let posts = vec![whole(source, 1), whole(source, 2)];
        sender.send_command(Command::Send { transfer: send, posts });
        if hub_sends {
            sender.receive_reply(PATIENCE).expect("the hub posts");
            return send;
        }
        receive
    }

    /// The victim receives the send that [`Trio::post_with_victim`] left without a receiver.
    ///
    /// # Panics
    /// When a step fails.
    pub fn receive_the_rest(&mut self) {
        let allocate = Command::Allocate { bytes: MESSAGE_BYTES, memory: Memory::Device };
        let memory = self.victim.get(allocate);
        let transfer = self.victim.get(Command::Transfer { peer: "hub".into() });
        self.victim.run(Command::Receive { transfer, posts: vec![whole(memory, 2)] });
    }

    /// Posts one message from the hub to the victim, whole. Returns the transfers, the hub's and
    /// the victim's.
    ///
    /// # Panics
    /// When a step fails.
    pub fn post_send_to_victim(&mut self) -> (usize, usize) {
        let allocate = Command::Allocate { bytes: MESSAGE_BYTES, memory: Memory::Device };
        let (source, target): (u64, u64) =
            (self.hub.get(allocate.clone()), self.victim.get(allocate));
        let receive: usize = self.victim.get(Command::Transfer { peer: "hub".into() });
        let send: usize = self.hub.get(Command::Transfer { peer: "victim".into() });
        self.victim.run(Command::Receive { transfer: receive, posts: vec![whole(target, 1)] });
        self.hub.run(Command::Send { transfer: send, posts: vec![whole(source, 1)] });
        (send, receive)
    }

    /// The error with which the victim, which lives, answers a new transfer with the hub.
    ///
    /// # Panics
    /// When there is none before long.
    pub fn victim_failure(&mut self) -> Failure {
        // What it still had to answer.
        while self.victim.receive_reply(Duration::ZERO).is_ok() {}
        self.victim.first_refusal(&Command::Transfer { peer: "hub".into() })
    }

    /// The hub and the victim move verified bytes, both ways.
    ///
    /// # Panics
    /// When a byte is wrong or a step fails.
    pub fn exchange_with_victim(&mut self) {
        self.exchange(Role::Victim);
    }

    /// The hub and one of its peers move verified bytes, both ways.
    fn exchange(&mut self, peer: Role) {
        self.seed += 1;
        let seed = self.seed;
        let (agent, name) = match peer {
            Role::Victim => (&mut self.victim, "victim"),
            Role::Witness => (&mut self.witness, "witness"),
        };
        one_way(agent, "hub", &mut self.hub, name, seed);
        one_way(&mut self.hub, name, agent, "hub", seed + 1_000);
    }

    /// Posts receives on the hub that the witness will serve with [`Trio::serve`].
    ///
    /// # Panics
    /// When a step fails.
    pub fn expect_from_witness(&mut self) -> Expected {
        let memory =
            self.hub.get(Command::Allocate { bytes: MESSAGE_BYTES, memory: Memory::Device });
        let transfer = self.hub.get(Command::Transfer { peer: "witness".into() });
        self.hub.run(Command::Receive { transfer, posts: vec![whole(memory, 7)] });
        Expected { memory, transfer }
    }

    /// The witness sends what the hub expects, and is done: whatever the hub waits for at the
    /// moment.
    ///
    /// # Panics
    /// When a step fails.
    pub fn serve(&mut self) {
        let allocate = Command::Allocate { bytes: MESSAGE_BYTES, memory: Memory::Device };
        let memory = self.witness.get(allocate);
        self.witness.run(Command::Fill { memory, offset: 0, bytes: MESSAGE_BYTES, seed: 77 });
        let transfer = self.witness.get(Command::Transfer { peer: "hub".into() });
        self.witness.run(Command::Send { transfer, posts: vec![whole(memory, 7)] });
        self.witness.run(Command::Wait { transfer, timeout_ms: PATIENCE_MS });
    }

    /// What the witness sent is there.
    ///
    /// # Panics
    /// When a byte is wrong or a step fails.
    pub fn verify(&mut self, expected: Expected) {
        let Expected { memory, transfer } = expected;
        self.hub.run(Command::Wait { transfer, timeout_ms: PATIENCE_MS });
        let verify = Command::Verify { memory, offset: 0, bytes: MESSAGE_BYTES, seed: 77 };
        assert_eq!(self.hub.get::<Value>(verify), Value::Null);
    }

    /// The hub's answer, which must be an error about the victim.
    ///
    /// # Panics
    /// When it is not.
    pub fn hear_failure(&mut self) -> Failure {
        self.hear_outcome().expect_err("the hub's call cannot succeed")
    }

    /// The hub's answer. An error must be one about the victim.
    ///
    /// # Errors
    /// That error.
    ///
    /// # Panics
    /// When it is another.
    pub fn hear_outcome(&mut self) -> Result<(), Failure> {
        let reply: Reply = self.hub.receive_reply(2 * PATIENCE);
        let outcome = reply.map(drop).map_err(|refusal| refusal.failure());
        if let Err(failure) = &outcome {
            let words = ["peer victim", "with victim"];
            assert!(words.iter().any(|words| failure.text.contains(words)), "{failure:?}");
        }
        outcome
    }

    /// Another process takes the victim's place and name: it connects, bytes move both ways, and
    /// all of them part.
    ///
    /// # Panics
    /// When a step fails.
    pub fn replace_victim(&mut self, fresh: Agent) {
        self.victim = fresh;
        open(&mut self.victim, "victim", &self.options);
        // What is left of the old one has no goodbye to give; its name is free afterwards.
        let _ = self.hub.ask(Command::Disconnect { peer: "victim".into() });
        self.introduce();
        self.connect();
        self.exchange(Role::Victim);
        self.exchange(Role::Witness);
        for peer in ["victim", "witness"] {
            let agent = if peer == "victim" { &mut self.victim } else { &mut self.witness };
            agent.send_command(Command::Disconnect { peer: "hub".into() });
            self.hub.run(Command::Disconnect { peer: peer.into() });
            agent.receive_reply(PATIENCE).expect("goodbye");
        }
    }
}

/// One of the hub's peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The one to which things happen.
    Victim,
    /// The other one.
    Witness,
}

/// What the hub expects from the witness.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    memory: u64,
    transfer: usize,
}

fn whole(memory: u64, tag: i64) -> PostSpec {
    PostSpec { memory, offset: 0, bytes: MESSAGE_BYTES, tag }
}

/// Moves one message and checks it. Each agent is given with the name that it has for the other.
fn one_way(from: &mut Agent, to_name: &str, to: &mut Agent, from_name: &str, seed: u64) {
    let bytes = MESSAGE_BYTES;
    let allocate = Command::Allocate { bytes, memory: Memory::Device };
    let (source, target): (u64, u64) = (from.get(allocate.clone()), to.get(allocate));
    from.run(Command::Fill { memory: source, offset: 0, bytes, seed });
    let send: usize = from.get(Command::Transfer { peer: to_name.into() });
    let receive: usize = to.get(Command::Transfer { peer: from_name.into() });
    to.run(Command::Receive { transfer: receive, posts: vec![whole(target, 3)] });
    from.run(Command::Send { transfer: send, posts: vec![whole(source, 3)] });
    let timeout_ms = PATIENCE_MS;
    from.run(Command::Wait { transfer: send, timeout_ms });
    to.run(Command::Wait { transfer: receive, timeout_ms });
    let verify = Command::Verify { memory: target, offset: 0, bytes, seed };
    assert_eq!(to.get::<Value>(verify), Value::Null);
    from.run(Command::Deregister { memory: source });
    to.run(Command::Deregister { memory: target });
}
