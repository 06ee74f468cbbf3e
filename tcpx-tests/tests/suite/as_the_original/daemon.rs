//! RxDM that hangs, closes or was killed while two ends connect. Threads of the plugin wait for it
//! and no call does, so the library asks RxDM by itself, and both ends say what is wrong.

use tcpx_testkit::rxdm::{RxdmServer, SocketBehaviour, metadata_answer};
use tcpx_tests::script::{Command, Failure, Options};
use tcpx_tests::{Agent, Pair, has_gpu};
use tempfile::TempDir;

use super::combination::{agent, end, end_all, options};

/// An RxDM of its own, and a process whose plugin asks it.
struct AgentWithRxdm {
    agent: Agent,
    _rxdm: RxdmServer,
    _folder: TempDir,
}

impl AgentWithRxdm {
    fn new(behaviour: &SocketBehaviour) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut rxdm = RxdmServer::start(folder.path(), &[]);
        for socket in ["rx_rule_manager", "rx_rule_uninstall"] {
            rxdm.change(socket, behaviour.clone());
        }
        let path = folder.path().to_str().expect("a path of words");
        let mut agent = agent(&[("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX", path)]);
        agent.run(Command::New(Options { channels: Some(2), ..options(0, "d2d") }));
        Self { agent, _rxdm: rxdm, _folder: folder }
    }
}

fn healthy() -> SocketBehaviour {
    SocketBehaviour::Answer(metadata_answer())
}

/// Returns the errors of two ends whose RxDMs behave in these manners.
fn failures(left: &SocketBehaviour, right: &SocketBehaviour) -> [Failure; 2] {
    let (left, right) = (AgentWithRxdm::new(left), AgentWithRxdm::new(right));
    let mut pair = Pair { left: left.agent, right: right.agent };
    let (of_left, of_right) = pair.join("left", "right").expect_err("they never connect");
    let failures = [of_left, of_right].map(|reply| reply.expect_err("both know").failure());
    [pair.left, pair.right].into_iter().for_each(end);
    failures
}

/// At one end, or at both: the other learns of it in time.
fn is_named(behaviour: &SocketBehaviour, id: &str) {
    if !has_gpu() {
        return;
    }
    let healthy = healthy();
    for (left, right) in [(behaviour, &healthy), (&healthy, behaviour), (behaviour, behaviour)] {
        for failure in failures(left, right) {
            assert!(failure.text.ends_with(&format!("[{id}]")), "{behaviour:?}: {failure:?}");
            assert!(failure.text.contains("plugin call "), "{failure:?}");
        }
    }
}

#[test]
fn a_daemon_that_hangs_is_named() {
    is_named(&SocketBehaviour::Hang, "TCPX-505");
}

#[test]
fn a_daemon_that_closes_is_named() {
    is_named(&SocketBehaviour::Close, "TCPX-506");
}

#[test]
fn a_daemon_that_was_killed_is_named() {
    is_named(&SocketBehaviour::Refuse, "TCPX-504");
}

#[test]
fn a_healthy_daemon_lets_them_connect() {
    if !has_gpu() {
        return;
    }
    let (left, right) = (AgentWithRxdm::new(&healthy()), AgentWithRxdm::new(&healthy()));
    let mut pair = Pair { left: left.agent, right: right.agent };
    pair.join("left", "right").expect("RxDM answers");
    end_all(vec![pair.left, pair.right]);
}
