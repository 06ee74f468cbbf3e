//! Notifications and events that a program sends and takes.

use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};

use tcpx_protocol::types::memory::Device;
use tcpx_sys::is_forked;

use super::Session;
use super::shared::SharedEngine;
use super::wait::WaitLimit;
use crate::completions::signals::LONGEST_WAIT;
use crate::completions::{Notification, SessionEvent};
use crate::error::awaited::Awaited;
use crate::error::{Error, Phase, Result};

/// Returns the order in which the queues of devices are polled. Each queue comes first once in as
/// many turns as there are queues, and has all the room then.
fn round_robin(turn: usize, queues: usize) -> impl Iterator<Item = usize> {
    (0..queues).map(move |index| (turn % queues + index) % queues)
}

/// Returns the error of a wait for notifications.
fn no_notification(waited: Duration) -> Error {
    let detail = Awaited::words("no notification has come");
    Error::Deadline { phase: Phase::Receive, peer: None, waited, detail }
}

impl Session {
    /// Sends a notification to a peer, behind earlier notifications: 0 to 65,536 bytes. Does not
    /// block. A peer that is not up is waited for, or connected first, as by
    /// [`Operation::post`](crate::Operation::post). Notifications that wait for a peer that does
    /// not come up are lost: the next call returns the peer's error, once, and sends nothing. The
    /// call after that connects the peer again.
    ///
    /// A notification without room at the peer waits here. [`disconnect`](Self::disconnect) sends
    /// waiting notifications first, for at most
    /// [`close_timeout`](crate::SessionOptions::close_timeout). Those that still wait when the peer
    /// leaves as well, or ends, are dropped. The log has the number of all that were lost, and
    /// [`notifications_unsent`](crate::OneSidedStats::notifications_unsent) counts them.
    ///
    /// # Errors
    /// [`Error::NotificationsFull`] while as much waits for the peer's program as
    /// [`notification_bytes`](crate::SessionOptions::notification_bytes) allows, or for a peer that
    /// is yet to be reached; [`Error::NotificationTooLong`]; [`Error::UnknownPeer`];
    /// [`Error::PeerState`] or the peer's own error when it is leaving or over, or when
    /// notifications were lost with it.
    pub fn notify(&self, peer: &str, bytes: &[u8]) -> Result<()> {
        self.shared.engine()?.notify(&self.called(peer), bytes)
    }

    /// Takes at most `most` notifications out of the queue, oldest first, and appends them to
    /// `notifications`. Returns their number. Makes no progress and does not block.
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

