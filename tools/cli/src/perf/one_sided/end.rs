//! End of one-sided operations: its memory, the slots in it, and their payload in a turn.

use std::ops::Range;

use super::turns::Turns;
use crate::failure::Failure;
use crate::perf::case::PlannedCase;
use crate::perf::data_path::Payload;
use crate::perf::operations::{Direction, OneSided};
use crate::perf::pattern::Pattern;
use crate::perf::plan::MAX_PATHS;
use crate::perf::posts::slots;
use crate::perf::test_buffer::TestBuffer;
use crate::rendezvous::{ConnectedEnd, Message};
use serde::{Deserialize, Serialize};

/// Server: the key of its memory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ExportedKey(pub(super) Vec<u8>);

impl Message for ExportedKey {
    const KIND: u16 = 9;
}

/// Client's end of a turn. The server waits for it in its session, which serves the operations
/// meanwhile.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TurnEnd;

impl Message for TurnEnd {
    const KIND: u16 = 12;
}

/// Layout of the bytes of an operation in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// The ranges of the plan.
    Ranges,
    /// One range.
    Whole,
}

/// One end of a case.
pub(super) struct OneSidedEnd<'a> {
    pub(super) buffer: TestBuffer<'a>,
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
    /// Operations of it.
    pub(super) operations: u64,
}

impl<'a> OneSidedEnd<'a> {
    pub(super) fn new(
        connected: &ConnectedEnd<'a>,
        case: PlannedCase<'a>,
        one_sided: OneSided,
    ) -> Result<Self, Failure> {
        let (session, peer, budget) =
            (connected.session, connected.peer(), connected.link.budget());
        let turns = Turns::new(&case, one_sided);
        let bytes = turns.slots * case.total_bytes();
        let memory = session.allocate(bytes, connected.memory.memory_type())?;
        let buffer = TestBuffer { session, memory, budget };
        Ok(Self { buffer, peer, case, one_sided, turns })
    }

    /// Returns all turns, in order. Two layouts take the first turn alternately.
    pub(super) fn turns(&self) -> Vec<Turn> {
        let layouts: &[Layout] = match self.one_sided.descriptors {
            1 => &[Layout::Ranges],
            _ => &[Layout::Ranges, Layout::Whole],
        };
        let turn = |(number, iterations): (usize, Range<u64>)| {
            (0..layouts.len()).map(move |index| {
                let layout = layouts[(number + index) % layouts.len()];
                let slots = self.turns.slots_of(&iterations);
                let message = MAX_PATHS * number as u64 + index as u64;
                let payload = self.payload(message, slots);
                let operations = match self.turns.is_latency {
                    true => slots,
                    false => self.turns.operations(),
                };
                Turn { iterations: iterations.clone(), layout, payload, operations }
            })
        };
        self.turns.all().enumerate().flat_map(turn).collect()
    }

    /// Returns whether the processor time of this turn counts: that of many operations under way,
    /// as the plan has them.
    pub(super) fn costs_count(&self, turn: &Turn) -> bool {
        let is_stream = !self.turns.is_latency && turn.layout == Layout::Ranges;
        is_stream && self.case.is_counted(turn.iterations.start)
    }

    /// Returns the turn that posts one operation again and again.
    pub(super) fn repost_turn(&self) -> Turn {
        let payload = self.payload(MAX_PATHS * self.case.iterations, 1);
        let operations = self.turns.reposts;
        Turn { iterations: 0..operations, layout: Layout::Ranges, payload, operations }
    }

    /// Returns the payload of a turn. Reads have the same bytes in all turns; writes have new bytes
    /// in each.
    fn payload(&self, message: u64, slots: u64) -> Payload {
        let message = match self.one_sided.direction {
            Direction::Write => message,
            Direction::Read => 0,
        };
        let pattern = Pattern::new(self.case.plan.seed, self.case.first_message + message);
        Payload { pattern, bytes: slots * self.case.total_bytes() }
    }

    /// Returns the payload of all slots for reads.
    pub(super) fn whole_payload(&self) -> Payload {
        self.payload(0, self.turns.slots)
    }

    /// Returns the offsets of the ranges of an operation, in their order, and the length of each.
    pub(super) fn ranges(&self, layout: Layout, slot: u64) -> (Vec<u64>, u64) {
        let first = slot * self.case.total_bytes();
        match layout {
            Layout::Whole => (vec![first], self.case.total_bytes()),
            Layout::Ranges => {
                let bytes = self.case.bytes;
                let order = slots(self.case.messages(), self.one_sided.is_scattered);
                (order.map(|slot| first + slot * bytes).collect(), bytes)
            }
        }
    }

    /// Deregisters the memory.
    pub(super) fn finish(self) -> Result<(), Failure> {
        Ok(self.buffer.session.deregister_memory(self.buffer.memory)?)
    }
}
