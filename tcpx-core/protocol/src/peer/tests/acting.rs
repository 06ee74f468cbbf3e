//! Actions of a driver for the protocol, and checks that the protocol may ask for them.

use super::driver::{CHUNK_BYTES, Check, Driver, End, Over, ensure};
use super::payload::Payload;
use super::requests::Note;
use super::said::is_stopped;
use super::setting::LITTLE_ROOM;
use crate::frames::frame::Frame;
use crate::frames::link_frame::LinkFrame;
use crate::frames::messages::Offer;
use crate::peer::PeerProtocol;
use crate::peer::action::{Action, Completion, Ending};
use crate::peer::conversation::LINK_BYTES;
use crate::peer::schedule::tuning::Tuning;
use crate::plans::piece_range::PieceRange;
use crate::plans::plan::{ChunkPlan, Member, Members};
use crate::plans::stripe_queue::StripeQueue;
use crate::types::{Direction, MemoryType, TransferKey};

impl Driver {
    /// Sends a message on the link.
    fn send_message(&mut self, frame: Frame, member: &Member) -> Check {
        let bytes = match &frame {
            Frame::LinkChunk(chunk) => chunk.bytes,
            Frame::Offer(Offer::Eager { bytes, .. }) => {
                self.posted[member.transfer].went_eager = true;
                *bytes
            }
            _ => return Err(format!("a message behind {frame:?}")),
        };
        let eager = &self.setting.eager;
        ensure!(u64::from(bytes) == member.bytes, "{frame:?} for {member:?}");
        ensure!(eager.allows(member.bytes), "{frame:?} is too long");
        let longest = eager.longest_in(member.span.memory);
        ensure!(member.bytes <= longest, "{frame:?} from a GPU");
        let is_delivered = matches!(frame, Frame::LinkChunk(_));
        let is_too_long = !self.is_link_clear && bytes as usize > LITTLE_ROOM;
        ensure!(!(is_delivered && is_too_long), "{frame:?} on a full link");
        self.following.push_back(Payload::Message(member.transfer));
        self.send(frame)
    }

    /// Sends a frame of an operation with a list, or of a note, and what follows it.
    fn send_listed(
        &mut self,
        frame: Frame,
        bytes: Option<(TransferKey, PieceRange)>,
        note: Option<Note>,
    ) -> Check {
        let count = bytes.as_ref().map_or(0, |(_, range)| range.bytes() as usize)
            + note.as_ref().map_or(0, |note| note.len());
        ensure!(frame.payload_bytes() == count, "{count} bytes behind {frame:?}");
        if let Some((transfer, range)) = &bytes {
            self.check_pieces(*transfer, range)?;
        }
        if let Frame::LinkChunk(_) = frame {
            // A short read may be answered at once.
            let has_room = self.is_link_clear || count <= LITTLE_ROOM;
            ensure!(has_room, "{frame:?} waits on the link");
            self.fill_link();
        }
        self.following.push_back(Payload::Listed { bytes, note });
        self.send(frame)
    }

    /// Fills the link with what was written to it: the kernel of a full link leaves some.
    fn fill_link(&mut self) {
        self.update_chunk_room();
        if self.setting.link_is_full {
            self.is_link_clear = false;
            self.protocol.iter_mut().for_each(|protocol| protocol.handle_unsent(usize::MAX));
        }
    }

    /// Has the kernel take a chunk.
    fn update_chunk_room(&mut self) {
        let room = self.setting.tuning.link_chunk_bytes;
        self.protocol.iter_mut().for_each(|protocol| protocol.handle_chunk_room(room));
    }

    /// Checks that there is nothing more to do, and with room on the link nothing more to say.
    fn check_silence(&mut self) -> Check {
        let is_room_left = !self.setting.link_is_full;
        let Some(protocol) = &mut self.protocol else { return Ok(()) };
        let more = protocol.poll_action();
        ensure!(more.is_none(), "after nothing comes {more:?}");
        ensure!(!(is_room_left && protocol.has_output()), "there is more to say");
        Ok(())
    }

