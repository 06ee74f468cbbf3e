//! Messages as notifications of the two ends' session: a stream of bytes, cut at the longest
//! notification.

use std::collections::VecDeque;
use std::io::{Error as IoError, ErrorKind, Read, Result};
use std::time::Duration;

use tcpx_core::{Error, MAX_NOTIFICATION_BYTES, PeerState, Session};

use super::message_transport::MessageTransport;
use crate::deadline::Deadline;

/// Interval at which the other end's session is checked while no notification arrives.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Stream of the notifications with the one peer of a session.
#[derive(Debug)]
pub(crate) struct NotificationStream<'a> {
    session: &'a Session,
    peer: &'static str,
    /// Bytes of notifications that were taken out and not yet read.
    unread: VecDeque<u8>,
}

impl<'a> NotificationStream<'a> {
    pub(super) fn new(session: &'a Session, peer: &'static str) -> Self {
        Self { session, peer, unread: VecDeque::new() }
    }

    /// Returns the next notification.
    pub(super) fn take(&self, deadline: Deadline) -> Result<Vec<u8>> {
        let (mut taken, mut is_over) = (Vec::new(), false);
        loop {
            let left = if is_over { Duration::ZERO } else { deadline.left() };
            match self.session.wait_notifications(&mut taken, 1, Some(left.min(CHECK_INTERVAL))) {
                Ok(_) => return Ok(taken.pop().map(|note| note.bytes).unwrap_or_default()),
                Err(Error::Deadline { .. }) if is_over => return Err(self.ending()),
                Err(Error::Deadline { .. }) => {}
                Err(error) => return Err(IoError::other(error)),
            }
            // Notifications that the peer sent before it left have arrived: poll for them once
            // more.
            is_over = !matches!(self.session.peer_state(self.peer), Ok(PeerState::Up));
            if !is_over && left <= CHECK_INTERVAL {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }

    /// Returns how the other end's session has ended.
    fn ending(&self) -> IoError {
        match self.session.peer_state(self.peer) {
            Ok(PeerState::Failed(error)) | Err(error) => IoError::other(error),
            Ok(_) => ErrorKind::UnexpectedEof.into(),
        }
    }
}

impl MessageTransport for NotificationStream<'_> {
    fn read(&mut self, out: &mut [u8], deadline: Deadline) -> Result<usize> {
        if self.unread.is_empty() {
            self.unread = self.take(deadline)?.into();
        }
        self.unread.read(out)
    }

    /// Writes without blocking: the session has room for all that a command sends at once.
    fn write(&mut self, bytes: &[u8], _: Deadline) -> Result<usize> {
        let length = bytes.len().min(MAX_NOTIFICATION_BYTES as usize);
        self.session.notify(self.peer, &bytes[..length]).map_err(IoError::other)?;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};
    use tcpx_core::{MemoryType, Post};

    use super::super::message::{Connected, Message};
    use super::super::program::{connect_both, meet_both};
    use super::super::role::Role;
    use crate::failure::Failure;
    use crate::session::RESULT_LIMIT;

    /// Message as long as results may be.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Long(Vec<u8>);

    impl Message for Long {
        const KIND: u16 = 6;
        const BODY_LIMIT: usize = RESULT_LIMIT;
    }

    fn give_up() -> Failure {
        Failure::Usage("too\nmany".into())
    }

    #[test]
    fn messages_of_any_length_arrive_whole_and_in_order() {
        let long = Long((0..RESULT_LIMIT - 8).map(|at| (at % 251) as u8).collect());
        connect_both(|connected| match connected.role {
            Role::Client => {
                connected.link.send(&long).unwrap();
                connected.link.send(&Connected).unwrap();
                let Connected = connected.link.receive().unwrap();
            }
            Role::Server => {
                assert_eq!(connected.link.receive::<Long>().unwrap(), long);
                let Connected = connected.link.receive().unwrap();
                connected.link.send(&Connected).unwrap();
            }
        });
    }

    #[test]
    fn an_end_that_leaves_is_not_waited_for() {
        let [words, _] = meet_both(|connected| match connected.role {
            Role::Client => connected.link.receive::<Connected>().unwrap_err().to_string(),
            Role::Server => {
                connected.disconnect().unwrap();
                String::new()
            }
        });
        assert!(words.contains("closed the connection while this end was waiting for"), "{words}");
    }

    #[test]
    fn the_reason_of_an_abort_arrives_whatever_this_end_waits_for() {
        for way in 0..3 {
            let [failure, _] = meet_both(|connected| {
                if connected.role == Role::Server {
                    let failure = connected.link.exchange_failures(give_up());
                    connected.disconnect().unwrap();
                    return failure.to_string();
                }
                let failure = match way {
                    0 => connected.link.receive::<Connected>().unwrap_err(),
                    1 => connected.link.next_notification().unwrap_err(),
                    _ => {
                        let memory = connected.session.allocate(8, MemoryType::Host).unwrap();
                        let wait = || {
                            let receive = connected.session.create_transfer(connected.peer())?;
                            receive.post_recv(Post { memory, offset: 0, bytes: 8, tag: 1 })?;
                            connected.link.budget().wait(&receive)
                        };
                        wait().unwrap_err()
                    }
                };
                connected.link.exchange_failures(failure).to_string()
            });
            assert_eq!(failure, "the other end failed: too many", "{way}");
        }
    }
}
