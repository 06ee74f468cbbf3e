//! The sender's part in plans: what of the matched messages is dealt next.

use super::PeerProtocol;
use super::action::{Action, Outcome};
use super::dealing::{Section, Turn};
use super::staging_channels::ChannelStaging;
use crate::frames::frame::Frame;
use crate::plans::plan::{ChunkPlan, Member, Members};
use crate::plans::stripe::chunk_count;

impl PeerProtocol {
    /// Makes the next plan of what was matched, and queues what it takes. Returns an action that
    /// must be answered first, if there is one.
    pub(super) fn plan_next(&mut self) -> Option<Action> {
        let turn = loop {
            let turn = self.dealing.turn()?;
            if turn != Turn::Short && self.dealing.is_quiet() {
                // Sockets and threads that were used a moment ago are faster than those that rest.
                self.next_channel = 0;
            }
            match self.dealing.next_listed(turn) {
                Some(op) if self.is_dealt(op) => {
                    return if self.has_channels() { self.deal_listed(op, turn) } else { None };
                }
                // It was given up.
                Some(_) => self.dealing.pop_listed(turn),
                None => break turn,
            }
        };
        match turn {
            Turn::Section if !self.has_channels() => None,
            Turn::Section => {
                let section = self.dealing.take_section()?;
                self.deal_section(section);
                None
            }
            turn @ (Turn::Short | Turn::Medium) => self.plan_messages(turn),
        }
    }

    /// Makes a plan of a message, or of several that share a chunk.
    fn plan_messages(&mut self, turn: Turn) -> Option<Action> {
        let messages = self.dealing.messages(turn)?;
        let mut portion = messages.next(&self.limits)?;
        if messages.is_alone(portion)
            && let Some(matched) = messages.front().copied()
            && self.is_delivered(&matched)
        {
            self.dealing.messages(turn)?.take(portion, Vec::new());
            self.dealing.dealt(turn, portion.bytes);
            self.dealing.sent(portion.bytes, portion.bytes);
            self.deliver(&matched.member, matched.announced.recv);
            return None;
        }
        if portion.bytes > 0 && !self.has_channels() {
            return None;
        }
        let messages = self.dealing.messages(turn)?;
        let channel = self.next_channel;
        if let Some(memory) = portion.gathered {
            match self.staging.of(channel, memory) {
                ChannelStaging::There => {}
                ChannelStaging::Asked => return None,
                ChannelStaging::Unasked => {
                    self.staging.ask(channel, memory);
                    return Some(Action::PrepareStaging { channel, memory });
                }
                ChannelStaging::Refused => portion = messages.next_in_place(&self.limits)?,
            }
        }
        let spare = if portion.messages == 1 { Vec::new() } else { self.take_spare() };
        let (members, names) = self.dealing.messages(turn)?.take(portion, spare)?;
        let bytes = portion.bytes;
        self.dealing.dealt(turn, bytes);
        let chunk_bytes = match &members {
            Members::One(message) => self.cutting.chunk_bytes(message.bytes),
            Members::Many(_) => self.agreement.chunk_bytes,
        };
        let first_channel = self.take_channels(bytes, chunk_bytes);
        let frame = Frame::Match { first_channel, chunk_bytes, recvs: names };
        self.actions.push_back(Action::Send(frame));
        let gathered = portion.gathered;
        let plan = ChunkPlan { members, offset: 0, bytes, chunk_bytes, first_channel, gathered };
        self.carry_out(plan, |protocol, plan| {
            protocol.actions.push_back(Action::SendChunks(plan));
        });
        None
    }

    fn deal_section(&mut self, section: Section) {
        let Section { matched, offset, bytes } = section;
        // There is enough of it for everybody to work on.
        let chunk_bytes = self.agreement.chunk_bytes;
        let first_channel = self.take_channels(bytes, chunk_bytes);
        let recv = matched.announced.recv;
        self.actions.push_back(Action::Send(Frame::Section {
            recv,
            first_channel,
            offset,
            bytes,
            chunk_bytes,
        }));
        let members = Members::One(matched.member);
        let gathered = None;
        let plan = ChunkPlan { members, offset, bytes, chunk_bytes, first_channel, gathered };
        self.actions.push_back(Action::SendChunks(plan));
    }

    /// The channel of the first of so many bytes; what is dealt next begins behind their last.
    pub(super) fn take_channels(&mut self, bytes: u64, chunk_bytes: u32) -> u16 {
        let channel = self.next_channel;
        let chunks = chunk_count(bytes, chunk_bytes);
        let channels = u64::from(self.agreement.channels);
        self.next_channel = ((u64::from(channel) + chunks) % channels) as u16;
        channel
    }

    /// An empty list, with room if some is left.
    pub(super) fn take_spare(&mut self) -> Vec<Member> {
        let spare = self.spare.pop().unwrap_or_default();
        self.spare_members -= spare.capacity();
        spare
    }

    /// Queues a plan's chunks. A message of 0 bytes has none and is done.
    pub(super) fn carry_out(&mut self, plan: ChunkPlan, queue: fn(&mut Self, ChunkPlan)) {
        match (&plan.members, plan.bytes) {
            (Members::One(member), 0) => self.complete(member.op, Outcome::Done),
            _ => queue(self, plan),
        }
    }
}
