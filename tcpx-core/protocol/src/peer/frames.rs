//! What each frame of the peer does: who it is for. Pure.

use super::PeerProtocol;
use super::action::{Action, Ending, Landing, Outcome, Violation};
use super::lifecycle::stage::Stage;
use crate::exports::table::Exports;
use crate::frames::frame::Frame;
use crate::types::OpKey;

impl PeerProtocol {
    /// A frame of the peer came. Returns what becomes of the bytes that follow it.
    #[inline]
    pub fn handle_frame(&mut self, frame: Frame, exports: &mut Exports) -> Landing {
        let Self { cx, tags, one_sided, .. } = self;
        cx.work.spend_frame();
        match (frame, &cx.life.stage) {
            (_, Stage::Over) => Landing::Nowhere,
            (Frame::Deliver { recv, bytes }, _) => tags.handle_delivery(cx, recv, bytes.into()),
            (Frame::Ahead { tag, bytes }, _) => tags.handle_ahead(cx, tag, bytes.into()),
            (Frame::OneSided(frame), _) => {
                let landing = one_sided.handle_one_sided(cx, frame, exports);
                cx.work.spend(exports.take_looked());
                landing
            }
            (frame, _) => {
                let handled = self.handle_words(frame);
                self.cx.check(handled);
                Landing::Nowhere
            }
        }
    }

    /// A frame came that nothing follows.
    #[inline]
    fn handle_words(&mut self, frame: Frame) -> Result<(), Violation> {
        let Self { cx, tags, .. } = self;
        match frame {
            Frame::Taken { tag } => tags.handle_taken(tag)?,
            Frame::MaySend { what, count } => self.peer_takes(what, count)?,
            Frame::Announce { recv, tag, bytes, delivery } => {
                tags.handle_announce(cx, tag, (recv, bytes, delivery))?;
            }
            Frame::Match { first_channel, chunk_bytes, recvs } => {
                tags.handle_match(cx, first_channel, chunk_bytes, &recvs)?;
            }
            Frame::Section { recv, first_channel, offset, bytes, chunk_bytes } => {
                self.handle_section(recv, first_channel, offset, bytes, chunk_bytes)?;
            }
            Frame::Mismatch { recv, send_bytes } => {
                let unknown = Violation::UnknownReceive { recv };
                let (op, recv_bytes) = tags.own_receive(cx, recv).ok_or(unknown)?;
                tags.complete(cx, op, Outcome::SizeMismatch { send_bytes, recv_bytes });
            }
            Frame::Cancel { recv } => {
                // Matched meanwhile? Then the match is on its way and wins. After this end's
                // goodbye nothing is matched any more, and the goodbye is the answer.
                if cx.life.is_leaving_target().is_some() && tags.withdraw_receive(recv) {
                    cx.send(Frame::Cancelled { recv });
                }
            }
            Frame::Cancelled { recv } => tags.handle_cancelled(cx, recv)?,
            frame => return self.handle_life(frame),
        }
        Ok(())
    }

    /// A frame came that is about the conversation, and not about messages.
    fn handle_life(&mut self, frame: Frame) -> Result<(), Violation> {
        let life = &mut self.cx.life;
        let actions = &mut self.cx.actions;
        let is_open = life.are_channels_open();
        match (frame, &mut life.stage) {
            (Frame::Handles(handles), _) => life.peer_listens(handles, actions)?,
            (Frame::Ready { credit }, _) => {
                let opened = life.peer_ready(credit, actions)?;
                self.leave_if_due(opened);
            }
            (Frame::Credit(chunks), _) if is_open => life.peer_credits(chunks, actions)?,
            // The channels that this end's goodbye has overtaken are open at the other end.
            (Frame::Credit(_), Stage::Closing(shutdown)) if shutdown.has_said_goodbye() => {}
            (Frame::Ping, _) => actions.push_back(Action::Send(Frame::Pong)),
            (Frame::Pong, _) => {}
            (Frame::AskSent, _) if is_open => actions.push_back(Action::CountSent),
            (Frame::Sent(chunks), Stage::Up { .. } | Stage::Closing(_)) => {
                if !life.arrivals.hear(&chunks) {
                    return Err(Violation::SentUnasked(chunks.len()));
                }
            }
            (Frame::Goodbye, Stage::Up { peer_left: false }) => self.peer_leaves(),
            (Frame::Goodbye, Stage::Closing(shutdown)) if !shutdown.has_heard_goodbye() => {
                self.peer_leaves();
            }
            (Frame::Closed, Stage::Closing(shutdown)) if shutdown.expects_closed() => {
                shutdown.got_closed();
            }
            (Frame::Abort(reason), _) => life.end(Ending::Aborted(reason), actions),
            (frame, stage) => {
                let (frame, state) = (format!("{frame:?}"), stage.words());
                return Err(Violation::Unexpected { frame, state });
            }
        }
        Ok(())
    }

    /// The next section of a long message is dealt; the first one is the match of its receive.
    fn handle_section(
        &mut self,
        recv: u64,
        first_channel: u16,
        offset: u64,
        bytes: u64,
        chunk_bytes: u32,
    ) -> Result<(), Violation> {
        let Self { cx, tags, one_sided, .. } = self;
        cx.life.check_channel(first_channel, bytes)?;
        let op = OpKey::from_wire(recv);
        if one_sided.is_listed(op) {
            cx.life.check_cut(chunk_bytes)?;
            let range = (offset, bytes);
            return one_sided.handle_section(cx, op, range, chunk_bytes, first_channel);
        }
        tags.handle_section(cx, recv, first_channel, (offset, bytes), chunk_bytes)
    }
}
