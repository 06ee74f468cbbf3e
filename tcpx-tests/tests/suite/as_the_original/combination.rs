//! Processes over the combination, and how they have to end.

use tcpx_testkit::PATIENCE;
use tcpx_tests::script::{Command, Failure, Options};
use tcpx_tests::{Agent, Trio};

use crate::peers_to_run;

/// How long an accept waits for flow steering. The original's 5 s would be most of a test.
const STEERING_WAIT: (&str, &str) =
    ("NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS", "100000");
/// Size of a bounce buffer. The default's 256 MiB are pinned within the first accept. On a busy
/// machine, and in this many processes, that may take longer than the deadline of a call.
const BOUNCE_BYTES: (&str, &str) = ("TCPX_SOFT_POOL_BYTES", "16777216");

/// A process with the original's waiting time.
pub(crate) fn slow_agent(variables: &[(&str, &str)]) -> Agent {
    let common = [("TCPX_PEER_LOOPBACK", "1"), BOUNCE_BYTES];
    peers_to_run::agent_with(&[&common[..], variables].concat())
}

pub(crate) fn agent(variables: &[(&str, &str)]) -> Agent {
    slow_agent(&[&[STEERING_WAIT], variables].concat())
}

/// A process whose plugin does something to it.
pub(crate) fn agent_with_fault(fault: &str) -> Agent {
    agent(&[("TCPX_SOFT_FAULTS", fault)])
}

/// A session on a GPU, with one of the backends.
pub(crate) fn options(gpu: u32, unpack: &str) -> Options {
    let program = std::env::current_exe().expect("a test knows its own file");
    let plugin = program.with_file_name("libnccl_net_tcpx_original.so");
    assert!(plugin.exists(), "{} is built with this test", plugin.display());
    Options {
        plugin: Some(plugin.to_str().expect("a path of words").to_owned()),
        gpu: Some(gpu),
        unpack: Some(unpack.to_owned()),
        channels: Some(1),
        chunk_bytes: Some(64 << 10),
        progress_thread: true,
        ..Options::default()
    }
}

/// Every error says what it is.
pub(crate) fn assert_named(failure: &Failure) {
    let (_, id) = failure.text.rsplit_once("[TCPX-").unwrap_or_default();
    assert!(id.len() == 4 && id.ends_with(']'), "{failure:?}");
}

/// The process closes its session and ends by itself, well.
pub(crate) fn end(mut agent: Agent) {
    agent.run(Command::Close);
    let status = agent.end(PATIENCE).expect("it ends in time");
    assert!(status.success(), "{status}");
}

/// All that are left close at once, because each waits for the goodbyes of others.
pub(crate) fn end_all(mut agents: Vec<Agent>) {
    for agent in &mut agents {
        agent.send_command(Command::Close);
    }
    for agent in &mut agents {
        agent.receive_reply(2 * PATIENCE).expect("it closes");
        let status = agent.end(PATIENCE).expect("it ends in time");
        assert!(status.success(), "{status}");
    }
}

pub(crate) fn end_trio(trio: Trio) {
    end_all(vec![trio.hub, trio.victim, trio.witness]);
}
