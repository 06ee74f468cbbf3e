//! Sections of messages that travel on the channels: how the sender cuts them off the front of a
//! message, and what the receiver learns of them. Both ends plan the same chunks of a section.
//! Pure.

use std::sync::Arc;

use super::action::Action;
use super::conversation::Conversation;
use super::message::{Message, State};
use super::schedule::Turn;
use super::schedule::staging::{ChannelStaging, StagingChannels};
use super::schedule::tuning::Tuning;
use super::violation::Violation;
use crate::frames::frame::Frame;
use crate::frames::messages::{Chunks, Names};
use crate::plans::channel_set::ChannelSet;
use crate::plans::piece_cursor::{CutRules, ListedSection};
use crate::plans::plan::{ChunkPlan, Members};
use crate::types::{Direction, MemoryType, OpKey};

impl Conversation {
    /// Returns whether the bytes of a message that waits to be scheduled are still wanted.
    pub(super) fn is_scheduled(&self, op: OpKey) -> bool {
        self.operations.get(op).is_some_and(|message| message.state == State::Moving)
    }

    /// Returns how much of a message is the next section. An error: none is scheduled now, and this
    /// action must be answered first, if there is one.
    pub(super) fn cut_section(&mut self, op: OpKey) -> Result<u64, Option<Action>> {
        let message = self.operations.get(op).ok_or(None)?;
        let by_chunks = self.schedule.is_dealt_by_chunks(message.cost(message.posted.bytes));
        let Tuning { section_bytes, chunk_bytes, .. } = self.schedule.tuning;
        let Some(access) = &message.access else {
            let left = message.left();
            let most = if by_chunks { self.schedule.next_chunk(left).1 } else { section_bytes };
            return Ok(left.min(most));
        };
        // A section of a list that ends in the middle of a pair has a whole chunk.
        let section_bytes = if by_chunks { chunk_bytes.into() } else { section_bytes };
        let memory = access.pieces.memory;
        let gathering = self.schedule.tuning.gathered(memory);
        let mut rules = CutRules { section_bytes, gathering, cut_pairs: access.cuts_pairs };
        let cut = message.cursor.next_section(&access.pieces, &rules).ok_or(None)?;
        if !cut.is_gathered {
            return Ok(cut.bytes);
        }
        match gathered_on(&self.schedule.staging, self.schedule.channels.set(), memory) {
            Gathered::Ready => Ok(cut.bytes),
            Gathered::Ask(channel) => {
                self.schedule.staging.ask(channel, memory);
                Err(Some(Action::PrepareStaging { channel, memory }))
            }
            Gathered::Later => Err(None),
            Gathered::Never => {
                rules.gathering = None;
                let cut = message.cursor.next_section(&access.pieces, &rules).ok_or(None)?;
                Ok(cut.bytes)
            }
        }
    }

    /// Deals a section of the message that has its turn. Returns how many pieces it is of.
    pub(super) fn send_section(&mut self, op: OpKey, turn: Turn, bytes: u64) -> usize {
        let Some(message) = self.operations.get(op) else { return 0 };
        let (total, offset, cost) =
            (message.posted.bytes, message.cursor.scheduled, message.cost(bytes));
        let recvs = Names::from_slice(&[message.name]);
        let mut chunk_bytes = self.schedule.chunk_bytes_of(total, message.cost(total));
        let first_channel = if self.schedule.is_dealt_by_chunks(message.cost(total)) {
            let (channel, on_channel) = self.schedule.next_chunk(message.left());
            chunk_bytes = match message.access {
                None => on_channel as u32,
                Some(_) => self.schedule.tuning.chunk_bytes,
            };
            self.schedule.channels.go_behind(channel, bytes, chunk_bytes);
            channel
        } else {
            self.schedule.channels.take(bytes, chunk_bytes)
        };
        self.send(Frame::Chunks(Chunks { recvs, first_channel, chunk_bytes, offset, bytes }));
        let planned = self.plan_section(op, (bytes, chunk_bytes, first_channel));
        self.schedule.scheduled_section((turn, op), cost, offset + bytes == total);
        self.check(planned).unwrap_or_default()
    }

