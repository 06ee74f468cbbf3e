//! Server of one-sided operations: its memory is read or written while its program waits.

use tcpx_core::{ExportOptions, RemoteAccess};

use super::end::{End, ExportedKey, Over, Turn};
use crate::failure::Failure;
use crate::output::Progress;
use crate::perf::pattern::Content;
use crate::perf::plan::{Direction, Go};
use crate::perf::times::CaseTimes;
use crate::rendezvous::SessionLink;

pub(super) fn serve(
    link: &mut SessionLink<'_>,
    end: &End<'_>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let (session, memory) = (end.contents.session, end.contents.memory);
    let access = match end.one_sided.direction {
        Direction::Write => RemoteAccess::Write,
        Direction::Read => RemoteAccess::Read,
    };
    if access == RemoteAccess::Read {
        end.contents.write(Content::Sent, end.whole_payload())?;
    }
    let key = session.export(memory, ExportOptions::new(access))?;
    link.send(&ExportedKey(key.serialize().to_vec()))?;
    let mut times = CaseTimes::default();
    for turn in end.turns() {
        wait_out(link, end, &turn, &mut times)?;
        progress.step("");
    }
    if end.case.is_first {
        wait_out(link, end, &end.repost_turn(), &mut times)?;
    }
    // A reader may be done before the last bytes have left here.
    session.unexport(&key)?;
    if access == RemoteAccess::Read {
        let mismatch = end.contents.check(end.whole_payload())?;
        times.note(mismatch, 0, end.whole_payload().bytes, "the memory that was read");
    }
    Ok(times)
}

/// Does nothing for the length of a turn.
fn wait_out(
    link: &mut SessionLink<'_>,
    end: &End<'_>,
    turn: &Turn,
    times: &mut CaseTimes,
) -> Result<(), Failure> {
    let is_written = end.one_sided.direction == Direction::Write;
    if is_written {
        end.contents.write(Content::Poison, turn.payload)?;
    }
    link.send(&Go)?;
    let Over = link.receive()?;
    if is_written {
        let mismatch = end.contents.check(turn.payload)?;
        times.note(mismatch, turn.iterations.start, turn.payload.bytes, "writes");
    }
    Ok(())
}