    /// Does what the protocol says, until it says nothing more.
    pub(super) fn act(&mut self) -> Check {
        let has_chunks = self.protocol.as_ref().is_some_and(PeerProtocol::sends_link_chunks);
        let unsent = match (self.setting.link_is_full, self.outbox.is_empty()) {
            (false, _) => 0,
            // Sooner or later nothing waits.
            (true, true) if has_chunks => 0,
            (true, true) => LINK_BYTES - LITTLE_ROOM,
            (true, false) => usize::MAX,
        };
        self.is_link_clear = unsent == 0;
        self.protocol.iter_mut().for_each(|protocol| protocol.handle_unsent(unsent));
        self.update_chunk_room();
        while let Some(action) = self.protocol.as_mut().and_then(PeerProtocol::poll_action) {
            if !matches!(action, Action::Complete(_, None)) {
                self.messages.none_follows();
            }
            match action {
                Action::Send(frame) => self.send(frame)?,
                Action::SendMessage { frame, member } => self.send_message(frame, &member)?,
                Action::SendWithPayload { frame, bytes, note } => {
                    self.send_listed(frame, bytes, note)?;
                }
                Action::Note { number, is_published } => {
                    self.notes.take_unexpected(number, is_published)?;
                }
                Action::Served(uses) => {
                    let exports = &mut self.exporting.exports;
                    let is_used = uses.iter().all(|key| !exports.is_idle(*key));
                    ensure!(is_used, "more has ended than was begun");
                    exports.end_all(&uses);
                }
                Action::Refused(_) => {}
                Action::Complete(Completion { transfer, outcome, .. }, Some(_)) => {
                    self.request_ended(transfer, End::Completed(outcome))?;
                }
                Action::TakeUnexpected { number, into } => {
                    self.messages.take_unexpected(number, into)?
                }
                Action::OpenChannels => self.begin_channels()?,
                Action::Connect(handles) => {
                    ensure!(self.is_opening && !self.has_connect_handles, "connects twice");
                    ensure!(handles.len() == self.sending.len(), "{} handles", handles.len());
                    self.has_connect_handles = true;
                }
                Action::Open => {
                    ensure!(!self.is_open, "opens twice");
                    (self.is_open, self.is_opening) = (true, false);
                }
                Action::Credit(chunks) => {
                    ensure!(self.is_open, "credit before it is up");
                    self.credit = Some(chunks);
                }
                Action::Unpacked(chunks) => self.note_unpacked(&chunks),
                Action::CloseChannel { channel, .. } => self.begin_to_close(channel)?,
                Action::Redeal { direction, lost, onto } => self.redeal(direction, lost, onto)?,
                Action::PrepareStaging { channel, memory } => {
                    self.prepare_staging(channel, memory)?;
                }
                Action::SendChunks(plan) => self.schedule(plan, Direction::Send)?,
                Action::ReceiveChunks(plan) => self.schedule(plan, Direction::Receive)?,
                Action::Complete(Completion { transfer, outcome, direction, .. }, None) => {
                    if direction == Direction::Receive {
                        self.messages.receive_ended(transfer, outcome);
                    }
                    self.note_end(transfer, End::Completed(outcome))?;
                }
                Action::CheckHost => {
                    if let Some(protocol) = &mut self.protocol {
                        protocol.handle_acknowledgement(None);
                    }
                }
                Action::CountSent => {
                    if let Some(protocol) = &mut self.protocol {
                        protocol.handle_sent(self.sent_counts.clone());
                    }
                }
                Action::CloseSends => self.close_sends()?,
                Action::CloseReceives => self.close_receives()?,
                Action::End { ending, .. } => return self.send_over(ending),
            }
        }
        self.check_silence()?;
        self.seen.look(self.protocol.as_ref());
        self.messages.none_follows();
        let is_kept = self.messages.thrown_away.is_empty();
        ensure!(is_kept || self.is_leaving, "messages are thrown away by an end that stays");
        Ok(())
    }

    fn begin_channels(&mut self) -> Check {
        ensure!(!self.is_opening && !self.is_open, "begins channels twice");
        self.is_opening = true;
        let now = self.now;
        self.protocol.iter_mut().for_each(|protocol| protocol.handle_channels_begun(now));
        Ok(())
    }

    fn prepare_staging(&mut self, channel: u16, memory: MemoryType) -> Check {
        ensure!(self.is_open, "staging before it is up");
        let is_new = self.asked_for.insert((channel, memory == MemoryType::Host));
        ensure!(is_new, "asks twice for staging of {memory} on channel {channel}");
        self.unanswered.push_back((channel, memory));
        if !self.setting.staging_is_late {
            self.answer_staging();
        }
        Ok(())
    }

