//! Shared parts of both ends: memory, places in it, and their contents in a turn.

use std::ops::Range;

use super::turns::Turns;
use crate::failure::Failure;
use crate::perf::case::PlannedCase;
use crate::perf::contents::Contents;
use crate::perf::data_path::Payload;
use crate::perf::pattern::Pattern;
use crate::perf::plan::{Direction, OneSided, WAYS};
use crate::perf::posts::places;
use crate::rendezvous::{Agreed, Message};
use serde::{Deserialize, Serialize};

/// Server: the key of its memory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ExportedKey(pub(super) Vec<u8>);

impl Message for ExportedKey {
    const KIND: u16 = 9;
}

/// Client: the turn is over. The server waits for it in its session, which serves meanwhile.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Over;

impl Message for Over {
    const KIND: u16 = 12;
}

/// Layout of the bytes of an operation in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// As many ranges as asked for.
    Ranges,
    /// One range.
    Whole,
}

/// One end of a case.
pub(super) struct End<'a> {
    pub(super) contents: Contents<'a>,
    pub(super) peer: &'static str,
    pub(super) case: PlannedCase<'a>,
    pub(super) one_sided: OneSided,
    pub(super) turns: Turns,
}

/// Iterations that are measured without a pause.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) iterations: Range<u64>,
    pub(super) layout: Layout,
    pub(super) payload: Payload,
}

impl<'a> End<'a> {
    pub(super) fn new(
        agreed: &Agreed<'a>,
        case: PlannedCase<'a>,
        one_sided: OneSided,
    ) -> Result<Self, Failure> {
        let (session, peer, budget) = (agreed.session, agreed.peer(), agreed.link.budget());
        let turns = Turns::new(&case, one_sided);
        let bytes = turns.places * case.total_bytes();
        let memory = session.allocate(bytes, agreed.memory.memory_type())?;
        let contents = Contents { session, memory, budget };
        Ok(Self { contents, peer, case, one_sided, turns })
    }

    /// Returns all turns, in order. Where there are two layouts, none of them always comes first.
    pub(super) fn turns(&self) -> Vec<Turn> {
        let layouts: &[Layout] = match self.one_sided.descriptors {
            1 => &[Layout::Ranges],
            _ => &[Layout::Ranges, Layout::Whole],
        };
        let turn = |(number, iterations): (usize, Range<u64>)| {
            (0..layouts.len()).map(move |index| {
                let layout = layouts[(number + index) % layouts.len()];
                let places = self.turns.places_of(&iterations);
                let message = WAYS * number as u64 + index as u64;
                let payload = self.payload(message, places);
                Turn { iterations: iterations.clone(), layout, payload }
            })
        };
        self.turns.all().enumerate().flat_map(turn).collect()
    }

    /// Returns the turn that posts one operation again and again.
    pub(super) fn repost_turn(&self) -> Turn {
        let payload = self.payload(WAYS * self.case.iterations, 1);
        Turn { iterations: 0..self.turns.reposts, layout: Layout::Ranges, payload }
    }

    /// Returns the payload of a turn. Bytes to be read lie there all the time; bytes to be written
    /// are new in each turn.
    fn payload(&self, message: u64, places: u64) -> Payload {
        let message = match self.one_sided.direction {
            Direction::Write => message,
            Direction::Read => 0,
        };
        let pattern = Pattern::new(self.case.plan.seed, self.case.first_message + message);
        Payload { pattern, bytes: places * self.case.total_bytes() }
    }

    /// Returns everything that lies here while it is read.
    pub(super) fn whole_payload(&self) -> Payload {
        self.payload(0, self.turns.places)
    }

    /// Returns the places of the ranges of an operation, in their order, and the length of each.
    pub(super) fn ranges(&self, layout: Layout, place: u64) -> (Vec<u64>, u64) {
        let first = place * self.case.total_bytes();
        match layout {
            Layout::Whole => (vec![first], self.case.total_bytes()),
            Layout::Ranges => {
                let bytes = self.case.bytes;
                let order = places(self.case.messages(), self.one_sided.is_scattered);
                (order.map(|place| first + place * bytes).collect(), bytes)
            }
        }
    }

    /// Deregisters the memory.
    pub(super) fn finish(self) -> Result<(), Failure> {
        Ok(self.contents.session.deregister_memory(self.contents.memory)?)
    }
}
