//! Whether the other end is still there, asked while this end waits for something that does not
//! tell: its session's connection, or a transfer.

use std::io::PipeReader;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use tcpx_core::{Error, Notification, Operation, Session, Transfer};

use crate::budget::Budget;
use crate::deadline::Deadline;
use crate::failure::{ConnectionError, Failure};
use crate::process;

/// How often it is asked while a transfer is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longer than any command.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// The connection between the two ends, of which only its end is watched for.
#[derive(Clone, Debug)]
pub(crate) struct LinkWatch {
    stream: Arc<TcpStream>,
    peer: SocketAddr,
    budget: Budget,
}

impl LinkWatch {
    pub(super) fn new(stream: Arc<TcpStream>, peer: SocketAddr, budget: Budget) -> Self {
        Self { stream, peer, budget }
    }

    /// Waits for a transfer, as long as the command has time and the other end is there.
    pub(crate) fn wait(&self, transfer: &Transfer) -> Result<(), Failure> {
        self.wait_with("waiting for a transfer", |time| transfer.wait(Some(time)))
    }

    /// The same for an operation.
    pub(crate) fn wait_operation(&self, operation: &Operation) -> Result<(), Failure> {
        self.wait_with("waiting for an operation", |time| operation.wait(Some(time)))
    }

    /// The same for a notification, which is added to `taken`.
    pub(crate) fn wait_notification(
        &self,
        session: &Session,
        taken: &mut Vec<Notification>,
    ) -> Result<(), Failure> {
        self.wait_with("waiting for a notification", |time| {
            session.wait_notifications(taken, 1, Some(time)).map(drop)
        })
    }

    fn wait_with(
        &self,
        doing: &str,
        mut wait: impl FnMut(Duration) -> tcpx_core::Result<()>,
    ) -> Result<(), Failure> {
        let deadline = self.budget.step();
        loop {
            let left = deadline.left();
            let mut error = match wait(left.min(LOOK_EVERY)) {
                Err(error @ Error::Deadline { .. }) => error,
                outcome => return Ok(outcome?),
            };
            // An end that left in order had its goodbye answered here, which comes after
            // everything that was matched. So what is not complete now never will be.
            if self.has_ended()? {
                return match wait(Duration::ZERO) {
                    Err(Error::Deadline { .. }) => Err(self.closed(doing)),
                    outcome => Ok(outcome?),
                };
            }
            if left <= LOOK_EVERY {
                // The library knows of the last look only.
                if let Error::Deadline { waited, .. } = &mut error {
                    *waited = deadline.limit();
                }
                return Err(error.into());
            }
        }
    }

    /// Fails once the command has no time left for its work. For work of this end alone.
    pub(crate) fn check_time(&self, doing: &str) -> Result<(), Failure> {
        let waited = self.budget.step();
        match waited.left() {
            Duration::ZERO => Err(Failure::OutOfTime { doing: doing.to_owned(), waited }),
            _ => Ok(()),
        }
    }

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
        let mut fds = [watched(self.stream.as_fd()), PollFd::new(&stop, PollFlags::empty())];
        let is_over = Deadline::after(FOREVER).poll(&mut fds);
        is_over.is_ok() && !fds[0].revents().is_empty()
    }

    fn has_ended(&self) -> Result<bool, Failure> {
        let now = Deadline::after(Duration::ZERO);
        now.poll(&mut [watched(self.stream.as_fd())])
            .map_err(Failure::io("looking at the connection with the other end"))
    }

    fn closed(&self, doing: &str) -> Failure {
        ConnectionError::Closed { peer: self.peer, doing: doing.to_owned() }.into()
    }
}

/// Says when there will be nothing more to read, even if something still is.
fn watched(stream: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(stream, PollFlags::RDHUP)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;
    use crate::session::test_session;

    fn watch() -> (LinkWatch, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (own, peer) = listener.accept().unwrap();
        (LinkWatch::new(Arc::new(own), peer, Budget::new(None)), other)
    }

    #[test]
    fn what_is_still_to_be_read_hides_no_end() {
        let (watch, mut other) = watch();
        other.write_all(b"more").unwrap();
        assert!(!watch.has_ended().unwrap());
        drop(other);
        // The kernel delivers the end in its own time.
        let (never, _running) = std::io::pipe().unwrap();
        assert!(watch.ends_before(never));
        assert!(watch.has_ended().unwrap());
    }

    #[test]
    fn an_end_that_leaves_ends_what_waits_for_its_session() {
        let (watch, other) = watch();
        let (session, _) = test_session();
        session.listen().unwrap();
        // Would take 30 s, and then say that nobody came.
        let failure = watch.while_there(&session, "waiting for its session", || {
            drop(other);
            session.accept("client")
        });
        let text = failure.unwrap_err().to_string();
        assert!(text.contains("closed the connection while this end was waiting for its session"));
    }

    #[test]
    fn an_end_that_stays_disturbs_nothing() {
        let (watch, _other) = watch();
        let (session, _) = test_session();
        watch.while_there(&session, "connecting", || Ok(())).unwrap();
        session.listen().expect("the session is open");
    }
}
