//! The command line: one variant for each command, whose module has its arguments and its `run`.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::connect::{self, ConnectArgs};
use crate::end::EndArgs;
use crate::failure::{Failure, usage_line};
use crate::logging::{self, Detail};
use crate::perf::{self, PerfArgs};
use crate::transfer::{self, TransferArgs};

/// Moves GPU memory between hosts over TCP: measure it, try it out.
///
/// The log goes to stderr: warnings always, more with UCCL_TCPX_DEBUG=1, every unpack descriptor with
/// UCCL_TCPX_LAUNCH_DEBUG=1 (or TCPX_DEBUG, TCPX_LAUNCH_DEBUG), or as RUST_LOG says.
#[derive(Debug, Parser)]
#[command(name = "tcpx", version, disable_help_subcommand = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Perf(Box<PerfArgs>),
    Transfer(Box<TransferArgs>),
    Connect(Box<ConnectArgs>),
}

impl Command {
    fn end(&self) -> &EndArgs {
        match self {
            Self::Perf(args) => &args.end,
            Self::Transfer(args) => &args.end,
            Self::Connect(args) => &args.end,
        }
    }

    fn detail(&self) -> Detail {
        match self {
            Self::Transfer(_) => Detail::Everything,
            Self::Perf(_) | Self::Connect(_) => Detail::Warnings,
        }
    }

    fn run(&self) -> Result<(), Failure> {
        match self {
            Self::Perf(args) => perf::run(args),
            Self::Transfer(args) => transfer::run(args),
            Self::Connect(args) => connect::run(args),
        }
    }
}

/// Parses, runs, and says in one line what went wrong.
pub(crate) fn main() -> ExitCode {
    let command = match CommandLine::try_parse() {
        Ok(line) => line.command,
        Err(answer) if !answer.use_stderr() => return print_answer(&answer),
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            print_answer(&error);
            return ExitCode::from(2);
        }
        Err(error) => return fail(&Failure::Usage(usage_line(&error))),
    };
    logging::start(command.detail(), command.end().role());
    match command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => fail(&failure),
    }
}

/// Help or version.
fn print_answer(answer: &clap::Error) -> ExitCode {
    // A reader that stopped reading, `tcpx --help | head`, wanted no more.
    let _ = answer.print();
    ExitCode::SUCCESS
}

fn fail(failure: &Failure) -> ExitCode {
    // Without stderr the exit status has to say it alone.
    let _ = writeln!(std::io::stderr().lock(), "error: {}", failure.one_line());
    failure.exit_code()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_flag_is_explained() {
        for command in CommandLine::command().get_subcommands() {
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let id = argument.get_id();
                assert!(argument.get_help().is_some(), "{} {id}", command.get_name());
            }
        }
    }

    #[test]
    fn usage_errors_become_one_line() {
        for (words, expected) in [
            (&["tcpx", "perf", "--iters", "0"][..], "--iters"),
            (&["tcpx", "perf", "--size", "0"], "at least 1 byte"),
            (&["tcpx", "perf", "client"], "<ADDR>"),
            (&["tcpx", "perf", "--sise", "1"], "--size"),
            (&["tcpx", "perf", "--sweep", "--latency"], "cannot be used with"),
            (&["tcpx", "pref"], "perf"),
        ] {
            let line = usage_line(&CommandLine::try_parse_from(words).unwrap_err());
            assert!(line.contains(expected) && !line.contains('\n'), "{line}");
            assert!(!line.starts_with("error"), "{line}");
        }
    }
}
