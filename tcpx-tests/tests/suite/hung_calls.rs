//! Calls of the plugin that never return: their peer is given up and they are left behind, counted
//! and named. Other peers go on, and every deadline holds.

use tcpx_testkit::PATIENCE;
use tcpx_tests::script::{Command, Memory, Options, PATIENCE_MS, PostSpec};
use tcpx_tests::{Agent, Refusal};

use crate::peers_to_run;

const BYTES: u64 = 3 << 20;

/// A hub whose plugin has one call that never returns, and two sessions that connect to the hub.
struct Star {
    hub: Agent,
    conn_info: Vec<u8>,
    a: Agent,
    b: Agent,
}

fn start(name: &str, faults: &str) -> Agent {
    let mut agent = peers_to_run::agent_with(&[("TCPX_SOFT_FAULTS", faults)]);
    agent.run(Command::New(Options {
        name: Some(name.to_owned()),
        channels: Some(1),
        progress_thread: true,
        ..Options::default()
    }));
    agent
}

impl Star {
    /// The first of these calls never returns.
    fn hanging_in(call: &str) -> Self {
        let mut hub = start("hub", &format!("block:{call}@1"));
        let conn_info = hub.get(Command::Listen);
        let [a, b] = ["a", "b"].map(|name| start(name, ""));
        Self { hub, conn_info, a, b }
    }

    fn load(&mut self) {
        for agent in [&mut self.a, &mut self.b] {
            let conn_info = self.conn_info.clone();
            agent.run(Command::Load { peer: "hub".into(), conn_info });
        }
    }

    fn connect_a(&mut self) {
        self.hub.send_command(Command::Accept { peer: "a".into() });
        self.a.run(Command::Connect { peer: "hub".into() });
        self.hub.receive_reply(PATIENCE).expect("a is accepted");
    }

    /// The hub answers every peer that connects, whatever its program does.
    fn connect_b(&mut self) {
        self.b.run(Command::Connect { peer: "hub".into() });
    }

    fn accept_b(&mut self) {
        self.hub.run(Command::Accept { peer: "b".into() });
    }

    fn exchange_with_b(&mut self) {
        for hub_sends in [true, false] {
            let (_, of_hub) = post(&mut self.hub, "b", hub_sends);
            let (_, of_b) = post(&mut self.b, "hub", !hub_sends);
            for (agent, transfer) in [(&mut self.hub, of_hub), (&mut self.b, of_b)] {
                agent.run(Command::Wait { transfer, timeout_ms: PATIENCE_MS });
            }
        }
    }

    /// The hub's command has ended because of the call.
    fn hub_hears_of(&mut self, call: &str) {
        check(&self.hub.receive_reply(PATIENCE).expect_err("the call does not return"), call);
    }

    /// The hub counts the call, and closes in time.
    fn end(mut self) {
        let stats: serde_json::Value = self.hub.get(Command::Stats);
        assert_eq!(stats["plugin_calls_hung"], 1, "{stats}");
        self.hub.run(Command::Close);
    }
}

fn check(refusal: &Refusal, call: &str) {
    let Refusal::Failed(failure) = refusal else { panic!("no answer: {refusal:?}") };
    assert_eq!(failure.kind, "PluginHangs", "{failure:?}");
    assert!(failure.text.contains(&format!("plugin call {call} has not returned")), "{failure:?}");
    assert!(failure.text.contains("[TCPX-733]"), "{failure:?}");
}

/// Posts one operation, and returns the memory and the number of its transfer.
fn post(agent: &mut Agent, peer: &str, is_send: bool) -> (u64, usize) {
    let memory = agent.get(Command::Allocate { bytes: BYTES, memory: Memory::Device });
    let transfer = agent.get(Command::Transfer { peer: peer.into() });
    let posts = vec![PostSpec { memory, offset: 0, bytes: BYTES, tag: 1 }];
    agent.run(match is_send {
        true => Command::Send { transfer, posts },
        false => Command::Receive { transfer, posts },
    });
    (memory, transfer)
}

/// While a's comms are being connected.
fn a_connect_that_hangs(call: &str) {
    let mut star = Star::hanging_in(call);
    star.load();
    star.hub.send_command(Command::Accept { peer: "a".into() });
    star.a.send_command(Command::Connect { peer: "hub".into() });
    star.hub_hears_of(call);
    let refusal = star.a.receive_reply(PATIENCE).expect_err("the hub gives up");
    assert!(refusal.failure().text.contains("TCPX-733"), "the hub gives the reason");
    star.connect_b();
    star.accept_b();
    star.exchange_with_b();
    star.end();
}

fn a_registration_that_hangs() {
    let mut star = Star::hanging_in("regMr");
    star.load();
    star.connect_a();
    star.connect_b();
    star.accept_b();
    let (_, transfer) = post(&mut star.hub, "a", true);
    post(&mut star.a, "hub", false);
    star.hub.send_command(Command::Wait { transfer, timeout_ms: PATIENCE_MS });
    star.hub_hears_of("regMr");
    star.exchange_with_b();
    star.end();
}

fn a_deregistration_that_hangs() {
    let mut star = Star::hanging_in("deregMr");
    star.load();
    star.connect_a();
    star.connect_b();
    star.accept_b();
    let (memory, of_hub) = post(&mut star.hub, "a", true);
    let (_, of_a) = post(&mut star.a, "hub", false);
    for (agent, transfer) in [(&mut star.hub, of_hub), (&mut star.a, of_a)] {
        agent.run(Command::Wait { transfer, timeout_ms: PATIENCE_MS });
    }
    star.hub.send_command(Command::Deregister { memory });
    star.hub_hears_of("deregMr");
    star.exchange_with_b();
    star.end();
}

fn a_close_that_hangs() {
    let mut star = Star::hanging_in("closeSend/closeRecv");
    star.load();
    star.connect_a();
    star.connect_b();
    star.accept_b();
    star.exchange_with_b();
    star.hub.send_command(Command::Disconnect { peer: "a".into() });
    star.hub_hears_of("closeSend");
    star.exchange_with_b();
    star.end();
}

/// One of all calls.
#[test]
fn a_connect_that_hangs_is_left_behind() {
    a_connect_that_hangs("connect");
}

/// All at once: most of the time they wait.
#[test]
#[ignore = "deep: seven calls, and each hangs for longer than a call may take"]
fn a_call_that_hangs_is_left_behind_whichever_it_is() {
    std::thread::scope(|scope| {
        for call in ["listen", "connect", "accept", "closeListen"] {
            scope.spawn(move || a_connect_that_hangs(call));
        }
        scope.spawn(a_registration_that_hangs);
        scope.spawn(a_deregistration_that_hangs);
        scope.spawn(a_close_that_hangs);
    });
}
