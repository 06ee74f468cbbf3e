//! Set of sends and receives with one peer that a program waits for together.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tcpx_protocol::types::{Direction, TransferKey};
use tcpx_sys::is_forked;

use super::shared::SharedEngine;
use super::wait::WaitLimit;
use crate::completions::queue::CompletionQueue;
use crate::engine::inbox::PostTarget;
use crate::engine::posting::NewTransfer;
use crate::error::{Error, Result};
use crate::peer::resources::PostGate;
use crate::transfer::transfer_cell::TransferCell;
use crate::transfer::{Post, TransferCounts};

/// Sends and receives that are waited for together.
///
/// A transfer may be used again and again. A transfer is complete when every operation has ended. A
/// post to a complete transfer begins a *round*: the error of the round before is forgotten, and
/// [`round_counts`](Self::round_counts) begins anew. A post while operations are outstanding
/// belongs to their round. So read the outcome of a round before you post the next one.
///
/// Dropping the transfer withdraws operations without a counterpart, as [`cancel`](Self::cancel)
/// does. Matched operations continue in the background and keep their registration in use until
/// they end, so that [`Session::deregister_memory`](crate::Session::deregister_memory) reports when
/// memory is free.
///
/// # Small messages
///
/// A send ends without error when its bytes have left the program's memory, whatever happens at the
/// receiver. A message of up to [`eager_bytes`](crate::SessionOptions::eager_bytes) whose receive
/// is not known yet is sent eagerly, into a buffer at the peer, if there is room. Its send ends at
/// once. A receive that is posted later finds the bytes there. Such a send cannot be cancelled.
/// When its receive has another size, only the receive fails.
///
/// [`Session::disconnect`](crate::Session::disconnect), and closing or dropping the session, wait
/// until the peer has received the eager messages or leaves as well, for at most
/// [`close_timeout`](crate::SessionOptions::close_timeout). Messages that a peer has not received
/// when it leaves or dies are lost. With `eager_bytes` of 0 at either end, a send ends only after
/// its receive was posted.
///
/// # While another thread moves data
///
/// A call that posts up to 64 operations does not wait for that thread: the operations are checked,
/// taken, and sent with the thread's next step. A peer that ends meanwhile ends them, as it ends
/// all that was posted before. Larger batches wait until that thread lets others in.
///
/// In a forked child every call returns [`Error::Forked`], and dropping it does nothing.
#[derive(Debug)]
pub struct Transfer {
    shared: Arc<SharedEngine>,
    key: TransferKey,
    cell: Arc<TransferCell>,
    gate: Arc<PostGate>,
    completions: Arc<CompletionQueue>,
}

impl Transfer {
    pub(crate) fn new(
        shared: Arc<SharedEngine>,
        transfer: NewTransfer,
        completions: Arc<CompletionQueue>,
    ) -> Self {
        let NewTransfer { key, cell, gate } = transfer;
        Self { shared, key, cell, gate, completions }
    }

    /// Posts a send.
    ///
    /// # Errors
    /// [`Error::UnknownRegistration`], [`Error::Registration`] when it does not fit, or is memory
    /// of a GPU in a session of all devices, [`Error::PeerState`] or the peer's error when it is
    /// not up, [`Error::MemoryUnavailable`] when the system has no memory for it. Nothing was
    /// posted then.
    pub fn post_send(&self, post: Post) -> Result<()> {
        self.post(Direction::Send, &[post])
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send).
    pub fn post_recv(&self, post: Post) -> Result<()> {
        self.post(Direction::Receive, &[post])
    }

