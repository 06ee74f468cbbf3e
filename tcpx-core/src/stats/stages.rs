//! What a session's time goes to. Pure: each round tells it the time, which the round knows anyway.

use std::time::{Duration, Instant};

use serde::Serialize;

/// Nanoseconds since the first round, by what was under way in them. Together they are all the time
/// until the end of the last round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StageTimes {
    /// Nothing was under way.
    pub idle_ns: u64,
    /// Chunks were being sent, and nothing was received or unpacked.
    pub sending_ns: u64,
    /// Posted receives waited for the plugin, that is for the network and the peer, and nothing was
    /// unpacked.
    pub receiving_ns: u64,
    /// The same while chunks were being unpacked.
    pub receiving_and_unpacking_ns: u64,
    /// Chunks were being unpacked, and no posted receive waited.
    pub unpacking_ns: u64,
    /// The unpacker was given chunks. A backend that copies on the CPU does it in this time.
    pub submitting_ns: u64,
}

/// What is under way at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Activity {
    pub(crate) sending: bool,
    pub(crate) receiving: bool,
    pub(crate) unpacking: bool,
}

impl Activity {
    fn and(self, other: Self) -> Self {
        Self {
            sending: self.sending | other.sending,
            receiving: self.receiving | other.receiving,
            unpacking: self.unpacking | other.unpacking,
        }
    }
}

/// Sums the time of rounds and between them.
#[derive(Debug, Default)]
pub(crate) struct StageClock {
    last: Option<Instant>,
    /// What was under way when the last round ended.
    under_way: Activity,
    /// All time of submits so far.
    submitting: Duration,
    times: StageTimes,
}

impl StageClock {
    /// A round begins. The time since the last one goes to what was under way when that ended.
    /// `submitting` is the time of all submits so far.
    pub(crate) fn round(&mut self, now: Instant, submitting: Duration) {
        self.book(now, submitting, self.under_way);
    }

    /// A round has ended. Its own time goes to all that was under way at any moment of it: what
    /// was when it began, what is now, and what it has begun and ended.
    pub(crate) fn ended(
        &mut self,
        now: Instant,
        submitting: Duration,
        under_way: Activity,
        ended: Activity,
    ) {
        self.book(now, submitting, self.under_way.and(under_way).and(ended));
        self.under_way = under_way;
    }

    fn book(&mut self, now: Instant, submitting: Duration, activity: Activity) {
        let submitted = submitting.saturating_sub(self.submitting);
        self.submitting = submitting;
        let Some(last) = self.last.replace(now) else { return };
        let times = &mut self.times;
        times.submitting_ns += nanos(submitted);
        let Activity { sending, receiving, unpacking } = activity;
        *match (receiving, unpacking) {
            (true, true) => &mut times.receiving_and_unpacking_ns,
            (true, false) => &mut times.receiving_ns,
            (false, true) => &mut times.unpacking_ns,
            (false, false) if sending => &mut times.sending_ns,
            (false, false) => &mut times.idle_ns,
        } += nanos(now.saturating_duration_since(last).saturating_sub(submitted));
    }

    pub(crate) fn times(&self) -> StageTimes {
        self.times
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity(sending: bool, receiving: bool, unpacking: bool) -> Activity {
        Activity { sending, receiving, unpacking }
    }

    #[test]
    fn time_between_rounds_goes_to_what_was_under_way_and_none_is_lost() {
        let start = Instant::now();
        let mut clock = StageClock::default();
        let at = |nanos| start + Duration::from_nanos(nanos);
        // When a round that takes no time begins and ends, and what is under way after it.
        for (time, under_way) in [
            (0, activity(false, false, false)),
            (100, activity(true, true, false)),
            (120, activity(false, true, true)),
            (150, activity(true, false, true)),
            (190, activity(true, false, false)),
            (250, activity(false, false, false)),
        ] {
            clock.round(at(time), Duration::ZERO);
            clock.ended(at(time), Duration::ZERO, under_way, Activity::default());
        }
        let expected = StageTimes {
            idle_ns: 100,
            sending_ns: 60,
            receiving_ns: 20,
            receiving_and_unpacking_ns: 30,
            unpacking_ns: 40,
            submitting_ns: 0,
        };
        assert_eq!(clock.times(), expected);
    }

    #[test]
    fn a_rounds_own_time_goes_to_what_it_did_even_if_nothing_is_left_of_it() {
        let start = Instant::now();
        let mut clock = StageClock::default();
        let at = |nanos| start + Duration::from_nanos(nanos);
        let (nothing, receiving) = (Activity::default(), activity(false, true, false));
        let submitting = Duration::from_nanos(30);
        // Begins, receives a chunk, hands it to the unpacker for 30 ns, and is the last of all.
        clock.round(at(0), Duration::ZERO);
        clock.ended(at(100), submitting, nothing, receiving);
        let first = StageTimes { receiving_ns: 70, submitting_ns: 30, ..StageTimes::default() };
        assert_eq!(clock.times(), first);
        // What was under way when a round begins is so for all of it.
        clock.round(at(110), submitting);
        clock.ended(at(120), submitting, receiving, nothing);
        clock.round(at(130), submitting);
        clock.ended(at(150), submitting, nothing, nothing);
        let all = StageTimes { idle_ns: 10, receiving_ns: 110, ..first };
        assert_eq!(clock.times(), all);
    }
}
