//! Scripted peers as processes: only a test knows where cargo has put their program.

use std::process::Command as Process;

use tcpx_tests::Agent;

/// The program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_tcpx-peer");

/// Starts a peer.
pub(crate) fn agent() -> Agent {
    agent_with(&[])
}

/// Starts a peer with these variables in its environment.
pub(crate) fn agent_with(variables: &[(&str, &str)]) -> Agent {
    let mut process = Process::new(PROGRAM);
    process.envs(variables.iter().copied());
    Agent::start_with(process)
}

/// Starts a peer on this host's own address, whose plugin fails as this script says and poisons
/// memory that it has given back.
pub(crate) fn faulty_agent(faults: &str) -> Agent {
    agent_with(&[
        ("TCPX_SOFT_FAULTS", faults),
        ("TCPX_SOFT_POISON", "1"),
        ("TCPX_PEER_LOOPBACK", "1"),
    ])
}
