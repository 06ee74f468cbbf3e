//! A notification is shown after every byte of its write is in place, whichever lane is late: the
//! link, a channel, or copies out of the bounce buffer. End 0 writes, end 1 reads its memory when a
//! notification is shown: every byte there is of the post that the notification came with.

use super::driver::CHUNK_BYTES;
use super::one_sided_crossings::{LITTLE, check_moved, outcome, settle};
use super::pair::Pair;
use super::requests::Note;
use super::setting::Setting;
use super::ways::{Lane, Way, prepare, step, step_but, up};
use crate::frames::eager_terms::{EagerOffer, EagerTerms};
use crate::peer::action::Outcome;
use crate::peer::schedule::tuning::Tuning;
use crate::types::TransferKey;
use crate::types::memory::OperationKind::Write;

/// An end that takes messages on the link, though none before its receive is known.
const REACHES: EagerOffer =
    EagerOffer { bytes: 0, buffer_bytes: 0, device_bytes: u64::MAX, access_bytes: 0 };

/// Writes under way, each posted again and again: a generation is what one post of one has brought.
struct Writes {
    pair: Pair,
    all: Vec<(TransferKey, u64)>,
}

impl Writes {
    fn new(setting: Setting, all: &[Way]) -> Self {
        let mut pair = up(setting);
        let prepared = all.iter().map(|way| {
            let lengths = way.lengths();
            (prepare(&mut pair, Write, &lengths, [0, 1]), lengths.iter().sum())
        });
        let all = prepared.collect();
        Self { pair, all }
    }

    /// Posts the next generation of each.
    fn post(&mut self, generation: u8) {
        for (transfer, _) in &self.all {
            let note: Note = vec![generation; 9].into();
            assert!(self.pair.ends[0].post_request(*transfer, Some(note)).unwrap());
        }
    }

    fn is_shown(&self, transfer: TransferKey) -> bool {
        let post = self.pair.ends[0].requests.all[&transfer].post.as_ref();
        post.expect("it was posted").is_note_there
    }

    /// Lets the reader look. Returns the number of notifications that it has seen.
    fn look(&self) -> usize {
        let shown = self.all.iter().filter(|(transfer, _)| self.is_shown(*transfer));
        let whole = |(transfer, bytes): &(TransferKey, u64)| {
            let moved = check_moved(&self.pair, *transfer);
            assert_eq!(moved, *bytes, "{transfer:?} is shown with bytes of the generation before");
        };
        shown.inspect(|it| whole(it)).count()
    }

    /// Moves everything but what is late, while the reader looks at each step.
    fn move_but(&mut self, late: Option<Lane>) {
        self.look();
        while step_but(&mut self.pair, late) {
            self.look();
        }
    }
}

/// Posts each generation. After some steps one lane stands still until nothing else moves. Returns
/// whether a notification waited for it, and whether there were as many steps.
fn delayed(setting: Setting, ways: &[Way], late: Lane, steps: usize) -> (bool, bool) {
    let mut writes = Writes::new(setting, ways);
    let (mut has_waited, mut is_long_enough) = (false, false);
    for generation in 1..=2 {
        writes.post(generation);
        let done = (0..steps).take_while(|_| {
            writes.look();
            step(&mut writes.pair)
        });
        is_long_enough |= done.count() == steps;
        writes.move_but(Some(late));
        has_waited |= writes.look() < writes.all.len();
        writes.move_but(None);
        settle(&mut writes.pair);
        assert_eq!(writes.look(), writes.all.len(), "all are shown in the end");
        for (transfer, _) in &writes.all {
            assert_eq!(outcome(&writes.pair, *transfer), Outcome::Done);
        }
    }
    (has_waited, is_long_enough)
}

/// Delays each lane in turn after any number of steps.
fn delayed_in_turn(setting: Setting, ways: &[Way], must_wait: impl Fn(Lane) -> bool) {
    for late in Lane::all() {
        let mut waited = 0;
        for steps in 0.. {
            let (has_waited, is_long_enough) = delayed(setting, ways, late, steps);
            waited += usize::from(has_waited);
            if !is_long_enough {
                break;
            }
        }
        assert!(waited > 0 || !must_wait(late), "no notification has waited for {late:?}");
    }
}

#[test]
fn a_note_comes_after_bytes_that_travel_with_it() {
    delayed_in_turn(Way::Inline.setting(), &[Way::Inline], |late| late == Lane::Link(1));
}

#[test]
fn a_note_comes_after_every_part_on_the_link() {
    delayed_in_turn(Way::LinkChunks.setting(), &[Way::LinkChunks], |late| late == Lane::Link(1));
}

#[test]
fn a_note_comes_after_every_chunk_in_place() {
    delayed_in_turn(Way::InPlace.setting(), &[Way::InPlace], |_| true);
}

#[test]
fn a_note_comes_after_every_chunk_that_is_gathered() {
    delayed_in_turn(Way::Gathered.setting(), &[Way::Gathered], |_| true);
}

/// All ways at once: those on the link pass the others, each note with its own bytes.
#[test]
fn a_note_waits_for_its_own_bytes_beside_others_of_every_way() {
    // What travels in parts has no more bytes than the one that does.
    let offer = EagerOffer { access_bytes: 210, bytes: LITTLE as u32, ..REACHES };
    let eager = EagerTerms::agree(offer, offer, CHUNK_BYTES);
    for link_is_full in [false, true] {
        let gathered = Way::Gathered.setting();
        let tuning = Tuning { link_chunk_bytes: 50, ..gathered.tuning };
        let setting = Setting { eager, link_is_full, tuning, ..gathered };
        delayed_in_turn(setting, &Way::ALL, |_| true);
    }
}
