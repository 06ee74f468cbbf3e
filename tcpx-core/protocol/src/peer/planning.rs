//! Plans, as the sender makes them: what of the matched messages is scheduled next, and what chunks
//! come to that have moved. Pure.

use super::PeerProtocol;
use super::action::{Action, Outcome};
use super::schedule::Turn;
use super::schedule::coalescer::{MatchedSend, Waiting};
use super::schedule::route::{Load, Message, Route, route};
use super::schedule::staging::ChannelStaging;
use crate::frames::frame::Frame;
use crate::frames::messages::Chunks;
use crate::plans::plan::ChunkPlan;
use crate::plans::stripe_queue::Finished;
use crate::types::{Direction, OpKey};

impl PeerProtocol {
    /// Handles chunks that were sent, or received and unpacked.
    #[inline]
    pub fn handle_finished(&mut self, finished: Finished) {
        match finished {
            Finished::Parts { sent_on, op, bytes, .. } => {
                self.cx.schedule.channels.finished(sent_on, bytes);
                self.bytes_done(op, bytes);
            }
            Finished::Together { sent_on, members } => {
                let bytes = members.iter().map(|member| member.bytes).sum();
                self.cx.schedule.channels.finished(sent_on, bytes);
                members.iter().for_each(|member| self.bytes_done(member.op, member.bytes));
                self.cx.spare.give_back(members);
            }
        }
        self.cx.deferral.plan_waiting(&mut self.cx.spare, &mut self.cx.actions);
    }

    #[inline]
    fn bytes_done(&mut self, op: OpKey, bytes: u64) {
        let Self { cx, one_sided, .. } = self;
        let Some(message) = cx.operations.get_mut(op) else { return };
        message.moved += bytes;
        let (total, cost) = (message.posted.bytes, message.cost(bytes));
        let is_access = message.access.is_some();
        match message.posted.direction {
            Direction::Send => cx.schedule.sent(message.cost(total), cost),
            Direction::Receive if is_access => cx.deferral.list_arrived(cost),
            Direction::Receive => {}
        }
        if is_access {
            one_sided.check_moved(cx, op);
        } else if message.moved >= total {
            let posted = message.posted;
            cx.operations.remove(op);
            cx.completed(&posted, Outcome::Done, None);
        }
    }

    /// Makes the next plan of what was matched, and queues what it takes. Returns an action that
    /// must be answered first, if there is one.
    pub(super) fn plan_next(&mut self) -> Option<Action> {
        loop {
            let turn = self.cx.schedule.turn()?;
            self.cx.schedule.channels.rewind_if_idle();
            let front = *self.cx.schedule.queue(turn).front()?;
            let op = match front {
                Waiting::Send(matched) if !self.cx.schedule.is_cut(turn, matched.member.bytes) => {
                    return self.plan_messages(turn, matched);
                }
                Waiting::Send(matched) => matched.member.op,
                Waiting::Listed(op) => op,
            };
            if self.cx.is_scheduled(op) {
                return if self.cx.has_channels() { self.schedule_section(op, turn) } else { None };
            }
            // The operation was given up.
            self.cx.schedule.queue(turn).pop();
        }
    }

    /// Deals the next section of a message.
    fn schedule_section(&mut self, op: OpKey, turn: Turn) -> Option<Action> {
        let Self { cx, one_sided, .. } = self;
        if one_sided.holds_section(cx, op) {
            return None;
        }
        let bytes = match cx.cut_section(op) {
            Ok(bytes) => bytes,
            Err(action) => return action,
        };
        let pieces = cx.send_section(op, turn, bytes);
        one_sided.bytes_scheduled(cx, op, (bytes, pieces));
        None
    }

    /// Makes a plan of a message, or of several that share a chunk with it.
    fn plan_messages(&mut self, turn: Turn, first: MatchedSend) -> Option<Action> {
        let tuning = self.cx.schedule.tuning;
        let messages = self.cx.schedule.queue(turn);
        let mut portion = messages.next(&tuning)?;
        let load = Load { link_room: self.cx.link.bytes, on_link: 0 };
        let message = Message::Tagged { bytes: first.member.bytes, together: messages.came() };
        let terms = &self.cx.link.terms;
        let memory = first.member.span.memory;
        let longest = [terms.longest_in(memory), terms.longest_of(first.announced.delivery)];
        let route = route((&tuning, terms), load, message, longest);
        if route == Route::Inline && portion.messages == 1 {
            let bytes = portion.bytes;
            messages.take(portion, Vec::new());
            self.cx.schedule.scheduled(turn, bytes);
            self.cx.schedule.sent(bytes, bytes);
            self.tags.send_inline(&mut self.cx, &first.member, first.announced.recv);
            return None;
        }
        if portion.bytes > 0 && !self.cx.has_channels() {
            return None;
        }
        let channel = self.cx.schedule.channels.first();
        if let Some(memory) = portion.gathered {
            match self.cx.schedule.staging.of(channel, memory) {
                ChannelStaging::Ready => {}
                ChannelStaging::Requested => return None,
                ChannelStaging::NotRequested => {
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
        let chunk_bytes = match portion.messages {
            1 => self.cx.schedule.chunk_bytes_of(bytes, bytes),
            // Messages that share a chunk are not cut.
            _ => tuning.chunk_bytes,
        };
        self.cx.schedule.scheduled(turn, bytes);
        let first_channel = self.cx.schedule.channels.take(bytes, chunk_bytes);
        let chunks = Chunks { recvs: names, first_channel, chunk_bytes, offset: 0, bytes };
        self.cx.send(Frame::Chunks(chunks));
        let gathered = portion.gathered;
        let (channels, offset) = (self.cx.schedule.channels.set(), 0);
        let plan =
            ChunkPlan { members, offset, bytes, chunk_bytes, first_channel, channels, gathered };
        if bytes > 0 {
            self.cx.schedule.channels.dealt(&plan);
            self.cx.actions.push_back(Action::SendChunks(plan));
        } else {
            // The message has no chunks, and is done.
            self.tags.complete(&mut self.cx, first.member.op, Outcome::Done);
        }
        None
    }
}
