//! Operations of a program on a connection: it posts, withdraws, notifies and leaves.

use std::collections::TryReserveError;
use std::sync::Arc;

use tcpx_protocol::peer::PeerProtocol;
use tcpx_protocol::peer::lifecycle::stage::Leaving;
use tcpx_protocol::peer::message::NewOperation;
use tcpx_protocol::peer::one_sided::NewRequest;
use tcpx_protocol::peer::tags::posting::{PORTION, PostError};
use tcpx_protocol::plans::plan::{Member, Stripe};
use tcpx_protocol::types::{Direction, TransferKey};

use super::connection::Connection;
use super::resources::Resources;
use crate::error::{Error, MemoryUnavailable, Result};

impl Connection {
    /// Returns whether this many operations may be posted now.
    ///
    /// # Errors
    /// [`Error::PeerState`], [`Error::PeerGone`].
    pub(crate) fn check_posts(&self, direction: Direction, count: usize) -> Result<()> {
        self.protocol.check_posts(direction, count).map_err(|error| match error {
            PostError::NotUp => self.not_up(),
            PostError::TooManyReceives => Error::PeerState {
                peer: self.name.to_string(),
                state: "behind with its sends",
                cure: "wait for some of the 4,194,304 receives that it has not matched",
            },
        })
    }

    /// Makes room for this many operations, which are posted next.
    ///
    /// # Errors
    /// [`MemoryUnavailable::Operations`]. Nothing has changed then.
    pub(crate) fn make_room(&mut self, direction: Direction, count: usize) -> Result<()> {
        let (link, protocol) = (&mut self.link, &mut self.protocol);
        let made = link
            .reserve(protocol.frame_bytes(direction, count))
            .and_then(|()| room_for_plans(protocol, direction, count))
            .and_then(|for_plans| protocol.make_room(direction, count).map(|()| drop(for_plans)));
        made.map_err(|_| {
            link.give_room_back();
            protocol.give_room_back();
            Error::MemoryUnavailable(MemoryUnavailable::Operations { count })
        })
    }

    /// Posts operations, which [`check_posts`](Self::check_posts) allows and
    /// [`make_room`](Self::make_room) has made room for. All are posted also where it fails: they
    /// end with the peer.
    pub(crate) fn post(&mut self, operations: &[NewOperation], cx: &mut Resources) -> Result<()> {
        let (mut rest, mut outcome) = (operations, Ok(()));
        self.protocol.begin_batch_of(operations.len());
        while !rest.is_empty() {
            let portion = rest.split_off(..rest.len().min(PORTION)).unwrap_or_default();
            for operation in portion {
                cx.ledger.registrations.begin(operation.span.registration);
                self.protocol.handle_post(*operation);
            }
            // Messages of all portions may share chunks.
            self.protocol.handle_batch(!rest.is_empty());
            if outcome.is_ok() {
                outcome = self.execute_actions(cx);
            }
        }
        outcome
    }

    /// Withdraws operations of a transfer that have no counterpart.
    pub(super) fn cancel(&mut self, transfer: TransferKey, cx: &mut Resources) -> Result<()> {
        self.protocol.handle_cancel(transfer);
        self.execute_actions(cx)
    }

    /// Gives up what can be given up of a transfer that has taken too long.
    pub(crate) fn overdue(&mut self, transfer: TransferKey, cx: &mut Resources) -> Result<()> {
        self.protocol.handle_overdue(transfer);
        self.execute_actions(cx)
    }

    /// Handles an accept that has named the peer.
    pub(super) fn handle_named(&mut self, cx: &mut Resources) -> Result<()> {
        self.protocol.handle_named();
        self.execute_actions(cx)
    }

    /// Says goodbye for the program.
    pub(super) fn disconnect(&mut self, cx: &mut Resources) -> Result<Leaving> {
        let leaving = self.protocol.handle_disconnect();
        self.execute_actions(cx)?;
        Ok(leaving)
    }

    /// Posts an operation whose registrations are in use for it.
    pub(super) fn post_request(&mut self, request: NewRequest, cx: &mut Resources) -> Result<()> {
        self.protocol.handle_request(request);
        // A post sends no bytes on the link: they are left to the next round.
        self.execute_actions_within(0, cx)
    }

    /// Sends a notification, behind those that wait.
    ///
    /// # Errors
    /// [`Error::NotificationsFull`]: too many wait.
    pub(super) fn notify(&mut self, note: Arc<[u8]>, cx: &mut Resources) -> Result<()> {
        if !self.protocol.handle_note(note) {
            let queued_bytes = self.protocol.queued_notes();
            return Err(Error::NotificationsFull { peer: self.name.to_string(), queued_bytes });
        }
        self.execute_actions(cx)
    }
}

/// Allocates as much memory as the plans of a large batch of sends take, where receives for it are
/// announced. The plans wait on the lanes, in lists that grow plan by plan. The memory is freed
/// before they are made.
fn room_for_plans(
    protocol: &PeerProtocol,
    direction: Direction,
    count: usize,
) -> std::result::Result<Vec<u8>, TryReserveError> {
    let mut room = Vec::new();
    let matched = if direction == Direction::Send { protocol.matched_by(count) } else { 0 };
    // Few of a long batch may be matched, and what the batch needs beside leaves nothing for these.
    if matched > 0 && count > PORTION {
        // A list that grows may have room for as many again.
        let each = 2 * (size_of::<Stripe>() + size_of::<Member>());
        room.try_reserve_exact(matched.max(PORTION).saturating_mul(each))?;
    }
    // The compiler may drop an allocation that nothing uses.
    Ok(std::hint::black_box(room))
}
