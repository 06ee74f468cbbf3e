//! Stage of a conversation. State that belongs to a stage lives inside it.
//!
//! The goodbye of two peers, in the one order that loses nothing: both ends finish what was matched
//! and say so, then each closes its send comms and says so, then each closes its receive comms.
//! Pure.

#[derive(Debug)]
pub(in super::super) enum Stage {
    /// The first channels are being made, both ways.
    Connecting {
        /// Whether this end leaves as soon as it is up, because the peer may be up already.
        leaves: bool,
    },
    /// Transfers may be posted.
    Up {
        /// Whether the peer has said goodbye before an accept had named it: the answer waits for
        /// that.
        peer_left: bool,
    },
    /// Saying goodbye.
    Closing(Shutdown),
    /// The conversation has ended.
    Over,
}

impl Stage {
    /// Returns the stage as the driver sees it.
    pub(in super::super) fn seen(&self) -> PeerStage {
        match self {
            Self::Connecting { .. } => PeerStage::Connecting,
            Self::Up { .. } => PeerStage::Up,
            Self::Closing(shutdown) => {
                PeerStage::Closing { peer_left: shutdown.has_received_goodbye() }
            }
            Self::Over => PeerStage::Over,
        }
    }

    /// Returns whether it is over, or one of the ends has said goodbye or is about to.
    pub(in super::super) fn is_leaving(&self) -> bool {
        match self {
            Self::Connecting { leaves } => *leaves,
            Self::Up { peer_left } => *peer_left,
            Self::Closing(_) | Self::Over => true,
        }
    }

    /// Returns the stage in words, for reports and errors.
    pub(in super::super) fn words(&self) -> &'static str {
        match self {
            Self::Connecting { .. } => "connecting",
            Self::Up { .. } => "up",
            Self::Closing(_) => "closing",
            Self::Over => "gone",
        }
    }
}

/// Stage of a peer, as its driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerStage {
    /// Comms are being connected, both ways.
    Connecting,
    /// Transfers may be posted.
    Up,
    /// Saying goodbye.
    Closing {
        /// Whether the peer has said it.
        peer_left: bool,
    },
    /// The conversation has ended.
    Over,
}

/// Result of asking for a goodbye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The goodbye is said when it is due, and the peer answers it.
    Begun,
    /// The peer cannot be up at its end: no program there would answer.
    NobodyThere,
}

/// Progress of a goodbye.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Shutdown {
    sent_goodbye: bool,
    received_goodbye: bool,
    received_closed: bool,
    comms: Comms,
}

/// Comms of this end that are still open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Comms {
    #[default]
    Open,
    ClosingSends,
    SendsClosed,
    ClosingReceives,
}

/// Step that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Step {
    SayGoodbye,
    /// Close the send comms, then call [`Shutdown::sends_closed`] and say closed.
    CloseSends,
    /// Close the receive comms: it is over.
    CloseReceives,
}

impl Shutdown {
    /// Begins a shutdown. `received_goodbye`: the peer said goodbye first.
    pub(in super::super) fn new(received_goodbye: bool) -> Self {
        Self { received_goodbye, ..Self::default() }
    }

    pub(in super::super) fn got_goodbye(&mut self) {
        self.received_goodbye = true;
    }

    /// Returns whether the peer posts nothing more.
    pub(in super::super) fn has_received_goodbye(&self) -> bool {
        self.received_goodbye
    }

    /// Returns whether the peer knows, or will, that this end posts nothing more and has no open
    /// match.
    pub(in super::super) fn has_sent_goodbye(&self) -> bool {
        self.sent_goodbye
    }

    /// Returns whether the peer may say that its sends are closed.
    pub(in super::super) fn expects_closed(&self) -> bool {
        self.sent_goodbye && self.received_goodbye && !self.received_closed
    }

    pub(in super::super) fn got_closed(&mut self) {
        self.received_closed = true;
    }

