//! Operation that reads or writes memory of a peer, as often as it is posted.
//!
//! - `splitting`: its parts, each between two devices. Pure.
//! - `joint`: one of these parts, and the state that several parts share.

mod joint;
mod splitting;

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tcpx_protocol::error::RemoteProblem;
use tcpx_protocol::exports::remote_key::RemoteRange;
use tcpx_protocol::types::memory::{Device, OperationKind};
use tcpx_sys::is_forked;

use self::joint::{JointState, Part};
use self::splitting::{only_pair, split};
use super::Session;
use super::wait::WaitLimit;
use crate::completions::queue::CompletionQueue;
use crate::engine::meeting::peer_names::PeerNames;
use crate::error::{Error, Result};
use crate::transfer::transfer_cell::TransferCell;
use crate::transfer::{MemoryRange, PostOptions, TransferCounts};

/// Status of an operation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OperationStatus {
    /// Not posted yet.
    Idle,
    /// Posted, and not ended.
    Active,
    /// Ended without error. Every byte is in place, and its notification is there.
    Done,
    /// Ended with this error. Some bytes may have moved.
    Failed(Error),
}

/// Read or write between ranges of a peer's memory and memory of this session. It is prepared once
/// with [`Session::prepare`] and posted any number of times. The peer's program does nothing for
/// it.
///
/// A write is done when all its bytes are in place at the peer, and after them its notification. A
/// read is done when all its bytes are in place here, and its notification, if it has one, is on
/// its way. Operations run side by side: two that touch the same bytes have no order.
///
/// When its peer ends, an outstanding operation ends with the peer's error, which
/// [`status`](Self::status) keeps until the next post. Once the same session is up again under that
/// name, the operation can be posted again. The session's keys are valid as long as they are
/// exported. A restarted process has another session: get its keys, and prepare operations with
/// them.
///
/// Dropping the operation gives up an outstanding post, as [`cancel`](Self::cancel) does. Its
/// memory stays in use until the peer has answered or is gone:
/// [`Session::deregister_memory`](crate::Session::deregister_memory) reports when the memory is
/// free.
#[derive(Debug)]
pub struct Operation {
    cell: Arc<TransferCell>,
    completions: Arc<CompletionQueue>,
    parts_of: OperationParts,
}

#[derive(Debug)]
enum OperationParts {
    One(Part),
    /// A part for each pair of devices; more than one.
    Several(Arc<JointState>, Box<[Part]>),
}

