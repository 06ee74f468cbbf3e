//! The connection between the two ends: whole messages, each with a deadline.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tcpx_wire::frame;

use super::message::{Abort, Greeting, Message, RELEASE, RESULT_LIMIT, VERSION, name};
use super::watch::LinkWatch;
use crate::budget::Budget;
use crate::deadline::Deadline;
use crate::failure::{ConnectionError, Failure};

/// How long the other end's reason is waited for once something broke, if there is time for it.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Longest reason that is sent, in characters.
const REASON_CHARS: usize = 2000;

/// A connection with the other end.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Arc<TcpStream>,
    peer: SocketAddr,
    local_ip: IpAddr,
    budget: Budget,
    /// One deadline for the whole rendezvous; afterwards each message is a step of its own.
    rendezvous: Option<Deadline>,
}

impl Link {
    /// The rendezvous is one step of the command, and later each message is.
    pub(crate) fn new(stream: TcpStream, budget: Budget) -> Result<Self, Failure> {
        let ask = || Failure::io("asking for the connection's addresses");
        stream.set_nonblocking(false).map_err(ask())?;
        stream.set_nodelay(true).map_err(ask())?;
        let peer = stream.peer_addr().map_err(ask())?;
        let local_ip = stream.local_addr().map_err(ask())?.ip();
        let (stream, rendezvous) = (Arc::new(stream), Some(budget.step()));
        Ok(Self { stream, peer, local_ip, budget, rendezvous })
    }

    /// This end's address: the network that the data should use.
    pub(crate) fn local_ip(&self) -> IpAddr {
        self.local_ip
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The command's time.
    pub(crate) fn budget(&self) -> Budget {
        self.budget
    }

    /// Tells whether the other end is there while this one waits for something else.
    pub(crate) fn watch(&self) -> LinkWatch {
        LinkWatch::new(Arc::clone(&self.stream), self.peer, self.budget)
    }

    /// Both ends say which version of the messages they speak.
    pub(super) fn greet(&mut self) -> Result<(), Failure> {
        self.send(&Greeting::own())?;
        let (kind, body) =
            self.next(name(Greeting::KIND), Greeting::BODY_LIMIT, self.deadline())?;
        let theirs = Greeting::read(&body).filter(|_| kind == Greeting::KIND);
        match theirs.ok_or_else(|| self.garbage("it sent no greeting".into()))? {
            Greeting { version: VERSION, .. } => Ok(()),
            Greeting { version: their_version, release: theirs } => {
                let (peer, ours, our_version) = (self.peer, RELEASE, VERSION);
                let other = ConnectionError::OtherRelease {
                    peer,
                    theirs,
                    ours,
                    their_version,
                    our_version,
                };
                Err(other.into())
            }
        }
    }

    /// Both ends are connected: from now on each message has a deadline of its own.
    pub(super) fn end_rendezvous(&mut self) {
        self.rendezvous = None;
    }

    pub(crate) fn send<M: Message>(&mut self, message: &M) -> Result<(), Failure> {
        let body = encode(message)?;
        let mut bytes = Vec::with_capacity(frame::HEADER_BYTES + body.len());
        frame::append(&mut bytes, M::KIND, |out| out.extend_from_slice(&body));
        self.write(&bytes, name(M::KIND))
    }

    /// The next message, which has to be of this kind. An abort of the other end is an error here.
    pub(crate) fn receive<M: Message>(&mut self) -> Result<M, Failure> {
        let awaited = name(M::KIND);
        match self.next(awaited, M::BODY_LIMIT, self.deadline())? {
            (kind, body) if kind == M::KIND => self.decode(&body),
            (Abort::KIND, body) => Err(Failure::OtherEnd(self.decode::<Abort>(&body)?.0)),
            (kind, _) => {
                let got = name(kind);
                Err(self.garbage(format!("it sent its {got} where its {awaited} was due")))
            }
        }
    }

    /// After a failure here: lets the two ends know of each other's. The one that failed first has
    /// the reason.
    pub(super) fn explain(&mut self, failure: Failure) -> Failure {
        if failure.is_known_to_other_end() {
            return failure;
        }
        if failure.may_be_a_symptom()
            && let Some(reason) = self.last_words()
        {
            return Failure::OtherEnd(reason);
        }
        // The deadline may be what failed, and a word more does not wait for long.
        self.rendezvous = Some(self.budget.last_words(LAST_WORDS));
        let reason = failure.one_line().chars().take(REASON_CHARS).collect();
        // It may be gone already, which is no news.
        if let Err(error) = self.send(&Abort(reason)) {
            tracing::debug!(%error, "the other end was not told");
        }
        failure
    }

    /// What the other end said last, if it said why it ends.
    fn last_words(&mut self) -> Option<String> {
        let deadline = self.budget.last_words(LAST_WORDS);
        loop {
            // Results may still be on their way before it.
            match self.next("last words", RESULT_LIMIT, deadline).ok()? {
                (Abort::KIND, body) => {
                    return self.decode::<Abort>(&body).ok().map(|abort| abort.0);
                }
                _ => continue,
            }
        }
    }

    fn next(
        &self,
        awaited: &'static str,
        body_limit: usize,
        deadline: Deadline,
    ) -> Result<(u16, Vec<u8>), Failure> {
        frame::read(&mut self.reader(deadline), body_limit)
            .and_then(|frame| frame.ok_or_else(|| ErrorKind::UnexpectedEof.into()))
            .map_err(|error| self.unread(error, awaited, deadline))
    }

    fn decode<M: Message>(&self, body: &[u8]) -> Result<M, Failure> {
        let reason = || format!("its {} of {} bytes cannot be read", name(M::KIND), body.len());
        decode(body).ok_or_else(|| self.garbage(reason()))
    }

    fn garbage(&self, reason: String) -> Failure {
        ConnectionError::Garbage { peer: self.peer, reason }.into()
    }

    fn failed(&self, error: std::io::Error) -> Failure {
        Failure::io(format!("connection with {} failed", self.peer))(error)
    }

    fn deadline(&self) -> Deadline {
        self.rendezvous.unwrap_or_else(|| self.budget.step())
    }

    fn reader(&self, deadline: Deadline) -> Timed<'_> {
        Timed { stream: &self.stream, deadline }
    }

