//! What the same machines do without the library: plain blocking sockets, a thread for each.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::pattern::{Mismatch, Pattern};
use super::share::{Answer, Job, Share, Worker};
use super::throughput::Lane;
use crate::bootstrap::{self, Link, Message, Mode, Plan, RawOffer};
use crate::end::Role;
use crate::failure::Failure;
use crate::input::variables;
use crate::meeting::Agreement;

/// Sockets of one comm, as the plugins count them.
const MOST_SOCKETS_PER_COMM: u16 = 8;
/// Token and number of the socket.
const GREETING_BYTES: usize = 18;
/// Most that an offer may ask for: every channel with every socket.
const MOST_SOCKETS: u16 = tcpx_core::MAX_CHANNELS * MOST_SOCKETS_PER_COMM;

/// As many plain sockets as the session has data sockets. The calling thread moves the first one's part.
pub(super) struct RawSockets {
    first: Share,
    others: Vec<Worker>,
    receiving: u64,
}

impl RawSockets {
    /// The server offers, the client connects.
    pub(super) fn open(
        link: &mut Link,
        agreement: &Agreement,
        plan: &Plan,
    ) -> Result<Self, Failure> {
        let streams = match agreement.role {
            Role::Client => connect(link)?,
            Role::Server => {
                let sockets = match plan.mode {
                    Mode::Latency => 1,
                    Mode::Throughput | Mode::Messages(_) => {
                        agreement.channels * sockets_per_comm()?
                    }
                };
                accept(link, sockets)?
            }
        };
        let sockets = streams.len();
        let mut shares = Vec::new();
        for (index, stream) in streams.into_iter().enumerate() {
            set_up(&stream, link.timeout()).map_err(failed("setting up a plain socket"))?;
            shares.push(Share::new(stream, index, sockets));
        }
        let first = shares.remove(0);
        let others = shares
            .into_iter()
            .map(Worker::start)
            .collect::<Result<_, _>>()
            .map_err(failed("starting a thread for a plain socket"))?;
        Ok(Self { first, others, receiving: 0 })
    }

    /// The first socket itself, for round trips.
    pub(super) fn stream(&self) -> &TcpStream {
        self.first.stream()
    }

    fn begin(&self, job: Job) {
        for worker in &self.others {
            worker.begin(job);
        }
    }

    /// Does the first part here and waits for the others.
    fn finish(&mut self, job: Job) -> Answer {
        let mut answer = self.first.run(job);
        for worker in &self.others {
            answer = match (answer, worker.finish()) {
                (Ok(None), other) => other,
                (earlier, _) => earlier,
            };
        }
        answer
    }

    fn run(&mut self, job: Job, what: &'static str) -> Result<Option<Mismatch>, Failure> {
        self.begin(job);
        self.finish(job).map_err(failed(what))
    }
}

impl Lane for RawSockets {
    fn name(&self) -> &'static str {
        "plain sockets"
    }

    fn fill(&mut self, pattern: Pattern, bytes: u64) -> Result<(), Failure> {
        self.run(Job::Fill(pattern, bytes), "filling").map(drop)
    }

    fn send(&mut self, bytes: u64) -> Result<(), Failure> {
        self.run(Job::Send(bytes), "sending over plain sockets").map(drop)
    }

    fn poison(&mut self, pattern: Pattern, bytes: u64) -> Result<(), Failure> {
        self.run(Job::Poison(pattern, bytes), "poisoning").map(drop)
    }

    fn post(&mut self, bytes: u64) -> Result<(), Failure> {
        self.receiving = bytes;
        self.begin(Job::Receive(bytes));
        Ok(())
    }

    fn wait(&mut self) -> Result<(), Failure> {
        self.finish(Job::Receive(self.receiving))
            .map(drop)
            .map_err(failed("receiving over plain sockets"))
    }

    fn check(&mut self, pattern: Pattern, bytes: u64) -> Result<Option<Mismatch>, Failure> {
        self.run(Job::Check(pattern, bytes), "checking")
    }
}

