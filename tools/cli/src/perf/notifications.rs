//! Notifications there and back: the client's notification comes back from the server with the same
//! bytes. The client's clock runs from sending one until the answer has been taken out.

use std::time::Instant;

use super::case::PlannedCase;
use super::pattern::{Content, Pattern};
use super::plan::Go;
use super::samples::nanos;
use super::times::CaseTimes;
use crate::failure::Failure;
use crate::output::Progress;
use crate::rendezvous::{Agreed, Role};

/// Measures one size.
pub(super) fn measure(
    agreed: &mut Agreed<'_>,
    case: PlannedCase<'_>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    match agreed.role {
        Role::Client => ping(agreed, case, progress),
        Role::Server => pong(agreed, case, progress),
    }
}

fn ping(
    agreed: &mut Agreed<'_>,
    case: PlannedCase<'_>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let mut times = CaseTimes::default();
    let mut sent = vec![0; usize::try_from(case.bytes).unwrap_or(usize::MAX)];
    let Go = agreed.link.receive()?;
    for trip in 0..case.iterations {
        progress.step("");
        pattern(case, trip).write(Content::Sent, 0, &mut sent);
        let start = Instant::now();
        agreed.session.notify(agreed.peer(), &sent)?;
        let answer = agreed.link.measured_note()?;
        let nanos = nanos(start.elapsed());
        check(case, trip, &answer, &mut times);
        times.session_ns.extend(case.is_counted(trip).then_some(nanos));
    }
    Ok(times)
}

fn pong(
    agreed: &mut Agreed<'_>,
    case: PlannedCase<'_>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let mut times = CaseTimes::default();
    agreed.link.send(&Go)?;
    for trip in 0..case.iterations {
        progress.step("");
        let note = agreed.link.measured_note()?;
        agreed.session.notify(agreed.peer(), &note)?;
        check(case, trip, &note, &mut times);
        // It is not kept.
        times.session_ns.extend(case.is_counted(trip).then_some(0));
    }
    Ok(times)
}

fn pattern(case: PlannedCase<'_>, trip: u64) -> Pattern {
    Pattern::new(case.plan.seed, case.first_message + trip)
}

fn check(case: PlannedCase<'_>, trip: u64, note: &[u8], times: &mut CaseTimes) {
    let bytes = case.bytes;
    times.note(pattern(case, trip).check(0, note), trip, bytes, "notifications");
    if note.len() as u64 != bytes {
        let text = || format!("a notification of {} bytes came as one of {bytes}", note.len());
        times.mismatch.get_or_insert_with(text);
    }
}
