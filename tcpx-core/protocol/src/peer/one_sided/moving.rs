//! The bytes of operations with a list, at whichever end: what is dealt next, what the peer has
//! dealt, and what has moved.

use std::sync::Arc;

use super::super::action::{Action, Violation};
use super::super::conversation::Conversation;
use super::super::operation::OpState;
use super::super::schedule::Turn;
use super::super::schedule::staging::{ChannelStaging, StagingChannels};
use super::OneSided;
use super::{Listed, ListedLeft, Role, Step};
use crate::frames::frame::Frame;
use crate::frames::messages::{Chunks, Names};
use crate::plans::piece_cursor::{CutRules, CutSection, ListedSection};
use crate::types::{Direction, MemoryType, OpKey};

impl OneSided {
    /// This end sends the bytes of an operation from now on.
    pub(super) fn begin_to_deal(&mut self, cx: &mut Conversation, op: OpKey) {
        let Some(operation) = cx.operations.get_mut(op) else { return };
        let bytes = operation.posted.bytes;
        operation.state = OpState::Matched { bytes_left: bytes, bytes_dealt: 0 };
        let Some(listed) = self.listed.get(op) else { return };
        cx.schedule.push_listed(op, listed.pieces.cost(bytes));
    }

    /// Deals the next section of an operation. Returns an action that must be answered first, if
    /// there is one.
    pub(in super::super) fn deal_listed(
        &mut self,
        cx: &mut Conversation,
        op: OpKey,
        turn: Turn,
    ) -> Option<Action> {
        let listed = self.listed.get(op)?;
        // A peer that takes no chunks does not make this end keep any number of its reads.
        let is_served = matches!(listed.role, Role::Serves(_));
        if is_served && self.unsent_reads() >= self.terms.asked {
            return None;
        }
        if self.is_round_spent_on(cx, op) {
            cx.work.holds_sections = true;
            return None;
        }
        let memory = listed.pieces.memory;
        let mut rules = CutRules {
            section_bytes: cx.schedule.tuning.section_bytes,
            gathering: cx.schedule.tuning.gathered(memory),
            cut_pairs: listed.cuts_pairs,
        };
        let mut cut = listed.cursor.next_section(&listed.pieces, &rules)?;
        if cut.is_gathered {
            match gathered_on(&cx.schedule.staging, cx.life.agreement.channels, memory) {
                Gathered::Ready => {}
                Gathered::Ask(channel) => {
                    cx.schedule.staging.ask(channel, memory);
                    return Some(Action::PrepareStaging { channel, memory });
                }
                Gathered::Later => return None,
                Gathered::Never => {
                    rules.gathering = None;
                    cut = listed.cursor.next_section(&listed.pieces, &rules)?;
                }
            }
        }
        self.send_section(cx, op, turn, cut);
        None
    }

    fn send_section(&mut self, cx: &mut Conversation, op: OpKey, turn: Turn, cut: CutSection) {
        let CutSection { bytes, .. } = cut;
        let Some(listed) = self.listed.get(op) else { return };
        let (total, total_cost) = (listed.pieces.bytes, listed.pieces.cost(listed.pieces.bytes));
        let chunk_bytes = cx.schedule.tuning.chunk_bytes_of(total, total_cost);
        let first_channel = cx.schedule.take_channels(bytes, chunk_bytes);
        let Some(listed) = self.listed.get(op) else { return };
        let (recv, offset) = (listed.recv, listed.cursor.dealt);
        let cost = listed.pieces.cost(bytes);
        let is_last = offset + bytes == listed.pieces.bytes;
        let recvs = Names::from_slice(&[recv]);
        cx.send(Frame::Chunks(Chunks { recvs, first_channel, chunk_bytes, offset, bytes }));
        let planned =
            self.plan_section(cx, op, Direction::Send, (bytes, chunk_bytes, first_channel));
        cx.check(planned);
        cx.schedule.dealt_listed(turn, cost, is_last);
        if is_last && let Some(Listed { role: Role::Serves(serving), .. }) = self.listed.get(op) {
            let list = serving.list;
            self.read_is_dealt(list);
        }
    }