    fn write(&self, bytes: &[u8], sent: &'static str) -> Result<(), Failure> {
        let (peer, waited) = (self.peer, self.deadline());
        self.reader(waited).write_all(bytes).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                ConnectionError::Stuck { peer, sent, waited }.into()
            }
            _ => self.failed(error),
        })
    }

    /// Why reading failed.
    fn unread(&self, error: std::io::Error, awaited: &'static str, waited: Deadline) -> Failure {
        let peer = self.peer;
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                ConnectionError::Silent { peer, awaited, waited }.into()
            }
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
                let doing = format!("waiting for its {awaited}");
                ConnectionError::Closed { peer, doing }.into()
            }
            ErrorKind::InvalidData => self.garbage(error.to_string()),
            _ => self.failed(error),
        }
    }
}

/// A body in postcard's format.
pub(super) fn encode<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, Failure> {
    let failed = Failure::io("writing a message");
    postcard::to_allocvec(value).map_err(|error| failed(std::io::Error::other(error)))
}

/// The value in a body, which must be used up by it.
pub(super) fn decode<T: serde::de::DeserializeOwned>(body: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

/// A stream that is read and written until a deadline, however slowly the bytes trickle.
struct Timed<'a> {
    stream: &'a TcpStream,
    deadline: Deadline,
}

