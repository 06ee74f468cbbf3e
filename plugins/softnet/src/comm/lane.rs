//! Lane: one data socket and the queue of chunks on it.
//!
//! A lane is run by the thread that calls `test`, by a helper thread, or by the caller while a
//! helper is not needed or does not run yet. Chunks go in at one end, in the order of their control
//! records. Finished chunks come out at the other end, in the same order. Each of the three queues
//! has a lock, so that handing over a chunk never waits for a system call. A chunk may be out while
//! the system still reads its memory. It waits beside the queues for the reads to end, and takes no
//! room of chunks that are still to go.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, TryLockError};

use tcpx_comm::poll::Interest;
use tcpx_comm::reset;
use tcpx_comm::wire::Side;

use super::chunk::Chunk;
use super::control_socket::signal;
use super::encrypted_io::is_tampering;
use super::socket_io::SocketIo;
use crate::bell::Bell;
use crate::hooks::{Hook, SocketHooks};
use crate::last_failure::FailureReason;
use crate::log;
use crate::memory::IoOutcome;
use crate::sync::{AtomicUsize, Mutex, MutexGuard};

/// Chunks that a lane takes before it counts as full.
const MAX_CHUNKS: usize = 32;

/// Outcome of one run of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// This many bytes moved, and more may.
    Moved(usize),
    /// The socket must become ready first.
    Blocked,
    /// Another event must happen first, which the socket does not show.
    Held,
    /// There is nothing to do.
    Idle,
}

#[derive(Debug)]
struct LaneState {
    chunks: VecDeque<Chunk>,
    /// Chunks that are out, while the system may still read the memory of the oldest. They are
    /// bounded: the comm's sixteen requests have no more chunks, and the socket holds no more
    /// bytes.
    lingering: VecDeque<Chunk>,
    socket_io: SocketIo,
    dead: bool,
    /// Reason for the end, if it is a known one.
    reason: Option<FailureReason>,
    /// Chunks of a dead socket whose end is not reported.
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
    state: Mutex<LaneState>,
    finished: Mutex<VecDeque<Chunk>>,
    /// Number of chunks that are not wholly moved.
    chunks: AtomicUsize,
    /// Number of bytes of those chunks.
    bytes: AtomicUsize,
    /// Number of chunks that are out and linger.
    lingering: AtomicUsize,
    /// Number of chunks that are finished and not collected.
    done: AtomicUsize,
    /// Bell to ring for finished chunks, where a helper thread runs the lane.
    bell: Option<Arc<Bell>>,
}

impl Lane {
    /// Creates a lane on `socket`, which is connected and non-blocking. `bell`: for a lane that a
    /// helper thread runs.
    pub(crate) fn new(
        socket: TcpStream,
        index: usize,
        side: Side,
        hook: Hook<dyn SocketHooks>,
        socket_io: SocketIo,
        bell: Option<Arc<Bell>>,
    ) -> Self {
        let state = LaneState {
            chunks: VecDeque::new(),
            lingering: VecDeque::new(),
            socket_io,
            dead: false,
            reason: None,
            lost: Vec::new(),
            hook,
        };
        Self {
            socket,
            index,
            side,
            incoming: Mutex::default(),
            state: Mutex::new(state),
            finished: Mutex::default(),
            chunks: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            lingering: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            bell,
        }
    }

