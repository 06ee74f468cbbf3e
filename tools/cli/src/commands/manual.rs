//! `tcpx manual`: pages for `man`.

use std::path::PathBuf;

use crate::failure::Failure;
use crate::output::print;

/// Write the manual's pages, tcpx.1 and one for each command, into a folder.
///
/// The packages install them. Elsewhere: tcpx manual ~/.local/share/man/man1, then man tcpx
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ManualArgs {
    /// The folder, which is created if it does not exist
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Writes the pages, and prints their folder.
pub(crate) fn run(args: &ManualArgs, command: clap::Command) -> Result<(), Failure> {
    let folder = &args.folder;
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .map_err(Failure::io(format!("writing the manual to {}", folder.display())))?;
    print(&format!("the manual's pages are in {}", folder.display()))
}