    fn close_sends(&mut self) -> Check {
        let is_idle = self.sending.iter().all(StripeQueue::is_empty);
        ensure!(is_idle, "closes sends with chunks in them");
        self.has_closed_sends = true;
        self.is_opening = false;
        if let Some(protocol) = &mut self.protocol {
            protocol.handle_sends_closed();
        }
        Ok(())
    }

    fn close_receives(&mut self) -> Check {
        let is_idle = self.receiving.iter().all(StripeQueue::is_empty);
        ensure!(is_idle, "closes receives with chunks in them");
        if let Some(protocol) = &mut self.protocol {
            protocol.handle_receives_closed();
        }
        Ok(())
    }

    /// Takes the word of the protocol that it is over.
    fn send_over(&mut self, ending: Ending) -> Check {
        let is_broken = matches!(ending, Ending::Broken(_));
        ensure!(!is_broken, "one correct end is broken to the other: {ending:?}");
        let left = self.protocol.as_ref().map_or(0, PeerProtocol::operation_count);
        let is_parting = ending == Ending::Goodbye;
        ensure!(!is_parting || left == 0, "{left} operations after the goodbye");
        self.messages.none_follows();
        ensure!(!is_parting || self.messages.kept.is_empty(), "messages are kept");
        if !is_parting {
            self.outbox.push_back(Frame::Abort(format!("{ending:?}")));
        }
        self.end(Over::Said(ending))
    }

    fn send(&mut self, frame: Frame) -> Check {
        match &frame {
            Frame::Goodbye => {
                ensure!(!self.sent_goodbye, "says goodbye twice");
                self.sent_goodbye = true;
            }
            // What was begun is stopped after it.
            frame if is_stopped(frame) => {}
            frame if frame.is_of_message() || matches!(frame, Frame::Credit { .. }) => {
                ensure!(!self.sent_goodbye, "{frame:?} after its goodbye");
            }
            _ => {}
        }
        self.begins_section |= matches!(frame, Frame::Chunks(_));
        self.outbox.push_back(frame);
        Ok(())
    }

    /// Checks that no more of long messages is scheduled than should be under way.
    fn check_scheduling(&mut self, plan: &ChunkPlan) -> Check {
        let Tuning { short_bytes, section_bytes, ahead_bytes, .. } = self.setting.tuning;
        let is_section = matches!(&plan.members, Members::One(one) if one.bytes > plan.bytes);
        let members = plan.members.as_slice().iter();
        let mut sizes = members.map(|member| self.operation_bytes(member.transfer, member.op));
        if sizes.all(|bytes| bytes <= short_bytes) {
            return Ok(());
        }
        // A section may be of several plans.
        let is_first = std::mem::take(&mut self.begins_section);
        let has_room = self.long_under_way < ahead_bytes;
        ensure!(!is_first || has_room, "enough is under way for {plan:?}");
        ensure!(plan.bytes <= section_bytes || !is_section, "too long a section: {plan:?}");
        self.long_under_way += plan.bytes;
        Ok(())
    }

    fn schedule(&mut self, plan: ChunkPlan, direction: Direction) -> Check {
        ensure!(self.is_open, "chunks before it is up");
        let members = plan.members.as_slice();
        ensure!(!members.is_empty() && plan.bytes > 0, "nothing to schedule in {plan:?}");
        ensure!(
            members.len() == 1 || plan.bytes <= u64::from(CHUNK_BYTES),
            "more than a chunk: {plan:?}"
        );
        let is_gathered = plan.gathered.is_some();
        ensure!(
            !is_gathered || self.setting.has_staging(plan.first_channel),
            "gathers without staging"
        );
        if direction == Direction::Send && !is_gathered {
            let is_one_piece =
                members.windows(2).all(|pair| Member::is_followed_by(&pair[0], &pair[1]));
            ensure!(is_one_piece, "sends what lies apart in one piece: {plan:?}");
        }
        if direction == Direction::Send {
            self.check_scheduling(&plan)?;
        }
        for member in members {
            self.check_touched(member.transfer, member.span.address, member.bytes)?;
        }
        let lanes = match direction {
            Direction::Send => &mut self.sending,
            Direction::Receive => &mut self.receiving,
        };
        for (channel, stripe) in plan.stripes() {
            if let (Direction::Receive, Some(bounce)) = (direction, &mut self.bounce) {
                bounce.expect(channel, stripe.chunks_left());
            }
            lanes[usize::from(channel)].push(stripe);
        }
        Ok(())
    }
}
