//! A peer is killed or frozen in every phase of its life: the session that talks to it gets a typed
//! error that names the peer, in time; another peer goes on moving bytes meanwhile; and the next
//! process of that name works.
//!
//! The phase is exact, without a clock: the software plugin of the peer ends or stops its process
//! at a scripted call, or a proxy on the control link holds the frame that the peer is about to
//! send or receive.

use std::net::Ipv4Addr;
use std::thread;

use rustix::process::Signal;
use tcpx_testkit::PATIENCE;
use tcpx_tests::proxy::{Direction, LinkProxy, kind};
use tcpx_tests::script::{Command, PATIENCE_MS};
use tcpx_tests::{Agent, Trio};

use crate::peers_to_run::faulty_agent as agent;

/// Deadline of waits that end by it.
const DEADLINE_MS: u64 = 1_000;
/// Deadline of connects and goodbyes that end by it: long enough for two processes to meet on a
/// busy machine.
const MEETING_MS: u64 = 6_000;
/// What a deadline may be late by on a busy machine.
const SLACK_MS: u64 = 15_000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum PeerFault {
    Die,
    Freeze,
}

/// What hub and victim do when the fault falls.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Connect,
    Send,
    Receive,
    Close,
}

impl PeerFault {
    const BOTH: [Self; 2] = [Self::Die, Self::Freeze];

    fn at(self, call: &str) -> String {
        match self {
            Self::Die => format!("die:{call}"),
            Self::Freeze => format!("freeze:{call}"),
        }
    }

    /// Deadline of the call that must fail: far away where the error should come at once.
    fn deadline_ms(self, phase: Phase) -> u64 {
        match (self, phase) {
            (Self::Die, _) => PATIENCE_MS,
            (Self::Freeze, Phase::Connect | Phase::Close) => MEETING_MS,
            (Self::Freeze, Phase::Send | Phase::Receive) => DEADLINE_MS,
        }
    }

    /// Deadline of connects and goodbyes of a hub in this phase.
    fn meeting_ms(self, phase: Phase) -> u64 {
        match phase {
            Phase::Connect | Phase::Close => self.deadline_ms(phase),
            Phase::Send | Phase::Receive => PATIENCE_MS,
        }
    }

    fn wait_until_fallen(self, victim: &mut Agent) {
        let has_fallen = match self {
            Self::Die => victim.wait_until_ended(PATIENCE),
            Self::Freeze => victim.wait_until_stopped(PATIENCE),
        };
        assert!(has_fallen, "the victim came to its end");
    }

    fn strike(self, victim: &Agent) {
        victim.signal(match self {
            Self::Die => Signal::KILL,
            Self::Freeze => Signal::STOP,
        });
    }

    /// The hub's error is the right one.
    fn check(self, trio: &mut Trio, phase: Phase, words: &str) {
        let failure = match trio.hear_outcome() {
            // All operations have ended. Where the hub has closed its sends by then, the victim may
            // have left in order.
            Ok(()) if (self, phase) == (Self::Die, Phase::Close) => return,
            outcome => outcome.expect_err("the hub's call cannot succeed"),
        };
        assert!(failure.text.contains(words), "{words}: {failure:?}");
        match self {
            // Its data sockets may end before its control link does; the link reports what happened
            // all the same.
            Self::Die => {
                assert_eq!(failure.kind, "PeerGone", "{failure:?}");
                assert!(failure.text.contains("killed"), "{failure:?}");
            }
            Self::Freeze => {
                assert_eq!(failure.kind, "Deadline", "{failure:?}");
                let deadline_ms = self.deadline_ms(phase);
                let window = deadline_ms..deadline_ms + SLACK_MS;
                assert!(window.contains(&failure.after_ms), "{failure:?}");
            }
        }
    }
}

/// The victim's plugin strikes at `call`, in `phase`.
fn struck_in_a_call(phase: Phase, fault: PeerFault, call: &str) {
    let deadline_ms = fault.deadline_ms(phase);
    let victim = agent(&fault.at(call));
    let mut trio = Trio::new(agent(""), victim, agent(""), fault.meeting_ms(phase));
    let expected = trio.expect_from_witness();
    trio.introduce();
    if phase == Phase::Connect {
        trio.begin_to_connect();
    } else {
        trio.connect();
    }
    match phase {
        Phase::Connect => {}
        Phase::Send | Phase::Receive => {
            let transfer = trio.post_with_victim(phase == Phase::Receive);
            trio.hub.send_command(Command::Wait { transfer, timeout_ms: deadline_ms });
        }
        Phase::Close => {
            // The victim answers by itself, so the hub is in its goodbye when the victim closes.
            trio.hub.send_command(Command::Disconnect { peer: "victim".into() });
        }
    }
    fault.wait_until_fallen(&mut trio.victim);
    trio.serve();
    fault.check(&mut trio, phase, "during ");
    trio.verify(expected);
    trio.victim.kill();
    trio.replace_victim(agent(""));
}

