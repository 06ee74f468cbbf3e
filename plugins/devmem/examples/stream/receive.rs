//! The receiving end: binds one queue, steers each connection to it, and checks every byte. As a
//! plugin does, it takes chunks, unpacks them by their descriptors, and holds some meanwhile.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use tcpx_devmem::{
    FlowRule, HeldMemory, HostBuffer, Nic, Received, Receiver, RxBinding, SparePages, SteeredFlow,
    return_tokens,
};
use tcpx_rx::{DescriptorBuilder, check, sources_disjoint};

use super::options::{Failure, KERNEL_DEADLINE, Options};
use super::pattern;

/// Bytes of a chunk.
const CHUNK: u64 = 48_000;
/// Bytes of spare pages, for payload that comes in host memory.
const SPARE: usize = 1 << 20;
/// Interval between checks that the NIC still has the memory, while nothing comes.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
struct ByteCounts {
    device: u64,
    linear: u64,
    entries: u64,
    calls: u64,
    wrong: u64,
}

struct Connection {
    number: usize,
    socket: TcpStream,
    /// Bytes of the unpacked chunks.
    unpacked: u64,
    chunk: DescriptorBuilder,
    /// Holdings of the current chunk, and before it those of earlier chunks.
    held: VecDeque<HeldMemory>,
    _steered: SteeredFlow,
}

/// Memory that all connections share.
struct Memory {
    buffer: HostBuffer,
    spare: SparePages,
    receiver: Receiver,
}

pub(crate) fn run(options: &Options) -> Result<String, Failure> {
    let nic = Nic::named(&options.nic)?;
    let buffer = HostBuffer::with_spare(options.region, SPARE)?;
    let binding = match options.queue {
        Some(queue) => RxBinding::new(&nic, &[queue], buffer.as_fd(), KERNEL_DEADLINE)?,
        None => RxBinding::on_free_queues(&nic, 1, buffer.as_fd(), KERNEL_DEADLINE)?,
    };
    let queue = *binding.queues().first().ok_or("a binding has a queue")?;
    let listener = TcpListener::bind(options.address)?;
    // Bytes that wait in the sockets hold pages as well. All sockets together must leave some pages
    // for a missing segment, or nothing moves any more. The system doubles the number, and takes
    // one packet beyond it.
    let window = buffer.dma_buf_bytes() / options.connections.max(1) / 8;
    set_socket_recv_buffer_size(&listener, window)?;
    let mut connections = Vec::new();
    for number in 0..options.connections {
        connections.push(accept(number, options, &nic, &listener, queue)?);
    }
    let bytes = buffer.dma_buf_bytes() as u64;
    let receiver = Receiver::new(binding.id(), bytes);
    let mut memory = Memory { buffer, spare: SparePages::new(bytes, SPARE), receiver };
    let (mut counts, mut last) = (ByteCounts::default(), Instant::now());
    while connections.iter().any(|connection| connection.unpacked < options.total) {
        let mut has_moved = false;
        for connection in &mut connections {
            has_moved |= take(options, connection, &mut memory, &mut counts)?;
        }
        if has_moved {
            last = Instant::now();
        } else if last.elapsed() > options.deadline {
            let unpacked: u64 = connections.iter().map(|connection| connection.unpacked).sum();
            let held = connections.iter().flat_map(|connection| &connection.held);
            let held = held.map(|held| held.tokens.fragments()).sum();
            let reason = memory.receiver.stall_reason(held).map(Failure::from);
            let silence = || format!("nothing came any more after {unpacked} bytes").into();
            return Err(reason.unwrap_or_else(silence));
        } else if !wait(&connections)? {
            binding.check()?;
        }
    }
    for connection in &mut connections {
        // Lets the sender know that all bytes were checked.
        connection.socket.write_all(b"!")?;
    }
    let ByteCounts { device, linear, entries, calls, wrong } = counts;
    let words = format!(
        "received: device {device} linear {linear} entries {entries} calls {calls} wrong {wrong}"
    );
    if wrong > 0 { Err(words.into()) } else { Ok(words) }
}

