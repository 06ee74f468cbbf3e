//! The `tcpx` command: measures and tries out the library between two processes or two hosts, and says what is wrong
//! with a machine or a plugin.
//!
//! A command is one module with its arguments and a `run` function; `command` lists them. What two ends need to meet is
//! in `bootstrap` (a framed protocol with deadlines), `meeting` (both ends agree on a session) and `pair` (the other end
//! as a child process). Results go to stdout, everything else to stderr, and the exit status says whether all was well.

mod bootstrap;
mod byte_size;
mod command;
mod conformance;
mod conformance_progress;
mod connect;
mod devices;
mod doctor;
mod end;
mod environment;
mod error_line;
mod explain;
mod failure;
mod isolation;
mod logging;
mod machine;
mod meeting;
mod memory;
mod nic_watch;
mod other_end;
mod output;
mod pair;
mod pattern;
mod perf;
mod samples;

mod session_args;
mod transfer;
mod transport;
mod variables;

use std::process::ExitCode;

fn main() -> ExitCode {
    // This program is also what `tcpx conformance` starts to hold the plugin.
    if let Some(code) = tcpx_conformance::child_main(Some(tcpx_softnet::table)) {
        return code;
    }
    command::main()
}
