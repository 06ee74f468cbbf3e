//! Round trips: the client's message comes back from the server with the same bytes.
//!
//! The client's clock runs from posting the send until the answer is in place. What comes back was
//! received into the server's memory and is sent from there, so the whole path is walked twice. A
//! plain socket, if asked for, waits as the session does.

use std::collections::VecDeque;
use std::time::Instant;

use tcpx_core::{MemoryId, Post, Session, Transfer};

use super::baseline::PlainSocket;
use super::pattern::{Content, Pattern};
use super::plan::{Go, PlannedCase};
use super::samples::nanos;
use super::times::CaseTimes;
use crate::failure::Failure;
use crate::output::Progress;
use crate::rendezvous::{Agreed, Link, LinkWatch, Role};

const PING: i32 = 1;
const PONG: i32 = 2;
/// Receives that the server has posted ahead, so that no ping waits for one.
const AHEAD: u64 = 2;
/// Places for messages at the server: those posted ahead, one on its way back, one to spare.
const PLACES: u64 = 4;
/// Places begin on pages.
const PAGE_BYTES: u64 = 4096;

/// Measures one size.
pub(super) fn measure(
    agreed: &mut Agreed<'_>,
    case: PlannedCase<'_>,
    plain: Option<&PlainSocket>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let (session, peer, watch) = (agreed.session, agreed.peer(), agreed.link.watch());
    let stride = case.bytes.next_multiple_of(PAGE_BYTES);
    let memory = session.allocate(PLACES * stride, agreed.memory.memory_type())?;
    let trips = Endpoint { session, peer, memory, stride, case, watch, plain, progress };
    let times = match agreed.role {
        Role::Client => trips.ping(agreed.link)?,
        Role::Server => trips.pong(agreed.link)?,
    };
    session.deregister_memory(memory)?;
    Ok(times)
}

/// Sends the first bytes and receives as many into the second. Returns how long that took, in ns.
type Trip<'a> = &'a dyn Fn(&[u8], &mut [u8]) -> Result<u64, Failure>;

/// One end of the round trips of a case.
struct Endpoint<'a> {
    session: &'a Session,
    peer: &'static str,
    memory: MemoryId,
    stride: u64,
    case: PlannedCase<'a>,
    watch: LinkWatch,
    plain: Option<&'a PlainSocket>,
    progress: &'a Progress,
}

impl Endpoint<'_> {
    fn place(&self, place: u64, tag: i32) -> Post {
        let offset = (place % PLACES) * self.stride;
        Post { memory: self.memory, offset, bytes: self.case.bytes, tag }
    }

    fn receive(&self, place: u64, tag: i32) -> Result<Transfer, Failure> {
        let receive = self.session.create_transfer(self.peer)?;
        receive.post_recv(self.place(place, tag))?;
        // Announces it to the other end.
        self.session.progress();
        Ok(receive)
    }

    fn ping(&self, link: &mut Link) -> Result<CaseTimes, Failure> {
        let mut times = CaseTimes::default();
        let bytes = self.case.bytes;
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let (mut sent, mut received) = (vec![0; length], vec![0; length]);
        let Go = link.receive()?;
        for round in 0..self.case.iterations {
            let mut trip = |index, path, go: Trip<'_>| {
                let message = self.case.first_message + 2 * round + index;
                let pattern = Pattern::new(self.case.plan.seed, message);
                pattern.write(Content::Sent, 0, &mut sent);
                pattern.write(Content::Poison, 0, &mut received);
                let nanos = go(&sent, &mut received)?;
                times.note(pattern.check(0, &received), round, bytes, path);
                Ok::<_, Failure>(self.case.is_counted(round).then_some(nanos))
            };
            let session_ns =
                trip(0, "the session", &|sent, received| self.session_trip(sent, received))?;
            let raw_ns = self.plain.map(|socket| {
                trip(1, "a plain socket", &|sent, received| plain_trip(socket, sent, received))
            });
            times.session_ns.extend(session_ns);
            times.raw_ns.extend(raw_ns.transpose()?.flatten());
            self.progress.step("");
        }
        Ok(times)
    }

    /// Sends from the first place, receives into the second.
    fn session_trip(&self, sent: &[u8], received: &mut [u8]) -> Result<u64, Failure> {
        let (ping, pong) = (self.place(0, PING), self.place(1, PONG));
        self.session.write_memory(self.memory, ping.offset, sent)?;
        self.session.write_memory(self.memory, pong.offset, received)?;
        let receive = self.receive(1, PONG)?;
        let send = self.session.create_transfer(self.peer)?;
        let start = Instant::now();
        send.post_send(ping)?;
        self.watch.wait(&receive)?;
        let trip = nanos(start.elapsed());
        self.watch.wait(&send)?;
        drop((send, receive));
        self.session.read_memory(self.memory, pong.offset, received)?;
        Ok(trip)
    }

    fn pong(&self, link: &mut Link) -> Result<CaseTimes, Failure> {
        let rounds = self.case.iterations;
        let mut buffer = vec![0; usize::try_from(self.case.bytes).unwrap_or(usize::MAX)];
        let mut posted = VecDeque::new();
        for round in 0..AHEAD.min(rounds) {
            posted.push_back(self.receive(round, PING)?);
        }
        link.send(&Go)?;
        for round in 0..rounds {
            if let Some(receive) = posted.pop_front() {
                self.watch.wait(&receive)?;
            }
            let answer = self.session.create_transfer(self.peer)?;
            answer.post_send(self.place(round, PONG))?;
            if round + AHEAD < rounds {
                posted.push_back(self.receive(round + AHEAD, PING)?);
            }
            self.watch.wait(&answer)?;
            if let Some(plain) = self.plain {
                let answered = plain.receive(&mut buffer).and_then(|()| plain.send(&buffer));
                answered.map_err(Failure::io("answering over a plain socket"))?;
            }
            self.progress.step("");
        }
        Ok(CaseTimes::default())
    }
}

fn plain_trip(socket: &PlainSocket, sent: &[u8], received: &mut [u8]) -> Result<u64, Failure> {
    let start = Instant::now();
    let returned = socket.send(sent).and_then(|()| socket.receive(received));
    returned.map_err(Failure::io("a round trip over a plain socket"))?;
    Ok(nanos(start.elapsed()))
}
