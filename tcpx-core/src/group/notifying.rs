//! Notifications between groups.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tcpx_protocol::types::memory::Device;
use tcpx_sys::is_forked;

use super::Group;
use crate::completions::Notification;
use crate::completions::news::LONGEST_WAIT;
use crate::error::awaited::Awaited;
use crate::error::{Error, Phase, Result};
use crate::session::operation::Operation;

/// Returns in which order queues are asked: each comes first once in as many turns as there are
/// queues, and has all the room then.
fn by_turns(turn: usize, queues: usize) -> impl Iterator<Item = usize> {
    (0..queues).map(move |index| (turn % queues + index) % queues)
}

impl Group {
    /// As [`Session::notify`](crate::Session::notify).
    ///
    /// # Errors
    /// As there.
    pub fn notify(&self, peer: &str, bytes: &[u8]) -> Result<()> {
        self.front.notify(&self.members.names.called(peer), bytes)
    }

    /// As [`Session::prepare_notification`](crate::Session::prepare_notification).
    ///
    /// # Errors
    /// As there.
    pub fn prepare_notification(&self, peer: &str) -> Result<Operation> {
        self.front.prepare_notification(&self.members.names.called(peer))
    }

    /// As [`Session::poll_notifications`](crate::Session::poll_notifications), of all devices of
    /// all peers. Those of [`notify`](Self::notify) come in the order in which the peer has sent
    /// them.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn poll_notifications(
        &self,
        notifications: &mut Vec<Notification>,
        most: usize,
    ) -> Result<usize> {
        self.poll_notifications_within(notifications, most, usize::MAX)
    }

    /// As [`Session::poll_notifications_within`](crate::Session::poll_notifications_within).
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn poll_notifications_within(
        &self,
        notifications: &mut Vec<Notification>,
        most: usize,
        most_bytes: usize,
    ) -> Result<usize> {
        let before = notifications.len();
        let members = self.members.all();
        let turn = self.notification_turns.fetch_add(1, Ordering::Relaxed);
        for session in by_turns(turn, members.len() + 1) {
            let taken = &notifications[before..];
            let room = most_bytes - taken.iter().map(|note| note.bytes.len()).sum::<usize>();
            let most = most - taken.len();
            let session = session.checked_sub(1).map_or(&self.front, |member| &*members[member]);
            session.poll_notifications_within(notifications, most, room)?;
        }
        for note in &mut notifications[before..] {
            let length = Device::group_name(&note.peer).len();
            note.peer.truncate(length);
        }
        Ok(notifications.len() - before)
    }

    /// As [`Session::wait_notifications`](crate::Session::wait_notifications), of all devices of
    /// all peers.
    ///
    /// # Errors
    /// [`Error::Deadline`]: none has come. [`Error::Closed`]. [`Error::Forked`].
    pub fn wait_notifications(
        &self,
        notifications: &mut Vec<Notification>,
        most: usize,
        timeout: Option<Duration>,
    ) -> Result<usize> {
        self.wait_notifications_within(notifications, most, usize::MAX, timeout)
    }

    /// As [`Session::wait_notifications_within`](crate::Session::wait_notifications_within).
    ///
    /// # Errors
    /// As there.
    pub fn wait_notifications_within(
        &self,
        notifications: &mut Vec<Notification>,
        most: usize,
        most_bytes: usize,
        timeout: Option<Duration>,
    ) -> Result<usize> {
        let started_at = Instant::now();
        loop {
            if is_forked() {
                return Err(Error::Forked);
            }
            let listening = self.members.completions().listen_for_notifications();
            let taken = self.poll_notifications_within(notifications, most, most_bytes)?;
            if taken > 0 || most == 0 {
                return Ok(taken);
            }
            if self.members.is_closed() {
                return Err(Error::Closed);
            }
            let waited = started_at.elapsed();
            let left = timeout.map_or(LONGEST_WAIT, |timeout| timeout.saturating_sub(waited));
            if left.is_zero() {
                let detail = Awaited::words("no notification has come");
                return Err(Error::Deadline { phase: Phase::Receive, peer: None, waited, detail });
            }
            listening.wait(left.min(LONGEST_WAIT));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Queues that are never empty, and one with a single note: it comes out in one round of
        /// turns, however little each poll takes, and wherever the turns began.
        #[test]
        fn no_queue_starves(queues in 1_usize..9, first in any::<usize>(), seed in any::<usize>(), most in 1_usize..4) {
            let waits = seed % queues;
            let mut has_come = false;
            for poll in 0..queues {
                let mut room = most;
                for queue in by_turns(first.wrapping_add(poll), queues) {
                    let has = if queue == waits { usize::from(!has_come) } else { usize::MAX };
                    let taken = has.min(room);
                    room -= taken;
                    has_come |= queue == waits && taken > 0;
                }
            }
            // Where the count of turns wraps around, one may come first twice.
            prop_assert!(has_come || first.checked_add(queues).is_none());
        }
    }
}
