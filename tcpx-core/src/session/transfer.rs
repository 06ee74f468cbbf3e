//! A transfer: sends and receives with one peer that are waited for together.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tcpx_protocol::types::{Direction, TransferKey};
use tcpx_sys::is_forked;

use super::shared::Shared;
use super::wait::WaitLimit;
use crate::completions::queue::CompletionQueue;
use crate::engine::inbox::PostTarget;
use crate::engine::posting::NewTransfer;
use crate::error::{Error, Result};
use crate::peer::commons::PostGate;
use crate::transfer::transfer_cell::TransferCell;
use crate::transfer::{Post, TransferCounts};

/// Sends and receives that are waited for together.
///
/// It may be used again and again. What is posted while it is complete, which is when every
/// operation has ended, begins a *round*: the error of the round before is forgotten, and
/// [`round_counts`](Self::round_counts) begins anew. What is posted while operations go on belongs
/// to their round. So ask for the outcome of a round before the next one is posted.
///
/// Dropping it withdraws what has no counterpart yet, as [`cancel`](Self::cancel) does. What has
/// one goes on in the background: its registration stays in use until then, so that
/// [`Session::deregister_memory`](crate::Session::deregister_memory) says when memory is free.
///
/// # Small messages
///
/// A send has ended well when its bytes have left the program's memory. That says nothing of its
/// receiver. A message of up to [`eager_bytes`](crate::SessionOptions::eager_bytes) of which no
/// receive is announced *goes ahead* into a buffer at the peer, as far as there is room, and its
/// send ends at once. A receive that is posted later finds the bytes there. Such a send cannot be
/// cancelled. When its receive has another size, only the receive fails.
///
/// [`Session::disconnect`](crate::Session::disconnect), and closing or dropping the session, wait
/// until what went ahead is received, or the peer leaves as well, for as long as
/// [`close_timeout`](crate::SessionOptions::close_timeout). What a peer has not received when it
/// leaves or dies is gone. With `eager_bytes` of 0 at either end, a send ends only after its
/// receive was posted.
///
/// # While another thread moves data
///
/// Nobody waits for that thread to post up to 64 operations in one call: they are checked, taken,
/// and on their way with its next step. A peer that ends meanwhile ends them, as it ends all that
/// was posted before. Larger batches wait until that thread lets others in.
///
/// In a forked child every call answers [`Error::Forked`], and dropping it does nothing.
#[derive(Debug)]
pub struct Transfer {
    shared: Arc<Shared>,
    key: TransferKey,
    cell: Arc<TransferCell>,
    gate: Arc<PostGate>,
    completions: Arc<CompletionQueue>,
}

impl Transfer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        transfer: NewTransfer,
        completions: Arc<CompletionQueue>,
    ) -> Self {
        let NewTransfer { key, cell, gate } = transfer;
        Self { shared, key, cell, gate, completions }
    }

    /// Posts a send.
    ///
    /// # Errors
    /// [`Error::UnknownRegistration`], [`Error::Registration`] when it does not fit,
    /// [`Error::PeerState`] or the peer's error when it is not up,
    /// [`Error::MemoryUnavailable`] when the system has no memory for it. Nothing was posted then.
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
        if self.shared.hand_in(self.target(), direction, posts) {
            return Ok(());
        }
        self.shared.engine()?.post(self.key, direction, posts)
    }

    /// It, for those who have no engine.
    pub(super) fn target(&self) -> PostTarget<'_> {
        PostTarget { key: self.key, cell: &self.cell, gate: &self.gate }
    }

    /// Whether every operation has ended. While some have not, it makes one round of progress,
    /// unless another thread is inside the session: it waits for nobody.
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
    /// The first error of the round. [`Error::Deadline`] says that some operations go on, and
    /// nothing else: no operation ends with it.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        if let Poll::Ready(outcome) = self.cell()?.outcome() {
            return outcome;
        }
        let limit = timeout.map_or_else(WaitLimit::endless, WaitLimit::for_time);
        self.shared.wait_for_transfer(
            limit,
            |_| match self.cell.outcome() {
                Poll::Ready(outcome) => outcome.map(Poll::Ready),
                Poll::Pending => Ok(Poll::Pending),
            },
            |engine, waited, now| engine.transfer_deadline(self.key, waited, now),
        )
    }

    /// Has the end of each round from now on told by
    /// [`Session::poll_completions`](crate::Session::poll_completions), with `context`, which is
    /// any number that says to the program what this transfer is. Call it before the first post: a
    /// round that has ended by now is not told. Another call changes the number, also that of an
    /// entry that waits.
    ///
    /// One entry at most waits for each transfer, and goes with the transfer. It counts the rounds
    /// that have ended since the last one was taken out, and has the first error of them.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn report_completions(&self, context: u64) -> Result<()> {
        self.completions.report(&self.cell()?.reporter, context);
        Ok(())
    }

    /// Withdraws every operation that has no counterpart. Those end with [`Error::Cancelled`],
    /// receives once the peer has agreed; what was matched before runs to its end. A few thousand
    /// are withdrawn at once, more of them in the rounds of progress that follow, between which
    /// other threads and peers go on. Wait for the transfer to know when its memory is free.
    pub fn cancel(&self) {
        if let Ok(mut engine) = self.shared.engine() {
            engine.cancel(self.key);
        }
    }

    /// Gives each round that begins from now on so much time, or with `None` as much as it takes. A
    /// round that has not ended by then is given up, as [`cancel`](Self::cancel) does, and ends
    /// with [`Error::Expired`] once nothing of it uses memory. What had found its counterpart runs
    /// to its end. Time is looked at in rounds of progress.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Forked`].
    pub fn set_timeout(&self, timeout: Option<Duration>) -> Result<()> {
        self.shared.engine()?.set_timeout(self.key, timeout)
    }

    /// Sums over its whole life. They only grow. Waits for nobody.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn counts(&self) -> Result<TransferCounts> {
        Ok(self.cell()?.counts())
    }

    /// The same numbers since its last round began. Waits for nobody.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn round_counts(&self) -> Result<TransferCounts> {
        Ok(self.cell()?.round_counts())
    }

    /// The first error of its last round so far, while other operations may go on. Waits for
    /// nobody.
    pub fn error(&self) -> Option<Error> {
        match self.cell() {
            Ok(cell) => cell.error(),
            Err(error) => Some(error),
        }
    }

    /// What can be seen of it without the engine.
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
            Err(_) => self.shared.leave(),
        }
    }
}
