//! The goodbye of two peers, in the one order that loses nothing: both ends finish what was matched and say so, then
//! each closes its send comms and says so, then each closes its receive comms. Pure.

/// How far a goodbye is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shutdown {
    said_goodbye: bool,
    heard_goodbye: bool,
    closed_sends: bool,
    heard_closed: bool,
    closed_receives: bool,
}

/// What to do now. Each is true once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) say_goodbye: bool,
    /// Close the send comms, then say so.
    pub(crate) close_sends: bool,
    /// Close the receive comms: it is over.
    pub(crate) close_receives: bool,
}

impl Shutdown {
    /// The peer said goodbye first.
    pub(crate) fn answering() -> Self {
        Self { heard_goodbye: true, ..Self::default() }
    }

    pub(crate) fn got_goodbye(&mut self) {
        self.heard_goodbye = true;
    }

    /// Whether the peer posts nothing more.
    pub(crate) fn has_heard_goodbye(&self) -> bool {
        self.heard_goodbye
    }

    /// Whether the peer may say that its sends are closed.
    pub(crate) fn expects_closed(&self) -> bool {
        self.said_goodbye && self.heard_goodbye
    }

    pub(crate) fn got_closed(&mut self) {
        self.heard_closed = true;
    }

    /// Looks what is due. `is_drained`: nothing posted here is unfinished.
    pub(crate) fn step(&mut self, is_drained: impl FnOnce() -> bool) -> Step {
        let mut step = Step::default();
        if !self.said_goodbye && is_drained() {
            self.said_goodbye = true;
            step.say_goodbye = true;
        }
        if self.said_goodbye && self.heard_goodbye && !self.closed_sends {
            self.closed_sends = true;
            step.close_sends = true;
        }
        if self.closed_sends && self.heard_closed && !self.closed_receives {
            self.closed_receives = true;
            step.close_receives = true;
        }
        step
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
        farewell: Option<Shutdown>,
        left_to_drain: u32,
        receives_open: bool,
        sends_open: bool,
        over: bool,
    }

    /// One end acts: hears at most one word, then does what is due.
    fn act(end: &mut End, inbox: &mut VecDeque<Word>, outbox: &mut VecDeque<Word>) {
        if let Some(word) = inbox.pop_front() {
            match (word, &mut end.farewell) {
                (Word::Goodbye, Some(farewell)) => farewell.got_goodbye(),
                (Word::Goodbye, none) => *none = Some(Shutdown::answering()),
                (Word::Closed, Some(farewell)) => {
                    assert!(farewell.expects_closed());
                    farewell.got_closed();
                }
                (Word::Closed, None) => panic!("closed without a goodbye"),
            }
        }
        let Some(farewell) = &mut end.farewell else { return };
        end.left_to_drain = end.left_to_drain.saturating_sub(1);
        let step = farewell.step(|| end.left_to_drain == 0);
        if step.say_goodbye {
            outbox.push_back(Word::Goodbye);
        }
        if step.close_sends {
            assert_eq!(end.left_to_drain, 0);
            end.sends_open = false;
            outbox.push_back(Word::Closed);
        }
        if step.close_receives {
            end.receives_open = false;
            end.over = true;
        }
    }

    proptest! {
        /// Whoever begins, or both, and however their turns interleave: it ends, and nobody closes a receive comm while
        /// the other's send comm is open.
        #[test]
        fn any_interleaving_ends_well(
            begins in 1u8..4, drain in (0u32..5, 0u32..5), turns in proptest::collection::vec(any::<bool>(), 64),
        ) {
            let end = |begins: bool, left_to_drain| End {
                farewell: begins.then(Shutdown::default),
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
