//! The bytes of operations with a list, at whichever end: what is dealt next, what the peer has
//! dealt, and what has moved.

use std::sync::Arc;

use super::super::PeerProtocol;
use super::super::action::{Action, Outcome, Violation};
use super::super::channels::ChannelStaging;
use super::super::operation::{OpState, Withdrawal};
use super::super::schedule::Turn;
use super::{Gaveup, Listed, ListedLeft, Role, Step};
use crate::frames::frame::Frame;
use crate::plans::piece_cursor::{CutRules, CutSection, ListedSection, PieceCursor};
use crate::plans::pieces::Pieces;
use crate::plans::plan::ChunkPlan;
use crate::types::memory::OperationKind;
use crate::types::{Direction, MemoryType, OpKey};

/// What the end of an operation comes to, once what was dealt has moved.
enum Next {
    Nothing,
    /// Its memory is not used any more.
    Free,
    Await,
    Finish(Outcome),
    Serve,
}

impl From<super::told::Refused> for Outcome {
    fn from(refused: super::told::Refused) -> Self {
        Self::Refused { why: refused.why, range: refused.range }
    }
}

impl From<Gaveup> for Outcome {
    fn from(why: Gaveup) -> Self {
        match why {
            Gaveup::Cancelled => Self::Withdrawn(Withdrawal::Cancelled),
            Gaveup::Refused(refused) => refused.into(),
        }
    }
}

impl PeerProtocol {
    /// This end sends the bytes of an operation from now on.
    pub(super) fn begin_to_deal(&mut self, op: OpKey) {
        let Some(operation) = self.operations.get_mut(op) else { return };
        let bytes = operation.posted.bytes;
        operation.state = OpState::Matched { bytes_left: bytes, bytes_dealt: 0 };
        let Some(listed) = self.one_sided.listed.get(op) else { return };
        self.schedule.push_listed(op, listed.pieces.cost(bytes));
    }

    /// Whether the bytes of an operation that waits to be dealt are still wanted.
    pub(in super::super) fn is_dealt(&self, op: OpKey) -> bool {
        self.one_sided.listed.get(op).is_some_and(|listed| match &listed.role {
            Role::Asks(asking) => asking.step == Step::Moving,
            Role::Serves(serving) => serving.stopped.is_none(),
        })
    }

    /// Deals the next section of an operation. Returns an action that must be answered first, if
    /// there is one.
    pub(in super::super) fn deal_listed(&mut self, op: OpKey, turn: Turn) -> Option<Action> {
        let listed = self.one_sided.listed.get(op)?;
        // A peer that takes no chunks does not make this end keep any number of its reads.
        let is_served = matches!(listed.role, Role::Serves(_));
        if is_served && self.one_sided.unsent_reads() >= self.one_sided.terms.asked {
            return None;
        }
        if self.is_round_spent_on(op) {
            self.work.holds_sections = true;
            return None;
        }
        let memory = listed.pieces.memory;
        let mut rules = CutRules {
            section_bytes: self.schedule.tuning.section_bytes,
            gathering: self.schedule.tuning.gathered(memory),
            cut_pairs: listed.cuts_pairs,
        };
        let mut cut = listed.cursor.next_section(&listed.pieces, &rules)?;
        if cut.is_gathered {
            match gathered_on(&self.staging, self.agreement.channels, memory) {
                Gathered::Ready => {}
                Gathered::Ask(channel) => {
                    self.staging.ask(channel, memory);
                    return Some(Action::PrepareStaging { channel, memory });
                }
                Gathered::Later => return None,
                Gathered::Never => {
                    rules.gathering = None;
                    cut = listed.cursor.next_section(&listed.pieces, &rules)?;
                }
            }
        }
        self.send_section(op, turn, cut);
        None
    }

