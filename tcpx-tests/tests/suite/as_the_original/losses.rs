//! Peers that are killed while bytes flow. The plugin reports no error; the control link does.

use tcpx_testkit::PATIENCE;
use tcpx_tests::script::{Command, PATIENCE_MS};
use tcpx_tests::{Trio, has_gpu};

use super::combination::{agent, agent_with_fault, assert_named, end_trio, options};

/// The victim's process is killed in one of its calls of the plugin. The witness notices nothing.
fn killed(call: &str, hub_sends: bool, unpack: &str) {
    let victim = agent_with_fault(&format!("die:{call}"));
    let mut trio = Trio::with([agent(&[]), victim, agent(&[])], options(0, unpack));
    let expected = trio.expect_from_witness();
    trio.introduce();
    trio.connect();
    let transfer = trio.post_with_victim(hub_sends);
    trio.hub.send_command(Command::Wait { transfer, timeout_ms: PATIENCE_MS });
    assert!(trio.victim.wait_until_ended(PATIENCE), "the victim is killed");
    trio.serve();
    let failure = trio.hear_failure();
    assert_eq!(failure.kind, "PeerGone", "{failure:?}");
    assert_named(&failure);
    trio.verify(expected);
    trio.victim.kill();
    trio.replace_victim(agent(&[]));
    end_trio(trio);
}

#[test]
fn while_the_hub_receives() {
    if has_gpu() {
        killed("isend@10", false, "kernel");
    }
}

#[test]
fn while_the_hub_sends() {
    if has_gpu() {
        killed("irecv@10", true, "d2d");
    }
}

#[test]
fn while_the_victim_unpacks() {
    if has_gpu() {
        killed("irecvConsumed@5", true, "host");
    }
}
