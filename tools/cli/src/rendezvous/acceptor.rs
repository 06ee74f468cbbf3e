//! Acceptor of a listener: admits connections that pass a check, such as a proof of the token.
//!
//! An unauthenticated connection delays and ends nothing: a thread of its own checks each
//! connection for a short time.

use std::collections::VecDeque;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

use rustix::event::{PollFd, PollFlags};

use crate::deadline::Deadline;
use crate::failure::{ConnectionError, Failure, is_out_of_files, one_line};

/// Most connections that are checked at once. The next connection takes the place of the oldest:
/// the check of an honest end takes a few round trips, in which fewer others come.
const MAX_PENDING: usize = 256;
/// Most rejected connections with a line in the log; the others are only counted.
const MAX_LOG_LINES: usize = 8;

/// Check of an incoming connection. An error rejects it.
pub(crate) type Check<T> = dyn Fn(TcpStream) -> Result<T, Failure> + Send + Sync;

/// Listener that admits the connections that pass a check.
pub(crate) struct Acceptor<'a, T> {
    listener: &'a TcpListener,
    check: Arc<Check<T>>,
    /// Connections under check, the oldest first.
    pending: VecDeque<PendingConnection>,
    /// Connections that have passed, the oldest first.
    admitted: VecDeque<T>,
    next_id: u64,
    results: Receiver<CheckedConnection<T>>,
    results_sender: Sender<CheckedConnection<T>>,
    /// Readable when a check has ended.
    wake_reader: PipeReader,
    wake_writer: Arc<PipeWriter>,
    rejected: usize,
    last_reason: Option<String>,
}

/// Connection under check.
struct PendingConnection {
    id: u64,
    stream: TcpStream,
}

/// Result of the check of a connection.
struct CheckedConnection<T> {
    id: u64,
    address: SocketAddr,
    outcome: Result<T, Failure>,
}

/// Reason why no connection was admitted.
pub(crate) enum AcceptError {
    /// The right end did not connect in time.
    TimedOut(Failure),
    /// The stop descriptor became readable.
    Stopped,
    /// A system call failed.
    Failed(Failure),
}

