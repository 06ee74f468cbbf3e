//! What each frame of the control link does to a peer.

use crate::control::frame::Frame;
use crate::error::{Departure, Error, Phase, Result};
use crate::peer::protocol::matcher::Announced;
use crate::peer::protocol::shutdown::Shutdown;
use crate::peer::session_context::SessionContext;
use crate::peer::{Peer, Stage};
use crate::transfer::ledger::{Ledger, OpState};

impl Peer {
    /// Acts on one frame of the control link.
    pub(super) fn handle(
        &mut self,
        frame: Frame,
        env: &SessionContext,
        ledger: &mut Ledger,
    ) -> Result<()> {
        match (frame, &mut self.stage) {
            (Frame::Handles(handles), Stage::Comms(setup)) => {
                if !setup.take_handles(&handles, env) {
                    return Err(self.protocol_error(format!("{} connect handles", handles.len())));
                }
            }
            (Frame::Ready, Stage::Comms(setup)) => setup.peer_is_ready(),
            (Frame::Announce { recv, tag, bytes, landing }, _) => {
                let number = self.announcements;
                self.announcements += 1;
                let announced = Announced { recv, bytes, landing, number };
                self.take_announced(tag, announced, env, ledger)?
            }
            (Frame::Match { first_channel, recvs }, _) => {
                self.take_match(first_channel, &recvs, ledger)?
            }
            (Frame::Mismatch { recv, send_bytes }, _) => {
                self.take_mismatch(recv, send_bytes, ledger)?
            }
            (Frame::Cancel { recv }, _) => {
                // Matched meanwhile? Then the match is on its way and wins.
                if self.matcher.withdraw_receive(recv) {
                    self.queue(&Frame::Cancelled { recv });
                }
            }
            (Frame::Cancelled { recv }, _) => {
                let key = self.own_receive(recv, ledger)?;
                ledger.end(key, Some(Error::Cancelled));
            }
            (Frame::Ping, _) => self.queue(&Frame::Pong),
            (Frame::Pong, _) => {}
            // It was up before us and is through already: its goodbye is answered once our comms are connected.
            (Frame::Goodbye, Stage::Comms(setup)) => setup.peer_said_goodbye(),
            (Frame::Goodbye, Stage::Up) => self.got_goodbye(ledger),
            (Frame::Goodbye, Stage::Closing(farewell)) => farewell.got_goodbye(),
            (Frame::Closed, Stage::Closing(farewell)) if farewell.expects_closed() => {
                farewell.got_closed()
            }
            (Frame::Abort(reason), _) => {
                return Err(self.gone(Departure::Abort(reason), self.phase()));
            }
            (frame, _) => {
                return Err(
                    self.protocol_error(format!("{frame:?} while the peer is {}", self.state()))
                );
            }
        }
        Ok(())
    }

    /// A goodbye is answered by a program that knows of the peer: one that no accept has asked for yet waits for it.
    pub(super) fn got_goodbye(&mut self, ledger: &mut Ledger) {
        if self.name.is_bound() {
            self.answer_goodbye(ledger);
        } else {
            self.parted_early = true;
        }
    }

    /// The peer posts nothing more: what has no counterpart will never have one.
    pub(super) fn answer_goodbye(&mut self, ledger: &mut Ledger) {
        self.stage = Stage::Closing(Shutdown::answering());
        let error = self.gone(Departure::Goodbye, Phase::Receive);
        self.end_unmatched(ledger, &error);
    }

    pub(super) fn gone(&self, how: Departure, phase: Phase) -> Error {
        Error::PeerGone { peer: self.name.to_string(), phase, how }
    }

    fn end_unmatched(&mut self, ledger: &mut Ledger, error: &Error) {
        for key in self.matcher.drain_sends().collect::<Vec<_>>() {
            ledger.end(key, Some(error.clone()));
        }
        ledger.end_of_peer(self.key, error, |op| op.state != OpState::Matched);
    }
}
