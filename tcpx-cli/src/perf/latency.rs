//! Round trips: the client's message comes back from the server with the same bytes.
//!
//! The client's clock runs from posting the send until the answer is in place. What comes back was received into the
//! server's memory and is sent from there, so the whole path is walked twice. A plain socket, if asked for, waits as the
//! session does.

use std::time::{Duration, Instant};

use tcpx_core::{Post, Session, Transfer};

use super::CaseRun;
use super::baseline::{RawSockets, failed};
use super::patient_socket::PatientSocket;
use super::pattern::{Mismatch, Pattern};
use super::progress::Progress;
use super::samples::nanos;
use super::throughput::note;
use crate::bootstrap::{CaseTimes, Link, Message};
use crate::end::Role;
use crate::failure::Failure;
use crate::meeting::Agreement;

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
    link: &mut Link,
    session: &Session,
    agreement: &Agreement,
    run: CaseRun<'_>,
    raw: Option<&mut RawSockets>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let stride = run.bytes.next_multiple_of(PAGE_BYTES);
    let memory = session.allocate(PLACES * stride, agreement.memory.memory_type())?;
    let end = EndOfTrips {
        session,
        peer: agreement.peer(),
        memory,
        stride,
        run,
        timeout: link.timeout(),
    };
    let raw = raw
        .map(|raw| PatientSocket::new(raw.stream(), session.options().spin, link.timeout()))
        .transpose()
        .map_err(failed("setting up a plain socket"))?;
    let times = match agreement.role {
        Role::Client => end.ping(link, raw, progress)?,
        Role::Server => end.pong(link, raw, progress)?,
    };
    session.deregister_memory(memory)?;
    Ok(times)
}

struct EndOfTrips<'a> {
    session: &'a Session,
    peer: &'static str,
    memory: u64,
    stride: u64,
    run: CaseRun<'a>,
    timeout: Duration,
}

impl EndOfTrips<'_> {
    fn place(&self, place: u64, tag: i32) -> Post {
        let offset = (place % PLACES) * self.stride;
        Post { memory: self.memory, offset, bytes: self.run.bytes, tag }
    }

    fn receive(&self, place: u64, tag: i32) -> Result<Transfer, Failure> {
        let receive = self.session.create_transfer(self.peer)?;
        receive.post_recv(self.place(place, tag))?;
        // Announces it to the other end.
        self.session.progress();
        Ok(receive)
    }

    fn ping(
        &self,
        link: &mut Link,
        mut raw: Option<PatientSocket<'_>>,
        progress: &Progress,
    ) -> Result<CaseTimes, Failure> {
        let mut times = CaseTimes::default();
        let bytes = usize::try_from(self.run.bytes).unwrap_or(usize::MAX);
        let (mut sent, mut received) = (vec![0; bytes], vec![0; bytes]);
        link.receive_go()?;
        for round in 0..self.run.iterations() {
            let message = self.run.first_message + 2 * round;
            let pattern = Pattern::new(self.run.plan.seed, message);
            pattern.fill(0, &mut sent);
            let trip = self.session_trip(pattern, &sent, &mut received)?;
            let mismatch = pattern.check(0, &received, &mut sent).err();
            let count = self.run.is_counted(round);
            self.take(&mut times, trip, mismatch, round, "the session");
            if let Some(raw) = raw.as_mut() {
                let pattern = Pattern::new(self.run.plan.seed, message + 1);
                pattern.fill(0, &mut sent);
                pattern.poison(0, &mut received);
                let trip = raw_trip(raw, &sent, &mut received)?;
                let mismatch = pattern.check(0, &received, &mut sent).err();
                note(&mut times, mismatch, round, self.run.bytes, "a plain socket");
                if count {
                    times.raw_ns.push(nanos(trip));
                }
            }
            progress.step();
        }
        Ok(times)
    }

    fn take(
        &self,
        times: &mut CaseTimes,
        trip: Duration,
        mismatch: Option<Mismatch>,
        round: u64,
        lane: &str,
    ) {
        note(times, mismatch, round, self.run.bytes, lane);
        if self.run.is_counted(round) {
            times.session_ns.push(nanos(trip));
        }
    }

    /// Sends from the first place, receives into the second.
    fn session_trip(
        &self,
        pattern: Pattern,
        sent: &[u8],
        received: &mut [u8],
    ) -> Result<Duration, Failure> {
        let (ping, pong) = (self.place(0, PING), self.place(1, PONG));
        self.session.write_memory(self.memory, ping.offset, sent)?;
        pattern.poison(0, received);
        self.session.write_memory(self.memory, pong.offset, received)?;
        let receive = self.receive(1, PONG)?;
        let send = self.session.create_transfer(self.peer)?;
        let start = Instant::now();
        send.post_send(ping)?;
        receive.wait(Some(self.timeout))?;
        let trip = start.elapsed();
        send.wait(Some(self.timeout))?;
        drop((send, receive));
        self.session.read_memory(self.memory, pong.offset, received)?;
        Ok(trip)
    }

    fn pong(
        &self,
        link: &mut Link,
        mut raw: Option<PatientSocket<'_>>,
        progress: &Progress,
    ) -> Result<CaseTimes, Failure> {
        let rounds = self.run.iterations();
        let mut buffer = vec![0; usize::try_from(self.run.bytes).unwrap_or(usize::MAX)];
        let mut posted = std::collections::VecDeque::new();
        for round in 0..AHEAD.min(rounds) {
            posted.push_back(self.receive(round, PING)?);
        }
        link.send(&Message::Go)?;
        for round in 0..rounds {
            if let Some(receive) = posted.pop_front() {
                receive.wait(Some(self.timeout))?;
            }
            let answer = self.session.create_transfer(self.peer)?;
            answer.post_send(self.place(round, PONG))?;
            if round + AHEAD < rounds {
                posted.push_back(self.receive(round + AHEAD, PING)?);
            }
            answer.wait(Some(self.timeout))?;
            if let Some(raw) = raw.as_mut() {
                raw.receive(&mut buffer).map_err(failed("receiving over a plain socket"))?;
                raw.send(&buffer).map_err(failed("sending over a plain socket"))?;
            }
            progress.step();
        }
        Ok(CaseTimes::default())
    }
}

fn raw_trip(
    raw: &mut PatientSocket<'_>,
    sent: &[u8],
    received: &mut [u8],
) -> Result<Duration, Failure> {
    let start = Instant::now();
    raw.send(sent).map_err(failed("sending over a plain socket"))?;
    raw.receive(received).map_err(failed("receiving over a plain socket"))?;
    Ok(start.elapsed())
}
