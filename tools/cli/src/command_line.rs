//! Command line: one variant for each command, whose module has its arguments and its `run`.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};
use tcpx_core::PluginChoice;

use crate::commands::completions::{self, CompletionsArgs};
use crate::commands::conformance::{self, ConformanceArgs};
use crate::commands::connect::{self, ConnectArgs};
use crate::commands::devices::{self, DevicesArgs};
use crate::commands::doctor::{self, DoctorArgs};
use crate::commands::environment::{self, EnvArgs};
use crate::commands::explain::{self, ExplainArgs};
use crate::commands::manual::{self, ManualArgs};
use crate::commands::top::{self, TopArgs};
use crate::commands::transfer::{self, TransferArgs};
use crate::failure::{Failure, error_line, usage_line};
use crate::output::logging::{self, LogArgs};
use crate::perf::{self, PerfArgs};
use crate::rendezvous::EndsArgs;
use crate::session::isolation::{self, OpenPluginArgs};

/// Moves GPU memory between hosts over TCP: measure it, try it out, find out what is wrong.
///
/// The log goes to stderr or, with --log-file, to a file: warnings always, more with -v, -vv and
/// -vvv. Without these flags RUST_LOG says what is logged, or TCPX_DEBUG=1 (as -vv) and
/// TCPX_LAUNCH_DEBUG=1 (as -vvv).
#[derive(Debug, Parser)]
#[command(name = "tcpx", version, disable_help_subcommand = true)]
struct CommandLine {
    #[command(flatten)]
    log: LogArgs,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Perf(Box<PerfArgs>),
    Transfer(Box<TransferArgs>),
    Connect(Box<ConnectArgs>),
    Conformance(Box<ConformanceArgs>),
    Doctor(Box<DoctorArgs>),
    Env(EnvArgs),
    Explain(ExplainArgs),
    Devices(DevicesArgs),
    Top(TopArgs),
    Completions(CompletionsArgs),
    Manual(ManualArgs),
    #[command(name = isolation::COMMAND, hide = true)]
    OpenPlugin(OpenPluginArgs),
}

impl Command {
    /// Returns the two ends, of a command that has them.
    fn ends(&self) -> Option<&EndsArgs> {
        match self {
            Self::Perf(args) => Some(&args.ends),
            Self::Transfer(args) => Some(&args.ends),
            Self::Connect(args) => Some(&args.ends),
            _ => None,
        }
    }

    /// Returns the value of `--plugin`, of a command that loads one.
    fn plugin(&self) -> Option<&PluginChoice> {
        match self {
            Self::Conformance(args) => args.plugin.as_ref(),
            _ => self.ends()?.session.plugin.as_ref(),
        }
    }

    fn run(&self) -> Result<ExitCode, Failure> {
        let success = |()| ExitCode::SUCCESS;
        match self {
            Self::Perf(args) => perf::run(args).map(success),
            Self::Transfer(args) => transfer::run(args).map(success),
            Self::Connect(args) => connect::run(args).map(success),
            Self::Conformance(args) => conformance::run(args),
            Self::Doctor(args) => doctor::run(args),
            Self::Env(args) => environment::run(args),
            Self::Explain(args) => explain::run(args),
            Self::Devices(args) => devices::run(args),
            Self::Top(args) => top::run(args).map(success),
            Self::Completions(args) => completions::run(args, shown()).map(success),
            Self::Manual(args) => manual::run(args, shown()).map(success),
            Self::OpenPlugin(args) => isolation::run(args),
        }
    }
}

/// Parses and runs a command, and prints one line about a failure.
pub(crate) fn main() -> ExitCode {
    let CommandLine { log, command } = match parse(std::env::args_os()) {
        Ok(line) => line,
        Err(answer) if !answer.use_stderr() => return print_answer(&answer),
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            print_answer(&error);
            return ExitCode::from(2);
        }
        Err(error) => {
            let failure = Failure::Usage(refusal(&error));
            fail(&failure, None);
            let is_doctor = std::env::args_os().nth(1).is_some_and(|name| name == "doctor");
            return if is_doctor { doctor::not_examined(&failure) } else { failure.exit_code() };
        }
    };
    // Showing every step is what `tcpx transfer` is for.
    let shows_all = matches!(command, Command::Transfer(_));
    let role = command.ends().map(|ends| ends.role().name());
    let started = logging::start(&log, shows_all, role);
    started.and_then(|()| command.run()).unwrap_or_else(|failure| {
        fail(&failure, command.plugin());
        match command {
            Command::Doctor(_) => doctor::not_examined(&failure),
            _ => failure.exit_code(),
        }
    })
}

fn parse(words: impl Iterator<Item = OsString>) -> Result<CommandLine, clap::Error> {
    // A number below 0 is a wrong value, not an unknown flag.
    let command = CommandLine::command().mut_subcommands(|command| {
        command.mut_args(|argument| {
            let takes_values = argument.get_action().takes_values();
            argument.allow_negative_numbers(takes_values)
        })
    });
    CommandLine::from_arg_matches(&command.try_get_matches_from(words)?)
}

/// Returns the whole command line but the hidden commands.
fn shown() -> clap::Command {
    let whole = CommandLine::command();
    let commands: Vec<clap::Command> =
        whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    let arguments: Vec<clap::Arg> = whole.get_arguments().cloned().collect();
    let about = |text: Option<&clap::builder::StyledStr>| text.cloned().unwrap_or_default();
    clap::Command::new("tcpx")
        .version(env!("CARGO_PKG_VERSION"))
        .about(about(whole.get_about()))
        .long_about(about(whole.get_long_about()))
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .args(arguments)
        .subcommands(commands)
}

/// Returns the mistake in the command line, in one line.
fn refusal(error: &clap::Error) -> String {
    let line = usage_line(error);
    if error.kind() != ErrorKind::InvalidSubcommand {
        return line;
    }
    let command = CommandLine::command();
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    let names: Vec<&str> = shown.map(clap::Command::get_name).collect();
    format!("{line}; commands: {}", names.join(", "))
}

/// Prints help or version.
fn print_answer(answer: &clap::Error) -> ExitCode {
    // The reader may have closed the pipe, as in `tcpx --help | head`.
    let _ = answer.print();
    ExitCode::SUCCESS
}

/// Prints the line about a failure.
fn fail(failure: &Failure, plugin: Option<&PluginChoice>) {
    // Without stderr only the exit status reports the failure.
    let _ = writeln!(std::io::stderr().lock(), "error: {}", error_line(failure, plugin));
}

#[cfg(test)]
mod tests {
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
            (&["tcpx", "perf", "--size", "-1"], "invalid value '-1' for '--size"),
            (&["tcpx", "perf", "--plugin", ""], "auto, soft, devmem or the path"),
            (&["tcpx", "bogus"], "perf, transfer, connect, conformance, doctor"),
            (&["tcpx", "perf", "--sise", "1"], "--size"),
            (&["tcpx", "perf", "--sweep", "--size", "4"], "cannot be used with"),
            (&["tcpx", "perf", "--sweep", "client"], "FROM..TO"),
            (&["tcpx", "pref"], "perf"),
        ] {
            let words = words.iter().map(OsString::from);
            let line = refusal(&parse(words).unwrap_err());
            assert!(!line.contains("use '-- "), "{line}");
            assert!(line.contains(expected) && !line.contains('\n'), "{line}");
            assert!(!line.starts_with("error"), "{line}");
        }
    }
}
