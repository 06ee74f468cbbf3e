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
    fn new(behaviour: &SocketBehaviour, options: Options) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut rxdm = RxdmServer::start(folder.path(), &[]);
        for socket in ["rx_rule_manager", "rx_rule_uninstall"] {
            rxdm.change(socket, behaviour.clone());
        }
        let path = folder.path().to_str().expect("a path of words");
        let mut agent = agent(&[("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX", path)]);
        agent.run(Command::New(options));
        Self { agent, _rxdm: rxdm, _folder: folder }
    }
}

fn rxdm_options() -> Options {
    Options { channels: Some(2), ..options(0, "d2d") }
}

fn healthy() -> SocketBehaviour {
    SocketBehaviour::Answer(metadata_answer())
}

/// Returns the errors of two ends whose RxDMs behave in these manners.
fn failures(left: &SocketBehaviour, right: &SocketBehaviour) -> [Failure; 2] {
    let [left, right] = [left, right].map(|it| AgentWithRxdm::new(it, rxdm_options()));
    let mut pair = Pair { left: left.agent, right: right.agent };
    let (of_left, of_right) = pair.join("left", "right").expect_err("they never connect");
    let failures = [of_left, of_right].map(|reply| reply.expect_err("both know").failure());
    [pair.left, pair.right].into_iter().for_each(end);
    failures
}

/// At one end, or at both: the other learns of it in time. The set-up may fail before the right end
/// calls accept. Its accept then waits for another peer, and has the reason of the one that left.
fn is_named(behaviour: &SocketBehaviour, id: &str) {
    if !has_gpu() {
        return;
    }
    let healthy = healthy();
    for (left, right) in [(behaviour, &healthy), (&healthy, behaviour), (behaviour, behaviour)] {
        for failure in failures(left, right) {
            let is_late = failure.text.ends_with("[TCPX-725]");
            let reason = failure.text.strip_suffix(" [TCPX-725]").unwrap_or(&failure.text);
            assert!(!is_late || reason.contains("came and left before"), "{failure:?}");
            assert!(reason.ends_with(&format!("[{id}]")), "{behaviour:?}: {failure:?}");
            assert!(reason.contains("plugin call "), "{failure:?}");
        }
    }
}

fn failure_of(agent: &mut Agent, command: Command) -> Failure {
    agent.ask(command).expect_err("they never connect").failure()
}

#[test]
fn an_accept_after_the_failure_has_its_reason() {
    if !has_gpu() {
        return;
    }
    let broken = SocketBehaviour::Close;
    let soon = Options { connect_timeout_ms: Some(5000), ..rxdm_options() };
    let mut left = AgentWithRxdm::new(&healthy(), rxdm_options());
    let mut right = AgentWithRxdm::new(&broken, soon);
    let conn_info = right.agent.get(Command::Listen);
    left.agent.run(Command::Load { peer: "right".into(), conn_info });
    // The reason that this end has comes from the other one, which has given up by then.
    let failure = failure_of(&mut left.agent, Command::Connect { peer: "right".into() });
    assert!(failure.text.ends_with("[TCPX-506]"), "{failure:?}");
    let failure = failure_of(&mut right.agent, Command::Accept { peer: "left".into() });
    for part in ["1 came and left before they were accepted", "[TCPX-506] [TCPX-725]"] {
        assert!(failure.text.contains(part), "{failure:?}");
    }
    [left.agent, right.agent].into_iter().for_each(end);
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
    let [left, right] = [(); 2].map(|()| AgentWithRxdm::new(&healthy(), rxdm_options()));
    let mut pair = Pair { left: left.agent, right: right.agent };
    pair.join("left", "right").expect("RxDM answers");
    end_all(vec![pair.left, pair.right]);
}
