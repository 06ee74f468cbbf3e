//! Control socket of a comm. On the way out, records with their inline payload wait for room; on
//! the way in, they are read into a bounded buffer.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::AsFd;

use tcpx_comm::wire::{MAX_INLINE_BYTES, Record, Side, SocketRole};

use super::encrypted_io::{EncryptedIn, EncryptedOut, is_tampering};
use crate::connect::Connection;
use crate::hooks::{Hook, HookSet, SocketHooks};
use crate::memory::{IoList, IoOutcome, Piece};

/// Returns the flag for `sendmsg` that says what a write does about SIGPIPE.
pub(super) fn signal(hook: &Hook<dyn SocketHooks>) -> c_int {
    if hook.says(|hook| hook.raises_sigpipe()) { 0 } else { libc::MSG_NOSIGNAL }
}

/// Control socket of one comm.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    stream: TcpStream,
    /// What encrypts its bytes, and decrypts them. `None`: they are in clear.
    encryption: Option<Box<(EncryptedOut, EncryptedIn)>>,
    /// Whether bytes came that were not those that the peer sent.
    is_tampered: bool,
    hook: Hook<dyn SocketHooks>,
}

impl ControlSocket {
    /// Creates a control socket from the connection of comm number `comm`.
    pub(crate) fn new(connection: Connection, hooks: HookSet, comm: u64, side: Side) -> Self {
        let Connection { socket: stream, keys } = connection;
        let encryption = keys
            .map(|keys| Box::new((EncryptedOut::new(keys.sealer), EncryptedIn::new(keys.opener))));
        Self {
            stream,
            encryption,
            is_tampered: false,
            hook: hooks.socket(comm, side, SocketRole::Control),
        }
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Returns the most bytes that the next call may move; `None` when the call must not be made
    /// now.
    fn limit(&mut self) -> io::Result<Option<usize>> {
        self.hook.get_mut().map_or(Ok(Some(usize::MAX)), |hook| hook.limit(&self.stream))
    }

    /// Returns the flag that says what a write does about SIGPIPE.
    fn signal(&self) -> c_int {
        signal(&self.hook)
    }

    fn moved(&mut self, bytes: usize) {
        if let Some(hook) = self.hook.get_mut() {
            hook.moved(bytes);
        }
    }

    /// Reads bytes that are there; returns `None` when there are none now.
    pub(super) fn try_read(&mut self, place: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(encryption) = &mut self.encryption else { return ready(self.stream.read(place)) };
        let mut list = IoList::new(place.len());
        list.push_place(place);
        if list.is_empty() {
            return Ok(Some(0));
        }
        let outcome = encryption.1.receive(&self.stream, &list, false);
        let read = match outcome {
            IoOutcome::Closed => Ok(Some(0)),
            outcome => moved(outcome),
        };
        self.is_tampered |= read.as_ref().is_err_and(is_tampering);
        read
    }

    /// Returns whether bytes were read from the socket and not taken.
    pub(super) fn has_bytes(&self) -> bool {
        self.encryption.as_ref().is_some_and(|encryption| encryption.1.has_bytes())
    }

    /// Returns whether bytes came that were not those that the peer sent.
    pub(super) fn is_tampered(&self) -> bool {
        self.is_tampered
    }

    /// Writes as many bytes as the socket takes; returns `None` when it takes none now. The next
    /// call then has the same bytes first.
    pub(super) fn try_write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let mut list = IoList::new(bytes.len());
        list.push_bytes(bytes);
        let signal = self.signal();
        moved(self.send(list, signal))
    }

    /// Sends from the listed memory without waiting.
    fn send(&mut self, mut list: IoList<'_>, signal: c_int) -> IoOutcome {
        match &mut self.encryption {
            None => list.send(self.stream.as_fd(), signal),
            Some(encryption) => encryption.0.send(&self.stream, &list, signal),
        }
    }

