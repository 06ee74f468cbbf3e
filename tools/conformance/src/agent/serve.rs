#![allow(unsafe_code)]
//! Loop that an agent runs instead of the program's own `main`.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use tcpx_cuda::CudaGpu;
use tcpx_sys::NcclNetV7;

use super::commands::Agent;
use super::device_memory::Memory;
use crate::link::command::{Answer, Command};
use crate::link::socket::{LINK_VARIABLE, Link};
use crate::link::values::Assignment;

/// Runs this process as an agent if it was started as one.
///
/// Call it first thing in `main`, before any thread, and return its answer if there is one. `table`
/// is the plugin behind [`Target::Table`](crate::Target::Table), and is not called otherwise. The
/// plugin's warnings go to standard error, unless the program has a `tracing` subscriber already.
/// When an agent dies, the last line there ends up in the report.
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
        // The check is gone, or the variable was not set by a check: there is no recipient for an
        // error.
        Err(_) => ExitCode::FAILURE,
    })
}

/// Takes over the descriptor that the parent named. It is closed on exec, so a program that the
/// plugin starts cannot take itself for an agent.
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

/// Answers commands until the check closes the link.
fn serve(mut link: Link, table: Option<fn() -> NcclNetV7>) -> io::Result<()> {
    let assignment: Assignment = link.receive(None)?;
    let gpu = assignment.gpu.map(CudaGpu::open).transpose();
    // Plugins read the GPU off the thread that calls them, which is this one.
    let entered = gpu.as_ref().map(|gpu| gpu.as_ref().map(CudaGpu::enter).transpose());
    let failure = match &entered {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(error) => Some(error.to_string()),
    };
    let memory = Memory::new(gpu.as_ref().ok().and_then(Option::as_ref));
    let mut agent = Agent::new(assignment.target, table, memory);
    loop {
        let command: Command = match link.receive(None) {
            Ok(command) => command,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        match &failure {
            None => command.answer(&mut agent, &mut link)?,
            // An answer that says no has the same bytes whatever was asked.
            Some(reason) => {
                link.send(&Answer::<()>::Err(format!("holding the GPU: {reason}")), None)?;
            }
        }
    }
}
