//! Notifications: what programs say to each other beside their memory.

use std::task::Poll;
use std::time::Duration;

use super::Session;
use super::wait::WaitLimit;
use crate::completions::notification::Notification;
use crate::error::awaited::Awaited;
use crate::error::{Error, Phase, Result};

impl Session {
    /// Sends a notification to a peer, behind those sent before: up to 65,536 bytes, also none. It
    /// waits for nobody. A peer that is not up is waited for, or connected first, as by
    /// [`Operation::post`](crate::Operation::post); what waits for one that does not come is lost
    /// with it.
    ///
    /// One for which the peer has no room yet waits here. [`disconnect`](Self::disconnect) sends
    /// those first, for as long as [`close_timeout`](crate::SessionOptions::close_timeout). What
    /// still waits when the peer leaves as well, or ends, nobody gets: the log says how many, and
    /// [`notifications_unsent`](crate::OneSidedStats::notifications_unsent) counts them.
    ///
    /// # Errors
    /// [`Error::NotificationsFull`] while as much waits for the peer's program as
    /// [`notification_bytes`](crate::SessionOptions::notification_bytes) allows, or for a peer that
    /// is yet to be reached; [`Error::NotificationTooLong`]; [`Error::UnknownPeer`];
    /// [`Error::PeerState`] or the peer's own error when it is leaving or over.
    pub fn notify(&self, peer: &str, bytes: &[u8]) -> Result<()> {
        self.shared.engine()?.notify(peer, bytes)
    }

    /// Takes out at most `most` notifications that have come, those first that came first, and
    /// appends them to `notifications`. Returns how many. Makes no progress, and waits for nobody.
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

    /// As [`poll_notifications`](Self::poll_notifications), for whoever has room for at most
    /// `most_bytes` bytes of them together. One that has no room stays, and what came after it. No
    /// notification is longer than [`MAX_NOTIFICATION_BYTES`](crate::MAX_NOTIFICATION_BYTES).
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn poll_notifications_within(
        &self,
        notifications: &mut Vec<Notification>,
        most: usize,
        most_bytes: usize,
    ) -> Result<usize> {
        if tcpx_sys::is_forked() {
            return Err(Error::Forked);
        }
        let taken = self.notifications.take(notifications, most, most_bytes);
        if self.notifications.owes() {
            // Whoever leads tells the senders that there is room.
            self.shared.wake();
        }
        Ok(taken)
    }

    /// As [`poll_notifications`](Self::poll_notifications), and waits until one has come, for
    /// `timeout` or, with `None`, without limit. It makes progress meanwhile.
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

    /// The same, for whoever has room for at most `most_bytes` bytes of them together, as with
    /// [`poll_notifications_within`](Self::poll_notifications_within). With room for less than
    /// [`MAX_NOTIFICATION_BYTES`](crate::MAX_NOTIFICATION_BYTES) it may wait although one has come.
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
        let taken = self.poll_notifications_within(notifications, most, most_bytes)?;
        if taken > 0 || most == 0 {
            return Ok(taken);
        }
        let limit = timeout.map_or_else(WaitLimit::endless, WaitLimit::for_time);
        self.shared.wait(
            limit,
            |engine| match self.poll_notifications_within(notifications, most, most_bytes)? {
                0 => engine.check_open().map(|()| Poll::Pending),
                taken => Ok(Poll::Ready(taken)),
            },
            |_, waited, _| {
                let detail = Awaited::words("no notification has come");
                Error::Deadline { phase: Phase::Receive, peer: None, waited, detail }
            },
        )
    }
}
