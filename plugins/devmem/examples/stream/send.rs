//! The sending end: all connections send from one binding.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use tcpx_devmem::{HostBuffer, Nic, SendOutcome, Sender, TxBinding};

use super::options::{Failure, KERNEL_DEADLINE, Options};
use super::pattern;

pub(crate) fn run(options: &Options) -> Result<String, Failure> {
    let nic = Nic::named(&options.nic)?;
    let mut sockets = Vec::new();
    for _ in 0..options.connections {
        sockets.push(dial(options)?);
    }
    let counts: Result<Vec<u64>, Failure> = thread::scope(|scope| {
        let send = |(number, socket)| {
            let nic = &nic;
            scope.spawn(move || send_all(options, nic, number, socket))
        };
        let threads: Vec<_> = sockets.iter_mut().enumerate().map(send).collect();
        let join = |thread: ScopedJoinHandle<'_, Result<u64, Failure>>| {
            thread.join().unwrap_or_else(|_| Err("a thread has panicked".into()))
        };
        threads.into_iter().map(join).collect()
    });
    let calls: u64 = counts?.iter().sum();
    Ok(format!("sent: {} connections, {calls} calls", sockets.len()))
}

fn send_all(
    options: &Options,
    nic: &Nic,
    number: usize,
    socket: &mut TcpStream,
) -> Result<u64, Failure> {
    let mut word = [0];
    socket.set_read_timeout(Some(options.deadline))?;
    // The receiver sends this byte once the connection is steered.
    socket.read_exact(&mut word)?;
    let calls = match options.is_device {
        true => send_device(options, nic, number, socket)?,
        false => send_host(options, number, socket)?,
    };
    socket.read_exact(&mut word).map_err(|error| format!("the receiver gave up: {error}"))?;
    Ok(calls)
}

/// Connects. Tries again until the receiver listens.
fn dial(options: &Options) -> Result<TcpStream, Failure> {
    let until = Instant::now() + options.deadline;
    let family = match options.address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    loop {
        let socket: OwnedFd = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        if let Some(from) = options.from {
            bind(&socket, &SocketAddr::new(from, 0))?;
        }
        match connect(&socket, &options.address) {
            Ok(()) => return Ok(socket.into()),
            Err(error) if Instant::now() > until => return Err(error.into()),
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Sends from the dma-buf. Changes its bytes only after they were read for the last time.
fn send_device(
    options: &Options,
    nic: &Nic,
    number: usize,
    socket: &TcpStream,
) -> Result<u64, Failure> {
    let buffer = HostBuffer::new(options.region)?;
    let binding = TxBinding::new(nic, buffer.as_fd(), KERNEL_DEADLINE)?;
    let mut sender = Sender::new(socket, binding.id())?;
    let (mut sent, mut calls) = (0u64, 0);
    while sent < options.total {
        // Sends one buffer after the other. That is simple, and exercises every wait for the end of
        // a send.
        let bytes = (options.total - sent).min(buffer.len() as u64) as usize;
        let mut content = vec![0; bytes];
        pattern::fill(number, sent, &mut content);
        if !buffer.write(0, &content) {
            return Err("more bytes than the buffer has".into());
        }
        let mut at = 0;
        while at < bytes {
            let step = options.step.min(bytes - at);
            match sender.send(socket, at, step)? {
                SendOutcome::Bytes { bytes, calls: so_far } => {
                    at += bytes;
                    calls = so_far;
                }
                SendOutcome::Blocked => wait(options, socket, PollFlags::OUT)?,
                SendOutcome::NoNoticeMemory => wait(options, socket, PollFlags::ERR)?,
            }
            sender.reap_completions(socket);
        }
        while !sender.are_complete(calls) {
            wait(options, socket, PollFlags::ERR)?;
            sender.reap_completions(socket);
        }
        sent += bytes as u64;
    }
    Ok(calls)
}

fn send_host(options: &Options, number: usize, socket: &mut TcpStream) -> Result<u64, Failure> {
    let (mut sent, mut calls) = (0u64, 0);
    while sent < options.total {
        let mut content = vec![0; options.step.min((options.total - sent) as usize)];
        pattern::fill(number, sent, &mut content);
        socket.write_all(&content)?;
        sent += content.len() as u64;
        calls += 1;
    }
    Ok(calls)
}

/// Waits until the socket is ready or has a notification. The wait has a deadline.
fn wait(options: &Options, socket: &TcpStream, flags: PollFlags) -> Result<(), Failure> {
    let mut sockets = [PollFd::new(socket, flags)];
    match poll(&mut sockets, Some(&Timespec::try_from(options.deadline)?))? {
        0 => Err("the receiver takes nothing".into()),
        _ => Ok(()),
    }
}
