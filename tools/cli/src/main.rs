//! The `tcpx` command: measures and tries out the library between two processes or two hosts, and
//! finds faults of a machine or a plugin.
//!
//! - `command_line`: every command, and its end
//! - `commands`, `perf`: the commands, each with its arguments and a `run` function
//! - `rendezvous`: turns the two ends of a command into two connected sessions
//! - `session`: the session that a command opens
//! - `process`: child processes
//! - `output`: results on stdout, everything else on stderr
//! - `input`: numbers and variables as the user gives them
//! - `failure`: errors of a command, as the one line that the user reads
//! - `backstop`: ends a command that does not end by itself
//! - `interrupt`: Ctrl-C during a measurement
//! - `budget`: the time of a command
//! - `deadline`: the end of a wait
//!
//! A module uses those below it in this list, and none above. The exit status says whether the
//! command succeeded.

mod backstop;
mod budget;
mod command_line;
mod commands;
mod deadline;
mod failure;
mod input;
mod interrupt;
mod output;
mod perf;
mod process;
mod rendezvous;
mod session;

use std::process::ExitCode;

fn main() -> ExitCode {
    // `tcpx conformance` starts this program as its agents, which hold the plugin.
    if let Some(code) = tcpx_conformance::child_main(Some(tcpx_softnet::table)) {
        return code;
    }
    command_line::main()
}
