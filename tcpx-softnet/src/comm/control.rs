//! The control socket's two ends: records with their inline payload on the way out, a bounded buffer on the way in.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::Instant;

use crate::faults::{CutSocket, Disturbance, Permit, Side, reset};
use crate::log;
use crate::memory::{IoList, Moved, Piece};
use crate::plugin::Settings;
use crate::wire::{MAX_INLINE_BYTES, Record};

/// A control socket, with what is done to it for testing.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    stream: TcpStream,
    disturbance: Option<Box<Disturbance>>,
}

impl ControlSocket {
    /// `stream` is the connected, non-blocking socket of comm number `comm`.
    pub(crate) fn new(stream: TcpStream, settings: &Settings, comm: u64, side: Side) -> Self {
        Self { stream, disturbance: Disturbance::new(settings, comm, side, CutSocket::Control) }
    }

    /// Most bytes that the next call may move; `None` when it must not be made now.
    fn limit(&mut self) -> io::Result<Option<usize>> {
        match self.disturbance.as_mut().map(|disturbance| disturbance.permit(Instant::now())) {
            None => Ok(Some(usize::MAX)),
            Some(Permit::Bytes(bytes)) => Ok(Some(bytes)),
            Some(Permit::NotReady) => Ok(None),
            Some(Permit::Cut) => {
                // If it fails, the connection is gone already.
                let _ = self.stream.shutdown(Shutdown::Both);
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, "cut by the fault script"))
            }
        }
    }

    fn moved(&mut self, bytes: usize) {
        if let Some(disturbance) = &mut self.disturbance {
            disturbance.moved(bytes);
        }
    }

    /// Throws away what the peer has sent. A socket that is closed with unread bytes takes the unsent ones with it.
    pub(crate) fn drain(&mut self) {
        let mut bytes = [0; 256];
        while matches!(self.stream.read(&mut bytes), Ok(1..)) {}
    }

    /// Ends the connection as the death of the process would.
    pub(crate) fn reset(&self) {
        if let Err(error) = reset(&self.stream) {
            log::warn!("control socket: cannot reset: {error}");
        }
    }
}

/// A record, and the payload that follows it.
#[derive(Debug)]
struct Segment {
    number: u64,
    record: [u8; Record::BYTES],
    payload: Piece,
}

impl Segment {
    fn len(&self) -> usize {
        Record::BYTES + self.payload.len()
    }
}

/// Records that are waiting for room in the control socket.
#[derive(Debug, Default)]
pub(crate) struct ControlOut {
    segments: VecDeque<Segment>,
    /// Bytes of the first segment that are out.
    sent: usize,
}

impl ControlOut {
    /// Queues a record of request `number`.
    pub(crate) fn push(&mut self, number: u64, record: Record, payload: Piece) {
        self.segments.push_back(Segment { number, record: record.encode(), payload });
    }

    /// The request whose record is first in line.
    pub(crate) fn first(&self) -> Option<u64> {
        self.segments.front().map(|segment| segment.number)
    }

    /// Sends what the socket takes, several records to a call; `sent` is told the request of each record that is out.
    pub(crate) fn flush(
        &mut self,
        socket: &mut ControlSocket,
        mut sent: impl FnMut(u64),
    ) -> io::Result<()> {
        while !self.segments.is_empty() {
            let Some(limit) = socket.limit()? else { return Ok(()) };
            match self.list(limit).send(socket.stream.as_fd()) {
                Moved::Bytes(bytes) => {
                    socket.moved(bytes);
                    self.advance(bytes, &mut sent);
                }
                Moved::Blocked => return Ok(()),
                Moved::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
                Moved::Failed(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn list(&self, limit: usize) -> IoList<'_> {
        let mut list = IoList::new(limit);
        let mut skip = self.sent;
        for segment in &self.segments {
            let record = &segment.record[skip.min(Record::BYTES)..];
            let payload =
                segment.payload.part(skip.saturating_sub(Record::BYTES), segment.payload.len());
            skip = 0;
            if !list.push_bytes(record) || !list.push(payload) {
                break;
            }
        }
        list
    }

    fn advance(&mut self, bytes: usize, sent: &mut impl FnMut(u64)) {
        self.sent += bytes;
        while let Some(first) = self.segments.front()
            && self.sent >= first.len()
        {
            self.sent -= first.len();
            sent(first.number);
            self.segments.pop_front();
        }
    }
}

/// Bytes of the control stream that were read and not used yet.
#[derive(Debug)]
pub(crate) struct ControlIn {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

/// What reading the control socket gave.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// More bytes.
    Bytes,
    /// Nothing yet.
    Nothing,
    /// The peer has closed.
    End,
}

impl ControlIn {
    /// Room for the largest inline message twice, so that it always fits and reads stay large.
    const BYTES: usize = 2 * (Record::BYTES + MAX_INLINE_BYTES as usize);

    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; Self::BYTES].into_boxed_slice(), start: 0, end: 0 }
    }

