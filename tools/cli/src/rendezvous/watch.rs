//! Whether the other end is still there, asked while this end waits for its session, which does not
//! tell before it is connected.

use std::io::PipeReader;
use std::net::TcpStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use tcpx_core::Session;

use super::link::DoorLink;
use crate::deadline::Deadline;
use crate::failure::{ConnectionError, Failure};
use crate::process;

/// Longer than any command.
const FOREVER: Duration = Duration::from_secs(1 << 30);

impl DoorLink {
    /// Does `meet`, which waits for the other end's session. When the other end is gone meanwhile,
    /// `session` is closed, so that `meet` ends.
    pub(super) fn while_there(
        &self,
        session: &Session,
        doing: &str,
        meet: impl FnOnce() -> tcpx_core::Result<()>,
    ) -> Result<(), Failure> {
        let (stop, running) = std::io::pipe().map_err(Failure::io("making a pipe"))?;
        let (outcome, was_closed) = std::thread::scope(|scope| {
            let watcher = process::spawn_in(scope, "watch", || {
                let has_ended = self.ends_before(stop);
                if has_ended {
                    // It says goodbye to nobody who could answer.
                    let _ = session.close();
                }
                has_ended
            })?;
            let outcome = meet();
            drop(running);
            Ok::<_, Failure>((outcome, watcher.join().unwrap_or(false)))
        })?;
        // Its session may have ended first.
        if was_closed || (outcome.is_err() && self.has_ended()?) {
            return Err(self.closed(doing));
        }
        Ok(outcome?)
    }

    /// Waits until the other end is gone, or the other side of `stop` is.
    fn ends_before(&self, stop: PipeReader) -> bool {
        let mut fds = [watched(self.socket()), PollFd::new(&stop, PollFlags::empty())];
        let is_over = Deadline::after(FOREVER).poll(&mut fds);
        is_over.is_ok() && !fds[0].revents().is_empty()
    }

    fn has_ended(&self) -> Result<bool, Failure> {
        let now = Deadline::after(Duration::ZERO);
        now.poll(&mut [watched(self.socket())])
            .map_err(Failure::io("looking at the connection with the other end"))
    }

    fn closed(&self, doing: &str) -> Failure {
        ConnectionError::Closed { peer: self.peer(), doing: doing.to_owned() }.into()
    }
}

/// Says when there will be nothing more to read, even if something still is.
fn watched(stream: &TcpStream) -> PollFd<'_> {
    PollFd::new(stream, PollFlags::RDHUP)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;
    use crate::budget::Budget;
    use crate::session::test_session;

    fn link() -> (DoorLink, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (DoorLink::new(listener.accept().unwrap().0, Budget::new(None)).unwrap(), other)
    }

    #[test]
    fn what_is_still_to_be_read_hides_no_end() {
        let (link, mut other) = link();
        other.write_all(b"more").unwrap();
        assert!(!link.has_ended().unwrap());
        drop(other);
        // The kernel delivers the end in its own time.
        let (never, _running) = std::io::pipe().unwrap();
        assert!(link.ends_before(never));
        assert!(link.has_ended().unwrap());
    }

    #[test]
    fn an_end_that_leaves_ends_what_waits_for_its_session() {
        let (link, other) = link();
        let (session, _) = test_session();
        session.listen().unwrap();
        // Would take 30 s, and then say that nobody came.
        let failure = link.while_there(&session, "waiting for its session", || {
            drop(other);
            session.accept("client")
        });
        let text = failure.unwrap_err().to_string();
        assert!(text.contains("closed the connection while this end was waiting for its session"));
    }

    #[test]
    fn an_end_that_stays_disturbs_nothing() {
        let (link, _other) = link();
        let (session, _) = test_session();
        link.while_there(&session, "connecting", || Ok(())).unwrap();
        session.listen().expect("the session is open");
    }
}
