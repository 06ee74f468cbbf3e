#![allow(unsafe_code)]
//! The process that holds the plugin: takes one command at a time from its check and answers it.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use tcpx_cuda::{CudaError, CudaGpu};
use tcpx_sys::NcclNetV7;

use super::calls::Calls;
use super::device_memory::Memory;
use super::{host_memory, stream};
use crate::link::command::{Assignment, Census, Command, Reply};
use crate::link::socket::{LINK_VARIABLE, Link};

/// Runs this process as an agent if it was started as one.
///
/// Call it first thing in `main`, before any thread, and return its answer if there is one. `table` is the plugin
/// behind [`Target::Table`](crate::Target::Table), and not called otherwise. The plugin's warnings go to standard error,
/// whose last line ends up in the report when an agent dies, unless the program has a `tracing` subscriber already.
pub fn child_main(table: Option<fn() -> NcclNetV7>) -> Option<ExitCode> {
    let link = std::env::var(LINK_VARIABLE).ok()?;
    let log =
        tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::WARN);
    // A subscriber of the program's own stays.
    let _ = log.without_time().with_ansi(false).with_writer(std::io::stderr).try_init();
    let served = inherited_link(&link).and_then(|link| serve(link, table));
    Some(match served {
        Ok(()) => ExitCode::SUCCESS,
        // The check is gone or the variable was no work of ours: there is nobody to tell.
        Err(_) => ExitCode::FAILURE,
    })
}

/// Takes over the descriptor that the parent named. It is closed on exec, so a program that the plugin starts cannot
/// take itself for an agent.
fn inherited_link(text: &str) -> io::Result<Link> {
    let descriptor: RawFd = text.parse().map_err(io::Error::other)?;
    // SAFETY: F_SETFD takes an integer and touches no memory; on a number that is no descriptor it fails with EBADF.
    if descriptor <= 2 || unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the descriptor is open, as fcntl just showed; the parent passed it for this use alone, and this function
    // runs once, before anything else in the process could have taken it.
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
    let mut calls = Calls::new(assignment.target, table);
    loop {
        let command = match link.receive(None) {
            Ok(command) => command,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        let reply = match &failure {
            None => answer(&mut calls, &memory, command),
            Some(reason) => Reply::Impossible(format!("holding the GPU: {reason}")),
        };
        link.send(&reply, None)?;
    }
}

fn answer(calls: &mut Calls, memory: &Memory<'_>, command: Command) -> Reply {
    match command {
        Command::Allocate { .. }
        | Command::AllocateDevice { .. }
        | Command::Read { .. }
        | Command::ReadWord { .. }
        | Command::Write { .. }
        | Command::Fill { .. }
        | Command::Verify { .. }
        | Command::Gather { .. } => access(memory, command)
            .unwrap_or_else(|error| Reply::Impossible(format!("memory of the GPU: {error}"))),
        Command::MappedBytes { at } => match memory.mapped_bytes(at) {
            Ok(bytes) => Reply::MappedBytes(bytes),
            Err(error) => Reply::Impossible(format!("the memory map: {error}")),
        },
        Command::Census => match census() {
            Ok(census) => Reply::Census(census),
            Err(error) => Reply::Impossible(format!("the census: {error}")),
        },
        Command::DefaultSigpipe => {
            // SAFETY: SIG_DFL runs no code of this process.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
            Reply::Done
        }
        Command::SendStream(stream) => Reply::Streamed(stream::send(calls, memory, &stream)),
        Command::RecvStream(stream, queue) => {
            Reply::Streamed(stream::receive(calls, memory, &stream, queue))
        }
        call => calls.make(&call),
    }
}

/// The commands that touch memory.
fn access(memory: &Memory<'_>, command: Command) -> Result<Reply, CudaError> {
    Ok(match command {
        Command::Allocate { bytes } => host_memory::allocate(bytes),
        Command::AllocateDevice { bytes } => memory.allocate_device(bytes)?,
        Command::Read { at, bytes } => Reply::Bytes(memory.read(at, bytes as usize)?),
        Command::ReadWord { at } => Reply::Address(memory.read_word(at)?),
        Command::Write { at, bytes } => {
            memory.write(at, &bytes)?;
            Reply::Done
        }
        Command::Fill { at, bytes, seed } => {
            memory.fill(at, bytes as usize, seed)?;
            Reply::Done
        }
        Command::Verify { at, bytes, seed } => {
            Reply::Verified(memory.verify(at, bytes as usize, seed)?)
        }
        Command::Gather { bounce, entries, to } => {
            memory.gather(bounce, &entries, to)?;
            Reply::Done
        }
        other => Reply::Impossible(format!("{other:?} is no access to memory")),
    })
}

fn census() -> io::Result<Census> {
    let count = |folder: &str| std::fs::read_dir(folder).map(|entries| entries.count() as u64);
    Ok(Census { descriptors: count("/proc/self/fd")?, threads: count("/proc/self/task")? })
}