    /// Checks a section that the peer schedules. The section begins the message or goes on with it:
    /// right behind what was scheduled of it, and in whole chunks but for its end.
    pub(super) fn check_section(&self, recv: u64, chunks: &Chunks) -> Result<&Message, Violation> {
        let Chunks { chunk_bytes, offset, bytes, .. } = *chunks;
        let message = self.operations.get(OpKey::from_wire(recv));
        let is_expected = |it: &&Message| {
            let takes_more = it.is_waiting_receive() || it.takes_more();
            it.posted.direction == Direction::Receive && takes_more && !it.is_on_link()
        };
        let message = message.filter(is_expected).ok_or(Violation::UnknownReceive { recv })?;
        let (scheduled, message_bytes) = (message.cursor.scheduled, message.posted.bytes);
        if offset != scheduled
            || !message.allows(bytes, chunk_bytes, self.life.agreement.chunk_bytes)
        {
            return Err(Violation::Section { recv, offset, bytes, scheduled, message_bytes });
        }
        Ok(message)
    }

    /// Makes the plans of a section, and steps over it. Returns how many pieces it is of.
    pub(super) fn plan_section(
        &mut self,
        op: OpKey,
        (bytes, chunk_bytes, first_channel): (u64, u32, u16),
    ) -> Result<usize, Violation> {
        let Some(message) = self.operations.get_mut(op) else { return Ok(0) };
        let (transfer, direction) = (message.posted.transfer, message.posted.direction);
        let (member, before) = (message.member(op), message.cursor);
        let channels = match direction {
            Direction::Send => self.schedule.channels.set(),
            Direction::Receive => self.losses.receives,
        };
        let Some(access) = &message.access else {
            message.cursor.scheduled += bytes;
            let (members, offset, gathered) = (Members::One(member), before.scheduled, None);
            let plan = ChunkPlan {
                members,
                offset,
                bytes,
                chunk_bytes,
                first_channel,
                channels,
                gathered,
            };
            if direction == Direction::Receive {
                self.deferral.receive_chunks(plan, &mut self.actions)?;
            } else {
                self.schedule.channels.dealt(&plan);
                self.actions.push_back(Action::SendChunks(plan));
            }
            return Ok(1);
        };
        let section =
            ListedSection { op, transfer, direction, bytes, chunk_bytes, first_channel, channels };
        match direction {
            Direction::Send => {
                let mut plans = message.cursor.schedule(&access.pieces, section);
                while let Some(plan) = plans.next_plan(|| self.spare.take()) {
                    self.schedule.channels.dealt(&plan);
                    self.actions.push_back(Action::SendChunks(plan));
                }
            }
            Direction::Receive => {
                let pieces = Arc::clone(&access.pieces);
                let into = (&mut self.spare, &mut self.actions);
                self.deferral.receive_section(pieces, &mut message.cursor, section, into)?;
            }
        }
        Ok(message.cursor.pieces_since(&before))
    }
}

enum Gathered {
    Ready,
    /// The driver is to be asked about this channel.
    Ask(u16),
    Later,
    Never,
}

/// Returns whether chunks on any channel may be gathered.
fn gathered_on(staging: &StagingChannels, channels: ChannelSet, memory: MemoryType) -> Gathered {
    let mut is_asked = false;
    for channel in channels.iter() {
        match staging.of(channel, memory) {
            ChannelStaging::NotRequested => return Gathered::Ask(channel),
            ChannelStaging::Requested => is_asked = true,
            ChannelStaging::Ready => {}
            ChannelStaging::Refused => return Gathered::Never,
        }
    }
    if is_asked { Gathered::Later } else { Gathered::Ready }
}
