//! Common state of the parts of an operation: it is over when all of them are.
//!
//! A part ends while the engine of its device is locked. So its end takes no other lock for longer
//! than a moment, and leaves work for other devices with them as deferred calls (`DeferredCalls`).
//! Their threads do this work.
//!
//! A notification goes with the last part, which is posted when all others have ended without
//! error: so it comes after every byte. The first failure is that of the whole, and the other parts
//! are cancelled.
//!
//! Operation of one device: all of what a program has prepared, or a part of it.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task::Poll;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tcpx_protocol::exports::remote_key::RemoteRange;
use tcpx_protocol::types::memory::{Device, OperationKind};
use tcpx_protocol::types::{Direction, PreparedKey, TransferKey};
use tcpx_sys::is_forked;

use super::super::shared::SharedEngine;
use super::super::wait::WaitLimit;
use crate::completions::queue::CompletionQueue;
use crate::completions::signals::{EventCount, LONGEST_WAIT};
use crate::engine::inbox::{DeferredCall, DeferredCalls, DeferredPost};
use crate::engine::operating::{OperationKeys, check_note};
use crate::error::{Error, Result};
use crate::transfer::transfer_cell::{RoundListener, TransferCell};
use crate::transfer::{MemoryRange, PostOptions, TransferCounts};

/// State shared by the parts. It outlives the operation, until its parts have ended.
#[derive(Debug)]
pub(super) struct JointState {
    peer: String,
    direction: Direction,
    cell: Arc<TransferCell>,
    completions: Arc<CompletionQueue>,
    /// Signal for threads that wait for the end.
    ended: EventCount,
    handles: Box<[PartHandle]>,
    /// State of the current post. The lock is held for a moment only; its holder waits for no
    /// engine.
    post: Mutex<Option<PostState>>,
}

/// Part, for callers that may not wait for its engine.
#[derive(Debug)]
struct PartHandle {
    deferred_calls: Arc<DeferredCalls>,
    prepared: PreparedKey,
    transfer: TransferKey,
}

/// State of an outstanding post.
#[derive(Debug)]
struct PostState {
    /// Number of posted parts that have not ended, plus one for the call that posts them.
    left: usize,
    is_posting: bool,
    /// Notification of the last part, until that part is posted.
    note: Option<Arc<[u8]>>,
    /// Error that the whole ends with, if any.
    error: Option<Error>,
    began_at: Instant,
    timeout: Option<Duration>,
}

/// Listener that observes the ends of one part.
#[derive(Debug)]
struct PartListener {
    joint: Arc<JointState>,
    device: Device,
}

impl RoundListener for PartListener {
    fn round_ended(&self, outcome: Result<()>) {
        self.joint.part_ended(outcome.map_err(|error| error.of_device(self.device)));
    }
}

impl JointState {
    pub(super) fn new(
        peer: &str,
        kind: OperationKind,
        parts: &[Part],
        completions: Arc<CompletionQueue>,
    ) -> Result<Arc<Self>> {
        let handle = |part: &Part| {
            let Part { prepared, transfer, .. } = *part;
            Ok(PartHandle { deferred_calls: part.deferred_calls()?, prepared, transfer })
        };
        let joint = Arc::new(Self {
            peer: peer.to_owned(),
            direction: kind.direction(),
            cell: Arc::default(),
            completions,
            ended: EventCount::default(),
            handles: parts.iter().map(handle).collect::<Result<_>>()?,
            post: Mutex::default(),
        });
        for part in parts {
            let (joint, device) = (Arc::clone(&joint), part.device);
            part.cell.listener.get_or_init(|| Arc::new(PartListener { joint, device }));
        }
        Ok(joint)
    }

    /// Returns the whole's state that its owner sees.
    pub(super) fn cell(&self) -> &Arc<TransferCell> {
        &self.cell
    }

