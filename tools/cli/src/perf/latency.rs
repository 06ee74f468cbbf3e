//! Round trips: the server sends the client's message back with the same bytes, in turns over the
//! session and over a plain socket.
//!
//! The client's clock runs from posting the send until the answer is in place. The server receives
//! the message into its memory and sends the answer from there, so the bytes take the whole path
//! twice.
//!
//! Both ends may be idle before each message, the client before its clock starts. The server
//! reports for how long it held the message before it answered, and this time is subtracted: no two
//! clocks are compared.
//!
//! A turn has several trips: the system needs a few trips to place the two processes. The messages
//! of a turn are filled before the turn and verified after it, so that its trips follow one another
//! at once, and no trip includes waking up an end that waited for a pattern.
//!
//! A late receive is posted when the sender's notice has arrived, which is sent just before the
//! message.

use std::collections::VecDeque;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use tcpx_core::{MemoryId, Post, Session, Transfer};

use super::baseline::PlainSocket;
use super::case::PlannedCase;
use super::pattern::{Content, Pattern};
use super::plan::{Go, Receives};
use super::samples::nanos;
use super::times::CaseTimes;
use crate::budget::Budget;
use crate::failure::Failure;
use crate::output::Progress;
use crate::rendezvous::{ConnectedEnd, Role, SessionLink};

const PING: i64 = 1;
const PONG: i64 = 2;
/// Most trips of a turn.
const TURN: u64 = 50;
/// Most bytes that the client sends in one turn, but for the first message.
const TURN_BYTES: u64 = 32 << 20;
/// Receives that the server posts in advance, so that no ping waits for a receive.
const AHEAD: u64 = 2;
/// Slots for messages at the server: two posted receives, one answer under way, one to spare.
const SERVER_SLOTS: u64 = 4;
/// Alignment of slots.
const PAGE_BYTES: u64 = 4096;

/// Measures one size.
pub(super) fn measure(
    connected: &mut ConnectedEnd<'_>,
    case: PlannedCase<'_>,
    plain: Option<&PlainSocket>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let (session, peer, budget) = (connected.session, connected.peer(), connected.link.budget());
    let stride = case.bytes.next_multiple_of(PAGE_BYTES);
    let turn = (TURN_BYTES / stride).clamp(1, TURN.min(case.iterations));
    let role = connected.role;
    let slots = match role {
        // The outgoing message, and the answer.
        Role::Client => 2 * turn,
        Role::Server => SERVER_SLOTS,
    };
    let memory = session.allocate(slots * stride, connected.memory.memory_type())?;
    let (link, idle) = (&mut connected.link, Duration::from_millis(case.plan.idle_ms.into()));
    let is_late = case.plan.receives == Receives::Late;
    let mut trips = RoundTripEnd {
        session,
        peer,
        memory,
        stride,
        turn,
        case,
        budget,
        link,
        idle,
        is_late,
        plain,
    };
    let times = match role {
        Role::Client => trips.ping(progress)?,
        Role::Server => trips.pong(progress)?,
    };
    session.deregister_memory(memory)?;
    Ok(times)
}

/// One end of the round trips of a case.
struct RoundTripEnd<'a, 's> {
    session: &'a Session,
    peer: &'static str,
    memory: MemoryId,
    stride: u64,
    /// Most trips of a turn.
    turn: u64,
    case: PlannedCase<'a>,
    budget: Budget,
    link: &'a mut SessionLink<'s>,
    idle: Duration,
    is_late: bool,
    plain: Option<&'a PlainSocket>,
}

impl RoundTripEnd<'_, '_> {
    fn post_at(&self, slot: u64, tag: i64) -> Post {
        let offset = slot * self.stride;
        Post { memory: self.memory, offset, bytes: self.case.bytes, tag }
    }

    fn receive(&self, slot: u64, tag: i64) -> Result<Transfer, Failure> {
        let receive = self.session.create_transfer(self.peer)?;
        receive.post_recv(self.post_at(slot, tag))?;
        // Sends the posted receive to the other end.
        self.session.progress();
        Ok(receive)
    }

    /// Sleeps for the idle time of the plan. Returns for how long, in ns.
    fn sleep_idle(&self) -> u64 {
        if self.idle.is_zero() {
            return 0;
        }
        let start = Instant::now();
        thread::sleep(self.idle);
        nanos(start.elapsed())
    }

    /// Sends the notice of a message, if the other end waits for it.
    fn send_notice(&mut self) -> Result<(), Failure> {
        if self.is_late { self.link.send(&Go) } else { Ok(()) }
    }

    /// Waits for the notice of a message, if its receive is posted late.
    fn await_notice(&mut self) -> Result<(), Failure> {
        if self.is_late {
            let Go = self.link.receive()?;
        }
        Ok(())
    }