impl<'a, T: Send + 'static> Acceptor<'a, T> {
    pub(crate) fn new(
        listener: &'a TcpListener,
        check: impl Fn(TcpStream) -> Result<T, Failure> + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        listener.set_nonblocking(true).map_err(Failure::io("preparing to accept"))?;
        let (results_sender, results) = channel();
        let (wake_reader, wake_writer) = std::io::pipe().map_err(Failure::io("making a pipe"))?;
        Ok(Self {
            listener,
            check: Arc::new(check),
            pending: VecDeque::new(),
            admitted: VecDeque::new(),
            next_id: 0,
            results,
            results_sender,
            wake_reader,
            wake_writer: Arc::new(wake_writer),
            rejected: 0,
            last_reason: None,
        })
    }

    /// Waits for the next connection that passes, or until `stop` is readable.
    pub(crate) fn admit(
        &mut self,
        waited: Deadline,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<T, AcceptError> {
        loop {
            self.collect_results();
            if let Some(admitted) = self.admitted.pop_front() {
                return Ok(admitted);
            }
            self.accept_waiting().map_err(AcceptError::Failed)?;
            let mut fds = vec![
                PollFd::new(self.listener, PollFlags::IN),
                PollFd::new(&self.wake_reader, PollFlags::IN),
            ];
            fds.extend(stop.map(|stop| PollFd::from_borrowed_fd(stop, PollFlags::IN)));
            let has_come = waited.poll(&mut fds).map_err(Failure::io("waiting for a connection"));
            if !has_come.map_err(AcceptError::Failed)? {
                return Err(self.timeout_error(waited));
            }
            let events: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
            if !events[1].is_empty() {
                let read = self.wake_reader.read(&mut [0; 64]);
                read.map_err(Failure::io("reading a pipe")).map_err(AcceptError::Failed)?;
            } else if events.get(2).is_some_and(|events| !events.is_empty()) {
                return Err(AcceptError::Stopped);
            }
        }
    }

    /// Takes the results of the checks that have ended.
    fn collect_results(&mut self) {
        while let Ok(CheckedConnection { id, address, outcome }) = self.results.try_recv() {
            self.pending.retain(|pending| pending.id != id);
            match outcome {
                Ok(admitted) => self.admitted.push_back(admitted),
                Err(failure) => self.reject(address, &failure),
            }
        }
    }

    /// Returns the error of a wait in which no connection passed.
    fn timeout_error(&self, waited: Deadline) -> AcceptError {
        let address = match self.listener.local_addr() {
            Ok(address) => address,
            Err(error) => {
                return AcceptError::Failed(Failure::io("asking for the listener's address")(
                    error,
                ));
            }
        };
        let others = match (&self.last_reason, self.rejected) {
            (None, _) => String::new(),
            (Some(reason), 1) => format!(" (1 connection was rejected: {reason})"),
            (Some(reason), count) => {
                format!(" ({count} connections were rejected; the last: {reason})")
            }
        };
        AcceptError::TimedOut(ConnectionError::NoClient { address, waited, others }.into())
    }

    /// Accepts the connections that are waiting, at most as many as are checked at once. This
    /// bounds the admitted connections, too.
    fn accept_waiting(&mut self) -> Result<(), Failure> {
        for _ in 0..MAX_PENDING {
            match self.listener.accept() {
                Ok((stream, address)) => self.start_check(stream, address),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(()),
                    // The connection was closed before it was accepted.
                    ErrorKind::ConnectionAborted | ErrorKind::Interrupted => {}
                    _ if is_out_of_files(&error) && !self.pending.is_empty() => {
                        self.collect_results();
                        // The connection is accepted once the checks' threads have closed theirs.
                        self.pending.drain(..).for_each(PendingConnection::shut_down);
                        return Ok(());
                    }
                    _ => return Err(Failure::io("accepting a connection")(error)),
                },
            }
        }
        Ok(())
    }

    /// Starts a thread that checks a connection. Rejects the connection where no thread can start.
    fn start_check(&mut self, stream: TcpStream, address: SocketAddr) {
        if self.pending.len() >= MAX_PENDING {
            // A connection that has passed by now is not pending any more.
            self.collect_results();
        }
        if self.pending.len() >= MAX_PENDING {
            self.pending.pop_front().into_iter().for_each(PendingConnection::shut_down);
        }
        let id = self.next_id;
        self.next_id += 1;
        let (check, results, wake) =
            (Arc::clone(&self.check), self.results_sender.clone(), Arc::clone(&self.wake_writer));
        let started = stream.try_clone().and_then(|own| {
            self.pending.push_back(PendingConnection { id, stream: own });
            Builder::new().name("check".into()).spawn(move || {
                let outcome = check(stream);
                // The acceptor may be gone once the right end was admitted.
                let _ = results.send(CheckedConnection { id, address, outcome });
                let _ = (&*wake).write(&[1]);
            })
        });
        if let Err(error) = started {
            self.pending.retain(|pending| pending.id != id);
            self.reject(address, &Failure::io("starting the check of a connection")(error));
        }
    }

    /// Logs why a connection is not admitted, or a client not served.
    pub(crate) fn reject(&mut self, address: SocketAddr, failure: &Failure) {
        self.rejected += 1;
        let reason = failure.one_line();
        match self.rejected.cmp(&MAX_LOG_LINES) {
            std::cmp::Ordering::Less => {
                tracing::warn!(from = %address, "connection rejected: {reason}");
            }
            std::cmp::Ordering::Equal => {
                tracing::warn!(
                    from = %address,
                    "connection rejected: {reason}; more of these are not logged"
                );
            }
            std::cmp::Ordering::Greater => {
                tracing::debug!(from = %address, "connection rejected: {reason}");
            }
        }
        self.last_reason = Some(one_line(&reason));
    }
}

