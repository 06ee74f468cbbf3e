//! Memory that its owner takes back at every step of a read or write, whatever way the bytes take:
//! what was begun ends once, nothing touches the memory any more, and the peers go on. End 0 asks,
//! end 1 exports.

use super::driver::End;
use super::one_sided_crossings::{check_moved, end_of, outcome, settle};
use super::pair::Pair;
use super::ways::{Seen, Way, export, prepare, step, up};
use crate::exports::refusal::Refusal;
use crate::peer::action::Outcome;
use crate::types::TransferKey;
use crate::types::memory::OperationKind;

/// Way in which memory is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// One of the two areas that an operation uses.
    Unexported(usize),
    /// The registration that both are of.
    Deregistered,
}

impl Taken {
    fn apply(self, pair: &mut Pair) {
        let areas: &[usize] = match self {
            Self::Unexported(0) => &[0],
            Self::Unexported(_) => &[1],
            Self::Deregistered => &[0, 1],
        };
        let exporting = &mut pair.ends[1].exporting;
        let keys: Vec<_> = areas.iter().map(|area| exporting.revoke(*area)).collect();
        let told = pair.ends[1].input(|protocol| {
            protocol.handle_revoked(&keys);
        });
        told.unwrap();
    }
}

fn post(pair: &mut Pair, kind: OperationKind, way: Way, areas: [usize; 2]) -> TransferKey {
    let transfer = prepare(pair, kind, &way.lengths(), areas);
    assert!(pair.ends[0].post_request(transfer, Some(vec![5; 3].into())).unwrap());
    transfer
}

fn is_over(pair: &Pair, transfer: TransferKey) -> bool {
    end_of(pair, transfer).is_some()
}

/// Takes memory back after some steps. Returns the outcome, how many bytes had moved in the end,
/// and whether all was over by then.
fn taken_after(steps: usize, way: Way, kind: OperationKind, taken: Taken) -> (Outcome, u64, bool) {
    let mut pair = up(way.setting());
    let transfer = post(&mut pair, kind, way, [0, 1]);
    let mut seen = Seen::default();
    for _ in 0..steps {
        seen.look(&pair);
        if !step(&mut pair) {
            break;
        }
    }
    let was_over = is_over(&pair, transfer) && pair.ends.iter().all(|end| end.outbox.is_empty());
    taken.apply(&mut pair);
    settle(&mut pair);
    assert!(!was_over || seen.is(way), "{way:?}: {seen:?}");
    pair.ends[1].exporting.check_idle();
    let Some(End::Completed(ended)) = end_of(&pair, transfer) else {
        panic!("{:?}", end_of(&pair, transfer))
    };
    let moved = check_moved(&pair, transfer);
    // What is posted again moves nothing, and what is exported anew is written and read.
    assert!(pair.ends[0].post_request(transfer, None).unwrap());
    settle(&mut pair);
    let again = outcome(&pair, transfer);
    assert!(matches!(again, Outcome::Refused { why: Refusal::Revoked | Refusal::UnknownKey, .. }));
    assert_eq!(check_moved(&pair, transfer), 0);
    (0..2).for_each(|_| export(&mut pair, 1));
    let next = post(&mut pair, kind, way, [2, 3]);
    settle(&mut pair);
    assert_eq!(outcome(&pair, next), Outcome::Done);
    (ended, moved, was_over)
}

/// Endings of operations whose memory was taken back at every step.
#[derive(Debug, Default)]
struct Ended {
    done: usize,
    /// Before anything had moved, and after some had.
    refused: usize,
    stopped: usize,
}

fn taken_at_every_step(way: Way, kind: OperationKind, taken: Taken) -> Ended {
    let mut ended = Ended::default();
    let bytes: u64 = way.lengths().iter().sum();
    for steps in 0.. {
        let (outcome, moved, was_over) = taken_after(steps, way, kind, taken);
        match outcome {
            Outcome::Done => ended.done += 1,
            Outcome::Refused { why: Refusal::Revoked, .. } if moved == 0 => ended.refused += 1,
            Outcome::Refused { why: Refusal::Revoked, .. } if moved < bytes => ended.stopped += 1,
            other => panic!("{way:?} {kind} {taken:?} after {steps} steps: {other:?}, {moved}"),
        }
        if was_over {
            return ended;
        }
    }
    unreachable!("an operation has an end")
}

fn taken_whatever_happens(way: Way) {
    for kind in [OperationKind::Read, OperationKind::Write] {
        for taken in [Taken::Unexported(0), Taken::Unexported(1), Taken::Deregistered] {
            let ended = taken_at_every_step(way, kind, taken);
            let is_one_frame = way == Way::Inline;
            let is_stopped = if is_one_frame { ended.stopped == 0 } else { ended.stopped > 2 };
            let is_each = ended.refused > 1 && ended.done > 0 && is_stopped;
            assert!(is_each, "{way:?} {kind} {taken:?}: {ended:?}");
        }
    }
}

#[test]
fn memory_is_taken_back_at_every_step_of_what_travels_with_its_request() {
    taken_whatever_happens(Way::Inline);
}

#[test]
fn memory_is_taken_back_at_every_part_on_the_link() {
    taken_whatever_happens(Way::LinkChunks);
}

#[test]
fn memory_is_taken_back_at_every_chunk_in_place() {
    taken_whatever_happens(Way::InPlace);
}

#[test]
fn memory_is_taken_back_at_every_chunk_that_is_gathered() {
    taken_whatever_happens(Way::Gathered);
}