/// Independent cases, all at once.
fn at_once(cases: Vec<Box<dyn FnOnce() + Send + '_>>) {
    thread::scope(|scope| {
        for case in cases {
            scope.spawn(case);
        }
    });
}

fn table(phase: Phase, calls: &[&str]) {
    let cases = calls.iter().flat_map(|call| PeerFault::BOTH.map(|fault| (*call, fault)));
    at_once(
        cases
            .map(|(call, fault)| {
                Box::new(move || struck_in_a_call(phase, fault, call)) as Box<dyn FnOnce() + Send>
            })
            .collect(),
    );
}

#[test]
fn a_sender_dies_a_receiver_freezes_and_one_dies_in_the_handshake() {
    thread::scope(|scope| {
        scope.spawn(|| struck_in_a_call(Phase::Send, PeerFault::Die, "isend@10"));
        scope.spawn(|| struck_in_a_call(Phase::Receive, PeerFault::Freeze, "irecv@10"));
        let (direction, frame) = (Direction::ToListener, kind::HELLO);
        scope.spawn(move || struck_in_the_handshake(PeerFault::Die, direction, frame));
    });
}

#[test]
#[ignore = "deep: twenty processes"]
fn while_comms_are_connected() {
    table(Phase::Connect, &["listen@1", "connect@1", "accept@1"]);
}

#[test]
#[ignore = "deep: one of all phases"]
fn while_the_peer_sends() {
    table(Phase::Send, &["isend@10"]);
}

#[test]
#[ignore = "deep: one of all phases"]
fn while_the_peer_receives() {
    table(Phase::Receive, &["irecv@10"]);
}

/// Between the copy out of the bounce buffer and the call that gives its pages back.
#[test]
#[ignore = "deep: one of all phases"]
fn while_the_peer_unpacks() {
    table(Phase::Receive, &["irecvConsumed@5"]);
}

#[test]
#[ignore = "deep: one of all phases"]
fn while_both_say_goodbye() {
    table(Phase::Close, &["closeSend/closeRecv@1"]);
}

/// The link is held at one frame of the handshake, and the victim never gets further.
fn struck_in_the_handshake(fault: PeerFault, direction: Direction, frame: u16) {
    let deadline_ms = fault.meeting_ms(Phase::Connect);
    let mut trio = Trio::new(agent(""), agent(""), agent(""), deadline_ms);
    let expected = trio.expect_from_witness();
    let conn_info = trio.introduce();
    let address = tcpx_tests::control_addresses(&conn_info)[0];
    let proxy = LinkProxy::start(address);
    let conn_info =
        tcpx_tests::with_address(&conn_info, Ipv4Addr::LOCALHOST, proxy.address().port());
    trio.hub.run(Command::Load { peer: "victim".into(), conn_info });
    proxy.hold(direction, frame);
    trio.begin_to_connect();
    assert!(proxy.wait_until_held(PATIENCE), "the handshake came to its frame");
    fault.strike(&trio.victim);
    fault.wait_until_fallen(&mut trio.victim);
    proxy.release();
    trio.serve();
    fault.check(&mut trio, Phase::Connect, "victim");
    trio.verify(expected);
    trio.victim.kill();
    trio.replace_victim(agent(""));
}

#[test]
#[ignore = "deep: one of all phases"]
fn in_the_handshake() {
    let words = [(Direction::ToListener, kind::HELLO), (Direction::ToConnector, kind::WELCOME)];
    let cases = words.into_iter().flat_map(|frame| PeerFault::BOTH.map(|fault| (frame, fault)));
    at_once(
        cases
            .map(|((direction, frame), fault)| {
                Box::new(move || struck_in_the_handshake(fault, direction, frame))
                    as Box<dyn FnOnce() + Send>
            })
            .collect(),
    );
}
