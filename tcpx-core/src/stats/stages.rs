//! What a session's time goes to. Pure: each round tells it the time, which the round knows anyway.

use std::time::{Duration, Instant};

use serde::Serialize;

/// Nanoseconds since the first round, by what was under way in them. Together they are all the time
/// until the last round.
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

/// What is under way at the end of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Activity {
    pub(crate) sending: bool,
    pub(crate) receiving: bool,
    pub(crate) unpacking: bool,
}

/// Sums the time between rounds.
#[derive(Debug, Default)]
pub(crate) struct StageClock {
    last: Option<Instant>,
    activity: Activity,
    /// All time of submits until the last round.
    submitting: Duration,
    times: StageTimes,
}

impl StageClock {
    /// A round begins. `submitting` is the time of all submits so far.
    pub(crate) fn round(&mut self, now: Instant, submitting: Duration) {
        let Some(last) = self.last.replace(now) else {
            self.submitting = submitting;
            return;
        };
        let submitted = submitting.saturating_sub(self.submitting);
        self.submitting = submitting;
        self.times.submitting_ns += nanos(submitted);
        let passed = nanos(now.saturating_duration_since(last).saturating_sub(submitted));
        let times = &mut self.times;
        let Activity { sending, receiving, unpacking } = self.activity;
        *match (receiving, unpacking) {
            (true, true) => &mut times.receiving_and_unpacking_ns,
            (true, false) => &mut times.receiving_ns,
            (false, true) => &mut times.unpacking_ns,
            (false, false) if sending => &mut times.sending_ns,
            (false, false) => &mut times.idle_ns,
        } += passed;
    }

    /// A round has ended.
    pub(crate) fn ended(&mut self, activity: Activity) {
        self.activity = activity;
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

    #[test]
    fn time_between_rounds_goes_to_what_was_under_way_and_none_is_lost() {
        let start = Instant::now();
        let mut clock = StageClock::default();
        let at = |nanos| start + Duration::from_nanos(nanos);
        let under_way = |sending, receiving, unpacking| Activity { sending, receiving, unpacking };
        let submitting = Duration::from_nanos(5);
        // When the round begins, the submits until then, and what is under way after it.
        for (begin, submitted, activity) in [
            (0, Duration::ZERO, under_way(false, false, false)),
            (100, Duration::ZERO, under_way(true, true, false)),
            (120, submitting, under_way(false, true, true)),
            (150, submitting, under_way(true, false, true)),
            (190, submitting, under_way(true, false, false)),
            (250, submitting, under_way(false, false, false)),
        ] {
            clock.round(at(begin), submitted);
            clock.ended(activity);
        }
        let expected = StageTimes {
            idle_ns: 100,
            sending_ns: 60,
            receiving_ns: 15,
            receiving_and_unpacking_ns: 30,
            unpacking_ns: 40,
            submitting_ns: 5,
        };
        assert_eq!(clock.times(), expected);
    }
}
