//! Dispatcher of the frames of the peer to the types that handle them. Pure.

use super::PeerProtocol;
use super::action::{Action, Ending, Landing, Outcome};
use super::lifecycle::stage::Stage;
use super::violation::Violation;
use crate::exports::table::Exports;
use crate::frames::eager_terms::CreditKind;
use crate::frames::frame::Frame;
use crate::frames::messages::{Chunks, Ended, LinkChunk, MessageId, Offer, Ready};
use crate::types::OpKey;

impl PeerProtocol {
    /// Handles a frame of the peer. Returns what becomes of the bytes that follow it.
    #[inline]
    pub fn handle_frame(&mut self, frame: Frame, exports: &mut Exports) -> Landing {
        let Self { cx, tags, one_sided, .. } = self;
        cx.work.spend_frame();
        match (frame, &cx.life.stage) {
            (_, Stage::Over) => Landing::Nowhere,
            (frame, Stage::Connecting { .. }) if frame.is_of_message() => {
                let violation = cx.life.unexpected(&frame);
                cx.broken(violation);
                Landing::Nowhere
            }
            (Frame::LinkChunk(LinkChunk { of: MessageId::Receive(recv), bytes }), _) => {
                tags.handle_inline(cx, recv, bytes)
            }
            (Frame::LinkChunk(chunk), _) => one_sided.handle_link_chunk(cx, chunk),
            (Frame::Offer(Offer::Eager { tag, bytes }), _) => {
                tags.handle_eager(cx, tag, bytes.into())
            }
            (Frame::Offer(Offer::Note { bytes }), _) => one_sided.handle_notification(cx, bytes),
            (Frame::Offer(Offer::Write { op, list, way, note }), _) => {
                let landing = one_sided.handle_write(cx, (op, list), note, way, exports);
                cx.work.spend(exports.take_lookups());
                landing
            }
            (frame, _) => {
                let handled = self.handle_words(frame, exports);
                self.cx.check(handled);
                Landing::Nowhere
            }
        }
    }

    /// Handles a frame without a payload.
    #[inline]
    fn handle_words(&mut self, frame: Frame, exports: &mut Exports) -> Result<(), Violation> {
        let Self { cx, tags, one_sided, .. } = self;
        match frame {
            Frame::Ready(Ready::Receive { recv, tag, bytes, delivery }) => {
                tags.handle_receive_ready(cx, tag, (recv, bytes, delivery))?;
            }
            Frame::Ready(Ready::Write { op, recv, cut }) => {
                one_sided.handle_write_ready(cx, op, recv, cut);
            }
            Frame::Ready(Ready::Read { op, list, cut, on_link }) => {
                one_sided.handle_read(cx, (op, list), cut, on_link, exports);
                cx.work.spend(exports.take_lookups());
            }
            Frame::Chunks(chunks) => self.handle_chunks(&chunks)?,
            Frame::End { message, how } => self.handle_end(message, how)?,
            Frame::Cancel { message: MessageId::Receive(recv), .. } => {
                // Matched meanwhile? Then the match is on its way and wins. After this end's
                // goodbye nothing is matched any more, and the goodbye is the answer.
                if cx.life.is_leaving_target().is_some() && tags.withdraw_receive(recv) {
                    cx.send(Frame::end_of(recv, Ended::Withdrawn));
                }
            }
            Frame::Cancel { message: MessageId::Read(op), why } => {
                one_sided.handle_read_halted(cx, op, why);
            }
            Frame::Cancel { message: MessageId::Write(op), why } => {
                one_sided.handle_write_halted(cx, op, why);
            }
            Frame::List(part) => {
                one_sided.handle_list(cx, &part, exports);
                cx.work.spend(exports.take_lookups());
            }
            Frame::Forget { list } => {
                one_sided.handle_forget(cx, list, exports);
                cx.work.spend(exports.take_lookups());
            }
            Frame::Credit { what, counts } if what != CreditKind::Chunks => {
                self.handle_credit_of(what, &counts)?;
            }
            Frame::Unpacked(chunks) => cx.peer_unpacked(chunks)?,
            Frame::ChannelLost { channel, unpacked } => cx.peer_loses(channel, unpacked)?,
            Frame::Redeal { lost, onto } => cx.peer_redeals(lost, onto)?,
            frame => return self.handle_life(frame),
        }
        Ok(())
    }