impl<T> Drop for Acceptor<'_, T> {
    fn drop(&mut self) {
        // Ends the checks' threads.
        self.pending.drain(..).for_each(PendingConnection::shut_down);
    }
}

impl PendingConnection {
    fn shut_down(self) {
        // The other end may have closed the connection already.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl From<AcceptError> for Failure {
    /// Converts the error for callers without a stop descriptor.
    fn from(error: AcceptError) -> Self {
        match error {
            AcceptError::TimedOut(failure) | AcceptError::Failed(failure) => failure,
            AcceptError::Stopped => Self::OtherEnd("it ended before it connected".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Check that a connection passes by sending "hello".
    fn expects_hello(mut stream: TcpStream) -> Result<TcpStream, Failure> {
        let mut word = [0; 5];
        stream.set_nonblocking(false).map_err(Failure::io("preparing"))?;
        stream.read_exact(&mut word).map_err(Failure::io("reading"))?;
        match &word {
            b"hello" => Ok(stream),
            _ => Err(Failure::OtherEnd("it sent no hello".into())),
        }
    }

    #[test]
    fn silent_and_wrong_connections_delay_no_other() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || TcpStream::connect(address).unwrap();
        let mut acceptor = Acceptor::new(&listener, expects_hello).unwrap();
        let (silent, honest, admitted) = std::thread::scope(|scope| {
            // More come than the listener's backlog holds, so they are accepted meanwhile.
            let admitted = scope.spawn(|| acceptor.admit(Deadline::after(LONG), None));
            // More than are checked at once.
            let silent: Vec<TcpStream> = (0..MAX_PENDING + 3).map(|_| connect()).collect();
            connect().write_all(b"other").unwrap();
            let mut honest = connect();
            honest.write_all(b"hello").unwrap();
            (silent, honest, admitted.join().unwrap())
        });
        let admitted = admitted.unwrap_or_else(|error| panic!("{}", Failure::from(error)));
        assert_eq!(admitted.peer_addr().unwrap(), honest.local_addr().unwrap());
        drop(acceptor);
        for mut stream in silent {
            assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "closed");
        }
    }

    #[test]
    fn a_connection_that_has_passed_is_not_dropped_for_a_newer_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut acceptor = Acceptor::new(&listener, expects_hello).unwrap();
        let come = |acceptor: &mut Acceptor<'_, TcpStream>| {
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            acceptor.accept_waiting().unwrap();
            stream
        };
        let mut honest = come(&mut acceptor);
        honest.write_all(b"hello").unwrap();
        let mut wake = [PollFd::new(&acceptor.wake_reader, PollFlags::IN)];
        assert!(Deadline::after(LONG).poll(&mut wake).unwrap(), "its check ends");
        let _silent: Vec<TcpStream> = (0..=MAX_PENDING).map(|_| come(&mut acceptor)).collect();
        let admitted = acceptor.admit(Deadline::after(LONG), None);
        let mut admitted = admitted.unwrap_or_else(|error| panic!("{}", Failure::from(error)));
        admitted.write_all(b"!").unwrap();
        honest.read_exact(&mut [0]).unwrap();
    }

    #[test]
    fn a_timeout_names_the_rejected_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.write_all(b"other").unwrap();
        let (stop, running) = std::io::pipe().unwrap();
        let mut acceptor = Acceptor::new(&listener, expects_hello).unwrap();
        // No other end connects, and this one was rejected when the acceptor has closed it.
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let _ = stream.read(&mut [0]);
                drop(running);
            });
            let stopped = acceptor.admit(Deadline::after(LONG), Some(stop.as_fd()));
            assert!(matches!(stopped, Err(AcceptError::Stopped)));
        });
        let error = acceptor.admit(Deadline::after(Duration::from_millis(20)), None).err().unwrap();
        let text = Failure::from(error).to_string();
        assert!(text.contains("(1 connection was rejected: "), "{text}");
        assert!(text.contains("it sent no hello"), "{text}");
    }
}
