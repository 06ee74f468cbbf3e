//! The receiving end by io_uring: a NIC puts payload into host memory, and a ring reports its
//! place.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use tcpx_devmem::{
    DevmemError, FlowRule, HostMemory, Nic, ReceiveEnd, Refill, RingBinding, RingEvent, RingQueue,
    SteeredFlow,
};

use super::options::{Failure, KERNEL_DEADLINE, Options};
use super::pattern;

/// Bytes of one request.
const CHUNK: u64 = 48_000;
/// Interval between checks that the NIC still has the memory, while nothing comes.
const LOOK: Duration = Duration::from_millis(500);

struct Connection {
    socket: TcpStream,
    received: u64,
    /// Whether a receive is outstanding.
    is_asked: bool,
    /// Pages of the current chunk, and before it those of earlier chunks.
    held: VecDeque<Vec<u32>>,
    _steered: SteeredFlow,
}

#[derive(Debug, Default)]
struct ByteCounts {
    ring: u64,
    linear: u64,
    entries: u64,
    wrong: u64,
}

/// State that all connections share.
struct RingReceiver<'a> {
    options: &'a Options,
    memory: HostMemory,
    refill: std::sync::Arc<Refill>,
    connections: Vec<Connection>,
    counts: ByteCounts,
}

pub(crate) fn run(options: &Options) -> Result<String, Failure> {
    let nic = Nic::named(&options.nic)?;
    let memory = HostMemory::new(options.region)?;
    let bytes = memory.len();
    let mut queue = match options.queue {
        Some(queue) => RingQueue::new(&nic, queue, &memory, bytes, KERNEL_DEADLINE)?,
        None => RingQueue::on_free_queue(&nic, &memory, bytes, KERNEL_DEADLINE)?,
    };
    let binding = RingBinding::new(&nic, queue.queue(), KERNEL_DEADLINE)?;
    let listener = TcpListener::bind(options.address)?;
    // Bytes that wait in the sockets hold pages as well; see `receive`.
    set_socket_recv_buffer_size(&listener, bytes / options.connections.max(1) / 8)?;
    let connections = (0..options.connections)
        .map(|_| accept(&nic, &listener, queue.queue()))
        .collect::<Result<_, _>>()?;
    let refill = queue.refill();
    let mut all =
        RingReceiver { options, memory, refill, connections, counts: ByteCounts::default() };
    let mut last = Instant::now();
    while all.connections.iter().any(|connection| connection.received < options.total) {
        all.ask(&mut queue)?;
        let mut events = Vec::new();
        queue.wait(LOOK, |event| events.push(event))?;
        if !events.is_empty() {
            last = Instant::now();
        } else if last.elapsed() > options.deadline {
            let received: u64 = all.connections.iter().map(|it| it.received).sum();
            return Err(format!("nothing came any more after {received} bytes").into());
        } else {
            binding.is_up()?;
        }
        for event in events {
            all.take(event)?;
        }
    }
    for connection in &mut all.connections {
        // Lets the sender know that all bytes were checked.
        connection.socket.write_all(b"!")?;
    }
    let ByteCounts { ring, linear, entries, wrong } = all.counts;
    let copied = all.refill.copied_bytes().ok_or("this kernel does not count what it copies")?;
    let words = format!(
        "received: ring {ring} linear {linear} entries {entries} copied {copied} wrong {wrong}"
    );
    if wrong > 0 { Err(words.into()) } else { Ok(words) }
}

/// Accepts a connection and steers it before its sender may send.
fn accept(nic: &Nic, listener: &TcpListener, queue: u32) -> Result<Connection, Failure> {
    let (mut socket, from) = listener.accept()?;
    let rule = FlowRule { from, to: socket.local_addr()?, queue };
    let steered = SteeredFlow::new(nic, rule)?;
    socket.write_all(b"?")?;
    socket.set_nonblocking(true)?;
    let held = VecDeque::from([Vec::new()]);
    Ok(Connection { socket, received: 0, is_asked: false, held, _steered: steered })
}

impl RingReceiver<'_> {
    /// Requests the next chunk of each connection without an outstanding receive.
    fn ask(&mut self, queue: &mut RingQueue) -> Result<(), Failure> {
        let total = self.options.total;
        for (number, connection) in self.connections.iter_mut().enumerate() {
            if !connection.is_asked && connection.received < total {
                let bytes = CHUNK.min(total - connection.received) as u32;
                queue.receive(number as u64, connection.socket.as_fd(), bytes)?;
                connection.is_asked = true;
            }
        }
        Ok(())
    }

    fn take(&mut self, event: RingEvent) -> Result<(), Failure> {
        match event {
            RingEvent::Bytes { id, offset, bytes } => self.check(id as usize, offset, bytes),
            RingEvent::Over { id, end, .. } => self.end(id as usize, end),
            other => Err(format!("{other:?} was not asked for").into()),
        }
    }

    /// Checks a piece and overwrites it: what is read a second time must come a second time.
    fn check(&mut self, number: usize, offset: u64, bytes: u32) -> Result<(), Failure> {
        let connection = &mut self.connections[number];
        let mut copy = vec![0; bytes as usize];
        if !self.memory.read(offset as usize, &mut copy) {
            return Err("a piece outside of the memory".into());
        }
        self.counts.wrong += pattern::wrong(number, connection.received, &copy);
        let _ = self.memory.write(offset as usize, &vec![0xdb; copy.len()]);
        self.counts.ring += u64::from(bytes);
        self.counts.entries += 1;
        connection.received += u64::from(bytes);
        let page = u32::try_from(offset / 4096)?;
        connection.held.back_mut().ok_or("a chunk holds nothing")?.push(page);
        Ok(())
    }

    fn end(&mut self, number: usize, end: ReceiveEnd) -> Result<(), Failure> {
        let connection = &mut self.connections[number];
        connection.is_asked = false;
        match end {
            ReceiveEnd::Done => {
                connection.held.push_back(Vec::new());
                while connection.held.len() > self.options.hold + 1
                    && let Some(pages) = connection.held.pop_front()
                {
                    self.refill.return_pages(pages);
                }
                Ok(())
            }
            ReceiveEnd::Again => Ok(()),
            ReceiveEnd::NoPage => self.read(number),
            ReceiveEnd::Closed => Err("the sender has gone".into()),
            ReceiveEnd::Foreign => Err(DevmemError::ForeignPacket.into()),
            other => Err(format!("the receive ended with {other:?}").into()),
        }
    }

    /// Reads bytes that the kernel found no page for, as from any socket.
    fn read(&mut self, number: usize) -> Result<(), Failure> {
        let connection = &mut self.connections[number];
        let most = CHUNK.min(self.options.total - connection.received);
        let mut copy = vec![0; most as usize];
        match connection.socket.read(&mut copy) {
            Ok(bytes) => {
                self.counts.wrong += pattern::wrong(number, connection.received, &copy[..bytes]);
                self.counts.linear += bytes as u64;
                connection.received += bytes as u64;
                Ok(())
            }
            // The bytes lie in the area, where an ordinary read cannot reach them.
            Err(error) if error.raw_os_error() == Some(14) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