    /// Throws away what the peer has sent. When a socket with unread bytes is closed, its unsent
    /// bytes are lost.
    pub(crate) fn drain(&mut self) {
        let mut bytes = [0; 256];
        while matches!(self.stream.read(&mut bytes), Ok(1..)) {}
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

/// Queue of records that wait for room in the control socket.
#[derive(Debug, Default)]
pub(crate) struct ControlOut {
    segments: VecDeque<Segment>,
    /// Number of bytes of the first segment that are out.
    sent: usize,
}

impl ControlOut {
    /// Queues a record of request `number`.
    pub(crate) fn push(&mut self, number: u64, record: Record, payload: Piece) {
        self.segments.push_back(Segment { number, record: record.encode(), payload });
    }

    /// Returns the request of the first record in the queue.
    pub(crate) fn first(&self) -> Option<u64> {
        self.segments.front().map(|segment| segment.number)
    }

    /// Sends as much as the socket takes, several records to a call. Calls `sent` with the request
    /// of each record that is out. Returns false when more may go out although the socket does not
    /// become ready.
    pub(crate) fn flush(
        &mut self,
        socket: &mut ControlSocket,
        mut sent: impl FnMut(u64),
    ) -> io::Result<bool> {
        while !self.segments.is_empty() {
            let Some(limit) = socket.limit()? else { return Ok(false) };
            let signal = socket.signal();
            match socket.send(self.list(limit), signal) {
                IoOutcome::Bytes(bytes) => {
                    socket.moved(bytes);
                    self.advance(bytes, &mut sent);
                }
                IoOutcome::Blocked => return Ok(true),
                IoOutcome::Again => return Ok(false),
                IoOutcome::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
                IoOutcome::Failed(error) => return Err(error),
                IoOutcome::Refused(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(true)
    }

    fn list(&self, limit: usize) -> IoList<'_> {
        let mut list = IoList::new(limit);
        let mut skip = self.sent;
        for segment in &self.segments {
            let record = &segment.record[skip.min(Record::BYTES)..];
            let payload =
                segment.payload.slice(skip.saturating_sub(Record::BYTES), segment.payload.len());
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

/// Bytes of the control stream that were read and are not used yet.
#[derive(Debug)]
pub(crate) struct ControlIn {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

/// Outcome of a read of the control socket.
#[derive(Debug)]
pub(crate) enum ControlRead {
    /// More bytes.
    Bytes,
    /// Nothing yet: the socket becomes readable.
    Nothing,
    /// The socket must not be read now.
    Held,
    /// The peer has closed.
    End,
}

impl ControlIn {
    /// Room for the largest inline message twice, so that it always fits and reads stay large.
    const BYTES: usize = 2 * (Record::BYTES + MAX_INLINE_BYTES as usize);

    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; Self::BYTES].into_boxed_slice(), start: 0, end: 0 }
    }

    /// Returns the bytes that are there.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Removes `count` bytes, which were used.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// Reads the socket once, into the free end of the buffer.
    pub(crate) fn read(&mut self, socket: &mut ControlSocket) -> io::Result<ControlRead> {
        let Some(limit) = socket.limit()? else { return Ok(ControlRead::Held) };
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let room = limit.min(self.buffer.len() - self.end);
        match socket.try_read(&mut self.buffer[self.end..self.end + room])? {
            None => Ok(ControlRead::Nothing),
            Some(0) if room == 0 => Ok(ControlRead::Held),
            Some(0) => Ok(ControlRead::End),
            Some(bytes) => {
                socket.moved(bytes);
                self.end += bytes;
                Ok(ControlRead::Bytes)
            }
        }
    }
}

/// Returns how many bytes moved; `None` when the call must be made again later.
fn moved(outcome: IoOutcome) -> io::Result<Option<usize>> {
    match outcome {
        IoOutcome::Bytes(count) => Ok(Some(count)),
        IoOutcome::Blocked | IoOutcome::Again => Ok(None),
        IoOutcome::Closed => Err(io::ErrorKind::UnexpectedEof.into()),
        IoOutcome::Failed(error) => Err(error),
        IoOutcome::Refused(error) => Err(io::Error::other(error)),
    }
}

/// Returns what a socket call moved; `None` when the call must be made again later.
fn ready(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
