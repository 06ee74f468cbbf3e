//! Door of a listener: lets in connections that prove to be the other end.
//!
//! Any other connection holds nothing up and ends nothing: a thread of its own hears each
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

/// Connections that are heard at once. The next connection takes the place of the oldest: an honest
/// end is heard within a few round trips, in which fewer others come.
const MOST_VISITORS: usize = 256;
/// Connections that have a line in the log; the others are only counted.
const MOST_LINES: usize = 8;

/// Check of an incoming connection. An error turns it away.
pub(crate) type Check<T> = dyn Fn(TcpStream) -> Result<T, Failure> + Send + Sync;

/// Listener that lets in the connections that pass a check.
pub(crate) struct Door<'a, T> {
    listener: &'a TcpListener,
    check: Arc<Check<T>>,
    /// Connections that are being heard, the oldest first.
    visitors: VecDeque<Visitor>,
    /// Connections that have passed, the oldest first.
    admitted: VecDeque<T>,
    next_number: u64,
    heard: Receiver<Heard<T>>,
    tell: Sender<Heard<T>>,
    /// Readable when a connection was heard.
    bell: PipeReader,
    ring: Arc<PipeWriter>,
    turned_away: usize,
    last_reason: Option<String>,
}

struct Visitor {
    number: u64,
    stream: TcpStream,
}

struct Heard<T> {
    number: u64,
    address: SocketAddr,
    outcome: Result<T, Failure>,
}

/// Reason why no connection was let in.
pub(crate) enum Nobody {
    /// The right end did not come in time.
    InTime(Failure),
    /// The other event that was watched has happened.
    Stopped,
    Failed(Failure),
}

impl<'a, T: Send + 'static> Door<'a, T> {
    pub(crate) fn new(
        listener: &'a TcpListener,
        check: impl Fn(TcpStream) -> Result<T, Failure> + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        listener.set_nonblocking(true).map_err(Failure::io("preparing to accept"))?;
        let (tell, heard) = channel();
        let (bell, ring) = std::io::pipe().map_err(Failure::io("making a pipe"))?;
        Ok(Self {
            listener,
            check: Arc::new(check),
            visitors: VecDeque::new(),
            admitted: VecDeque::new(),
            next_number: 0,
            heard,
            tell,
            bell,
            ring: Arc::new(ring),
            turned_away: 0,
            last_reason: None,
        })
    }

    /// Waits for the next connection that passes, or until `stop` is readable.
    pub(crate) fn admit(
        &mut self,
        waited: Deadline,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<T, Nobody> {
        loop {
            self.settle();
            if let Some(admitted) = self.admitted.pop_front() {
                return Ok(admitted);
            }
            self.take_in().map_err(Nobody::Failed)?;
            let mut fds = vec![
                PollFd::new(self.listener, PollFlags::IN),
                PollFd::new(&self.bell, PollFlags::IN),
            ];
            fds.extend(stop.map(|stop| PollFd::from_borrowed_fd(stop, PollFlags::IN)));
            let has_come = waited.poll(&mut fds).map_err(Failure::io("waiting for a connection"));
            if !has_come.map_err(Nobody::Failed)? {
                return Err(self.nobody_came(waited));
            }
            let events: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
            if !events[1].is_empty() {
                let read = self.bell.read(&mut [0; 64]);
                read.map_err(Failure::io("reading a pipe")).map_err(Nobody::Failed)?;
            } else if events.get(2).is_some_and(|events| !events.is_empty()) {
                return Err(Nobody::Stopped);
            }
        }
    }

    /// Notes the outcome of the connections that were heard.
    fn settle(&mut self) {
        while let Ok(Heard { number, address, outcome }) = self.heard.try_recv() {
            self.visitors.retain(|visitor| visitor.number != number);
            match outcome {
                Ok(admitted) => self.admitted.push_back(admitted),
                Err(failure) => self.turn_away(address, &failure),
            }
        }
    }

    fn nobody_came(&self, waited: Deadline) -> Nobody {
        let address = match self.listener.local_addr() {
            Ok(address) => address,
            Err(error) => {
                return Nobody::Failed(Failure::io("asking for the listener's address")(error));
            }
        };
        let others = match &self.last_reason {
            None => String::new(),
            Some(reason) => format!(
                " ({} who connected were turned away; the last: {reason})",
                self.turned_away
            ),
        };
        Nobody::InTime(ConnectionError::NobodyCame { address, waited, others }.into())
    }

    /// Accepts the connections that are waiting. At most as many as are heard at once, so that the
    /// connections that have passed are not more either.
    fn take_in(&mut self) -> Result<(), Failure> {
        for _ in 0..MOST_VISITORS {
            match self.listener.accept() {
                Ok((stream, address)) => self.hear(stream, address),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(()),
                    // A connection that was gone before it was accepted.
                    ErrorKind::ConnectionAborted | ErrorKind::Interrupted => {}
                    _ if is_out_of_files(&error) && !self.visitors.is_empty() => {
                        self.settle();
                        // Accepted once the visitors' threads have given their files back.
                        self.visitors.drain(..).for_each(Visitor::hang_up);
                        return Ok(());
                    }
                    _ => return Err(Failure::io("accepting a connection")(error)),
                },
            }
        }
        Ok(())
    }

    /// Starts a thread that hears a connection. A connection that cannot be heard is turned away.
    fn hear(&mut self, stream: TcpStream, address: SocketAddr) {
        if self.visitors.len() >= MOST_VISITORS {
            // A connection that has passed by now is no visitor any more.
            self.settle();
        }
        if self.visitors.len() >= MOST_VISITORS {
            self.visitors.pop_front().into_iter().for_each(Visitor::hang_up);
        }
        let number = self.next_number;
        self.next_number += 1;
        let (check, tell, ring) =
            (Arc::clone(&self.check), self.tell.clone(), Arc::clone(&self.ring));
        let begun = stream.try_clone().and_then(|own| {
            self.visitors.push_back(Visitor { number, stream: own });
            Builder::new().name("visitor".into()).spawn(move || {
                let outcome = check(stream);
                // No thread takes the result once the right end was let in.
                let _ = tell.send(Heard { number, address, outcome });
                let _ = (&*ring).write(&[1]);
            })
        });
        if let Err(error) = begun {
            self.visitors.retain(|visitor| visitor.number != number);
            self.turn_away(address, &Failure::io("hearing who connected")(error));
        }
    }

    /// Logs why a visitor is not let in, or a client not served.
    pub(crate) fn turn_away(&mut self, address: SocketAddr, failure: &Failure) {
        self.turned_away += 1;
        let reason = failure.one_line();
        match self.turned_away.cmp(&MOST_LINES) {
            std::cmp::Ordering::Less => {
                tracing::warn!(from = %address, "turned away: {reason}");
            }
            std::cmp::Ordering::Equal => {
                tracing::warn!(from = %address, "turned away: {reason}; others have no line");
            }
            std::cmp::Ordering::Greater => {
                tracing::debug!(from = %address, "turned away: {reason}");
            }
        }
        self.last_reason = Some(one_line(&reason));
    }
}