    fn ping(&mut self, progress: &Progress) -> Result<CaseTimes, Failure> {
        let mut times = CaseTimes::default();
        let mut messages = TurnMessages::new(self.turn, self.case.bytes);
        let Go = self.link.receive()?;
        for (trips, plain) in turns(self.case.iterations, self.turn, self.plain) {
            messages.prepare(self.case, &trips, plain.is_some());
            if plain.is_none() {
                self.load(&messages, &trips, progress)?;
            }
            for (slot, trip) in trips.clone().enumerate() {
                let (nanos, series) = if let Some(socket) = plain {
                    let (sent, received) = messages.at(slot);
                    (self.plain_trip(socket, sent, received)?, &mut times.raw_ns)
                } else {
                    (self.session_trip(slot as u64)?, &mut times.session_ns)
                };
                series.extend(self.case.is_counted(trip).then_some(nanos));
            }
            if plain.is_none() {
                self.fetch(&mut messages, &trips)?;
            }
            messages.check(&trips, plain.is_some(), &mut times);
        }
        Ok(times)
    }

    /// Returns the slot of the answer to the message of one slot.
    fn answer_slot(&self, slot: u64) -> u64 {
        self.turn + slot
    }

    /// Writes the messages of a turn, and the poison of their answers, to the session's memory.
    fn load(
        &self,
        messages: &TurnMessages,
        trips: &Range<u64>,
        progress: &Progress,
    ) -> Result<(), Failure> {
        for (slot, trip) in trips.clone().enumerate() {
            progress.steps(u64::from(self.case.is_counted(trip)));
            let (sent, received) = messages.bytes(slot);
            let slot = slot as u64;
            self.session.write_memory(self.memory, slot * self.stride, sent)?;
            let answer = self.answer_slot(slot) * self.stride;
            self.session.write_memory(self.memory, answer, received)?;
        }
        Ok(())
    }

    /// Reads the answers of a turn from the session's memory.
    fn fetch(&self, messages: &mut TurnMessages, trips: &Range<u64>) -> Result<(), Failure> {
        for (slot, _) in trips.clone().enumerate() {
            let answer = self.answer_slot(slot as u64) * self.stride;
            self.session.read_memory(self.memory, answer, messages.at(slot).1)?;
        }
        Ok(())
    }

    fn session_trip(&mut self, slot: u64) -> Result<u64, Failure> {
        let answer = self.answer_slot(slot);
        let ahead = if self.is_late { None } else { Some(self.receive(answer, PONG)?) };
        let send = self.session.create_transfer(self.peer)?;
        self.sleep_idle();
        let start = Instant::now();
        self.send_notice()?;
        send.post_send(self.post_at(slot, PING))?;
        let receive = match ahead {
            Some(receive) => receive,
            None => {
                self.budget.wait(&send)?;
                self.await_notice()?;
                self.receive(answer, PONG)?
            }
        };
        self.budget.wait(&receive)?;
        let trip = nanos(start.elapsed());
        self.budget.wait(&send)?;
        Ok(trip)
    }

    fn plain_trip(
        &mut self,
        socket: &PlainSocket,
        sent: &[u8],
        received: &mut [u8],
    ) -> Result<u64, Failure> {
        let failed = || Failure::io("a round trip over a plain socket");
        self.sleep_idle();
        let start = Instant::now();
        self.send_notice()?;
        socket.send(sent).map_err(failed())?;
        self.await_notice()?;
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
            posted.push_back(self.receive(trip % SERVER_SLOTS, PING)?);
        }
        self.link.send(&Go)?;
        let all = turns(trips, self.turn, self.plain);
        for (trip, plain) in all.flat_map(|(trips, plain)| trips.map(move |trip| (trip, plain))) {
            let (held, series) = if let Some(socket) = plain {
                (self.plain_answer(socket, &mut buffer)?, &mut times.raw_ns)
            } else {
                progress.steps(u64::from(self.case.is_counted(trip)));
                let next = (ahead > 0 && trip + ahead < trips).then_some(trip + ahead);
                (self.session_answer(trip, next, &mut posted)?, &mut times.session_ns)
            };
            series.extend(self.case.is_counted(trip).then_some(held));
        }
        Ok(times)
    }

    /// Answers one message, and posts the receive of trip `next`. Returns for how long the message
    /// was held, in ns.
    fn session_answer(
        &mut self,
        trip: u64,
        next: Option<u64>,
        posted: &mut VecDeque<Transfer>,
    ) -> Result<u64, Failure> {
        self.await_notice()?;
        let receive = match posted.pop_front() {
            Some(receive) => receive,
            None => self.receive(trip % SERVER_SLOTS, PING)?,
        };
        self.budget.wait(&receive)?;
        // An idle end posts it before the answer: behind the answer it would delay the other end,
        // if that runs on the same processor.
        let (before, after) = if self.idle.is_zero() { (None, next) } else { (next, None) };
        self.post_ahead(before, posted)?;
        let held = self.sleep_idle();
        self.send_notice()?;
        let answer = self.session.create_transfer(self.peer)?;
        answer.post_send(self.post_at(trip % SERVER_SLOTS, PONG))?;
        self.post_ahead(after, posted)?;
        self.budget.wait(&answer)?;
        Ok(held)
    }

    /// Posts the receive of a trip, if there is one to post.
    fn post_ahead(
        &self,
        trip: Option<u64>,
        posted: &mut VecDeque<Transfer>,
    ) -> Result<(), Failure> {
        if let Some(trip) = trip {
            posted.push_back(self.receive(trip % SERVER_SLOTS, PING)?);
        }
        Ok(())
    }

    /// Answers one message over the plain socket. Returns for how long it was held, in ns.
    fn plain_answer(&mut self, socket: &PlainSocket, buffer: &mut [u8]) -> Result<u64, Failure> {
        let failed = || Failure::io("answering over a plain socket");
        self.await_notice()?;
        socket.receive(buffer).map_err(failed())?;
        let held = self.sleep_idle();
        self.send_notice()?;
        socket.send(buffer).map_err(failed())?;
        Ok(held)
    }
}

