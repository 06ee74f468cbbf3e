//! Breakdown of a session's time by stage. Pure: each round passes in the time, which it knows
//! anyway.

use std::time::{Duration, Instant};

use serde::Serialize;

/// Nanoseconds since the first round, by the activity in progress. Together they are all the time
/// until the end of the last round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StageTimes {
    /// Nothing was in progress.
    pub idle_ns: u64,
    /// Chunks were being sent, and nothing was received or unpacked.
    pub sending_ns: u64,
    /// Posted receives waited for the plugin, that is for the network and the peer, and nothing was
    /// unpacked.
    pub receiving_ns: u64,
    /// Posted receives waited, while chunks were being unpacked.
    pub receiving_and_unpacking_ns: u64,
    /// Chunks were being unpacked, and no posted receive waited.
    pub unpacking_ns: u64,
    /// Chunks were being submitted to the unpacker. A backend that copies on the CPU copies in this
    /// time.
    pub submitting_ns: u64,
}

/// Activity at a moment.
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

/// Clock that sums the time of rounds and between them.
#[derive(Debug, Default)]
pub(crate) struct StageClock {
    last: Option<Instant>,
    /// Activity when the last round ended.
    under_way: Activity,
    /// Time of all submits so far.
    submitting: Duration,
    times: StageTimes,
}

impl StageClock {
    /// Begins a round. The time since the last round goes to the activity at its end. `submitting`
    /// is the time of all submits so far.
    pub(crate) fn round(&mut self, now: Instant, submitting: Duration) {
        self.add_time(now, submitting, self.under_way);
    }

    /// Ends a round. Its time goes to all activities of any moment in it: those at its beginning,
    /// those at its end, and those that it has begun and ended.
    pub(crate) fn ended(
        &mut self,
        now: Instant,
        submitting: Duration,
        under_way: Activity,
        ended: Activity,
    ) {
        self.add_time(now, submitting, self.under_way.and(under_way).and(ended));
        self.under_way = under_way;
    }

    fn add_time(&mut self, now: Instant, submitting: Duration, activity: Activity) {
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
        // Time of a round that takes no time, and the activity after it.
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
        // Begins, receives a chunk, and hands it to the unpacker for 30 ns. This is the last round.
        clock.round(at(0), Duration::ZERO);
        clock.ended(at(100), submitting, nothing, receiving);
        let first = StageTimes { receiving_ns: 70, submitting_ns: 30, ..StageTimes::default() };
        assert_eq!(clock.times(), first);
        // Activity at the beginning of a round counts for the whole round.
        clock.round(at(110), submitting);
        clock.ended(at(120), submitting, receiving, nothing);
        clock.round(at(130), submitting);
        clock.ended(at(150), submitting, nothing, nothing);
        let all = StageTimes { idle_ns: 10, receiving_ns: 110, ..first };
        assert_eq!(clock.times(), all);
    }
}