/// Accepts a connection and steers it before its sender may send.
fn accept(
    number: usize,
    options: &Options,
    nic: &Nic,
    listener: &TcpListener,
    queue: u32,
) -> Result<Connection, Failure> {
    let (mut socket, from) = listener.accept()?;
    let rule = FlowRule { from, to: socket.local_addr()?, queue };
    let steered = SteeredFlow::new(nic, rule)?;
    socket.write_all(b"?")?;
    Ok(Connection {
        number,
        socket,
        unpacked: 0,
        chunk: DescriptorBuilder::new(CHUNK.min(options.total)),
        held: VecDeque::from([HeldMemory::default()]),
        _steered: steered,
    })
}

/// Receives what is available for the chunk. Returns whether there was anything.
fn take(
    options: &Options,
    connection: &mut Connection,
    memory: &mut Memory,
    counts: &mut ByteCounts,
) -> Result<bool, Failure> {
    let Memory { buffer, spare, receiver } = memory;
    let most = spare.room().min(connection.chunk.remaining_bytes() as usize);
    if most == 0 {
        return Ok(false);
    }
    let arrival = match receiver.receive(connection.socket.as_fd(), most)? {
        Received::Bytes(arrival) => arrival,
        Received::Blocked => return Ok(false),
        Received::Closed => return Err("the sender has gone".into()),
    };
    counts.calls += 1;
    counts.linear += arrival.linear.len() as u64;
    counts.device += arrival.bytes() - arrival.linear.len() as u64;
    let mut is_written = true;
    let write = |offset: u64, bytes: &[u8]| is_written &= buffer.write(offset as usize, bytes);
    let held = connection.held.back_mut().ok_or("a chunk holds nothing")?;
    spare.land(arrival, &mut connection.chunk, held, write)?;
    if !is_written {
        return Err("spare pages lie outside of the buffer".into());
    }
    if connection.chunk.is_full() {
        unpack(options, connection, memory, counts)?;
    }
    Ok(true)
}

/// Checks all bytes of the chunk, begins the next chunk, and gives the oldest one back.
fn unpack(
    options: &Options,
    connection: &mut Connection,
    memory: &mut Memory,
    counts: &mut ByteCounts,
) -> Result<(), Failure> {
    let buffer = &memory.buffer;
    let bytes = connection.chunk.filled_bytes();
    let next = CHUNK.min(options.total - connection.unpacked - bytes);
    let done = std::mem::replace(&mut connection.chunk, DescriptorBuilder::new(next));
    let mut list = done.finish().descriptors;
    check(&mut list, buffer.len() as u64, bytes)?;
    sources_disjoint(&list, &mut Vec::new())?;
    for entry in &list {
        let mut copy = vec![0; entry.len as usize];
        if !buffer.read(entry.src_off as usize, &mut copy) {
            return Err("a descriptor outside of the buffer".into());
        }
        counts.wrong +=
            pattern::wrong(connection.number, connection.unpacked + entry.dst_off, &copy);
        // Overwrites the bytes: what is read a second time must have come a second time.
        let _ = buffer.write(entry.src_off as usize, &vec![0xdb; copy.len()]);
    }
    counts.entries += list.len() as u64;
    connection.unpacked += bytes;
    connection.held.push_back(HeldMemory::default());
    let keep = if connection.unpacked == options.total { 0 } else { options.hold };
    while connection.held.len() > keep + 1
        && let Some(mut held) = connection.held.pop_front()
    {
        memory.spare.release(&mut held);
        let count = held.tokens.fragments();
        let given = return_tokens(connection.socket.as_fd(), &mut held.tokens)?;
        if given != count {
            return Err(format!("{given} of {count} fragments were taken back").into());
        }
    }
    Ok(())
}

/// Waits for bytes. Returns whether there are any.
fn wait(connections: &[Connection]) -> Result<bool, Failure> {
    let mut sockets: Vec<PollFd<'_>> = connections
        .iter()
        .map(|connection| PollFd::new(&connection.socket, PollFlags::IN))
        .collect();
    Ok(poll(&mut sockets, Some(&Timespec::try_from(LOOK)?))? > 0)
}
