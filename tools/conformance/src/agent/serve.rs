#![allow(unsafe_code)]
//! Loop that an agent runs instead of the program's own `main`.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use tcpx_cuda::CudaGpu;
use tcpx_sys::NcclNetV7;

use super::agent_memory::AgentMemory;
use super::commands::Agent;
use crate::link::command::{Command, Reply};
use crate::link::socket::{LINK_VARIABLE, Link};
use crate::link::values::AgentSetup;

/// Runs this process as an agent if it was started as one.
///
/// Call it first thing in `main`, before any thread, and return its exit code if there is one.
/// `table` is the plugin behind [`PluginSource::Table`](crate::PluginSource::Table), and is not
/// called otherwise. The plugin's warnings go to standard error, unless the program has a `tracing`
/// subscriber already. When an agent dies, its last line there is in the report.
pub fn child_main(table: Option<fn() -> NcclNetV7>) -> Option<ExitCode> {
    let link = std::env::var(LINK_VARIABLE).ok()?;
    let log =
        tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::WARN);
    // A check may close stderr; a log without a reader is no reason to panic.
    let log = log.log_internal_errors(false);
    // A subscriber of the program's own stays.
    let _ = log.without_time().with_ansi(false).with_writer(std::io::stderr).try_init();
    let served = inherited_link(&link).and_then(|link| serve(link, table));
    Some(match served {
        Ok(()) => ExitCode::SUCCESS,
        // The check is gone, or no check set the variable: an error has no recipient.
        Err(_) => ExitCode::FAILURE,
    })
}

/// Takes over the descriptor that the parent named, and closes it on exec: a program that the
/// plugin starts is no agent.
fn inherited_link(text: &str) -> io::Result<Link> {
    let descriptor: RawFd = text.parse().map_err(io::Error::other)?;
    // SAFETY: F_SETFD takes an integer and touches no memory; on a number that is no descriptor it
    // fails with EBADF.
    if descriptor <= 2 || unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the descriptor is open, as fcntl just showed. The parent passed it for this use
    // alone. This function runs once, before anything else in the process could have taken the
    // descriptor.
    let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
    Ok(Link::new(UnixStream::from(owned)))
}

/// Executes commands until the check closes the link.
fn serve(mut link: Link, table: Option<fn() -> NcclNetV7>) -> io::Result<()> {
    let setup: AgentSetup = link.receive(None)?;
    let gpu = setup.gpu.map(CudaGpu::open).transpose();
    // Plugins read the GPU off the thread that calls them, which is this one.
    let entered = gpu.as_ref().map(|gpu| gpu.as_ref().map(CudaGpu::enter).transpose());
    let failure = match &entered {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(error) => Some(error.to_string()),
    };
    let memory = AgentMemory::new(gpu.as_ref().ok().and_then(Option::as_ref));
    let mut agent = Agent::new(setup.target, table, memory);
    loop {
        let command: Command = match link.receive(None) {
            Ok(command) => command,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        match &failure {
            None => command.execute(&mut agent, &mut link)?,
            // A refusal has the same bytes for every command.
            Some(reason) => {
                link.send(&Reply::<()>::Err(format!("holding the GPU: {reason}")), None)?;
            }
        }
    }
}
