//! Notifications there and back: the client's comes back from the server with the same bytes. The
//! client's clock runs from sending one until the answer has been taken out.

use std::time::Instant;

use tcpx_core::{MemoryId, Notification, Post, Session};

use super::case::PlannedCase;
use super::pattern::{Content, Pattern};
use super::plan::Go;
use super::samples::nanos;
use super::times::CaseTimes;
use crate::failure::Failure;
use crate::output::Progress;
use crate::rendezvous::{Agreed, Link, LinkWatch, Role};

/// Tag of the message that says that the last answer has come.
const OVER: i64 = 1;

/// Measures one size.
pub(super) fn measure(
    agreed: &mut Agreed<'_>,
    case: PlannedCase<'_>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let (session, peer, watch) = (agreed.session, agreed.peer(), agreed.link.watch());
    let memory = session.allocate(1, agreed.memory.memory_type())?;
    let mut mailbox = Mailbox { session, peer, memory, case, watch, taken: Vec::new() };
    let times = match agreed.role {
        Role::Client => mailbox.ping(agreed.link, progress)?,
        Role::Server => mailbox.pong(agreed.link, progress)?,
    };
    session.deregister_memory(memory)?;
    Ok(times)
}

/// One end of the round trips of a case.
struct Mailbox<'a> {
    session: &'a Session,
    peer: &'static str,
    /// For the last message alone.
    memory: MemoryId,
    case: PlannedCase<'a>,
    watch: LinkWatch,
    /// Room for what is taken out.
    taken: Vec<Notification>,
}

impl Mailbox<'_> {
    fn ping(&mut self, link: &mut Link, progress: &Progress) -> Result<CaseTimes, Failure> {
        let mut times = CaseTimes::default();
        let mut sent = vec![0; usize::try_from(self.case.bytes).unwrap_or(usize::MAX)];
        let Go = link.receive()?;
        for trip in 0..self.case.iterations {
            progress.step("");
            self.pattern(trip).write(Content::Sent, 0, &mut sent);
            let start = Instant::now();
            self.session.notify(self.peer, &sent)?;
            let answer = self.next()?;
            let nanos = nanos(start.elapsed());
            self.check(trip, &answer, &mut times);
            times.session_ns.extend(self.case.is_counted(trip).then_some(nanos));
        }
        let over = self.session.create_transfer(self.peer)?;
        over.post_send(self.word())?;
        self.watch.wait(&over)?;
        Ok(times)
    }

    fn pong(&mut self, link: &mut Link, progress: &Progress) -> Result<CaseTimes, Failure> {
        let mut times = CaseTimes::default();
        let over = self.session.create_transfer(self.peer)?;
        over.post_recv(self.word())?;
        link.send(&Go)?;
        for trip in 0..self.case.iterations {
            progress.step("");
            let note = self.next()?;
            self.session.notify(self.peer, &note)?;
            self.check(trip, &note, &mut times);
            // It is not kept.
            times.session_ns.extend(self.case.is_counted(trip).then_some(0));
        }
        // The last answer leaves here while this end makes progress.
        self.watch.wait(&over)?;
        Ok(times)
    }

    fn pattern(&self, trip: u64) -> Pattern {
        Pattern::new(self.case.plan.seed, self.case.first_message + trip)
    }

    fn check(&self, trip: u64, note: &[u8], times: &mut CaseTimes) {
        let bytes = self.case.bytes;
        times.note(self.pattern(trip).check(0, note), trip, bytes, "notifications");
        if note.len() as u64 != bytes {
            let text = || format!("a notification of {} bytes came as one of {bytes}", note.len());
            times.mismatch.get_or_insert_with(text);
        }
    }

    /// Waits for the next one.
    fn next(&mut self) -> Result<Vec<u8>, Failure> {
        let (session, taken) = (self.session, &mut self.taken);
        self.watch.wait_notification(session, taken)?;
        Ok(taken.pop().map(|note| note.bytes).unwrap_or_default())
    }

    fn word(&self) -> Post {
        Post { memory: self.memory, offset: 0, bytes: 0, tag: OVER }
    }
}
