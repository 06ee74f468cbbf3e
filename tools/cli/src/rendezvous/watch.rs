//! Watch over the other end until this end's session is connected: before that, the session does
//! not report a lost end.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use tcpx_core::{PeerState, Session};

use super::link::RendezvousLink;
use crate::deadline::Deadline;
use crate::failure::{ConnectionError, Failure};

/// Longer than any command: the session has a deadline of its own.
const FOREVER: Duration = Duration::from_secs(1 << 30);

impl RendezvousLink {
    /// Returns, without waiting, whether the other end has closed the connection.
    pub(super) fn is_closed(&self) -> bool {
        let mut fds = [PollFd::new(self.socket(), PollFlags::RDHUP)];
        // A socket that cannot be polled fails when it is used.
        Deadline::after(Duration::ZERO).poll(&mut fds).unwrap_or(false)
    }

    /// Waits until `peer`, which the session connects or accepts, is up. Fails when the other end
    /// closes the connection.
    pub(super) fn wait_for_session(
        &self,
        session: &Session,
        peer: &str,
        doing: &str,
    ) -> Result<(), Failure> {
        loop {
            session.progress();
            session.poll_events(&mut Vec::new(), usize::MAX)?;
            let (state, mut patience) = (session.peer_state(peer)?, FOREVER);
            match state {
                PeerState::Accepting | PeerState::Connecting => {}
                // Its session may have ended first.
                PeerState::Failed(_) => patience = Duration::ZERO,
                _ => return Ok(()),
            }
            let event = session.event_fd()?;
            let mut fds = [
                // Nothing more will be readable, even if something still is.
                PollFd::new(self.socket(), PollFlags::RDHUP),
                PollFd::from_borrowed_fd(event, PollFlags::IN),
            ];
            let polled = Deadline::after(patience).poll(&mut fds);
            polled.map_err(Failure::io("looking at the connection with the other end"))?;
            if !fds[0].revents().is_empty() {
                let (peer, doing) = (self.peer(), doing.to_owned());
                return Err(ConnectionError::Closed { peer, doing }.into());
            }
            if let PeerState::Failed(error) = state {
                return Err(error.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::budget::Budget;
    use crate::session::test_session;

    #[test]
    fn a_closed_connection_ends_the_wait_for_the_session() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let link = RendezvousLink::new(listener.accept().unwrap().0, Budget::new(None)).unwrap();
        let (session, _) = test_session();
        session.listen().unwrap();
        session.start_accept("client").unwrap();
        // Bytes that are still to be read hide no end.
        other.write_all(b"more").unwrap();
        drop(other);
        // Would take 30 s, and then report that no end came.
        let failure = link.wait_for_session(&session, "client", "waiting for its session");
        let text = failure.unwrap_err().to_string();
        assert!(text.contains("closed the connection while this end was waiting for its session"));
    }
}