impl<T> Drop for Door<'_, T> {
    fn drop(&mut self) {
        // So their threads end.
        self.visitors.drain(..).for_each(Visitor::hang_up);
    }
}

impl Visitor {
    fn hang_up(self) {
        // A connection that has hung up itself is not reported.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl From<Nobody> for Failure {
    /// For callers that watch no other event.
    fn from(nobody: Nobody) -> Self {
        match nobody {
            Nobody::InTime(failure) | Nobody::Failed(failure) => failure,
            Nobody::Stopped => Self::OtherEnd("it ended before it connected".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Returns a door that lets in connections that say "hello".
    fn polite(mut stream: TcpStream) -> Result<TcpStream, Failure> {
        let mut word = [0; 5];
        stream.set_nonblocking(false).map_err(Failure::io("preparing"))?;
        stream.read_exact(&mut word).map_err(Failure::io("reading"))?;
        match &word {
            b"hello" => Ok(stream),
            _ => Err(Failure::OtherEnd("it is rude".into())),
        }
    }

    #[test]
    fn silent_and_rude_strangers_keep_nobody_waiting() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || TcpStream::connect(address).unwrap();
        let mut door = Door::new(&listener, polite).unwrap();
        let (silent, honest, admitted) = std::thread::scope(|scope| {
            // More come than the system keeps waiting, so they are let in meanwhile.
            let admitted = scope.spawn(|| door.admit(Deadline::after(LONG), None));
            // More than are heard at once.
            let silent: Vec<TcpStream> = (0..MOST_VISITORS + 3).map(|_| connect()).collect();
            connect().write_all(b"other").unwrap();
            let mut honest = connect();
            honest.write_all(b"hello").unwrap();
            (silent, honest, admitted.join().unwrap())
        });
        let admitted = admitted.unwrap_or_else(|nobody| panic!("{}", Failure::from(nobody)));
        assert_eq!(admitted.peer_addr().unwrap(), honest.local_addr().unwrap());
        drop(door);
        for mut stream in silent {
            assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "hung up");
        }
    }

    #[test]
    fn one_who_has_passed_makes_room_for_no_newcomer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut door = Door::new(&listener, polite).unwrap();
        let come = |door: &mut Door<'_, TcpStream>| {
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            door.take_in().unwrap();
            stream
        };
        let mut honest = come(&mut door);
        honest.write_all(b"hello").unwrap();
        let mut bell = [PollFd::new(&door.bell, PollFlags::IN)];
        assert!(Deadline::after(LONG).poll(&mut bell).unwrap(), "it is heard");
        let _silent: Vec<TcpStream> = (0..=MOST_VISITORS).map(|_| come(&mut door)).collect();
        let admitted = door.admit(Deadline::after(LONG), None);
        let mut admitted = admitted.unwrap_or_else(|nobody| panic!("{}", Failure::from(nobody)));
        admitted.write_all(b"!").unwrap();
        honest.read_exact(&mut [0]).unwrap();
    }

    #[test]
    fn who_waits_in_vain_hears_who_came() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.write_all(b"other").unwrap();
        let (stop, running) = std::io::pipe().unwrap();
        let mut door = Door::new(&listener, polite).unwrap();
        // No other end comes, and this one was turned away when the door says so by hanging up.
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let _ = stream.read(&mut [0]);
                drop(running);
            });
            let stopped = door.admit(Deadline::after(LONG), Some(stop.as_fd()));
            assert!(matches!(stopped, Err(Nobody::Stopped)));
        });
        let nobody = door.admit(Deadline::after(Duration::from_millis(20)), None).err().unwrap();
        let text = Failure::from(nobody).to_string();
        assert!(text.contains("1 who connected were turned away; the last: "), "{text}");
        assert!(text.contains("it is rude"), "{text}");
    }
}
