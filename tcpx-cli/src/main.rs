//! The `tcpx` command: measures and tries out the library between two processes or two hosts.
//!
//! A command is one module with its arguments and a `run` function; `command` lists them. What two ends need to meet is
//! in `bootstrap` (a framed protocol with deadlines), `meeting` (both ends agree on a session) and `pair` (the other end
//! as a child process). Results go to stdout, everything else to stderr, and the exit status says whether all was well.

mod bootstrap;
mod byte_size;
mod command;
mod connect;
mod end;
mod failure;
mod logging;
mod meeting;
mod memory;
mod other_end;
mod pair;
mod pattern;
mod perf;
mod samples;
mod session_args;
mod transfer;
mod variables;

use std::process::ExitCode;

fn main() -> ExitCode {
    command::main()
}