/// Messages of a turn, as they are sent and as they are received back.
struct TurnMessages {
    bytes: usize,
    sent: Vec<u8>,
    received: Vec<u8>,
    patterns: Vec<Pattern>,
}

impl TurnMessages {
    fn new(turn: u64, bytes: u64) -> Self {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let room = bytes.saturating_mul(turn as usize);
        Self { bytes, sent: vec![0; room], received: vec![0; room], patterns: Vec::new() }
    }

    fn prepare(&mut self, case: PlannedCase<'_>, trips: &Range<u64>, is_plain: bool) {
        let pattern = |trip| {
            let message = case.first_message + 2 * trip + u64::from(is_plain);
            Pattern::new(case.plan.seed, message)
        };
        self.patterns = trips.clone().map(pattern).collect();
        let sent = self.sent.chunks_exact_mut(self.bytes);
        let slots = sent.zip(self.received.chunks_exact_mut(self.bytes));
        for (pattern, (sent, received)) in self.patterns.iter().zip(slots) {
            pattern.write(Content::Sent, 0, sent);
            pattern.write(Content::Poison, 0, received);
        }
    }

    /// Returns the outgoing bytes of a slot, and the bytes of their answer.
    fn bytes(&self, slot: usize) -> (&[u8], &[u8]) {
        let range = slot * self.bytes..(slot + 1) * self.bytes;
        (&self.sent[range.clone()], &self.received[range])
    }

    fn at(&mut self, slot: usize) -> (&[u8], &mut [u8]) {
        let range = slot * self.bytes..(slot + 1) * self.bytes;
        (&self.sent[range.clone()], &mut self.received[range])
    }

    fn check(&self, trips: &Range<u64>, is_plain: bool, times: &mut CaseTimes) {
        let path = if is_plain { "a plain socket" } else { "the session" };
        let slots = self.patterns.iter().zip(self.received.chunks_exact(self.bytes));
        for (trip, (pattern, received)) in trips.clone().zip(slots) {
            times.note(pattern.check(0, received), trip, self.bytes as u64, path);
        }
    }
}

/// Runs all trips over the session and, if there is one, over the plain socket, in turns of at most
/// this many.
fn turns<T>(
    trips: u64,
    most: u64,
    plain: Option<&T>,
) -> impl Iterator<Item = (Range<u64>, Option<&T>)> {
    (0..trips.div_ceil(most)).flat_map(move |turn| {
        let turn = turn * most..trips.min((turn + 1) * most);
        let over_plain = plain.map(|socket| (turn.clone(), Some(socket)));
        [(turn, None)].into_iter().chain(over_plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_paths_make_every_trip_once_and_take_turns() {
        let all: Vec<(Range<u64>, Option<&()>)> = turns(120, 50, Some(&())).collect();
        for plain in [None, Some(&())] {
            let of_path = all.iter().filter(|turn| turn.1 == plain);
            assert!(of_path.flat_map(|turn| turn.0.clone()).eq(0..120));
        }
        assert!(all.windows(2).all(|pair| pair[0].1 != pair[1].1));
        assert_eq!(all.len(), 6, "three turns each");
        assert!(turns::<()>(7, 3, None).eq([(0..3, None), (3..6, None), (6..7, None)]));
    }
}
