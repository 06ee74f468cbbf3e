//! Gate of an iteration: the other ends of this process that an end waits for.

use super::barrier::Barrier;
use super::figures::CaseFigures;
use super::report::Report;
use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::output::Progress;
use crate::rendezvous::ConnectedEnd;

/// Takes the next size of a report.
pub(super) type TakeRow<'a> =
    dyn Fn(&mut ConnectedEnd<'_>, &Report, &mut CaseFigures, &Progress) -> Result<(), Failure> + 'a;

/// What an end has to do with the other ends of its process.
pub(super) struct Others<'a> {
    pub(super) gate: Gate<'a>,
    pub(super) take_row: &'a TakeRow<'a>,
}

/// Proposal of an end that takes what the others agree on.
const NO_PROPOSAL: u32 = u32::MAX;

/// Gate of one end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gate<'a> {
    /// It waits for its peer alone.
    Open,
    /// One of a server's ends, which all begin at once.
    Server(&'a Barrier),
    /// The end of a client that speaks to the server for the other ends of its process.
    Speaker(&'a Barrier),
    /// One of these other ends, which are the servers of their pairs.
    Follower(&'a Barrier),
}

impl Gate<'_> {
    /// Waits, before this end tells its peer that it is ready, for the ends that it speaks for.
    pub(super) fn ready(self, waited: Deadline) -> Result<(), Failure> {
        match self {
            Self::Speaker(barrier) => barrier.wait(NO_PROPOSAL, waited).map(drop),
            Self::Open | Self::Server(_) | Self::Follower(_) => Ok(()),
        }
    }

    /// Waits, when this end and its peer are ready, until all others are.
    pub(super) fn begin(self, waited: Deadline) -> Result<(), Failure> {
        match self {
            Self::Open => Ok(()),
            Self::Server(barrier) | Self::Speaker(barrier) => {
                barrier.wait(NO_PROPOSAL, waited).map(drop)
            }
            // Once it is ready itself, and once the speaker has heard from the server.
            Self::Follower(barrier) => {
                barrier.wait(NO_PROPOSAL, waited)?;
                barrier.wait(NO_PROPOSAL, waited).map(drop)
            }
        }
    }

    /// Returns the smallest proposal. A speaker's is what the server has said, and the others
    /// follow.
    pub(super) fn agree(self, proposal: u32, waited: Deadline) -> Result<u32, Failure> {
        match self {
            Self::Open => Ok(proposal),
            Self::Server(barrier) | Self::Speaker(barrier) => barrier.wait(proposal, waited),
            Self::Follower(barrier) => barrier.wait(NO_PROPOSAL, waited),
        }
    }

    /// Returns whether other ends of this process measure at the same time.
    pub(super) fn is_shared(self) -> bool {
        !matches!(self, Self::Open)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn followers_do_what_the_speaker_says_when_all_are_ready() {
        let barrier = Barrier::new(3);
        let minute = Deadline::after(Duration::from_secs(60));
        let gates = [Gate::Speaker(&barrier), Gate::Follower(&barrier), Gate::Follower(&barrier)];
        let agreed = thread::scope(|scope| {
            let ends = gates.map(|gate| {
                let own = if matches!(gate, Gate::Speaker(_)) { 7 } else { 1 };
                scope.spawn(move || {
                    gate.ready(minute)?;
                    gate.begin(minute)?;
                    gate.agree(own, minute)
                })
            });
            ends.map(|end| end.join().unwrap().unwrap())
        });
        assert_eq!(agreed, [7; 3]);
        assert_eq!(Gate::Open.agree(3, minute).unwrap(), 3);
    }
}
