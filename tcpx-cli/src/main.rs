//! The `tcpx` command: measures and tries out the library between two processes or two hosts, and
//! says what is wrong with a machine or a plugin.
//!
//! A command is one file of `commands`, or the room `perf`: its arguments and a `run` function.
//! `command_line` lists them. What two ends need to meet is in `bootstrap` (a framed protocol with
//! deadlines), `meeting` (both ends agree on a session) and `pair` (the other end as a child
//! process). Results go to stdout, everything else to stderr, and the exit status says whether all
//! was well.

mod command_line;
mod commands;
mod deadline;
mod failure;
mod input;
mod output;
mod perf;
mod process;
mod rendezvous;
mod session;

use std::process::ExitCode;

fn main() -> ExitCode {
    // This program is also what `tcpx conformance` starts to hold the plugin.
    if let Some(code) = tcpx_conformance::child_main(Some(tcpx_softnet::table)) {
        return code;
    }
    command_line::main()
}
