//! The receiving end: binds one queue, steers each connection to it, and looks at every byte.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tcpx_devmem::{
    FlowRule, HostBuffer, Nic, NicFacts, Received, Receiver, RxBinding, SteeredFlow, choose_queues,
    give_back,
};
use tcpx_rx::{Fragment, TokenRanges};

use super::options::{Failure, KERNEL_DEADLINE, Options};
use super::pattern;

/// Most bytes that one call takes.
const MOST: usize = 512 << 10;
/// How often the NIC is asked whether it still has the memory, while nothing comes.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
struct Counts {
    device: u64,
    linear: u64,
    fragments: u64,
    calls: u64,
    wrong: u64,
}

struct Connection {
    socket: TcpStream,
    received: u64,
    tokens: TokenRanges,
    _steered: SteeredFlow,
}

pub(crate) fn run(options: &Options) -> Result<String, Failure> {
    let nic = Nic::named(&options.nic)?;
    let buffer = HostBuffer::new(options.region)?;
    let queues = choose_queues(&NicFacts::ask(&nic, KERNEL_DEADLINE)?, 1)?;
    let binding = RxBinding::new(&nic, &queues, buffer.as_fd(), KERNEL_DEADLINE)?;
    let listener = TcpListener::bind(options.address)?;
    let mut connections = Vec::new();
    for _ in 0..options.connections {
        connections.push(accept(&nic, &listener, queues[0])?);
    }
    let mut receiver = Receiver::new(binding.id(), buffer.len() as u64);
    let (mut counts, mut last) = (Counts::default(), Instant::now());
    while connections.iter().any(|connection| connection.received < options.total) {
        let mut has_moved = false;
        for (number, connection) in connections.iter_mut().enumerate() {
            has_moved |= take(number, connection, &mut receiver, &buffer, &mut counts)?;
        }
        if has_moved {
            last = Instant::now();
        } else if last.elapsed() > options.deadline {
            let received: u64 = connections.iter().map(|connection| connection.received).sum();
            return Err(format!("nothing came any more after {received} bytes").into());
        } else if !wait(&connections)? {
            binding.check()?;
        }
    }
    for connection in &mut connections {
        // Tells the sender that all of it was looked at.
        connection.socket.write_all(b"!")?;
    }
    let Counts { device, linear, fragments, calls, wrong } = counts;
    let words = format!(
        "received: device {device} linear {linear} fragments {fragments} calls {calls} wrong {wrong}"
    );
    if wrong > 0 { Err(words.into()) } else { Ok(words) }
}

/// A connection, steered before its sender may send.
fn accept(nic: &Nic, listener: &TcpListener, queue: u32) -> Result<Connection, Failure> {
    let (mut socket, from) = listener.accept()?;
    let rule = FlowRule { from, to: socket.local_addr()?, queue };
    let steered = SteeredFlow::new(nic, rule)?;
    socket.write_all(b"?")?;
    Ok(Connection { socket, received: 0, tokens: TokenRanges::new(), _steered: steered })
}

/// Takes what is there, and says whether there was anything.
fn take(
    number: usize,
    connection: &mut Connection,
    receiver: &mut Receiver,
    buffer: &HostBuffer,
    counts: &mut Counts,
) -> Result<bool, Failure> {
    let arrival = match receiver.receive(connection.socket.as_fd(), MOST)? {
        Received::Bytes(arrival) => arrival,
        Received::Blocked => return Ok(false),
        Received::Closed => return Err("the sender has gone".into()),
    };
    counts.calls += 1;
    let mut linear = arrival.linear;
    for fragment in arrival.fragments {
        let bytes = fragment.bytes() as usize;
        let mut copy = vec![0; bytes];
        match fragment {
            Fragment::Device(device) => {
                if !buffer.read(device.offset as usize, &mut copy) {
                    return Err("a fragment outside of the buffer".into());
                }
                // What is read a second time must have come a second time.
                let _ = buffer.write(device.offset as usize, &vec![0xdb; bytes]);
                connection.tokens.push(device.token);
                counts.device += bytes as u64;
                counts.fragments += 1;
            }
            Fragment::Linear { .. } => {
                copy.copy_from_slice(&linear[..bytes]);
                linear = &linear[bytes..];
                counts.linear += bytes as u64;
            }
        }
        counts.wrong += pattern::wrong(number, connection.received, &copy);
        connection.received += bytes as u64;
    }
    let count = connection.tokens.fragments();
    let given = give_back(connection.socket.as_fd(), &mut connection.tokens)?;
    if given != count {
        return Err(format!("{given} of {count} fragments were taken back").into());
    }
    Ok(true)
}

/// Waits for bytes, and says whether there are any.
fn wait(connections: &[Connection]) -> Result<bool, Failure> {
    let mut sockets: Vec<PollFd<'_>> = connections
        .iter()
        .map(|connection| PollFd::new(&connection.socket, PollFlags::IN))
        .collect();
    Ok(poll(&mut sockets, Some(&Timespec::try_from(LOOK)?))? > 0)
}