    /// What is there.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// `count` bytes were used.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// One read of the socket into the free end of the buffer.
    pub(crate) fn read(&mut self, socket: &mut ControlSocket) -> io::Result<Arrived> {
        let Some(limit) = socket.limit()? else { return Ok(Arrived::Nothing) };
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let room = limit.min(self.buffer.len() - self.end);
        match socket.stream.read(&mut self.buffer[self.end..self.end + room]) {
            Ok(0) if room == 0 => Ok(Arrived::Nothing),
            Ok(0) => Ok(Arrived::End),
            Ok(bytes) => {
                socket.moved(bytes);
                self.end += bytes;
                Ok(Arrived::Bytes)
            }
            Err(error) if is_transient(&error) => Ok(Arrived::Nothing),
            Err(error) => Err(error),
        }
    }
}

/// The receiver's running count of posted receives, on its way to a sender that waits for it.
#[derive(Debug, Default)]
pub(crate) struct GrantOut {
    announced: u32,
    /// Encoded count that is partly out, and how much of it.
    partial: Option<([u8; 4], usize)>,
}

impl GrantOut {
    /// Tells the sender that `posted` receives were posted, as far as the socket takes it.
    pub(crate) fn announce(&mut self, socket: &mut ControlSocket, posted: u64) -> io::Result<()> {
        // The count wraps, as both ends know.
        let posted = posted as u32;
        loop {
            if self.partial.is_none() {
                if self.announced == posted {
                    return Ok(());
                }
                self.announced = posted;
                self.partial = Some((posted.to_le_bytes(), 0));
            }
            let Some((bytes, sent)) = &mut self.partial else { return Ok(()) };
            match socket.stream.write(&bytes[*sent..]) {
                Ok(count) => *sent += count,
                Err(error) if is_transient(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
            if *sent == bytes.len() {
                self.partial = None;
            }
        }
    }
}

/// The sender's view of how many receives the peer has posted.
#[derive(Debug, Default)]
pub(crate) struct GrantIn {
    /// Receives posted by the peer.
    granted: u64,
    partial: [u8; 4],
    filled: usize,
}

impl GrantIn {
    /// Whether the peer has posted the receive for request `number`.
    pub(crate) fn covers(&self, number: u64) -> bool {
        number < self.granted
    }

    /// Reads counts that have come. The peer can be ahead by no more receives than a comm holds.
    pub(crate) fn read(
        &mut self,
        socket: &mut ControlSocket,
        sent: u64,
        most_ahead: u64,
    ) -> io::Result<()> {
        loop {
            match socket.stream.read(&mut self.partial[self.filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.filled += count,
                Err(error) if is_transient(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
            if self.filled < self.partial.len() {
                continue;
            }
            self.filled = 0;
            let more = u32::from_le_bytes(self.partial).wrapping_sub(self.granted as u32);
            let granted = self.granted + u64::from(more);
            if more == 0 || granted > sent + most_ahead {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "count of posted receives is wrong",
                ));
            }
            self.granted = granted;
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
