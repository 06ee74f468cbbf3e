//! Calls of the plugin that never return: RxDM, which they ask, is not there, and that is said.

use tcpx_testkit::PATIENCE;
use tcpx_tests::script::Command;
use tcpx_tests::{Agent, Trio, has_gpu};

use super::combination::{agent, agent_with_fault, assert_named, end, end_all, end_trio, options};

/// The session leaves the call behind, and says what is wrong with RxDM, if it found something.
fn hear_of_hang(agent: &mut Agent, call: &str) {
    let failure = agent.receive_reply(PATIENCE).expect_err("the call never returns").failure();
    assert_eq!(failure.kind, "PluginHangs", "{failure:?}");
    assert!(failure.text.contains(&format!("plugin call {call} has not returned")), "{failure:?}");
    let ids = ["[TCPX-50", "[TCPX-733]"];
    assert!(ids.iter().any(|id| failure.text.contains(id)), "{failure:?}");
}

#[test]
fn in_accept() {
    if !has_gpu() {
        return;
    }
    let victim = agent_with_fault("block:accept@1");
    let mut trio = Trio::with([agent(&[]), victim, agent(&[])], options(1, "kernel"));
    let expected = trio.expect_from_witness();
    trio.introduce();
    trio.begin_to_connect();
    trio.serve();
    hear_of_hang(&mut trio.victim, "accept");
    assert_named(&trio.hear_failure());
    trio.verify(expected);
    let fresh = agent(&[]);
    let stuck = std::mem::replace(&mut trio.victim, fresh);
    end(stuck);
    end_all(vec![trio.hub, trio.victim, trio.witness]);
}

#[test]
fn in_close() {
    if !has_gpu() {
        return;
    }
    let hub = agent_with_fault("block:closeSend/closeRecv@1");
    let mut trio = Trio::with([hub, agent(&[]), agent(&[])], options(0, "d2d"));
    trio.introduce();
    trio.connect();
    trio.exchange_with_victim();
    trio.hub.send_command(Command::Disconnect { peer: "victim".into() });
    hear_of_hang(&mut trio.hub, "closeSend");
    let expected = trio.expect_from_witness();
    trio.serve();
    trio.verify(expected);
    end_trio(trio);
}