/// A deadline of a socket shows as "would block", which says nothing to a reader.
pub(super) fn failed(what: &'static str) -> impl Fn(std::io::Error) -> Failure {
    move |error| {
        let error = match error.kind() {
            ErrorKind::WouldBlock => std::io::Error::new(
                ErrorKind::TimedOut,
                "nothing moved until the deadline; is the other end stopped, or slower than --timeout?",
            ),
            _ => error,
        };
        Failure::Io { what: what.into(), error }
    }
}

/// Data sockets of one comm. The listening end decides, by the variables that the plugins read.
fn sockets_per_comm() -> Result<u16, Failure> {
    let read = |name| variables::read::<u16>(&[name]).map(|value| value.unwrap_or(1));
    Ok(sockets(read("NCCL_SOCKET_NTHREADS")?, read("NCCL_NSOCKS_PERTHREAD")?))
}

/// The plugins lower the number for each thread rather than exceed eight.
fn sockets(threads: u16, per_thread: u16) -> u16 {
    let threads = threads.clamp(1, MOST_SOCKETS_PER_COMM);
    per_thread.clamp(1, MOST_SOCKETS_PER_COMM / threads) * threads
}

fn set_up(stream: &TcpStream, timeout: Duration) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))
}

/// The client's ends, in the order of their numbers.
fn connect(link: &mut Link) -> Result<Vec<TcpStream>, Failure> {
    let RawOffer { port, sockets, token } =
        link.receive("offer of plain sockets", |message| match message {
            Message::RawOffer(offer) => Ok(offer),
            other => Err(other),
        })?;
    if !(1..=MOST_SOCKETS).contains(&sockets) {
        let text = format!("it offers {sockets} plain sockets, 1 to {MOST_SOCKETS} are possible");
        return Err(Failure::OtherEnd(text));
    }
    let address = SocketAddr::new(link.peer().ip(), port);
    (0..sockets)
        .map(|index| {
            let mut greeting = [0; GREETING_BYTES];
            greeting[..16].copy_from_slice(&token);
            greeting[16..].copy_from_slice(&index.to_le_bytes());
            let mut stream = TcpStream::connect_timeout(&address, link.timeout())?;
            stream.write_all(&greeting)?;
            Ok(stream)
        })
        .collect::<std::io::Result<_>>()
        .map_err(failed("connecting a plain socket"))
}

/// The server's ends, in the order of their numbers. Strangers are turned away.
fn accept(link: &mut Link, sockets: u16) -> Result<Vec<TcpStream>, Failure> {
    let listener: TcpListener = bootstrap::bind(SocketAddr::new(link.local_ip(), 0))?;
    let port = listener.local_addr().map_err(failed("asking for the listener's address"))?.port();
    let mut token = [0; 16];
    getrandom::fill(&mut token)
        .map_err(|error| Failure::Io { what: "choosing a token".into(), error: error.into() })?;
    link.send(&Message::RawOffer(RawOffer { port, sockets, token }))?;
    let mut streams: Vec<Option<TcpStream>> = (0..sockets).map(|_| None).collect();
    while streams.iter().any(Option::is_none) {
        let Some(mut stream) = bootstrap::accept_or_end(&listener, None, link.timeout())? else {
            continue;
        };
        set_up(&stream, link.timeout()).map_err(failed("setting up a plain socket"))?;
        let mut greeting = [0; GREETING_BYTES];
        stream.read_exact(&mut greeting).map_err(failed("greeting a plain socket"))?;
        let index = usize::from(u16::from_le_bytes([greeting[16], greeting[17]]));
        match streams.get_mut(index) {
            Some(slot @ None) if greeting[..16] == token => *slot = Some(stream),
            _ => tracing::warn!("a stranger connected to the port of the plain sockets"),
        }
    }
    Ok(streams.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_a_comm_are_counted_like_the_plugins_do() {
        for (threads, per_thread, expected) in
            [(1, 1, 1), (1, 4, 4), (2, 4, 8), (4, 4, 8), (3, 4, 6), (9, 9, 8), (0, 0, 1)]
        {
            assert_eq!(sockets(threads, per_thread), expected, "{threads} x {per_thread}");
        }
    }
}
