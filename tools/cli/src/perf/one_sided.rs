//! Operations of the client on memory of the server: writes or reads. The server exports its
//! memory, sends the key, and waits until the client reports the end of a turn; its session serves
//! the operations meanwhile.
//!
//! The client's clock runs from the first post of a turn until its last operation is done: for a
//! write, until every byte is in place at the server. A write of a KV cache has a notification
//! behind it, as those of connectors have. It is done when the server's program has seen that; the
//! server says so at once. For latencies each operation has a time of
//! its own, and operations run one at a time. Each operation has a slot of its own in both
//! memories. The slots are filled and poisoned before a turn, and verified after it. The source
//! memory is verified at the very end: it must be unchanged.
//!
//! An operation of several ranges is measured in turns with an operation of the same bytes in one
//! range. The processor time of a repeated post at the client is measured last, by itself, because
//! reading the clock takes time too.
//!
//! - `turns`: numbers of operations, slots and turns; pure
//! - `end`: memory and turns of both ends
//! - `requests`: operations of the client, and the notifications behind them
//! - `initiator`: the client; `target`: the server

mod end;
mod initiator;
mod requests;
mod target;
mod turns;

use end::OneSidedEnd;
pub(super) use turns::Turns;

use super::case::PlannedCase;
use super::operations::OneSided;
use super::times::CaseTimes;
use crate::failure::Failure;
use crate::output::Progress;
use crate::rendezvous::{ConnectedEnd, Role};

/// Measures one size. Both ends walk through the same turns.
pub(super) fn measure(
    connected: &mut ConnectedEnd<'_>,
    case: PlannedCase<'_>,
    one_sided: OneSided,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let end = OneSidedEnd::new(connected, case, one_sided)?;
    let times = match connected.role {
        Role::Client => initiator::measure(&mut connected.link, &end, progress)?,
        Role::Server => target::serve(&mut connected.link, &end, progress)?,
    };
    end.finish()?;
    Ok(times)
}
