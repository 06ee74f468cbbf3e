//! Round trips: the client's message comes back from the server with the same bytes, in turns over
//! the session and over a plain socket.
//!
//! The client's clock runs from posting the send until the answer is in place. What comes back was
//! received into the server's memory and is sent from there, so the whole path is walked twice.
//!
//! Both ends may be idle before each message. Then the client waits until its clock starts, and
//! the server says how long it kept the message before it answered, which is taken off: so no two
//! clocks are compared.
//!
//! Turns are some trips long: the system moves two processes to processors that suit how they wait,
//! and needs a few trips for it.
//!
//! A receive that is posted late is posted when the sender's word has come, which leaves just
//! before the message.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use tcpx_core::{MemoryId, Post, Session, Transfer};

use super::baseline::PlainSocket;
use super::pattern::{Content, Pattern};
use super::plan::{Go, PlannedCase, Receives};
use super::samples::nanos;
use super::times::CaseTimes;
use crate::failure::Failure;
use crate::output::Progress;
use crate::rendezvous::{Agreed, Link, LinkWatch, Role};

const PING: i32 = 1;
const PONG: i32 = 2;
/// Trips of a turn.
const TURN: u64 = 50;
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
    let role = agreed.role;
    let (link, idle) = (&mut *agreed.link, Duration::from_millis(case.plan.idle_ms.into()));
    let is_late = case.plan.receives == Receives::Late;
    let mut trips =
        Endpoint { session, peer, memory, stride, case, watch, link, idle, is_late, plain };
    let times = match role {
        Role::Client => trips.ping(progress)?,
        Role::Server => trips.pong(progress)?,
    };
    session.deregister_memory(memory)?;
    Ok(times)
}