    /// Returns whether the lane takes another chunk while at most `bytes` are queued.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.chunks.load(Ordering::Relaxed) < MAX_CHUNKS
            && self.bytes.load(Ordering::Relaxed) < bytes
    }

    /// Returns whether there is a chunk to move.
    pub(crate) fn has_chunks(&self) -> bool {
        self.chunks.load(Ordering::Acquire) > 0
    }

    /// Queues a chunk behind the others.
    pub(crate) fn push(&self, chunk: Chunk) {
        self.bytes.fetch_add(chunk.bytes, Ordering::Relaxed);
        let mut incoming = lock(&self.incoming);
        incoming.push_back(chunk);
        // Counted under the lock: the thread that runs the lane then finds as many chunks as the
        // count says.
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

    /// Returns whether chunks are out that the system may still read.
    fn has_lingering(&self) -> bool {
        self.lingering.load(Ordering::Relaxed) > 0
    }

    /// Moves at most `most` bytes with one system call. Never waits for the socket.
    pub(crate) fn run_once(&self, most: usize) -> Progress {
        if !self.has_work() {
            return Progress::Idle;
        }
        let progress = self.run(&mut lock(&self.state), most);
        self.ring();
        progress
    }

    /// Does the same for a thread that is about to collect; returns `None` if another thread runs
    /// the lane.
    pub(crate) fn try_run_once(&self, most: usize) -> Option<Progress> {
        match self.state.try_lock() {
            Ok(mut state) => Some(self.run(&mut state, most)),
            Err(TryLockError::Poisoned(poisoned)) => {
                Some(self.run(&mut poisoned.into_inner(), most))
            }
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Returns whether there are chunks to move, or chunks that are out and linger.
    pub(crate) fn has_work(&self) -> bool {
        self.has_chunks() || self.has_lingering()
    }

    /// Returns whether at most `bytes` bytes are left to move.
    pub(crate) fn has_at_most(&self, bytes: usize) -> bool {
        self.bytes.load(Ordering::Relaxed) <= bytes
    }

    fn run(&self, state: &mut LaneState, most: usize) -> Progress {
        state.chunks.append(&mut lock(&self.incoming));
        if state.dead {
            self.fail_all(state);
            return Progress::Idle;
        }
        self.reap_completions(state);
        if state.chunks.is_empty() {
            return Progress::Idle;
        }
        let limit = state.hook.get_mut().map(|hook| hook.limit(&self.socket));
        let limit = match limit.unwrap_or(Ok(Some(usize::MAX))) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Progress::Held,
            Err(error) => {
                self.die(state, &error);
                return Progress::Idle;
            }
        };
        let front = state.chunks.front_mut();
        if let Some(Err(error)) = front.map(|front| front.place(&self.socket)) {
            self.die(state, &error);
            return Progress::Idle;
        }
        let signal = signal(&state.hook);
        let LaneState { socket_io, chunks, .. } = &mut *state;
        let called = socket_io.call(&self.socket, chunks, limit.min(most), signal);
        // The front chunk waits for bytes or pages.
        let Some((moved, calls_to_end)) = called else { return Progress::Held };
        match moved {
            IoOutcome::Bytes(bytes) => {
                if let Some(hook) = state.hook.get_mut() {
                    hook.moved(bytes);
                }
                self.advance(state, bytes, calls_to_end);
                Progress::Moved(bytes)
            }
            IoOutcome::Blocked => Progress::Blocked,
            IoOutcome::Again => Progress::Held,
            IoOutcome::Closed => {
                self.die(state, &"the peer closed it");
                Progress::Idle
            }
            IoOutcome::Failed(error) => {
                state.reason = is_tampering(&error).then_some(FailureReason::Tampered);
                self.die(state, &error);
                Progress::Idle
            }
            IoOutcome::Refused(error) => {
                let error = Arc::new(error);
                state.reason = Some(FailureReason::Nic(Arc::clone(&error)));
                let code = error.diagnosis().map(|diagnosis| format!(" [{}]", diagnosis.code));
                self.die(state, &format_args!("{error}{}", code.unwrap_or_default()));
                Progress::Idle
            }
        }
    }

    /// Returns the reason that ended the socket, if it is a known one.
    pub(crate) fn reason(&self) -> Option<FailureReason> {
        lock(&self.state).reason.clone()
    }

    /// Fails every chunk, now and from now on.
    pub(crate) fn kill(&self, reason: &dyn core::fmt::Display) {
        let mut state = lock(&self.state);
        state.chunks.append(&mut lock(&self.incoming));
        match state.dead {
            true => self.fail_all(&mut state),
            false => self.die(&mut state, reason),
        }
        drop(state);
        self.ring();
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Returns the socket and the event that a blocked lane waits for, if the lane is blocked.
    pub(crate) fn readiness(&self) -> Option<(BorrowedFd<'_>, Interest)> {
        let interest = match self.side {
            _ if !self.has_chunks() && self.has_lingering() => Interest::Error,
            _ if !self.has_chunks() => return None,
            Side::Send => Interest::Write,
            Side::Recv => Interest::Read,
        };
        Some((self.socket.as_fd(), interest))
    }

    /// Returns whether the system may still read the memory of any chunk that was on the lane.
    pub(crate) fn still_reads(&self) -> bool {
        self.is_read(&mut lock(&self.state))
    }

    /// Returns whether bytes may come, or be here, although the socket does not show them.
    pub(crate) fn expects(&self) -> bool {
        lock(&self.state).socket_io.expects()
    }

    /// Returns whether a chunk waits for bytes that were read from the socket already.
    pub(crate) fn holds_bytes(&self) -> bool {
        self.has_chunks() && lock(&self.state).socket_io.has_bytes()
    }

    /// Returns whether the front chunk waits for a GPU that copies its bytes.
    pub(crate) fn awaits_copy(&self) -> bool {
        let (state, incoming) = (lock(&self.state), lock(&self.incoming));
        state.chunks.front().or(incoming.front()).is_some_and(Chunk::awaits_copy)
    }

    fn is_read(&self, state: &mut LaneState) -> bool {
        state.socket_io.reap_completions(&self.socket);
        !state.socket_io.is_idle()
    }

    /// Resets the connection, so that nothing of a chunk is sent, or sent again, from now on.
    pub(crate) fn reset(&self) {
        log::warn!("data socket {} is reset: its memory may change in mid-send", self.index);
        if let Err(error) = reset(&self.socket) {
            log::warn!("data socket {}: cannot reset it: {error}", self.index);
        }
    }

    /// Finishes chunks whose memory the system has read for the last time.
    fn reap_completions(&self, state: &mut LaneState) {
        let LaneState { lingering, socket_io, .. } = state;
        socket_io.reap_completions(&self.socket);
        while lingering.front().is_some_and(|chunk| socket_io.are_complete(chunk.calls_to_end))
            && let Some(chunk) = lingering.pop_front()
        {
            self.lingering.fetch_sub(1, Ordering::Relaxed);
            self.finish(chunk);
        }
    }

    /// Counts `bytes` bytes that were moved. The system has read their memory when `calls_to_end`
    /// calls are over.
    fn advance(&self, state: &mut LaneState, mut bytes: usize, calls_to_end: u64) {
        while bytes > 0
            && let Some(chunk) = state.chunks.front_mut()
        {
            chunk.calls_to_end = chunk.calls_to_end.max(calls_to_end);
            bytes = chunk.advance(bytes);
            if !chunk.is_moved() {
                break;
            }
            let Some(chunk) = self.take_front(state) else { break };
            if state.socket_io.are_complete(chunk.calls_to_end) && state.lingering.is_empty() {
                self.finish(chunk);
            } else {
                state.lingering.push_back(chunk);
                self.lingering.fetch_add(1, Ordering::Relaxed);
            }
        }
        debug_assert_eq!(bytes, 0, "more bytes than the chunks have");
    }

    fn take_front(&self, state: &mut LaneState) -> Option<Chunk> {
        let chunk = state.chunks.pop_front()?;
        self.bytes.fetch_sub(chunk.bytes, Ordering::Relaxed);
        self.chunks.fetch_sub(1, Ordering::Relaxed);
        Some(chunk)
    }

    fn finish(&self, chunk: Chunk) {
        let mut finished = lock(&self.finished);
        finished.push_back(chunk);
        self.done.fetch_add(1, Ordering::Release);
    }

    /// Rings the bell for the thread that collects, if there are finished chunks.
    fn ring(&self) {
        if let Some(bell) = &self.bell
            && self.done.load(Ordering::Acquire) > 0
        {
            bell.ring();
        }
    }

    fn die(&self, state: &mut LaneState, reason: &dyn core::fmt::Display) {
        log::warn!("data socket {} failed: {reason}", self.index);
        state.dead = true;
        // A caller that sees its send fail may change the memory, and the peer would then get the
        // new bytes.
        if !state.hook.says(|hook| hook.is_silent()) && self.is_read(state) {
            self.reset();
        }
        self.fail_all(state);
    }

    /// Fails all chunks, also those whose memory the system still read when the connection was
    /// reset. Where a hook keeps the end silent, the chunks stay as they are until the comm is
    /// closed.
    fn fail_all(&self, state: &mut LaneState) {
        self.lingering.fetch_sub(state.lingering.len(), Ordering::Relaxed);
        if state.hook.says(|hook| hook.is_silent()) {
            self.chunks.fetch_sub(state.chunks.len(), Ordering::Relaxed);
            state.lost.extend(state.lingering.drain(..));
            return state.lost.extend(state.chunks.drain(..));
        }
        while let Some(mut chunk) = state.lingering.pop_front().or_else(|| self.take_front(state)) {
            chunk.failed = true;
            self.finish(chunk);
        }
    }
}

/// Locks a queue. No code panics while a queue is inconsistent, so a poisoned queue is still whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