    /// Handles the word of the peer that a message ends.
    fn handle_end(&mut self, message: MessageId, how: Ended) -> Result<(), Violation> {
        let Self { cx, tags, one_sided, .. } = self;
        match (message, how) {
            (MessageId::Eager(tag), Ended::Done) => tags.handle_eager_done(tag)?,
            (MessageId::Receive(recv), Ended::Withdrawn) => tags.handle_cancelled(cx, recv)?,
            (MessageId::Receive(recv), Ended::OtherSize(send_bytes)) => {
                let unknown = Violation::UnknownReceive { recv };
                let (op, recv_bytes) = tags.own_receive(cx, recv).ok_or(unknown)?;
                tags.complete(cx, op, Outcome::SizeMismatch { send_bytes, recv_bytes });
            }
            (MessageId::Write(op), Ended::Done) => one_sided.handle_answer(cx, op, None),
            (MessageId::Write(op), Ended::Refused(why)) => {
                one_sided.handle_answer(cx, op, Some(why));
            }
            (MessageId::Read(op), Ended::Stopped(why)) => {
                one_sided.handle_read_stopped(cx, OpKey::from_wire(op), why);
            }
            (MessageId::Write(op), Ended::Stopped(why)) => {
                one_sided.handle_write_stopped(cx, op, why);
            }
            (message, how) => return Err(cx.life.unexpected(&Frame::End { message, how })),
        }
        Ok(())
    }

    /// Handles the announcement of chunks that follow on the channels.
    fn handle_chunks(&mut self, chunks: &Chunks) -> Result<(), Violation> {
        let Self { cx, tags, one_sided, .. } = self;
        cx.life.check_cut(chunks.chunk_bytes)?;
        cx.life.check_channel(chunks.first_channel, cx.losses.receives, chunks.bytes)?;
        let Chunks { first_channel, chunk_bytes, bytes, .. } = *chunks;
        let [recv] = chunks.recvs[..] else { return tags.share_chunk(cx, chunks) };
        let op = OpKey::from_wire(recv);
        if cx.check_section(recv, chunks)?.is_waiting_receive() {
            cx.messages.received += 1;
            tags.begin_receive(cx, op, 0);
            if bytes == 0 {
                tags.complete(cx, op, Outcome::Done);
                return Ok(());
            }
        }
        let pieces = cx.plan_section(op, (bytes, chunk_bytes, first_channel))?;
        one_sided.bytes_scheduled(cx, op, (bytes, pieces));
        Ok(())
    }

    /// Handles a frame about the conversation rather than about messages.
    fn handle_life(&mut self, frame: Frame) -> Result<(), Violation> {
        let life = &mut self.cx.life;
        let actions = &mut self.cx.actions;
        let is_open = life.are_channels_open();
        match (frame, &mut life.stage) {
            (Frame::Handles(handles), _) => life.peer_listens(handles, actions)?,
            (Frame::Open { credit }, _) => {
                let opened = life.peer_opens(credit, actions)?;
                self.leave_if_due(opened);
            }
            (Frame::Credit { counts, .. }, _) if is_open => life.peer_credits(counts, actions)?,
            // The channels that this end's goodbye has overtaken are open at the other end.
            (Frame::Credit { .. }, Stage::Closing(shutdown)) if shutdown.has_sent_goodbye() => {}
            (Frame::Ping, _) => actions.push_back(Action::CountSent),
            (Frame::Pong(chunks), _) => {
                if !life.arrivals.hear(&chunks) {
                    return Err(Violation::SentChannels(chunks.len()));
                }
            }
            (Frame::Goodbye, Stage::Up { peer_left: false }) => self.peer_leaves(),
            (Frame::Goodbye, Stage::Closing(shutdown)) if !shutdown.has_received_goodbye() => {
                self.peer_leaves();
            }
            (Frame::Closed, Stage::Closing(shutdown)) if shutdown.expects_closed() => {
                shutdown.got_closed();
            }
            (Frame::Abort(reason), _) => life.end(Ending::Aborted(reason), actions),
            (frame, _) => return Err(life.unexpected(&frame)),
        }
        Ok(())
    }
}
