//! What each frame of the peer does.

use super::PeerProtocol;
use super::action::{Action, Ending, Landing, Outcome, Violation};
use super::matcher::Announced;
use super::operation::{OpState, Withdrawal};
use super::stage::Stage;
use crate::exports::table::Exports;
use crate::frames::eager_terms::Keeping;
use crate::frames::frame::Frame;

impl PeerProtocol {
    /// A frame of the peer came. Returns what becomes of the bytes that follow it.
    #[inline]
    pub fn handle_frame(&mut self, frame: Frame, exports: &mut Exports) -> Landing {
        self.work.spend_frame();
        match (frame, &self.stage) {
            (_, Stage::Over) => Landing::Nowhere,
            (Frame::Deliver { recv, bytes }, _) => self.handle_delivery(recv, bytes.into()),
            (Frame::Ahead { tag, bytes }, _) => self.handle_ahead(tag, bytes.into()),
            (Frame::OneSided(frame), _) => {
                let landing = self.handle_one_sided(frame, exports);
                self.work.spend(exports.take_looked());
                landing
            }
            (frame, _) => {
                self.handle_words(frame);
                Landing::Nowhere
            }
        }
    }

    /// A frame came that nothing follows.
    #[inline]
    fn handle_words(&mut self, frame: Frame) {
        let is_open = self.are_channels_open();
        match (frame, &mut self.stage) {
            (Frame::Taken { tag }, _) => {
                if !self.eager.strike_out(tag) {
                    self.broken(Violation::NothingAhead { tag });
                }
            }
            (Frame::Handles(handles), _) => self.peer_listens(handles),
            (Frame::Ready { credit }, _) => self.peer_ready(credit),
            (Frame::Credit(chunks), _) if is_open => self.peer_credits(chunks),
            // The channels that this end's goodbye has overtaken are open at the other end.
            (Frame::Credit(_), Stage::Closing(shutdown)) if shutdown.has_said_goodbye() => {}
            (Frame::MaySend { what, count }, _) => self.peer_takes(what, count),
            (Frame::Announce { recv, tag, bytes, delivery }, _) => {
                let given = &mut self.announcing.given;
                let number = given.came;
                match given.comes(1) {
                    true => self.handle_announce(tag, Announced { recv, bytes, delivery, number }),
                    false => self.no_room(Keeping::Receives),
                }
            }
            (Frame::Match { first_channel, chunk_bytes, recvs }, _) => {
                self.handle_match(first_channel, chunk_bytes, &recvs);
            }
            (Frame::Section { recv, first_channel, offset, bytes, chunk_bytes }, _) => {
                self.handle_section(recv, first_channel, offset, bytes, chunk_bytes);
            }
            (Frame::Mismatch { recv, send_bytes }, _) => match self.own_receive(recv) {
                Some((op, recv_bytes)) => {
                    self.complete(op, Outcome::SizeMismatch { send_bytes, recv_bytes });
                }
                None => self.broken(Violation::UnknownReceive { recv }),
            },
            // After this end's goodbye nothing is matched any more, and the goodbye is the answer.
            (Frame::Cancel { .. }, Stage::Closing(shutdown)) if shutdown.has_said_goodbye() => {}
            (Frame::Cancel { recv }, _) => {
                // Matched meanwhile? Then the match is on its way and wins.
                if self.matcher.withdraw_receive(recv) {
                    self.actions.push_back(Action::Send(Frame::Cancelled { recv }));
                }
            }
            (Frame::Cancelled { recv }, _) => self.handle_cancelled(recv),
            (Frame::Ping, _) => self.actions.push_back(Action::Send(Frame::Pong)),
            (Frame::Pong, _) => {}
            (Frame::AskSent, _) if is_open => {
                self.actions.push_back(Action::CountSent);
            }
            (Frame::Sent(chunks), Stage::Up { .. } | Stage::Closing(_)) => {
                if !self.arrivals.hear(&chunks) {
                    self.broken(Violation::SentUnasked(chunks.len()));
                }
            }
            (Frame::Goodbye, Stage::Up { peer_left: false }) => self.peer_leaves(),
            (Frame::Goodbye, Stage::Closing(shutdown)) if !shutdown.has_heard_goodbye() => {
                self.peer_leaves();
            }
            (Frame::Closed, Stage::Closing(shutdown)) if shutdown.expects_closed() => {
                shutdown.got_closed();
            }
            (Frame::Abort(reason), _) => self.end(Ending::Aborted(reason)),
            (frame, stage) => {
                let (frame, state) = (format!("{frame:?}"), stage.words());
                self.broken(Violation::Unexpected { frame, state });
            }
        }
    }

    /// The peer agrees to a withdrawal, perhaps to one that nobody has asked for.
    fn handle_cancelled(&mut self, recv: u64) {
        let Some((op, _)) = self.own_receive(recv) else {
            return self.broken(Violation::UnknownReceive { recv });
        };
        let why = match self.operations[op].state {
            OpState::Cancelling(why) => why,
            OpState::SendWaits
            | OpState::Unannounced
            | OpState::Announced
            | OpState::Asked
            | OpState::Matched { .. } => Withdrawal::Cancelled,
        };
        self.complete(op, Outcome::Withdrawn(why));
    }

    /// The peer posted a receive.
    fn handle_announce(&mut self, tag: i64, announced: Announced) {
        if self.eager.strike_out(tag) {
            // It has its message by now.
            return;
        }
        match self.matcher.announce(tag, announced) {
            Ok(Some(send)) => self.meet(send, announced),
            Ok(None) => {}
            Err(_) => self.broken(Violation::AnnouncedTwice { recv: announced.recv }),
        }
    }
}
