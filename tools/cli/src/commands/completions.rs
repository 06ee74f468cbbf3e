//! `tcpx completions`: scripts that complete words after `tcpx` in a shell.

use clap_complete::{Shell, generate};

use crate::failure::Failure;
use crate::output::print;

/// Print what a shell completes after "tcpx": commands, flags and their values.
///
/// The packages install it. Elsewhere, for bash: tcpx completions bash >
/// ~/.local/share/bash-completion/completions/tcpx
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell that reads it
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs, mut command: clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(args.shell, &mut command, "tcpx", &mut script);
    print(String::from_utf8_lossy(&script).trim_end())
}
