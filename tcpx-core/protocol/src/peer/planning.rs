//! Plans, as the sender makes them: what of the matched messages is dealt next, and what chunks
//! come to that have moved. Pure.

use super::PeerProtocol;
use super::action::Action;
use super::schedule::coalescer::{MatchedSend, Waiting};
use super::schedule::route::{Load, Message, Route, route};
use super::schedule::staging::ChannelStaging;
use super::schedule::{Section, Turn};
use crate::frames::frame::Frame;
use crate::frames::messages::{Chunks, Names};
use crate::plans::plan::{ChunkPlan, Members};
use crate::plans::stripe_queue::Finished;
use crate::types::OpKey;

impl PeerProtocol {
    /// Chunks were sent, or received and unpacked.
    #[inline]
    pub fn handle_finished(&mut self, finished: Finished) {
        match finished {
            Finished::Parts { op, bytes, .. } => self.bytes_done(op, bytes),
            Finished::Together(members) => {
                members.iter().for_each(|member| self.bytes_done(member.op, member.bytes));
                self.cx.spare.give_back(members);
            }
        }
        self.cx.deferral.plan_waiting(&mut self.cx.spare, &mut self.cx.actions);
    }

    #[inline]
    fn bytes_done(&mut self, op: OpKey, bytes: u64) {
        if !self.one_sided.bytes_done(&mut self.cx, op, bytes) {
            self.tags.bytes_done(&mut self.cx, op, bytes);
        }
    }

    /// Makes the next plan of what was matched, and queues what it takes. Returns an action that
    /// must be answered first, if there is one.
    pub(super) fn plan_next(&mut self) -> Option<Action> {
        let (turn, first) = loop {
            let turn = self.cx.schedule.turn()?;
            if turn != Turn::Short && self.cx.schedule.is_quiet() {
                // Sockets and threads that were used a moment ago are faster than those that rest.
                self.cx.schedule.next_channel = 0;
            }
            let first = *self.cx.schedule.queue(turn).front()?;
            match first {
                Waiting::Listed(op) if self.one_sided.is_dealt(op) => {
                    return if self.cx.has_channels() {
                        self.one_sided.deal_listed(&mut self.cx, op, turn)
                    } else {
                        None
                    };
                }
                // It was given up.
                Waiting::Listed(_) => self.cx.schedule.queue(turn).pop(),
                Waiting::Send(matched) => break (turn, matched),
            }
        };
        match turn {
            Turn::Long if !self.cx.has_channels() => None,
            Turn::Long => {
                let section = self.cx.schedule.take_section()?;
                self.deal_section(section);
                None
            }
            Turn::Short | Turn::Medium => self.plan_messages(turn, first),
        }
    }

    /// Makes a plan of a message, or of several that share a chunk with it.
    fn plan_messages(&mut self, turn: Turn, first: MatchedSend) -> Option<Action> {
        let tuning = self.cx.schedule.tuning;
        let messages = self.cx.schedule.queue(turn);
        let mut portion = messages.next(&tuning)?;
        let load = Load { link_room: self.cx.link.bytes, on_link: 0 };
        let message = Message::Tagged { bytes: first.member.bytes, together: messages.came() };
        let memory = first.member.span.memory;
        let peer_reaches = self.cx.link.terms.peer_reaches(first.announced.delivery);
        let numbers = (&tuning, &self.cx.link.terms);
        let route = route(numbers, load, message, memory, peer_reaches);
        if route == Route::Inline && portion.messages == 1 {
            let bytes = portion.bytes;
            messages.take(portion, Vec::new());
            self.cx.schedule.dealt(turn, bytes);
            self.cx.schedule.sent(bytes, bytes);
            self.tags.deliver(&mut self.cx, &first.member, first.announced.recv);
            return None;
        }
        if portion.bytes > 0 && !self.cx.has_channels() {
            return None;
        }
        let channel = self.cx.schedule.next_channel;
        if let Some(memory) = portion.gathered {
            match self.cx.schedule.staging.of(channel, memory) {
                ChannelStaging::There => {}
                ChannelStaging::Asked => return None,
                ChannelStaging::Unasked => {
                    self.cx.schedule.staging.ask(channel, memory);
                    return Some(Action::PrepareStaging { channel, memory });
                }
                ChannelStaging::Refused => {
                    portion = self.cx.schedule.queue(turn).next_in_place(&tuning)?;
                }
            }
        }
        let spare = if portion.messages == 1 { Vec::new() } else { self.cx.spare.take() };
        let (members, names) = self.cx.schedule.queue(turn).take(portion, spare)?;
        let bytes = portion.bytes;
        self.cx.schedule.dealt(turn, bytes);
        let chunk_bytes = match route {
            Route::Channels { chunk_bytes } if portion.messages == 1 => chunk_bytes,
            // Those that share a chunk are not cut.
            _ => tuning.chunk_bytes,
        };
        let first_channel = self.cx.schedule.take_channels(bytes, chunk_bytes);
        let chunks = Chunks { recvs: names, first_channel, chunk_bytes, offset: 0, bytes };
        self.cx.send(Frame::Chunks(chunks));
        let gathered = portion.gathered;
        let plan = ChunkPlan { members, offset: 0, bytes, chunk_bytes, first_channel, gathered };
        if let Some(plan) = self.tags.carry_out(&mut self.cx, plan) {
            self.cx.actions.push_back(Action::SendChunks(plan));
        }
        None
    }

    fn deal_section(&mut self, section: Section) {
        let Section { matched, offset, bytes } = section;
        // There is enough of it for everybody to work on.
        let chunk_bytes = self.cx.life.agreement.chunk_bytes;
        let first_channel = self.cx.schedule.take_channels(bytes, chunk_bytes);
        let recvs = Names::from_slice(&[matched.announced.recv]);
        let chunks = Chunks { recvs, first_channel, chunk_bytes, offset, bytes };
        self.cx.send(Frame::Chunks(chunks));
        let members = Members::One(matched.member);
        let gathered = None;
        let plan = ChunkPlan { members, offset, bytes, chunk_bytes, first_channel, gathered };
        self.cx.actions.push_back(Action::SendChunks(plan));
    }
}