    fn send_section(&mut self, op: OpKey, turn: Turn, cut: CutSection) {
        let CutSection { bytes, .. } = cut;
        let Some(listed) = self.one_sided.listed.get(op) else { return };
        let (total, total_cost) = (listed.pieces.bytes, listed.pieces.cost(listed.pieces.bytes));
        let chunk_bytes = self.schedule.tuning.chunk_bytes_of(total, total_cost);
        let first_channel = self.take_channels(bytes, chunk_bytes);
        let Some(listed) = self.one_sided.listed.get(op) else { return };
        let (recv, offset) = (listed.recv, listed.cursor.dealt);
        let cost = listed.pieces.cost(bytes);
        let is_last = offset + bytes == listed.pieces.bytes;
        let frame = Frame::Section { recv, first_channel, offset, bytes, chunk_bytes };
        self.actions.push_back(Action::Send(frame));
        self.plan_section(op, Direction::Send, bytes, chunk_bytes, first_channel);
        self.schedule.dealt_listed(turn, cost, is_last);
        if is_last
            && let Some(Listed { role: Role::Serves(serving), .. }) = self.one_sided.listed.get(op)
        {
            let list = serving.list;
            self.read_is_dealt(list);
        }
    }

    /// Makes the plans of a section, and steps over it.
    fn plan_section(
        &mut self,
        op: OpKey,
        direction: Direction,
        bytes: u64,
        chunk_bytes: u32,
        first_channel: u16,
    ) {
        let channels = self.agreement.channels;
        let Some(operation) = self.operations.get_mut(op) else { return };
        let transfer = operation.posted.transfer;
        if let OpState::Matched { bytes_dealt, .. } = &mut operation.state {
            *bytes_dealt += bytes;
        }
        let section =
            ListedSection { op, transfer, direction, bytes, chunk_bytes, first_channel, channels };
        let Some(listed) = self.one_sided.listed.get(op) else { return };
        let (pieces, mut cursor) = (Arc::clone(&listed.pieces), listed.cursor);
        match direction {
            Direction::Send => self.make_plans(&mut cursor, &pieces, section, Action::SendChunks),
            Direction::Receive => self.receive_section(pieces, &mut cursor, section),
        }
        if let Some(listed) = self.one_sided.listed.get_mut(op) {
            if matches!(listed.role, Role::Serves(_)) {
                self.work.spend(cursor.pieces_since(&listed.cursor) as u64);
            }
            listed.cursor = cursor;
        }
    }

    /// Makes the plans of a section that begins at the cursor, which steps over it.
    pub(in super::super) fn make_plans(
        &mut self,
        cursor: &mut PieceCursor,
        pieces: &Pieces,
        section: ListedSection,
        action: fn(ChunkPlan) -> Action,
    ) {
        let mut plans = cursor.deal(pieces, section);
        let (spare, spare_members) = (&mut self.spare, &mut self.spare_members);
        let mut take_spare = || {
            let spare = spare.pop().unwrap_or_default();
            *spare_members -= spare.capacity();
            spare
        };
        while let Some(plan) = plans.next_plan(&mut take_spare) {
            self.actions.push_back(action(plan));
        }
    }

    /// The peer has dealt a section of an operation with a list. Whether the operation is one.
    pub(in super::super) fn handle_listed_section(
        &mut self,
        op: OpKey,
        offset: u64,
        bytes: u64,
        chunk_bytes: u32,
        first_channel: u16,
    ) -> Result<bool, Violation> {
        let recv = op.to_wire();
        let Some(listed) = self.one_sided.listed.get(op) else { return Ok(false) };
        let posted = self.operations[op].posted;
        let (dealt, message_bytes) = (listed.cursor.dealt, listed.pieces.bytes);
        let is_expected = match &listed.role {
            Role::Asks(asking) => {
                matches!(asking.step, Step::Moving | Step::Halting { is_stopped: false, .. })
            }
            Role::Serves(serving) => serving.stopped.is_none(),
        };
        if posted.direction != Direction::Receive || !is_expected || listed.is_on_link {
            return Err(Violation::UnknownReceive { recv });
        }
        // Whoever cuts in the middle of a pair, or what is to be sent in one piece, cuts as much as
        // there may be.
        let is_whole = || {
            bytes >= self.agreement.chunk_bytes.into()
                || listed.cursor.ends_a_piece(&listed.pieces, bytes)
        };
        let allows = listed.cursor.allows(&listed.pieces, bytes, listed.cuts_pairs);
        if offset != dealt || !allows || !is_whole() {
            return Err(Violation::Section { recv, offset, bytes, dealt, message_bytes });
        }
        let is_asked = matches!(listed.role, Role::Asks(_));
        self.plan_section(op, Direction::Receive, bytes, chunk_bytes, first_channel);
        if is_asked && dealt + bytes == message_bytes {
            self.all_dealt(op);
        }
        Ok(true)
    }