/// One end of the round trips of a case.
struct Endpoint<'a> {
    session: &'a Session,
    peer: &'static str,
    memory: MemoryId,
    stride: u64,
    case: PlannedCase<'a>,
    watch: LinkWatch,
    link: &'a mut Link,
    idle: Duration,
    is_late: bool,
    plain: Option<&'a PlainSocket>,
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

    /// Does nothing, if asked to. Returns for how long, in ns.
    fn rest(&self) -> u64 {
        if self.idle.is_zero() {
            return 0;
        }
        let start = Instant::now();
        thread::sleep(self.idle);
        nanos(start.elapsed())
    }

    /// Tells the other end that a message comes now, if it waits for that.
    fn warn(&mut self) -> Result<(), Failure> {
        if self.is_late { self.link.send(&Go) } else { Ok(()) }
    }

    /// Waits until a message is on its way, if its receive is to be posted no sooner.
    fn await_warning(&mut self) -> Result<(), Failure> {
        if self.is_late {
            let Go = self.link.receive()?;
        }
        Ok(())
    }

    fn ping(&mut self, progress: &Progress) -> Result<CaseTimes, Failure> {
        let mut times = CaseTimes::default();
        let bytes = self.case.bytes;
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let (mut sent, mut received) = (vec![0; length], vec![0; length]);
        let Go = self.link.receive()?;
        for (trip, plain) in turns(self.case.iterations, self.plain) {
            let message = self.case.first_message + 2 * trip + u64::from(plain.is_some());
            let pattern = Pattern::new(self.case.plan.seed, message);
            pattern.write(Content::Sent, 0, &mut sent);
            pattern.write(Content::Poison, 0, &mut received);
            let (nanos, series, path) = if let Some(socket) = plain {
                let nanos = self.plain_trip(socket, &sent, &mut received)?;
                (nanos, &mut times.raw_ns, "a plain socket")
            } else {
                progress.step("");
                let nanos = self.session_trip(&sent, &mut received)?;
                (nanos, &mut times.session_ns, "the session")
            };
            series.extend(self.case.is_counted(trip).then_some(nanos));
            times.note(pattern.check(0, &received), trip, bytes, path);
        }
        Ok(times)
    }

    /// Sends from the first place, receives into the second.
    fn session_trip(&mut self, sent: &[u8], received: &mut [u8]) -> Result<u64, Failure> {
        let (ping, pong) = (self.place(0, PING), self.place(1, PONG));
        self.session.write_memory(self.memory, ping.offset, sent)?;
        self.session.write_memory(self.memory, pong.offset, received)?;
        let ahead = if self.is_late { None } else { Some(self.receive(1, PONG)?) };
        let send = self.session.create_transfer(self.peer)?;
        self.rest();
        let start = Instant::now();
        self.warn()?;
        send.post_send(ping)?;
        let receive = match ahead {
            Some(receive) => receive,
            None => {
                self.watch.wait(&send)?;
                self.await_warning()?;
                self.receive(1, PONG)?
            }
        };
        self.watch.wait(&receive)?;
        let trip = nanos(start.elapsed());
        self.watch.wait(&send)?;
        drop((send, receive));
        self.session.read_memory(self.memory, pong.offset, received)?;
        Ok(trip)
    }

    fn plain_trip(
        &mut self,
        socket: &PlainSocket,
        sent: &[u8],
        received: &mut [u8],
    ) -> Result<u64, Failure> {
        let failed = || Failure::io("a round trip over a plain socket");
        self.rest();
        let start = Instant::now();
        self.warn()?;
        socket.send(sent).map_err(failed())?;
        self.await_warning()?;
        socket.receive(received).map_err(failed())?;
        Ok(nanos(start.elapsed()))
    }

    fn pong(&mut self, progress: &Progress) -> Result<CaseTimes, Failure> {
        let mut times = CaseTimes::default();
        let trips = self.case.iterations;
        let mut buffer = vec![0; usize::try_from(self.case.bytes).unwrap_or(usize::MAX)];
        let ahead = if self.is_late { 0 } else { AHEAD };
        let mut posted = VecDeque::new();
        for trip in 0..ahead.min(trips) {
            posted.push_back(self.receive(trip, PING)?);
        }
        self.link.send(&Go)?;
        for (trip, plain) in turns(trips, self.plain) {
            let (kept, series) = if let Some(socket) = plain {
                (self.plain_answer(socket, &mut buffer)?, &mut times.raw_ns)
            } else {
                progress.step("");
                let next = (ahead > 0 && trip + ahead < trips).then_some(trip + ahead);
                (self.session_answer(trip, next, &mut posted)?, &mut times.session_ns)
            };
            series.extend(self.case.is_counted(trip).then_some(kept));
        }
        Ok(times)
    }

    /// Posts the receive of trip `next`, if there is one to post ahead. Returns for how long the
    /// message was kept, in ns.
    fn session_answer(
        &mut self,
        trip: u64,
        next: Option<u64>,
        posted: &mut VecDeque<Transfer>,
    ) -> Result<u64, Failure> {
        self.await_warning()?;
        let receive = match posted.pop_front() {
            Some(receive) => receive,
            None => self.receive(trip, PING)?,
        };
        self.watch.wait(&receive)?;
        let kept = self.rest();
        self.warn()?;
        let answer = self.session.create_transfer(self.peer)?;
        answer.post_send(self.place(trip, PONG))?;
        if let Some(next) = next {
            posted.push_back(self.receive(next, PING)?);
        }
        self.watch.wait(&answer)?;
        Ok(kept)
    }

    /// Returns for how long the message was kept, in ns.
    fn plain_answer(&mut self, socket: &PlainSocket, buffer: &mut [u8]) -> Result<u64, Failure> {
        let failed = || Failure::io("answering over a plain socket");
        self.await_warning()?;
        socket.receive(buffer).map_err(failed())?;
        let kept = self.rest();
        self.warn()?;
        socket.send(buffer).map_err(failed())?;
        Ok(kept)
    }
}

/// All trips over the session and, if there is one, over the plain socket, in turns.
fn turns<T>(trips: u64, plain: Option<&T>) -> impl Iterator<Item = (u64, Option<&T>)> {
    let of_turn = move |first: u64| {
        let turn = first..trips.min(first + TURN);
        let over_plain = plain.into_iter().flat_map({
            let turn = turn.clone();
            move |socket| turn.clone().map(move |trip| (trip, Some(socket)))
        });
        turn.map(|trip| (trip, None)).chain(over_plain)
    };
    (0..trips.div_ceil(TURN)).flat_map(move |turn| of_turn(turn * TURN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_make_every_trip_once_and_take_turns() {
        let all: Vec<(u64, Option<&()>)> = turns(120, Some(&())).collect();
        for plain in [None, Some(&())] {
            let trips = all.iter().filter(|turn| turn.1 == plain).map(|turn| turn.0);
            assert!(trips.eq(0..120));
        }
        let changes = all.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
        assert_eq!(changes, 5, "three turns each");
        assert!(turns::<()>(120, None).eq((0..120).map(|trip| (trip, None))));
    }
}