    /// Takes notifications as [`poll_notifications`](Self::poll_notifications) does, of at most
    /// `most_bytes` bytes together. A notification without room stays, with all later ones. No
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
        if is_forked() {
            return Err(Error::Forked);
        }
        let before = notifications.len();
        let others = self.others();
        let turn = self.notification_turns.fetch_add(1, Ordering::Relaxed);
        for device in round_robin(turn, others.len() + 1) {
            let taken = &notifications[before..];
            let room = most_bytes - taken.iter().map(|note| note.bytes.len()).sum::<usize>();
            let most = most - taken.len();
            let device = device.checked_sub(1).map_or(&self.shared, |other| &others[other]);
            device.take_notifications(notifications, (most, room));
        }
        if self.others.is_some() {
            for note in &mut notifications[before..] {
                let length = Device::peer_name(&note.peer).len();
                note.peer.truncate(length);
            }
        }
        Ok(notifications.len() - before)
    }

    /// Takes notifications as [`poll_notifications`](Self::poll_notifications) does, and waits
    /// until one has come, for `timeout` or, with `None`, without limit. It makes progress
    /// meanwhile.
    ///
    /// It asks the peers for signs of life, as an operation does: a silent peer ends after
    /// [`peer_timeout`](crate::SessionOptions::peer_timeout). The wait goes on when peers end, even
    /// the last one, because another may come. A program that awaits one peer waits with a limit,
    /// and looks at [`peer_state`](Self::peer_state) in between, or at
    /// [reported](Self::report_peers) peers.
    ///
    /// # Errors
    /// [`Error::Deadline`]: no notification has come. [`Error::Closed`]. [`Error::Forked`].
    pub fn wait_notifications(
        &self,
        notifications: &mut Vec<Notification>,
        most: usize,
        timeout: Option<Duration>,
    ) -> Result<usize> {
        self.wait_notifications_within(notifications, most, usize::MAX, timeout)
    }

    /// Waits for notifications, and takes at most `most_bytes` bytes of them together, as
    /// [`poll_notifications_within`](Self::poll_notifications_within) does. With room for less than
    /// [`MAX_NOTIFICATION_BYTES`](crate::MAX_NOTIFICATION_BYTES) the call may wait although a
    /// notification has come.
    ///
    /// # Errors
    /// As for [`wait_notifications`](Self::wait_notifications).
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
        let limit = timeout.map_or_else(WaitLimit::unlimited, WaitLimit::for_time);
        if let Some(others) = &self.others {
            let poll = || match self.poll_notifications_within(notifications, most, most_bytes)? {
                0 if others.is_closed() => Err(Error::Closed),
                0 => self.ask_peers_of_all().map(|()| None),
                taken => Ok((taken > 0).then_some(taken)),
            };
            return self.wait_for_any(limit, poll);
        }
        self.shared.wait(
            limit,
            |engine| match self.poll_notifications_within(notifications, most, most_bytes)? {
                0 => {
                    engine.ask_peers(Instant::now());
                    engine.check_open().map(|()| Poll::Pending)
                }
                taken => Ok(Poll::Ready(taken)),
            },
            |_, waited, _| no_notification(waited),
        )
    }

    /// Asks the peers of all devices for signs of life.
    fn ask_peers_of_all(&self) -> Result<()> {
        let now = Instant::now();
        for device in self.others().iter().chain([&self.shared]) {
            device.engine()?.ask_peers(now);
        }
        Ok(())
    }

    /// Waits for a result from the threads of several devices.
    fn wait_for_any<T>(
        &self,
        limit: WaitLimit,
        mut poll: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        loop {
            let listening = self.completions.listen_for_notifications();
            if let Some(found) = poll()? {
                return Ok(found);
            }
            let now = Instant::now();
            if limit.is_over(now) {
                return Err(no_notification(limit.waited(now)));
            }
            listening.wait(limit.clamp(LONGEST_WAIT, now));
        }
    }
}

impl Session {
    /// Reports in [`poll_events`](Self::poll_events) from now on which peers come up, part or fail.
    /// Peers that are up now come first. A peer is reported under the name that the program knows
    /// it by; an accepted peer, once an accept has taken it. Acts of the program are not reported:
    /// that it leaves a peer, or closes the session.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn report_peers(&self) -> Result<()> {
        if is_forked() {
            return Err(Error::Forked);
        }
        self.peers.start_reporting();
        Ok(())
    }

    /// Takes at most `most` events out of the queue, and appends them to `events`.
    /// [Reported](Self::report_peers) peers that have come up or ended come first, then the
    /// completions that [`poll_completions`](Self::poll_completions) takes out, which need not be
    /// called then. Returns their number. Makes no progress and does not block.
    ///
    /// Of a peer of one name that ends and comes up repeatedly meanwhile, the queue has the last
    /// end, and that the peer is up if it is.
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
        // Later events signal the descriptor again.
        self.completions.event().drain();
        self.peers.take(events, most);
        let room = most - (events.len() - before);
        self.completions.take_each(room, |completion| {
            events.push(SessionEvent::Completed(completion));
        });
        Ok(events.len() - before)
    }
}

impl SharedEngine {
    /// Takes notifications of this device, up to these limits of number and total bytes.
    fn take_notifications(
        &self,
        notifications: &mut Vec<Notification>,
        (most, bytes): (usize, usize),
    ) {
        self.notifications.take(notifications, most, bytes);
        if self.notifications.has_due_reports() {
            // The leading thread notifies the senders that there is room.
            self.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Queues that are never empty, and one with a single notification. That notification comes
        /// out in one round of turns, however little each poll takes, and wherever the turns began.
        #[test]
        fn no_queue_starves(queues in 1_usize..9, first in any::<usize>(), seed in any::<usize>(), most in 1_usize..4) {
            let waits = seed % queues;
            let mut has_come = false;
            for poll in 0..queues {
                let mut room = most;
                for queue in round_robin(first.wrapping_add(poll), queues) {
                    let has = if queue == waits { usize::from(!has_come) } else { usize::MAX };
                    let taken = has.min(room);
                    room -= taken;
                    has_come |= queue == waits && taken > 0;
                }
            }
            // Where the count of turns wraps around, one queue may come first twice.
            prop_assert!(has_come || first.checked_add(queues).is_none());
        }
    }
}
