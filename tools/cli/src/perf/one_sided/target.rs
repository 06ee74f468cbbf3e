//! Server of one-sided operations: its memory is read or written while its program waits.

use tcpx_core::{ExportOptions, RemoteAccess};

use super::end::{ExportedKey, Layout, OneSidedEnd, Turn, TurnEnd};
use crate::failure::Failure;
use crate::output::Progress;
use crate::perf::operations::{Direction, Written};
use crate::perf::pattern::Content;
use crate::perf::plan::Go;
use crate::perf::processor::{ProcessorTimes, Stopwatch};
use crate::perf::times::CaseTimes;
use crate::rendezvous::SessionLink;

pub(super) fn serve(
    link: &mut SessionLink<'_>,
    end: &OneSidedEnd<'_>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let (session, memory) = (end.buffer.session, end.buffer.memory);
    let access = match end.one_sided.direction {
        Direction::Write => RemoteAccess::Write,
        Direction::Read => RemoteAccess::Read,
    };
    if access == RemoteAccess::Read {
        end.buffer.write(Content::Sent, end.whole_payload())?;
    }
    let key = session.export(memory, ExportOptions::new(access))?;
    link.send(&ExportedKey(key.serialize().to_vec()))?;
    let mut times = CaseTimes::default();
    for turn in end.turns() {
        let time = serve_turn(link, end, &turn, &mut times)?;
        if end.costs_count(&turn) {
            times.count(time);
        }
        if turn.layout == Layout::Ranges {
            progress.steps(end.case.counted_of(&turn.iterations));
        }
    }
    if end.case.is_first {
        serve_turn(link, end, &end.repost_turn(), &mut times)?;
    }
    // A read may complete at the client before its last bytes are reported here.
    session.unexport(&key)?;
    if access == RemoteAccess::Read {
        let mismatch = end.buffer.check(end.whole_payload())?;
        times.note(mismatch, 0, end.whole_payload().bytes, "the memory that was read");
    }
    Ok(times)
}

/// Waits for the end of a turn, while the session serves its operations, and answers the
/// notifications behind them. Returns the times until then.
fn serve_turn(
    link: &mut SessionLink<'_>,
    end: &OneSidedEnd<'_>,
    turn: &Turn,
    times: &mut CaseTimes,
) -> Result<ProcessorTimes, Failure> {
    let is_written = end.one_sided.direction == Direction::Write;
    if is_written {
        end.buffer.write(Content::Poison, turn.payload)?;
    }
    let watch = Stopwatch::start();
    link.send(&Go)?;
    if end.one_sided.is_notified {
        for _ in 0..turn.operations {
            let written: Written = link.receive()?;
            link.send(&written)?;
        }
    }
    let TurnEnd = link.receive()?;
    let time = watch.read();
    if is_written {
        let mismatch = end.buffer.check(turn.payload)?;
        times.note(mismatch, turn.iterations.start, turn.payload.bytes, "writes");
    }
    Ok(time)
}
