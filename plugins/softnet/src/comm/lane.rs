//! One data socket and the queue of chunks on it.
//!
//! The thread that calls `test` runs a lane, or a helper thread does, or the caller as long as a
//! helper is not needed. Chunks go in at one end, in
//! the order of their control records; finished ones come out at the other, in the same order. The
//! three queues have a lock each, so that handing over a chunk never waits for a system call. A
//! chunk that is out, and whose memory the system still reads, waits beside them for that to end:
//! it takes no room of those that are still to go.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, TryLockError};

use tcpx_comm::poll::Interest;
use tcpx_comm::reset;
use tcpx_comm::wire::Side;

use crate::bell::Bell;
use tcpx_devmem::DevmemError;

use super::chunk::Chunk;
use super::control_socket::signal;
use super::socket_way::SocketWay;
use crate::hooks::{Hook, SocketHooks};
use crate::log;
use crate::memory::IoOutcome;
use crate::sync::{AtomicUsize, Mutex, MutexGuard};

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
    /// Chunks that are out, of which the system may still read the oldest one's memory. The comm's
    /// sixteen requests have no more, and the socket holds no more bytes.
    lingering: VecDeque<Chunk>,
    way: SocketWay,
    dead: bool,
    /// What device memory or its NIC have to do with that.
    refusal: Option<Arc<DevmemError>>,
    /// Chunks of a dead socket of whose end nobody is told.
    lost: Vec<Chunk>,
    hook: Hook<dyn SocketHooks>,
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
    /// Chunks that are not wholly moved.
    chunks: AtomicUsize,
    /// Bytes of those chunks.
    bytes: AtomicUsize,
    /// Chunks that are out and linger.
    lingering: AtomicUsize,
    /// Chunks that are finished and not collected.
    done: AtomicUsize,
    /// Rung for finished chunks, where a helper thread runs the lane.
    bell: Option<Arc<Bell>>,
}