    /// Takes the end of the link for the peer's last word, which it may say once the sends of this
    /// end are closed. Returns whether it may have.
    pub(in super::super) fn link_closed(&mut self) -> bool {
        let may_have_ended = matches!(self.comms, Comms::SendsClosed | Comms::ClosingReceives);
        self.received_closed |= may_have_ended;
        may_have_ended
    }

    pub(in super::super) fn sends_closed(&mut self) {
        self.comms = Comms::SendsClosed;
    }

    /// Returns whether all that is left is to close the receive comms.
    pub(in super::super) fn is_parted(&self) -> bool {
        self.comms == Comms::ClosingReceives
    }

    /// Returns the step that is due now, each once. `is_drained`: nothing posted here is
    /// unfinished.
    pub(in super::super) fn step(&mut self, is_drained: bool) -> Option<Step> {
        if !self.sent_goodbye && is_drained {
            self.sent_goodbye = true;
            return Some(Step::SayGoodbye);
        }
        match self.comms {
            Comms::Open if self.sent_goodbye && self.received_goodbye => {
                self.comms = Comms::ClosingSends;
                Some(Step::CloseSends)
            }
            Comms::SendsClosed if self.received_closed => {
                self.comms = Comms::ClosingReceives;
                Some(Step::CloseReceives)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Word {
        Goodbye,
        Closed,
    }

    #[derive(Default)]
    struct End {
        shutdown: Option<Shutdown>,
        left_to_drain: u32,
        receives_open: bool,
        sends_open: bool,
        over: bool,
    }

    /// Lets one end act: hears at most one word, then does what is due.
    fn act(end: &mut End, inbox: &mut VecDeque<Word>, outbox: &mut VecDeque<Word>) {
        if let Some(word) = inbox.pop_front() {
            match (word, &mut end.shutdown) {
                (Word::Goodbye, Some(shutdown)) => shutdown.got_goodbye(),
                (Word::Goodbye, none) => *none = Some(Shutdown::new(true)),
                (Word::Closed, Some(shutdown)) => {
                    assert!(shutdown.expects_closed());
                    shutdown.got_closed();
                }
                (Word::Closed, None) => panic!("closed without a goodbye"),
            }
        }
        let Some(shutdown) = &mut end.shutdown else { return };
        end.left_to_drain = end.left_to_drain.saturating_sub(1);
        while let Some(step) = shutdown.step(end.left_to_drain == 0) {
            match step {
                Step::SayGoodbye => outbox.push_back(Word::Goodbye),
                Step::CloseSends => {
                    assert_eq!(end.left_to_drain, 0);
                    end.sends_open = false;
                    shutdown.sends_closed();
                    outbox.push_back(Word::Closed);
                }
                Step::CloseReceives => {
                    end.receives_open = false;
                    end.over = true;
                }
            }
        }
    }

    proptest! {
        /// Whichever end begins, or both, and however their turns interleave: the conversation
        /// ends, and neither end closes a receive comm while the other's send comm is open.
        #[test]
        fn any_interleaving_ends_well(
            begins in 1u8..4, drain in (0u32..5, 0u32..5), turns in proptest::collection::vec(any::<bool>(), 64),
        ) {
            let end = |begins: bool, left_to_drain| End {
                shutdown: begins.then(Shutdown::default),
                left_to_drain,
                receives_open: true,
                sends_open: true,
                over: false,
            };
            let (mut left, mut right) = (end(begins & 1 != 0, drain.0), end(begins & 2 != 0, drain.1));
            let (mut to_left, mut to_right) = (VecDeque::new(), VecDeque::new());
            // After the random turns both get enough of them.
            for turn in turns.into_iter().chain([true, false].into_iter().cycle().take(64)) {
                if turn {
                    act(&mut left, &mut to_left, &mut to_right);
                } else {
                    act(&mut right, &mut to_right, &mut to_left);
                }
                prop_assert!(left.receives_open || !right.sends_open);
                prop_assert!(right.receives_open || !left.sends_open);
            }
            prop_assert!(left.over && right.over);
            prop_assert!(to_left.is_empty() && to_right.is_empty());
        }
    }
}
