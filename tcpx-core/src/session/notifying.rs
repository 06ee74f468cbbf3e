//! Notifications and events, as a program sends and takes them; and a session's place in a group.

use std::task::Poll;
use std::time::Duration;

use tcpx_protocol::frames::conn_info::ConnInfo;
use tcpx_sys::is_forked;

use super::Session;
use super::wait::WaitLimit;
use crate::completions::{Notification, SessionEvent};
use crate::control::inbound_handshake::InboundHandshake;
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

impl Session {
    /// Has [`poll_events`](Self::poll_events) tell from now on which peers come up, part or fail.
    /// Those that are up now are told first. A peer is told of under the name that the program
    /// knows it by: one that comes in, once an accept has taken it. What the program does itself is
    /// not told: that it leaves a peer, or closes the session.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn report_peers(&self) -> Result<()> {
        if is_forked() {
            return Err(Error::Forked);
        }
        self.peers.want();
        Ok(())
    }

    /// Takes out at most `most` events, and appends them to `events`: peers that have come up or
    /// ended, if they are [reported](Self::report_peers), and then what
    /// [`poll_completions`](Self::poll_completions) takes out, which need not be called then.
    /// Returns how many. Makes no progress, and waits for nobody.
    ///
    /// Of a peer of one name that ends and comes up again and again meanwhile, its last end is
    /// told, and that it is up if it is.
    ///
    /// The session's [descriptor](Self::event_fd) is not readable afterwards, unless more events
    /// wait.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn poll_events(&self, events: &mut Vec<SessionEvent>, most: usize) -> Result<usize> {
        if is_forked() {
            return Err(Error::Forked);
        }
        let before = events.len();
        // What comes after this signals it again.
        self.completions.event().drain();
        self.peers.take(events, most);
        let room = most - (events.len() - before);
        self.completions.take_each(room, |completion| {
            events.push(SessionEvent::Completed(completion));
        });
        Ok(events.len() - before)
    }
}

impl Session {
    /// Takes in somebody who has proven itself to the session that listens for the group.
    pub(crate) fn take_in(&self, handshake: InboundHandshake) -> Result<()> {
        self.shared.engine()?.take_in(handshake);
        Ok(())
    }

    /// Connection info that may be loaded under a name.
    pub(crate) fn check_conn_info(&self, name: &str, conn_info: &[u8]) -> Result<ConnInfo> {
        self.shared.engine()?.check_conn_info(name, conn_info)
    }

    /// Remembers how a session of another group is reached.
    pub(crate) fn know(&self, name: &str, info: ConnInfo) -> Result<()> {
        self.shared.engine()?.know(name, info)
    }

    /// The peers that are sessions of the group with this name.
    pub(crate) fn peers_of_group(&self, name: &str) -> Result<Vec<String>> {
        Ok(self.shared.engine()?.peers_of_group(name))
    }

    /// Begins to say goodbye to everybody, and waits for nobody.
    pub(crate) fn start_close(&self) -> Result<()> {
        self.shared.engine()?.start_close();
        Ok(())
    }
}