impl Lane {
    /// `socket` is connected and non-blocking. `bell`: for a lane that a helper thread runs.
    pub(crate) fn new(
        socket: TcpStream,
        index: usize,
        side: Side,
        hook: Hook<dyn SocketHooks>,
        way: SocketWay,
        bell: Option<Arc<Bell>>,
    ) -> Self {
        let working = Working {
            chunks: VecDeque::new(),
            lingering: VecDeque::new(),
            way,
            dead: false,
            refusal: None,
            lost: Vec::new(),
            hook,
        };
        Self {
            socket,
            index,
            side,
            incoming: Mutex::default(),
            working: Mutex::new(working),
            finished: Mutex::default(),
            chunks: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            lingering: AtomicUsize::new(0),
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

    /// Whether the system has yet to tell that it has read chunks which are out.
    fn has_lingering(&self) -> bool {
        self.lingering.load(Ordering::Relaxed) > 0
    }

    /// Moves what can be moved with one system call, at most so many bytes. Never waits for the
    /// socket.
    pub(crate) fn run_once(&self, most: usize) -> Progress {
        if !self.has_work() {
            return Progress::Idle;
        }
        let progress = self.run(&mut lock(&self.working), most);
        self.ring();
        progress
    }

    /// The same for a thread that is about to collect, unless another one runs the lane (`None`).
    pub(crate) fn try_run_once(&self, most: usize) -> Option<Progress> {
        match self.working.try_lock() {
            Ok(mut working) => Some(self.run(&mut working, most)),
            Err(TryLockError::Poisoned(poisoned)) => {
                Some(self.run(&mut poisoned.into_inner(), most))
            }
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether there is anything to move, or to hear of what is out.
    pub(crate) fn has_work(&self) -> bool {
        self.has_chunks() || self.has_lingering()
    }

    /// Whether all that is to be moved is at most so many bytes.
    pub(crate) fn has_at_most(&self, bytes: usize) -> bool {
        self.bytes.load(Ordering::Relaxed) <= bytes
    }

    fn run(&self, working: &mut Working, most: usize) -> Progress {
        working.chunks.append(&mut lock(&self.incoming));
        if working.dead {
            self.fail_all(working);
            return Progress::Idle;
        }
        self.hear(working);
        if working.chunks.is_empty() {
            return Progress::Idle;
        }
        let limit = working.hook.get_mut().map(|hook| hook.limit(&self.socket));
        let limit = match limit.unwrap_or(Ok(Some(usize::MAX))) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Progress::Held,
            Err(error) => {
                self.die(working, &error);
                return Progress::Idle;
            }
        };
        let front = working.chunks.front_mut();
        if let Some(Err(error)) = front.map(|front| front.place(&self.socket)) {
            self.die(working, &error);
            return Progress::Idle;
        }
        let signal = signal(&working.hook);
        let Working { way, chunks, .. } = &mut *working;
        let called = way.call(&self.socket, chunks, limit.min(most), signal);
        // The front chunk waits for bytes or pages.
        let Some((moved, calls_to_end)) = called else { return Progress::Held };
        match moved {
            IoOutcome::Bytes(bytes) => {
                if let Some(hook) = working.hook.get_mut() {
                    hook.moved(bytes);
                }
                self.advance(working, bytes, calls_to_end);
                Progress::Moved(bytes)
            }
            IoOutcome::Blocked => Progress::Blocked,
            IoOutcome::Again => Progress::Held,
            IoOutcome::Closed => {
                self.die(working, &CLOSED);
                Progress::Idle
            }
            IoOutcome::Failed(error) => {
                self.die(working, &error);
                Progress::Idle
            }
            IoOutcome::Refused(error) => {
                let error = working.refusal.insert(Arc::new(error)).clone();
                match error.diagnosis() {
                    Some(diagnosis) => {
                        self.die(working, &format_args!("{error} [{}]", diagnosis.code));
                    }
                    None => self.die(working, &error),
                }
                Progress::Idle
            }
        }
    }

    /// What device memory or its NIC have to do with the end of the socket, if it has ended.
    pub(crate) fn refusal(&self) -> Option<Arc<DevmemError>> {
        lock(&self.working).refusal.clone()
    }

    /// Fails every chunk, now and from now on.
    pub(crate) fn kill(&self, reason: &dyn core::fmt::Display) {
        let mut working = lock(&self.working);
        working.chunks.append(&mut lock(&self.incoming));
        match working.dead {
            true => self.fail_all(&mut working),
            false => self.die(&mut working, reason),
        }
        drop(working);
        self.ring();
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// The socket and what a blocked lane waits for, if it waits for anything.
    pub(crate) fn readiness(&self) -> Option<(BorrowedFd<'_>, Interest)> {
        let interest = match self.side {
            _ if !self.has_chunks() && self.has_lingering() => Interest::Error,
            _ if !self.has_chunks() => return None,
            Side::Send => Interest::Write,
            Side::Recv => Interest::Read,
        };
        Some((self.socket.as_fd(), interest))
    }

    /// Whether the system may still read the memory of any chunk that was here.
    pub(crate) fn still_reads(&self) -> bool {
        self.is_read(&mut lock(&self.working))
    }

    /// Whether bytes may come, or be here, without the socket's showing it.
    pub(crate) fn expects(&self) -> bool {
        lock(&self.working).way.expects()
    }

    fn is_read(&self, working: &mut Working) -> bool {
        working.way.hear(&self.socket);
        !working.way.is_idle()
    }

    /// Resets the connection, so that nothing of a chunk is sent, or sent again, from now on.
    pub(crate) fn reset(&self) {
        log::warn!("data socket {} is reset: its memory may change in mid-send", self.index);
        if let Err(error) = reset(&self.socket) {
            log::warn!("data socket {}: cannot reset it: {error}", self.index);
        }
    }

    /// Finishes the chunks of which the system has read the memory.
    fn hear(&self, working: &mut Working) {
        let Working { lingering, way, .. } = working;
        way.hear(&self.socket);
        while lingering.front().is_some_and(|chunk| way.are_over(chunk.calls_to_end))
            && let Some(chunk) = lingering.pop_front()
        {
            self.lingering.fetch_sub(1, Ordering::Relaxed);
            self.finish(chunk);
        }
    }

    /// So many bytes were moved, whose memory the system has read when `calls_to_end` calls are
    /// over.
    fn advance(&self, working: &mut Working, mut bytes: usize, calls_to_end: u64) {
        while bytes > 0
            && let Some(chunk) = working.chunks.front_mut()
        {
            chunk.calls_to_end = chunk.calls_to_end.max(calls_to_end);
            bytes = chunk.advance(bytes);
            if !chunk.is_moved() {
                break;
            }
            let Some(chunk) = self.take_front(working) else { break };
            if working.way.are_over(chunk.calls_to_end) && working.lingering.is_empty() {
                self.finish(chunk);
            } else {
                working.lingering.push_back(chunk);
                self.lingering.fetch_add(1, Ordering::Relaxed);
            }
        }
        debug_assert_eq!(bytes, 0, "more bytes than the chunks have");
    }

    fn take_front(&self, working: &mut Working) -> Option<Chunk> {
        let chunk = working.chunks.pop_front()?;
        self.bytes.fetch_sub(chunk.bytes, Ordering::Relaxed);
        self.chunks.fetch_sub(1, Ordering::Relaxed);
        Some(chunk)
    }

    fn finish(&self, chunk: Chunk) {
        let mut finished = lock(&self.finished);
        finished.push_back(chunk);
        self.done.fetch_add(1, Ordering::Release);
    }

    /// Tells whoever collects, if there is anything to be collected.
    fn ring(&self) {
        if let Some(bell) = &self.bell
            && self.done.load(Ordering::Acquire) > 0
        {
            bell.ring();
        }
    }

    fn die(&self, working: &mut Working, reason: &dyn core::fmt::Display) {
        log::warn!("data socket {} failed: {reason}", self.index);
        working.dead = true;
        // Who is told that a send has failed may change its memory, which the peer would then get.
        if !working.hook.says(|hook| hook.is_silent()) && self.is_read(working) {
            self.reset();
        }
        self.fail_all(working);
    }

    /// Also those of which the system still read the memory when the connection was reset. Where
    /// nobody is told, it stays as it is until the comm is closed.
    fn fail_all(&self, working: &mut Working) {
        self.lingering.fetch_sub(working.lingering.len(), Ordering::Relaxed);
        if working.hook.says(|hook| hook.is_silent()) {
            self.chunks.fetch_sub(working.chunks.len(), Ordering::Relaxed);
            working.lost.extend(working.lingering.drain(..));
            return working.lost.extend(working.chunks.drain(..));
        }
        while let Some(mut chunk) =
            working.lingering.pop_front().or_else(|| self.take_front(working))
        {
            chunk.failed = true;
            self.finish(chunk);
        }
    }
}

/// Nothing panics while one of the queues is inconsistent, so a poisoned one is still whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
