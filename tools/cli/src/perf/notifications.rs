//! Round trips of notifications: the server sends the client's notification back with the same
//! bytes. The client's clock runs from sending one until it has read the answer.

use std::time::Instant;

use super::case::PlannedCase;
use super::pattern::{Content, Pattern};
use super::plan::Go;
use super::samples::nanos;
use super::times::CaseTimes;
use crate::failure::Failure;
use crate::output::Progress;
use crate::rendezvous::{ConnectedEnd, Role};

/// Measures one size.
pub(super) fn measure(
    connected: &mut ConnectedEnd<'_>,
    case: PlannedCase<'_>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    match connected.role {
        Role::Client => ping(connected, case, progress),
        Role::Server => pong(connected, case, progress),
    }
}

fn ping(
    connected: &mut ConnectedEnd<'_>,
    case: PlannedCase<'_>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let mut times = CaseTimes::default();
    let mut sent = vec![0; usize::try_from(case.bytes).unwrap_or(usize::MAX)];
    let Go = connected.link.receive()?;
    for trip in 0..case.iterations {
        progress.steps(u64::from(case.is_counted(trip)));
        pattern(case, trip).write(Content::Sent, 0, &mut sent);
        let start = Instant::now();
        connected.session.notify(connected.peer(), &sent)?;
        let answer = connected.link.next_notification()?;
        let nanos = nanos(start.elapsed());
        check(case, trip, &answer, &mut times);
        times.session_ns.extend(case.is_counted(trip).then_some(nanos));
    }
    Ok(times)
}

fn pong(
    connected: &mut ConnectedEnd<'_>,
    case: PlannedCase<'_>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let mut times = CaseTimes::default();
    connected.link.send(&Go)?;
    for trip in 0..case.iterations {
        progress.steps(u64::from(case.is_counted(trip)));
        let note = connected.link.next_notification()?;
        connected.session.notify(connected.peer(), &note)?;
        check(case, trip, &note, &mut times);
        // The server holds no notification.
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
        let text = || format!("a notification of {bytes} bytes arrived with {}", note.len());
        times.mismatch.get_or_insert_with(text);
    }
}