    /// Posts all parts; the last one later, if there is a notification.
    ///
    /// # Errors
    /// Nothing was posted. A failure of another part than the first is the result of the whole.
    pub(super) fn post(&self, parts: &[Part], options: PostOptions<'_>) -> Result<()> {
        let PostOptions { notification, timeout } = options;
        if is_forked() {
            return Err(Error::Forked);
        }
        check_note(notification.unwrap_or_default())?;
        self.begin(notification.map(Arc::from), timeout)?;
        let at_once = parts.len() - usize::from(notification.is_some());
        for (index, part) in parts[..at_once].iter().enumerate() {
            if index > 0 && !self.count_part() {
                break;
            }
            let before = part.cell.round();
            let posted = part.post(PostOptions { notification: None, timeout });
            let posted = posted.map_err(|error| error.of_device(part.device));
            // A posted part whose peer the post itself ends reports its own end.
            let is_posted = posted.is_ok() || part.cell.round() != before;
            match posted {
                Err(error) if !is_posted && index == 0 => {
                    *self.post.lock() = None;
                    return Err(error);
                }
                Err(error) if !is_posted => self.part_ended(Err(error)),
                _ => {}
            }
            if index == 0 {
                self.cell.posted(self.direction, 1);
            }
        }
        self.all_posted();
        Ok(())
    }

    fn begin(&self, note: Option<Arc<[u8]>>, timeout: Option<Duration>) -> Result<()> {
        let mut round = self.post.lock();
        if round.is_some() {
            return Err(Error::PeerState {
                peer: self.peer.clone(),
                state: "busy with this operation",
                cure: "wait for it, or prepare another",
            });
        }
        // The call, and its first part.
        let (left, began_at) = (2, Instant::now());
        *round = Some(PostState { left, is_posting: true, note, error: None, began_at, timeout });
        Ok(())
    }

    /// Counts one more part, unless the whole has failed.
    fn count_part(&self) -> bool {
        let mut round = self.post.lock();
        let going_on = round.as_mut().filter(|round| round.error.is_none());
        going_on.map(|round| round.left += 1).is_some()
    }

    /// Records that all parts are posted, or as many as will be.
    fn all_posted(&self) {
        let mut slot = self.post.lock();
        let Some(round) = slot.as_mut() else { return };
        round.is_posting = false;
        if round.error.is_some() {
            // Some were posted after others had failed.
            self.cancel_parts();
        }
        self.count_ended(&mut slot);
    }

    fn part_ended(&self, outcome: Result<()>) {
        let mut slot = self.post.lock();
        let Some(round) = slot.as_mut() else { return };
        if let Err(error) = outcome
            && round.error.is_none()
        {
            round.error = Some(of_whole(error, round.timeout));
            self.cancel_parts();
        }
        self.count_ended(&mut slot);
    }

    /// Cancels the parts. No thread waits for a part's engine while another engine is locked.
    fn cancel_parts(&self) {
        for PartHandle { deferred_calls, transfer, .. } in &self.handles {
            deferred_calls.ask(DeferredCall::Cancel(*transfer));
        }
    }

    fn count_ended(&self, slot: &mut Option<PostState>) {
        let Some(round) = slot else { return };
        round.left -= 1;
        if round.left > 0 {
            return;
        }
        let note = round.note.take().filter(|_| round.error.is_none());
        if let Some(notification) = note
            && let Some(PartHandle { deferred_calls, prepared, transfer }) = self.handles.last()
        {
            round.left = 1;
            let (prepared, transfer) = (*prepared, *transfer);
            let timeout = round.timeout.map(|all| all.saturating_sub(round.began_at.elapsed()));
            deferred_calls.ask(DeferredCall::Post(DeferredPost {
                prepared,
                transfer,
                notification,
                timeout,
            }));
            return;
        }
        let error = slot.take().and_then(|round| round.error);
        self.end(error);
    }

    /// Ends the whole, which may be posted again.
    fn end(&self, error: Option<Error>) {
        let reporter = self.cell.reporter.get().copied();
        if let Some(error) = &error {
            self.cell.failed(|| error.clone());
        }
        self.cell.done();
        match reporter {
            Some(reporter) => self.completions.ended(reporter, error.map_or(Ok(()), Err)),
            None => self.completions.event().signal(),
        }
        fence(Ordering::SeqCst);
        self.ended.notify();
    }

    /// Stops further posts of parts. The caller then cancels the outstanding parts.
    pub(super) fn give_up(&self) {
        if let Some(round) = self.post.lock().as_mut()
            && (round.note.take().is_some() || round.is_posting)
        {
            round.error.get_or_insert(Error::Cancelled);
        }
    }

