//! One data socket and the queue of chunks on it.
//!
//! The thread that calls `test` runs a lane, or a helper thread does. Chunks go in at one end, in
//! the order of their control records; finished ones come out at the other, in the same order. The
//! three queues have a lock each, so that handing over a chunk never waits for a system call.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::bell::Bell;
use super::chunk::Chunk;
use crate::faults::SocketFaults;
use crate::log;
use crate::memory::{IoList, IoOutcome};
use crate::poll::Interest;
use crate::sync::{AtomicUsize, Mutex, MutexGuard};
use crate::wire::Side;

/// Chunks that a lane takes before it counts as full.
const MAX_CHUNKS: usize = 32;

/// Why a lane ends when its socket does.
const CLOSED: &str = "the peer closed it";

/// What came of running a lane once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// So many bytes moved, and more may.
    Moved(usize),
    /// The socket must become ready first.
    Blocked,
    /// Something else must happen first, of which the socket tells nothing.
    Held,
    /// There is nothing to do.
    Idle,
}

#[derive(Debug)]
struct Working {
    chunks: VecDeque<Chunk>,
    dead: bool,
    /// Chunks of a dead socket of whose end nobody is told.
    lost: Vec<Chunk>,
    faults: SocketFaults,
}

/// One data socket.
#[derive(Debug)]
pub(crate) struct Lane {
    socket: TcpStream,
    index: usize,
    side: Side,
    incoming: Mutex<VecDeque<Chunk>>,
    working: Mutex<Working>,
    finished: Mutex<VecDeque<Chunk>>,
    /// Chunks that are not finished.
    chunks: AtomicUsize,
    /// Bytes of those chunks.
    bytes: AtomicUsize,
    /// Chunks that are finished and not collected.
    done: AtomicUsize,
    /// Rung with every finished chunk, where a helper thread runs the lane.
    bell: Option<Arc<Bell>>,
}

impl Lane {
    /// `socket` is connected and non-blocking. `bell`: for a lane that a helper thread runs.
    pub(crate) fn new(
        socket: TcpStream,
        index: usize,
        side: Side,
        faults: SocketFaults,
        bell: Option<Arc<Bell>>,
    ) -> Self {
        Self {
            socket,
            index,
            side,
            incoming: Mutex::default(),
            working: Mutex::new(Working {
                chunks: VecDeque::new(),
                dead: false,
                lost: Vec::new(),
                faults,
            }),
            finished: Mutex::default(),
            chunks: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            bell,
        }
    }

    /// Whether another chunk is welcome while at most `bytes` are queued.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.chunks.load(Ordering::Relaxed) < MAX_CHUNKS
            && self.bytes.load(Ordering::Relaxed) < bytes
    }

    /// Whether there is anything to move.
    pub(crate) fn has_chunks(&self) -> bool {
        self.chunks.load(Ordering::Acquire) > 0
    }

    /// Queues a chunk behind those that are here.
    pub(crate) fn push(&self, chunk: Chunk) {
        self.bytes.fetch_add(chunk.bytes, Ordering::Relaxed);
        let mut incoming = lock(&self.incoming);
        incoming.push_back(chunk);
        // Counted under the lock: whoever runs the lane then finds as many chunks as it was told.
        self.chunks.fetch_add(1, Ordering::Release);
    }

    /// Takes the oldest finished chunk.
    pub(crate) fn collect(&self) -> Option<Chunk> {
        if self.done.load(Ordering::Acquire) == 0 {
            return None;
        }
        let chunk = lock(&self.finished).pop_front()?;
        self.done.fetch_sub(1, Ordering::Relaxed);
        Some(chunk)
    }

    /// Moves what can be moved with one system call, at most so many bytes. Never waits for the
    /// socket.
    pub(crate) fn run_once(&self, most: usize) -> Progress {
        if self.chunks.load(Ordering::Acquire) == 0 {
            return Progress::Idle;
        }
        let mut working = lock(&self.working);
        working.chunks.append(&mut lock(&self.incoming));
        if working.dead {
            self.fail_all(&mut working);
            return Progress::Idle;
        }
        let limit = match working.faults.limit(&self.socket) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Progress::Held,
            Err(error) => {
                self.die(&mut working, &error);
                return Progress::Idle;
            }
        };
        let Working { chunks, faults, .. } = &mut *working;
        if let Some(Err(error)) = chunks.front_mut().map(|front| front.place(faults, &self.socket))
        {
            self.die(&mut working, &error);
            return Progress::Idle;
        }
        let mut list = IoList::new(limit.min(most));
        for chunk in &working.chunks {
            if !chunk.list(&mut list) {
                break;
            }
        }
        if list.is_empty() {
            // The front chunk waits for bytes or pages, if there is one.
            return if working.chunks.is_empty() { Progress::Idle } else { Progress::Held };
        }
        let moved = match self.side {
            Side::Send => list.send(self.socket.as_fd(), working.faults.signal()),
            Side::Recv => list.receive(self.socket.as_fd()),
        };
        match moved {
            IoOutcome::Bytes(bytes) => {
                working.faults.moved(bytes);
                self.advance(&mut working, bytes);
                Progress::Moved(bytes)
            }
            IoOutcome::Blocked => Progress::Blocked,
            IoOutcome::Again => Progress::Held,
            IoOutcome::Closed => {
                self.die(&mut working, &CLOSED);
                Progress::Idle
            }
            IoOutcome::Failed(error) => {
                self.die(&mut working, &error);
                Progress::Idle
            }
        }
    }

    /// Fails every chunk, now and from now on.
    pub(crate) fn kill(&self, reason: &dyn core::fmt::Display) {
        let mut working = lock(&self.working);
        working.chunks.append(&mut lock(&self.incoming));
        if working.dead {
            return self.fail_all(&mut working);
        }
        self.die(&mut working, reason);
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// The socket and what a blocked lane waits for.
    pub(crate) fn readiness(&self) -> (BorrowedFd<'_>, Interest) {
        let interest = match self.side {
            Side::Send => Interest::Write,
            Side::Recv => Interest::Read,
        };
        (self.socket.as_fd(), interest)
    }

    fn advance(&self, working: &mut Working, mut bytes: usize) {
        while let Some(chunk) = working.chunks.front_mut() {
            bytes = chunk.advance(bytes);
            if !chunk.is_moved() {
                break;
            }
            self.finish_front(working);
        }
        debug_assert_eq!(bytes, 0, "more bytes than the chunks have");
    }

    fn finish_front(&self, working: &mut Working) {
        let Some(chunk) = working.chunks.pop_front() else { return };
        self.bytes.fetch_sub(chunk.bytes, Ordering::Relaxed);
        self.chunks.fetch_sub(1, Ordering::Relaxed);
        let mut finished = lock(&self.finished);
        finished.push_back(chunk);
        self.done.fetch_add(1, Ordering::Release);
        drop(finished);
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    fn die(&self, working: &mut Working, reason: &dyn core::fmt::Display) {
        log::warn!("data socket {} failed: {reason}", self.index);
        working.dead = true;
        self.fail_all(working);
    }

    fn fail_all(&self, working: &mut Working) {
        if working.faults.is_silent() {
            self.chunks.fetch_sub(working.chunks.len(), Ordering::Relaxed);
            return working.lost.extend(working.chunks.drain(..));
        }
        while let Some(chunk) = working.chunks.front_mut() {
            chunk.failed = true;
            self.finish_front(working);
        }
    }
}

/// Nothing panics while one of the queues is inconsistent, so a poisoned one is still whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