    /// Posts many sends: all of them, or none when one is wrong or memory runs out.
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send).
    pub fn post_send_batch(&self, posts: &[Post]) -> Result<()> {
        self.post(Direction::Send, posts)
    }

    /// Posts many receives: all of them, or none when one is wrong or memory runs out.
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send).
    pub fn post_recv_batch(&self, posts: &[Post]) -> Result<()> {
        self.post(Direction::Receive, posts)
    }

    fn post(&self, direction: Direction, posts: &[Post]) -> Result<()> {
        if let Some(mut engine) = self.shared.try_engine()? {
            return engine.post(self.key, direction, posts);
        }
        if self.shared.try_enqueue(self.target(), direction, posts) {
            return Ok(());
        }
        self.shared.engine()?.post(self.key, direction, posts)
    }

    /// Returns the transfer's part that callers without the engine may use.
    pub(super) fn target(&self) -> PostTarget<'_> {
        PostTarget { key: self.key, cell: &self.cell, gate: &self.gate }
    }

    /// Returns whether every operation has ended. While some have not, the call makes one round of
    /// progress, unless another thread is inside the session. It does not block.
    ///
    /// # Errors
    /// The first error of the round, once all have ended.
    pub fn is_complete(&self) -> Result<bool> {
        if self.cell()?.outcome().is_pending() {
            self.shared.try_progress()?;
        }
        match self.cell.outcome() {
            Poll::Ready(outcome) => outcome.map(|()| true),
            Poll::Pending => Ok(false),
        }
    }

    /// Waits until every operation has ended, for `timeout` or, with `None`, without limit.
    ///
    /// # Errors
    /// The first error of the round. [`Error::Deadline`] says only that some operations are
    /// outstanding: no operation ends with it.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        if let Poll::Ready(outcome) = self.cell()?.outcome() {
            return outcome;
        }
        let limit = timeout.map_or_else(WaitLimit::unlimited, WaitLimit::for_time);
        self.shared.wait_for_transfer(
            limit,
            |_| match self.cell.outcome() {
                Poll::Ready(outcome) => outcome.map(Poll::Ready),
                Poll::Pending => Ok(Poll::Pending),
            },
            |engine, waited, now| engine.transfer_deadline(self.key, waited, now),
        )
    }

    /// Reports the end of each round from now on in
    /// [`Session::poll_completions`](crate::Session::poll_completions), with `context`, a number by
    /// which the program identifies this transfer. Call it before the first post: a round that has
    /// already ended is not reported. Another call changes the number, also that of a waiting
    /// entry.
    ///
    /// At most one entry waits for each transfer, and is removed with the transfer. The entry
    /// counts the rounds that have ended since the last entry was taken out, and has their first
    /// error.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn report_completions(&self, context: u64) -> Result<()> {
        self.completions.report(&self.cell()?.reporter, context);
        Ok(())
    }

    /// Cancels every operation without a counterpart. Those end with [`Error::Cancelled`], receives
    /// once the peer has agreed; operations matched before run to their end. The call withdraws a
    /// few thousand at once and the rest in later rounds of progress, between which other threads
    /// and peers go on. Wait for the transfer to know when its memory is free.
    pub fn cancel(&self) {
        if let Ok(mut engine) = self.shared.engine() {
            engine.cancel(self.key);
        }
    }

    /// Sets the time limit of each round that begins from now on; `None` means no limit. A round
    /// that exceeds the limit is given up, as [`cancel`](Self::cancel) does, and ends with
    /// [`Error::Expired`] once nothing of it uses memory. Matched operations run to their end.
    /// Rounds of progress check the time.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Forked`].
    pub fn set_timeout(&self, timeout: Option<Duration>) -> Result<()> {
        self.shared.engine()?.set_timeout(self.key, timeout)
    }

    /// Returns sums over the transfer's whole life. They only grow. Does not block.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn counts(&self) -> Result<TransferCounts> {
        Ok(self.cell()?.counts())
    }

    /// Returns the same numbers since the last round began. Does not block.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn round_counts(&self) -> Result<TransferCounts> {
        Ok(self.cell()?.round_counts())
    }

    /// Returns the first error of the last round so far, while other operations may be outstanding.
    /// Does not block.
    pub fn error(&self) -> Option<Error> {
        match self.cell() {
            Ok(cell) => cell.error(),
            Err(error) => Some(error),
        }
    }

    /// Returns the part of the transfer that is visible without the engine.
    fn cell(&self) -> Result<&TransferCell> {
        if is_forked() { Err(Error::Forked) } else { Ok(&self.cell) }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        match self.shared.engine() {
            Ok(mut engine) => {
                engine.release(self.key);
                if let Some(key) = self.cell.reporter.get() {
                    self.completions.remove(*key);
                }
            }
            Err(_) => self.shared.leak(),
        }
    }
}