    pub(super) fn wait(&self, parts: &[Part], limit: WaitLimit) -> Result<()> {
        loop {
            let listening = self.ended.listen();
            if is_forked() {
                return Err(Error::Forked);
            }
            if let Poll::Ready(outcome) = self.cell.outcome() {
                return outcome;
            }
            let now = Instant::now();
            if limit.is_over(now) {
                let late = parts.iter().find(|part| !part.cell.is_complete());
                // When only the last part is yet to be posted, all others are over.
                let Some(late) = late.or(parts.last()) else { return Err(Error::Closed) };
                return Err(late.deadline(limit, now)?.of_device(late.device));
            }
            listening.wait(limit.clamp(LONGEST_WAIT, now));
            if self.cell.outcome().is_pending() {
                // The sessions' own threads do, unless the session is closed.
                parts.iter().try_for_each(Part::progress)?;
            }
        }
    }

    /// Returns the counts. Posts are those of the whole, chunks and bytes those of its parts.
    pub(super) fn counts(&self, parts: &[Part]) -> TransferCounts {
        // The number of done operations is read first, and the number of posted ones last.
        let operations_done = self.cell.counts().operations_done;
        let mut sums = TransferCounts { operations_done, ..TransferCounts::default() };
        for part in parts {
            let counts = part.cell.counts();
            sums.chunks_posted += counts.chunks_posted;
            sums.chunks_done += counts.chunks_done;
            sums.bytes_done += counts.bytes_done;
        }
        sums.operations_posted = self.cell.counts().operations_posted;
        sums
    }
}

/// Turns the error of a part into that of the whole: the last part has had only the rest of the
/// time.
fn of_whole(error: Error, timeout: Option<Duration>) -> Error {
    match (error, timeout) {
        (Error::Expired { peer, .. }, Some(after)) => Error::Expired { peer, after },
        (error, _) => error,
    }
}

/// Part of an operation. It is released when this is dropped.
#[derive(Debug)]
pub(crate) struct Part {
    shared: Arc<SharedEngine>,
    pub(super) prepared: PreparedKey,
    pub(super) transfer: TransferKey,
    pub(super) cell: Arc<TransferCell>,
    /// Device of the memory at this end.
    pub(super) device: Device,
}

impl Part {
    pub(super) fn new(shared: Arc<SharedEngine>, keys: OperationKeys, device: Device) -> Self {
        let OperationKeys { prepared, transfer, cell } = keys;
        Self { shared, prepared, transfer, cell, device }
    }

    /// Returns the queue of deferred calls to the part's engine, for callers that may not wait for
    /// the engine.
    pub(super) fn deferred_calls(&self) -> Result<Arc<DeferredCalls>> {
        Ok(Arc::clone(self.shared.engine()?.deferred_calls()))
    }

    pub(super) fn post(&self, options: PostOptions<'_>) -> Result<()> {
        self.shared.engine()?.post_operation(self.prepared, self.transfer, options)
    }

    pub(super) fn cancel(&self) -> Result<()> {
        self.shared.engine()?.cancel(self.transfer);
        Ok(())
    }

    /// Waits until the part has ended, and makes progress meanwhile.
    pub(super) fn wait(&self, limit: WaitLimit) -> Result<()> {
        self.shared.wait_for_transfer(
            limit,
            |_| match self.cell.outcome() {
                Poll::Ready(outcome) => outcome.map(Poll::Ready),
                Poll::Pending => Ok(Poll::Pending),
            },
            |engine, waited, now| engine.transfer_deadline(self.transfer, waited, now),
        )
    }

    /// Makes one round of progress, unless another thread makes it.
    pub(super) fn progress(&self) -> Result<()> {
        self.shared.try_progress()
    }

    /// Returns what an expired wait with this limit was waiting for.
    pub(super) fn deadline(&self, limit: WaitLimit, now: Instant) -> Result<Error> {
        Ok(self.shared.engine()?.transfer_deadline(self.transfer, limit.waited(now), now))
    }
}

impl SharedEngine {
    /// Prepares an operation, which may be a part of one, with memory of this device.
    pub(super) fn prepare_part(
        self: &Arc<Self>,
        peer: &str,
        kind: OperationKind,
        (local, remote): (&[MemoryRange], &[RemoteRange<'_>]),
        device: Device,
    ) -> Result<Part> {
        let keys = self.engine()?.prepare(peer, kind, local, remote)?;
        Ok(Part::new(Arc::clone(self), keys, device))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        match self.shared.engine() {
            Ok(mut engine) => engine.release_operation(self.prepared, self.transfer),
            Err(_) => self.shared.leak(),
        }
    }
}