impl Timed<'_> {
    fn left(&self) -> std::io::Result<Option<Duration>> {
        match self.deadline.left() {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(out)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use proptest::prelude::*;

    use super::super::message::{Answer, Connected, Request};
    use super::*;

    const LONG: Option<Duration> = Some(Duration::from_secs(60));

    /// Two ends that have greeted each other.
    fn pair(timeouts: [Option<Duration>; 2]) -> [Link; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let left = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let right = listener.accept().unwrap().0;
        let mut left = Link::new(left, Budget::new(timeouts[0])).unwrap();
        let mut right = Link::new(right, Budget::new(timeouts[1])).unwrap();
        std::thread::scope(|scope| {
            let greeted = scope.spawn(|| left.greet());
            right.greet().unwrap();
            greeted.join().unwrap().unwrap();
        });
        [left, right]
    }

    #[test]
    fn one_deadline_bounds_the_whole_rendezvous() {
        let [mut left, mut right] = pair([LONG, LONG]);
        left.rendezvous = Some(Deadline::after(Duration::from_millis(20)));
        let silent = left.receive::<Connected>().unwrap_err().to_string();
        assert!(silent.contains("no word that it is connected within 0.02 s"), "{silent}");
        // What comes later is too late, although it comes in time after the message before.
        right.send(&Connected).unwrap();
        let late = left.receive::<Connected>().unwrap_err().to_string();
        assert_eq!(late, silent);
        left.end_rendezvous();
        let Connected = left.receive().unwrap();
    }

    #[test]
    fn one_deadline_bounds_the_whole_command_too() {
        let [mut left, mut right] = pair([LONG, LONG]);
        left.end_rendezvous();
        left.budget = Budget::new(Some(Duration::from_millis(20)));
        for _ in 0..2 {
            let silent = left.receive::<Connected>().unwrap_err().to_string();
            assert!(silent.contains("within 0.015 s (of --timeout 0.02 s)"), "{silent}");
            right.send(&Connected).unwrap();
        }
    }

    #[test]
    fn another_release_is_named_beside_this_one() {
        // Version 5 said no release; a later one may say more.
        let later = Greeting { version: 9, release: "2.7.1".into() };
        let later = [encode(&later).unwrap(), vec![1, 2, 3]].concat();
        for (greeting, theirs) in [
            (vec![5], ["tcpx of another release", "version 5 and"]),
            (later, ["tcpx 2.7.1", "version 9 and"]),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let mut link = Link::new(listener.accept().unwrap().0, Budget::new(LONG)).unwrap();
            let mut bytes = Vec::new();
            frame::append(&mut bytes, Greeting::KIND, |out| out.extend_from_slice(&greeting));
            other.write_all(&bytes).unwrap();
            let text = link.greet().unwrap_err().to_string();
            let ours = format!("this end tcpx {RELEASE}");
            for words in [theirs[0], theirs[1], &ours, "install one release on both hosts"] {
                assert!(text.contains(words), "{words}: {text}");
            }
        }
    }

    #[test]
    fn the_end_that_failed_first_has_the_reason() {
        let [mut left, mut right] = pair([LONG, LONG]);
        right.send(&Connected).unwrap();
        let first = right.explain(Failure::Usage("too\nmany channels".into()));
        assert!(matches!(first, Failure::Usage(_)), "{first}");
        let lost = left.unread(ErrorKind::ConnectionReset.into(), "go", left.deadline());
        // The message before the reason is passed over.
        let second = left.explain(lost).to_string();
        assert_eq!(second, "the other end failed: too many channels");
    }

    #[test]
    fn a_reason_is_sent_even_when_the_deadline_was_the_failure() {
        let [mut left, mut right] = pair([LONG, LONG]);
        left.rendezvous = Some(Deadline::after(Duration::from_millis(50)));
        let silent = left.receive::<Connected>().unwrap_err();
        left.explain(silent);
        let told = right.receive::<Connected>().unwrap_err().to_string();
        assert!(
            told.contains("the other end failed: ") && told.contains("within 0.05 s"),
            "{told}"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<Request>(&bytes);
            let _ = decode::<Answer>(&bytes);
        }

        #[test]
        fn a_body_has_to_be_used_up(reason in ".{0,20}", more in 1usize..4) {
            let mut body = encode(&Abort(reason.clone())).unwrap();
            prop_assert_eq!(decode::<Abort>(&body).map(|abort| abort.0), Some(reason));
            body.extend(vec![0; more]);
            prop_assert!(decode::<Abort>(&body).is_none());
        }
    }
}
