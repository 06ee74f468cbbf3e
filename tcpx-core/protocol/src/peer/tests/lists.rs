//! The lists of a protocol against what a search through all operations finds.

use std::collections::{BTreeMap, BTreeSet};

use super::driver::{Check, ensure};
use crate::peer::PeerProtocol;
use crate::peer::op_list::OpList;
use crate::peer::operation::OpState;
use crate::types::{OpKey, TransferKey};

/// What a search finds of one transfer.
#[derive(Default)]
struct Found {
    waiting: BTreeSet<OpKey>,
    unmatched: usize,
}

/// Every operation stands in the list that its state tells, once, and the numbers are right.
pub(super) fn check(protocol: &PeerProtocol) -> Check {
    let mut found: BTreeMap<TransferKey, Found> = BTreeMap::new();
    let mut cancelling = BTreeSet::new();
    for (op, operation) in &protocol.operations {
        let of_transfer = found.entry(operation.posted.transfer).or_default();
        match operation.state {
            OpState::SendWaits | OpState::Unannounced | OpState::Announced => {
                of_transfer.waiting.insert(op);
            }
            OpState::Cancelling(_) => {
                cancelling.insert(op);
            }
            OpState::Asked | OpState::Matched { .. } => continue,
        }
        of_transfer.unmatched += 1;
    }
    ensure!(walk(protocol, protocol.cancelling)? == cancelling, "the withdrawn ones differ");
    for (transfer, found) in &found {
        let backlog = protocol.backlogs.get(*transfer).copied().unwrap_or_default();
        let waiting = walk(protocol, backlog.waiting)?;
        ensure!(waiting == found.waiting, "{waiting:?} wait, not {:?}", found.waiting);
        let told = protocol.unmatched(*transfer);
        ensure!(told.count == found.unmatched, "{told:?}, {} are there", found.unmatched);
        ensure!(told.oldest.is_some() != waiting.is_empty(), "{told:?}");
    }
    let any_waits = found.values().any(|found| !found.waiting.is_empty());
    let any_listed = protocol.backlogs.any_waiting();
    ensure!(any_listed.is_some() == any_waits, "the list of transfers that wait is wrong");
    ensure!(any_listed.is_none_or(|backlog| !backlog.waiting.is_empty()), "nothing waits there");
    Ok(())
}

/// The operations of a list, from its front, with both links of each.
fn walk(protocol: &PeerProtocol, list: OpList) -> Result<BTreeSet<OpKey>, String> {
    let mut seen = BTreeSet::new();
    let (mut next, mut before) = (list.first(), None);
    while let Some(op) = next {
        ensure!(seen.insert(op), "{op:?} stands in a ring");
        let Some(operation) = protocol.operations.get(op) else {
            return Err(format!("{op:?} is listed and gone"));
        };
        let known = |op: &OpKey| protocol.operations.contains_key(*op);
        let links = operation.links;
        ensure!(Some(links.before).filter(known) == before, "{op:?} has another before it");
        before = Some(op);
        next = Some(links.behind).filter(known);
    }
    ensure!(list.last() == before, "another is the last");
    Ok(seen)
}