impl Session {
    /// Prepares an operation with a peer: each range of `local` is paired with the range of
    /// `remote` of the same place and length. Adjacent ranges are merged, and empty ranges left
    /// out. Nothing is sent to the peer before the first post. The peer need not be up: it may be
    /// connecting, or only have its connection info [loaded](Self::load_remote_conn_info).
    ///
    /// In a session of [all devices](crate::SessionOptions::all_devices) ranges may be of any
    /// devices at both ends, in all four ways: host or GPU here, host or GPU there. But no hardware
    /// plugin receives into memory of a host. Ranges of several devices still make one operation:
    /// the bytes of each pair of devices move separately, side by side, and the operation is done
    /// when all have arrived. A notification comes after all bytes, with the last few of them,
    /// which take another round trip. When a part fails between two devices the rest is given up,
    /// and the operation ends with that error once nothing of it uses memory. The first post
    /// between two devices connects them, and waits for the connection. Errors name the peer with
    /// the device, "decode/gpu1", and for ranges of several devices also the device here:
    /// "decode/gpu1 from gpu0".
    ///
    /// # Errors
    /// [`Error::Remote`] when the two lists do not fit, or a key is of another session or does not
    /// allow this; [`Error::UnknownRegistration`] and [`Error::Registration`] for ranges of this
    /// end; [`Error::UnknownPeer`]; [`Error::PeerState`] or the peer's own error when the peer is
    /// leaving or over.
    pub fn prepare(
        &self,
        peer: &str,
        kind: OperationKind,
        local: &[MemoryRange],
        remote: &[RemoteRange<'_>],
    ) -> Result<Operation> {
        let Some(others) = &self.others else {
            let part = self.shared.prepare_part(peer, kind, (local, remote), Device::Host)?;
            return Ok(Operation::one(part, Arc::clone(&self.completions)));
        };
        let names = &others.names;
        if let Some(pair) = only_pair(local, remote) {
            let part = self.prepare_pair((names, peer), kind, pair, (local, remote))?;
            return Ok(Operation::one(part, Arc::clone(&self.completions)));
        }
        let mut parts = Vec::new();
        for pair in split(kind, local, remote).map_err(|problem| refused(peer, problem))? {
            let ranges = (&*pair.local, &*pair.remote);
            match self.prepare_pair((names, peer), kind, (pair.here, pair.there), ranges) {
                Ok(part) => parts.push(part),
                // Its ranges are empty, and were checked.
                Err(Error::Remote { problem: RemoteProblem::Nothing, .. }) => {}
                Err(error) => return Err(pair.place(error).of_device(pair.here)),
            }
        }
        self.join(peer, kind, parts)
    }

    /// Prepares the part of an operation between two devices. The device here knows the way to the
    /// other.
    fn prepare_pair(
        &self,
        (names, peer): (&PeerNames, &str),
        kind: OperationKind,
        (here, there): (Device, Device),
        ranges: (&[MemoryRange], &[RemoteRange<'_>]),
    ) -> Result<Part> {
        if is_forked() {
            // Another thread of the parent may have held the lock of the names.
            return Err(Error::Forked);
        }
        let unknown = || match ranges.0.first() {
            Some(range) => Error::UnknownRegistration { id: range.memory },
            None => Error::Closed,
        };
        let shared = self.engine_of(here)?.ok_or_else(unknown)?;
        let (called, info) = names.way(peer, there);
        let name = there.name_in(&called);
        if let Some(info) = info {
            shared.engine()?.know(&name, info)?;
        }
        shared.prepare_part(&name, kind, ranges, here)
    }

    /// Prepares an operation that moves no bytes: each post sends its notification, and is
    /// [done](OperationStatus::Done) when the peer's program can take the notification. A post
    /// without a notification asks whether the peer still answers. [`notify`](Self::notify) does
    /// not report arrival, but keeps the order of notifications, which posts do not.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`]; [`Error::PeerState`] or the peer's own error when the peer is
    /// leaving or over.
    pub fn prepare_notification(&self, peer: &str) -> Result<Operation> {
        let keys = self.shared.engine()?.prepare_notification(&self.called(peer))?;
        let part = Part::new(Arc::clone(&self.shared), keys, Device::Host);
        Ok(Operation::one(part, Arc::clone(&self.completions)))
    }

    /// Joins all these parts into one operation with a peer. A notification goes with the last
    /// part, which is posted when all others have ended without error.
    fn join(&self, peer: &str, kind: OperationKind, mut parts: Vec<Part>) -> Result<Operation> {
        let completions = Arc::clone(&self.completions);
        if parts.len() <= 1 {
            let part = parts.pop().ok_or_else(|| refused(peer, RemoteProblem::Nothing))?;
            return Ok(Operation::one(part, completions));
        }
        let joint = JointState::new(peer, kind, &parts, Arc::clone(&completions))?;
        let cell = Arc::clone(joint.cell());
        Ok(Operation { cell, completions, parts_of: OperationParts::Several(joint, parts.into()) })
    }
}

/// Returns the error of ranges that make no operation with this peer.
fn refused(peer: &str, problem: RemoteProblem) -> Error {
    Error::Remote { peer: Some(peer.to_owned()), memory: None, problem }
}

impl Operation {
    fn one(part: Part, completions: Arc<CompletionQueue>) -> Self {
        Self { cell: Arc::clone(&part.cell), completions, parts_of: OperationParts::One(part) }
    }

    /// Posts the operation, again if it has ended. The peer gets `notification` when all bytes are
    /// in place.
    ///
    /// With a connecting peer the operation waits until the peer is up. A peer that is absent or
    /// was lost is connected first, as [`Session::start_connect`](crate::Session::start_connect)
    /// does, if its connection info was [loaded](crate::Session::load_remote_conn_info). If the
    /// connect fails, the operation ends with its error, and the next post tries again. Rounds of
    /// progress do this work. A peer that has said goodbye is not lost.
    ///
    /// # Errors
    /// [`Error::PeerState`] while the operation is outstanding, and while the peer leaves, or the
    /// peer's own error; [`Error::Closed`] when the program has left the peer and does not know its
    /// way; [`Error::UnknownRegistration`] when its memory was deregistered;
    /// [`Error::NotificationTooLong`]. Nothing was posted then.
    pub fn post(&self, notification: Option<&[u8]>) -> Result<()> {
        self.post_with(PostOptions { notification, timeout: None })
    }

    /// Posts the operation with further options.
    ///
    /// A post that exceeds its timeout is given up, as [`cancel`](Self::cancel) does, and ends with
    /// [`Error::Expired`] once nothing of it uses memory of this session. The same holds if the
    /// peer never answers, or the last bytes were on their way. Some bytes may have moved, or all.
    /// A read may have to wait for the peer, which may send its bytes at any time. Rounds of
    /// progress check the time.
    ///
    /// # Errors
    /// As for [`post`](Self::post).
    pub fn post_with(&self, options: PostOptions<'_>) -> Result<()> {
        match &self.parts_of {
            OperationParts::One(part) => part.post(options),
            OperationParts::Several(joint, parts) => joint.post(parts, options),
        }
    }

    /// Returns the status. Does not block, and makes no progress.
    pub fn status(&self) -> OperationStatus {
        if is_forked() {
            return OperationStatus::Failed(Error::Forked);
        }
        match self.cell.outcome() {
            Poll::Pending => OperationStatus::Active,
            Poll::Ready(Err(error)) => OperationStatus::Failed(error),
            Poll::Ready(Ok(())) if self.cell.counts().operations_posted == 0 => {
                OperationStatus::Idle
            }
            Poll::Ready(Ok(())) => OperationStatus::Done,
        }
    }

    /// Waits until the operation has ended, for `timeout` or, with `None`, without limit.
    ///
    /// # Errors
    /// The error that the operation ended with. [`Error::Deadline`] says that it is still
    /// outstanding.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        if is_forked() {
            return Err(Error::Forked);
        }
        if let Poll::Ready(outcome) = self.cell.outcome() {
            return outcome;
        }
        let limit = timeout.map_or_else(WaitLimit::unlimited, WaitLimit::for_time);
        match &self.parts_of {
            OperationParts::One(part) => part.wait(limit),
            OperationParts::Several(joint, parts) => joint.wait(parts, limit),
        }
    }

    /// Cancels an outstanding post. The post ends with [`Error::Cancelled`], or as without the call
    /// when it is too late. Wait for the operation to know.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn cancel(&self) -> Result<()> {
        match &self.parts_of {
            OperationParts::One(part) => part.cancel(),
            _ if is_forked() => Err(Error::Forked),
            OperationParts::Several(joint, parts) => {
                joint.give_up();
                parts.iter().try_for_each(Part::cancel)
            }
        }
    }

    /// Reports the end of each post from now on in
    /// [`Session::poll_completions`](crate::Session::poll_completions), as
    /// [`Transfer::report_completions`](crate::Transfer::report_completions) does.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn report_completions(&self, context: u64) -> Result<()> {
        if is_forked() {
            return Err(Error::Forked);
        }
        self.completions.report(&self.cell.reporter, context);
        Ok(())
    }

    /// Returns sums over the operation's whole life. They only grow.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn counts(&self) -> Result<TransferCounts> {
        match &self.parts_of {
            _ if is_forked() => Err(Error::Forked),
            OperationParts::One(_) => Ok(self.cell.counts()),
            OperationParts::Several(joint, parts) => Ok(joint.counts(parts)),
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if is_forked() {
            return;
        }
        if let OperationParts::Several(joint, _) = &self.parts_of {
            joint.give_up();
        }
        if let Some(key) = self.cell.reporter.get() {
            self.completions.remove(*key);
        }
        // The parts give up what is outstanding.
    }
}