    /// So many bytes of an operation with a list have moved, or no more are dealt: looks whether it
    /// is over, or its memory free.
    pub(in super::super) fn listed_moved(&mut self, op: OpKey) {
        let Some(operation) = self.operations.get(op) else { return };
        let OpState::Matched { bytes_left: left, .. } = operation.state else {
            return self.settle_stopping(op);
        };
        let Some(listed) = self.one_sided.listed.get(op) else { return };
        let moved = listed.pieces.bytes - left;
        let next = next_step(listed, left, moved == listed.cursor.dealt);
        self.carry_on(op, next);
    }

    /// A write was given up whose memory is free: it ends with its answer.
    fn settle_stopping(&mut self, op: OpKey) {
        let Some(Listed { role: Role::Asks(asking), .. }) = self.one_sided.listed.get(op) else {
            return;
        };
        if let Step::Stopping { why, is_answered: true } = asking.step {
            self.finish_request(op, why.into());
        }
    }

    fn carry_on(&mut self, op: OpKey, next: Next) {
        match next {
            Next::Nothing => {}
            Next::Free | Next::Await => {
                if let Some(operation) = self.operations.get_mut(op) {
                    operation.state = OpState::Asked;
                }
                if let (Next::Await, Some(Listed { role: Role::Asks(asking), .. })) =
                    (next, self.one_sided.listed.get_mut(op))
                {
                    asking.step = Step::Awaiting;
                }
                self.end_abandoned(op);
            }
            Next::Finish(outcome) => self.finish_request(op, outcome),
            Next::Serve => self.finish_serving(op),
        }
    }

    /// Hands out what each operation with a list is about, for a driver that ends it.
    pub fn take_listed(&mut self) -> Vec<ListedLeft> {
        let listed = std::mem::take(&mut self.one_sided.listed);
        let uses = |role| match role {
            Role::Serves(serving) => Some(serving.uses),
            Role::Asks(_) => None,
        };
        let left = listed.into_iter().map(|(op, listed)| {
            let Listed { pieces, role, .. } = listed;
            ListedLeft { op, pieces, uses: uses(role) }
        });
        left.collect()
    }
}

/// `is_at_rest`: all that was dealt has moved.
fn next_step(listed: &Listed, left: u64, is_at_rest: bool) -> Next {
    match &listed.role {
        Role::Serves(serving) => {
            let is_over = left == 0 || (serving.stopped.is_some() && is_at_rest);
            if is_over { Next::Serve } else { Next::Nothing }
        }
        Role::Asks(asking) => match (asking.step, asking.list.kind) {
            (Step::Moving, OperationKind::Write) if left == 0 => Next::Await,
            (Step::Answered, _) | (Step::Moving | Step::Halting { .. }, OperationKind::Read)
                if left == 0 =>
            {
                Next::Finish(Outcome::Done)
            }
            (Step::Halting { why, is_stopped: true }, _) if is_at_rest => Next::Finish(why.into()),
            (Step::Stopping { why, is_answered: true }, _) if is_at_rest => {
                Next::Finish(why.into())
            }
            (Step::Stopping { .. }, _) if is_at_rest => Next::Free,
            _ => Next::Nothing,
        },
    }
}

enum Gathered {
    Ready,
    /// The driver is to be asked about this channel.
    Ask(u16),
    Later,
    Never,
}

/// Whether chunks on any channel may be gathered.
fn gathered_on(
    staging: &super::super::channels::StagingChannels,
    channels: u16,
    memory: MemoryType,
) -> Gathered {
    let mut is_asked = false;
    for channel in 0..channels {
        match staging.of(channel, memory) {
            ChannelStaging::Unasked => return Gathered::Ask(channel),
            ChannelStaging::Asked => is_asked = true,
            ChannelStaging::There => {}
            ChannelStaging::Refused => return Gathered::Never,
        }
    }
    if is_asked { Gathered::Later } else { Gathered::Ready }
}