    /// Makes the plans of a section, and steps over it.
    fn plan_section(
        &mut self,
        cx: &mut Conversation,
        op: OpKey,
        direction: Direction,
        (bytes, chunk_bytes, first_channel): (u64, u32, u16),
    ) -> Result<(), Violation> {
        let channels = cx.life.agreement.channels;
        let Some(operation) = cx.operations.get_mut(op) else { return Ok(()) };
        let transfer = operation.posted.transfer;
        if let OpState::Matched { bytes_dealt, .. } = &mut operation.state {
            *bytes_dealt += bytes;
        }
        let section =
            ListedSection { op, transfer, direction, bytes, chunk_bytes, first_channel, channels };
        let Some(listed) = self.listed.get_mut(op) else { return Ok(()) };
        let before = listed.cursor;
        let planned = match direction {
            Direction::Send => {
                let mut plans = listed.cursor.deal(&listed.pieces, section);
                while let Some(plan) = plans.next_plan(|| cx.spare.take()) {
                    cx.actions.push_back(Action::SendChunks(plan));
                }
                Ok(())
            }
            Direction::Receive => {
                let pieces = Arc::clone(&listed.pieces);
                let into = (&mut cx.spare, &mut cx.actions);
                cx.deferral.receive_section(pieces, &mut listed.cursor, section, into)
            }
        };
        if matches!(listed.role, Role::Serves(_)) {
            cx.work.spend(listed.cursor.pieces_since(&before) as u64);
        }
        planned
    }

    /// Whether an operation has a list.
    #[inline]
    pub(in super::super) fn is_listed(&self, op: OpKey) -> bool {
        self.listed.contains_key(op)
    }

    /// Bytes of an operation were sent, or received and unpacked. Returns whether it has a list.
    #[inline]
    pub(in super::super) fn bytes_done(
        &mut self,
        cx: &mut Conversation,
        op: OpKey,
        bytes: u64,
    ) -> bool {
        let Some(listed) = self.listed.get(op) else { return false };
        let Some(operation) = cx.operations.get_mut(op) else { return true };
        let OpState::Matched { bytes_left, .. } = &mut operation.state else { return true };
        *bytes_left = bytes_left.saturating_sub(bytes);
        let cost = listed.pieces.cost(bytes);
        match operation.posted.direction {
            Direction::Send => cx.schedule.sent(listed.pieces.cost(listed.pieces.bytes), cost),
            Direction::Receive => cx.deferral.list_arrived(cost),
        }
        self.listed_moved(cx, op);
        true
    }

    /// Chunks of an operation with a list follow.
    pub(in super::super) fn handle_chunks(
        &mut self,
        cx: &mut Conversation,
        op: OpKey,
        chunks: &Chunks,
    ) -> Result<(), Violation> {
        let Chunks { first_channel, chunk_bytes, offset, bytes, .. } = *chunks;
        let recv = op.to_wire();
        let listed = self.listed.get(op).ok_or(Violation::UnknownReceive { recv })?;
        let posted = cx.operations[op].posted;
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
            bytes >= cx.life.agreement.chunk_bytes.into()
                || listed.cursor.ends_a_piece(&listed.pieces, bytes)
        };
        let allows = listed.cursor.allows(&listed.pieces, bytes, listed.cuts_pairs);
        if offset != dealt || !allows || !is_whole() {
            return Err(Violation::Section { recv, offset, bytes, dealt, message_bytes });
        }
        let is_asked = matches!(listed.role, Role::Asks(_));
        let section = (bytes, chunk_bytes, first_channel);
        self.plan_section(cx, op, Direction::Receive, section)?;
        if is_asked && dealt + bytes == message_bytes {
            self.all_dealt(op);
        }
        Ok(())
    }

    /// Hands out what each operation with a list is about, for a driver that ends it.
    pub(in super::super) fn take_listed(&mut self) -> Vec<ListedLeft> {
        let listed = std::mem::take(&mut self.listed);
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

enum Gathered {
    Ready,
    /// The driver is to be asked about this channel.
    Ask(u16),
    Later,
    Never,
}

/// Whether chunks on any channel may be gathered.
fn gathered_on(staging: &StagingChannels, channels: u16, memory: MemoryType) -> Gathered {
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
