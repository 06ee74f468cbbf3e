//! Memory that is taken back at every step of a read or write, at either end: what was begun comes
//! to its end, and nothing touches the memory after that. End 0 asks, end 1 exports.
//!
//! The lists of a protocol against what a search through all operations finds.

use std::collections::{BTreeMap, BTreeSet};

use super::driver::{CHUNK_BYTES, Check, End, ensure};
use super::link_chunks::{slowly, with_parts};
use super::one_sided_crossings::{SETTING, ask, eager, end_of, settle, up_as};
use super::pair::{ENDS, Pair};
use super::setting::Setting;
use crate::exports::refusal::Refusal;
use crate::peer::PeerProtocol;
use crate::peer::action::{Outcome, Withdrawal};
use crate::peer::message::State;
use crate::peer::tags::backlogs::OpList;
use crate::types::memory::OperationKind;
use crate::types::memory::OperationKind::{Read, Write};
use crate::types::{OpKey, RegistrationKey, TransferKey};

/// Some sections, and a chunk that is not whole.
const BYTES: u64 = 9 * CHUNK_BYTES as u64 + 5;

/// Does what happens next, one frame or one step of a chunk at a time. Returns whether anything
/// did.
fn step(pair: &mut Pair) -> bool {
    for end in ENDS {
        let moved = pair.consume_chunk(end, 0).unwrap()
            || pair.receive_chunk(end, 0).unwrap()
            || pair.send_chunk(end, 0).unwrap()
            || pair.deliver(end).unwrap();
        if moved {
            return true;
        }
    }
    let under_way = |pair: &Pair| ENDS.map(|end| pair.ends[end].outbox.len());
    let before = under_way(pair);
    for end in ENDS {
        pair.ends[end].round().unwrap();
    }
    under_way(pair) != before
}

fn is_over(pair: &Pair, transfer: TransferKey) -> bool {
    end_of(pair, transfer).is_some()
}

/// Runs an operation, with `interrupt` after each number of steps. Returns how many there are.
fn interrupted(
    setting: Setting,
    kind: OperationKind,
    interrupt: impl Fn(&mut Pair, TransferKey),
    check: impl Fn(Outcome) -> bool,
) -> usize {
    for steps in 0.. {
        let mut pair = up_as(setting);
        let transfer = ask(&mut pair, kind, BYTES);
        let mut done = 0;
        while done < steps && !is_over(&pair, transfer) && step(&mut pair) {
            done += 1;
        }
        let was_over = is_over(&pair, transfer);
        interrupt(&mut pair, transfer);
        settle(&mut pair);
        pair.ends[1].exporting.check_idle();
        match end_of(&pair, transfer) {
            Some(End::Completed(outcome)) => {
                assert!(outcome == Outcome::Done || check(outcome), "{steps}: {outcome:?}");
            }
            other => panic!("{kind:?} after {steps} steps ended so: {other:?}"),
        }
        if was_over {
            return steps;
        }
    }
    unreachable!("an operation has an end")
}

#[test]
fn an_export_is_revoked_at_every_step() {
    for setting in [SETTING, eager(), with_parts(), slowly()] {
        for kind in [Read, Write] {
            let revoke = |pair: &mut Pair, _| pair.ends[1].unexport(0).unwrap();
            let is_revoked = |it| matches!(it, Outcome::Refused { why: Refusal::Revoked, .. });
            let steps = interrupted(setting, kind, revoke, is_revoked);
            assert!(steps > 5, "{kind:?}: only {steps} steps");
        }
    }
}

#[test]
fn an_operation_is_given_up_at_every_step() {
    for setting in [SETTING, eager(), with_parts(), slowly()] {
        for kind in [Read, Write] {
            let give_up = |pair: &mut Pair, transfer| {
                if !is_over(pair, transfer) {
                    // All pieces here are of the same one.
                    let registration = RegistrationKey::default();
                    let protocol = pair.ends[0].protocol().expect("it is up");
                    assert!(protocol.uses(registration));
                    assert_eq!(protocol.transfers_on(registration), [transfer]);
                    pair.ends[0].abandon_request(transfer).unwrap();
                }
            };
            let is_cancelled = |it| it == Outcome::Withdrawn(Withdrawal::Cancelled);
            interrupted(setting, kind, give_up, is_cancelled);
        }
    }
}

/// Result of a search for one transfer.
#[derive(Default)]
struct Found {
    waiting: BTreeSet<OpKey>,
    unmatched: usize,
}

/// Checks that every operation stands in the list that its state tells, once, and that the numbers
/// are right.
pub(super) fn check(protocol: &PeerProtocol) -> Check {
    let mut found: BTreeMap<TransferKey, Found> = BTreeMap::new();
    let mut cancelling = BTreeSet::new();
    for (op, operation) in &protocol.cx.operations {
        let of_transfer = found.entry(operation.posted.transfer).or_default();
        match operation.state {
            State::AwaitsReceive | State::ReadyQueued | State::ReadySent => {
                of_transfer.waiting.insert(op);
            }
            State::Cancelling(_) => {
                cancelling.insert(op);
            }
            _ => continue,
        }
        of_transfer.unmatched += 1;
    }
    let (backlogs, being_withdrawn) = protocol.tags.backlogs();
    ensure!(walk(protocol, being_withdrawn)? == cancelling, "the withdrawn ones differ");
    for (transfer, found) in &found {
        let backlog = backlogs.get(*transfer).copied().unwrap_or_default();
        let waiting = walk(protocol, backlog.waiting)?;
        ensure!(waiting == found.waiting, "{waiting:?} wait, not {:?}", found.waiting);
        let told = protocol.unmatched(*transfer);
        ensure!(told.count == found.unmatched, "{told:?}, {} are there", found.unmatched);
        ensure!(told.oldest.is_some() != waiting.is_empty(), "{told:?}");
    }
    let any_waits = found.values().any(|found| !found.waiting.is_empty());
    let any_listed = backlogs.any_waiting();
    ensure!(any_listed.is_some() == any_waits, "the list of transfers that wait is wrong");
    ensure!(any_listed.is_none_or(|backlog| !backlog.waiting.is_empty()), "nothing waits there");
    Ok(())
}

/// Returns the operations of a list, from its front, with both links of each.
fn walk(protocol: &PeerProtocol, list: OpList) -> Result<BTreeSet<OpKey>, String> {
    let mut seen = BTreeSet::new();
    let (mut next, mut before) = (list.first(), None);
    while let Some(op) = next {
        ensure!(seen.insert(op), "{op:?} stands in a ring");
        let Some(operation) = protocol.cx.operations.get(op) else {
            return Err(format!("{op:?} is listed and gone"));
        };
        let known = |op: &OpKey| protocol.cx.operations.contains_key(*op);
        let links = operation.links;
        ensure!(Some(links.before).filter(known) == before, "{op:?} has another before it");
        before = Some(op);
        next = Some(links.behind).filter(known);
    }
    ensure!(list.last() == before, "another is the last");
    Ok(seen)
}
