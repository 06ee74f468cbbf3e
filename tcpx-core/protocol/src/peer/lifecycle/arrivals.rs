//! Chunks that the peer has sent and that do not arrive, though the control link lives. Pure.
//!
//! No call of a comm reports that its flow was forgotten on the way. `test` says done at the one
//! end as soon as the system has the bytes, and "not yet" at the other without end. So an end whose
//! receives have waited for a while asks the peer how many chunks it has sent on each channel. What
//! was sent must arrive within the peer timeout from then on. Nothing is asked while chunks arrive.
//!
//! Only time in which this end looked counts, and none in which this end unpacks: then its own
//! bounce pages may be what is missing.

use std::time::{Duration, Instant};

/// The peer is asked when a receive has waited for this share of the timeout.
const ASK_SHARE: u32 = 4;

/// The receives of one channel now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalSample {
    /// Chunks that have arrived so far.
    pub arrived: u64,
    /// Whether a receive is posted that has not.
    pub is_waiting: bool,
}

/// Chunks that are lost on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The channel that they do not arrive on.
    pub channel: u16,
    /// Chunks that the peer has sent on it.
    pub sent: u64,
    /// Number of those that have arrived.
    pub arrived: u64,
    /// Time for which none has.
    pub waited: Duration,
}

/// Result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Judgement {
    Nothing,
    /// Ask the peer how much it has sent.
    Ask,
    Lost(Loss),
}

/// Chunks that the peer has sent on a channel, and the time for which their number has been known
/// with nothing arriving.
#[derive(Clone, Copy, Debug)]
struct Missing {
    sent: u64,
    /// `None` before the first look since it was said.
    waited: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    arrived: u64,
    /// Time for which a receive has waited with nothing arriving; `None`: none waits.
    waited: Option<Duration>,
    missing: Option<Missing>,
}

/// Watches what arrives from one peer.
#[derive(Debug)]
pub(in super::super) struct Arrivals {
    timeout: Option<Duration>,
    looked_at: Instant,
    channels: Vec<Channel>,
    is_asked: bool,
    /// Time since the last answer of the peer.
    answered: Option<Duration>,
}

impl Arrivals {
    /// Watches this many channels from now on. Without a timeout nothing is ever lost.
    pub(in super::super) fn new(timeout: Option<Duration>, channels: u16, now: Instant) -> Self {
        let channels = vec![Channel::default(); usize::from(channels)];
        Self { timeout, looked_at: now, channels, is_asked: false, answered: None }
    }

    /// Looks at the channels, in order.
    pub(in super::super) fn look(
        &mut self,
        samples: &[ArrivalSample],
        is_unpacking: bool,
        now: Instant,
    ) -> Judgement {
        let Some(timeout) = self.timeout else { return Judgement::Nothing };
        let ask_after = timeout / ASK_SHARE;
        let passed = now.saturating_duration_since(self.looked_at).min(ask_after);
        self.looked_at = now;
        let since = if is_unpacking { Duration::ZERO } else { passed };
        for (number, (channel, sample)) in (0..).zip(self.channels.iter_mut().zip(samples)) {
            channel.look(*sample, since);
            if let Some(loss) = channel.loss(number, timeout) {
                return Judgement::Lost(loss);
            }
        }
        self.answered = self.answered.map(|answered| answered + passed);
        let is_early = self.answered.is_some_and(|answered| answered < ask_after);
        if self.is_asked || is_early || !self.channels.iter().any(|it| it.is_unclear(ask_after)) {
            return Judgement::Nothing;
        }
        self.is_asked = true;
        Judgement::Ask
    }

    /// Takes the peer's word on how many chunks it has sent on each channel: of no channel, when
    /// they are not open. Returns false when the word is of another number of channels.
    pub(in super::super) fn hear(&mut self, sent: &[u64]) -> bool {
        if !sent.is_empty() && sent.len() != self.channels.len() {
            return false;
        }
        if !std::mem::take(&mut self.is_asked) {
            return true;
        }
        self.answered = Some(Duration::ZERO);
        for (channel, sent) in self.channels.iter_mut().zip(sent) {
            if channel.waited.is_some() && *sent > channel.arrived && channel.missing.is_none() {
                channel.missing = Some(Missing { sent: *sent, waited: None });
            }
        }
        true
    }
}

impl Channel {
    fn look(&mut self, sample: ArrivalSample, since: Duration) {
        if !sample.is_waiting || sample.arrived != self.arrived {
            let waited = sample.is_waiting.then_some(Duration::ZERO);
            *self = Self { arrived: sample.arrived, waited, missing: None };
            return;
        }
        self.waited = Some(self.waited.map_or(Duration::ZERO, |waited| waited + since));
        if let Some(missing) = &mut self.missing {
            missing.waited = Some(missing.waited.map_or(Duration::ZERO, |waited| waited + since));
        }
    }

    fn loss(&self, channel: u16, timeout: Duration) -> Option<Loss> {
        let Missing { sent, waited } = self.missing?;
        (waited? >= timeout).then_some(Loss {
            channel,
            sent,
            arrived: self.arrived,
            waited: self.waited.unwrap_or_default(),
        })
    }

    /// Returns whether it has waited for so long, and the peer has not said that it has sent more.
    fn is_unclear(&self, ask_after: Duration) -> bool {
        self.missing.is_none() && self.waited.is_some_and(|waited| waited >= ask_after)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);
    const SECOND: Duration = Duration::from_secs(1);

    fn waiting(arrived: u64) -> ArrivalSample {
        ArrivalSample { arrived, is_waiting: true }
    }

    fn idle(arrived: u64) -> ArrivalSample {
        ArrivalSample { arrived, is_waiting: false }
    }

    /// A look a second.
    struct Looks {
        arrivals: Arrivals,
        now: Instant,
    }

    impl Looks {
        fn new(timeout: Option<Duration>, channels: u16) -> Self {
            let now = Instant::now();
            Self { arrivals: Arrivals::new(timeout, channels, now), now }
        }

        fn look(&mut self, samples: &[ArrivalSample]) -> Judgement {
            self.now += SECOND;
            self.arrivals.look(samples, false, self.now)
        }

        /// Returns the first judgement that is not "nothing", and the looks that it took.
        fn until_told(&mut self, samples: &[ArrivalSample]) -> (u32, Judgement) {
            (1..1_000)
                .map(|looks| (looks, self.look(samples)))
                .find(|(_, judgement)| *judgement != Judgement::Nothing)
                .expect("it is reported")
        }
    }

    #[test]
    fn what_the_peer_has_sent_and_does_not_arrive_is_lost() {
        let mut looks = Looks::new(Some(TIMEOUT), 2);
        let samples = [idle(7), waiting(5)];
        assert_eq!(looks.until_told(&samples), (4, Judgement::Ask));
        assert!(looks.arrivals.hear(&[9, 6]), "nothing waits on channel 0");
        let waited = 14 * SECOND;
        let loss = Loss { channel: 1, sent: 6, arrived: 5, waited };
        assert_eq!(looks.until_told(&samples), (11, Judgement::Lost(loss)));
    }

    #[test]
    fn a_peer_that_has_sent_nothing_more_is_asked_again_and_never_given_up() {
        let mut looks = Looks::new(Some(TIMEOUT), 1);
        assert_eq!(looks.until_told(&[waiting(5)]), (4, Judgement::Ask));
        for _ in 0..100 {
            assert!(looks.arrivals.hear(&[5]));
            assert_eq!(looks.until_told(&[waiting(5)]), (3, Judgement::Ask));
        }
        assert!(looks.arrivals.hear(&[6]));
        assert!(matches!(looks.until_told(&[waiting(5)]), (11, Judgement::Lost(_))));
    }

    #[test]
    fn one_question_at_a_time_however_long_the_answer_takes() {
        let mut looks = Looks::new(Some(TIMEOUT), 1);
        assert_eq!(looks.until_told(&[waiting(5)]).1, Judgement::Ask);
        assert!((0..10_000).all(|_| looks.look(&[waiting(5)]) == Judgement::Nothing));
        assert!(looks.arrivals.hear(&[6]));
        assert!(looks.arrivals.hear(&[9]), "it is another word of life");
        let told = looks.until_told(&[waiting(5)]).1;
        assert!(matches!(told, Judgement::Lost(Loss { sent: 6, .. })), "{told:?}");
    }

    #[test]
    fn an_answer_about_other_channels_is_none() {
        let mut looks = Looks::new(Some(TIMEOUT), 2);
        looks.until_told(&[waiting(5), idle(0)]);
        assert!(!looks.arrivals.hear(&[6]));
    }

    #[test]
    fn each_arrival_begins_the_time_anew() {
        let mut looks = Looks::new(Some(TIMEOUT), 1);
        looks.until_told(&[waiting(0)]);
        assert!(looks.arrivals.hear(&[1_000]));
        for arrived in 0..100 {
            // Nine seconds for each chunk; the peer answers each question that it is asked.
            for _ in 0..9 {
                match looks.look(&[waiting(arrived)]) {
                    Judgement::Nothing => {}
                    Judgement::Ask => assert!(looks.arrivals.hear(&[1_000])),
                    Judgement::Lost(loss) => panic!("{loss:?}"),
                }
            }
        }
    }

    #[test]
    fn a_loss_is_found_in_time_though_another_channel_asks_again_and_again() {
        let mut looks = Looks::new(Some(TIMEOUT), 2);
        let samples = [waiting(5), waiting(3)];
        assert_eq!(looks.until_told(&samples), (4, Judgement::Ask));
        let (mut count, mut answers) = (0, 0);
        let loss = loop {
            assert!(looks.arrivals.hear(&[6, 3]), "on channel 1 no more was sent");
            answers += 1;
            match looks.until_told(&samples) {
                (more, Judgement::Ask) if count < 1_000 => count += more,
                (more, Judgement::Lost(loss)) => break (count + more, loss.channel),
                (_, other) => panic!("{other:?} after {count} looks"),
            }
        };
        assert_eq!((loss, answers), ((11, 0), 4), "as many looks as with one answer");
    }

    #[test]
    fn our_own_absence_and_our_own_unpacking_do_not_count() {
        let mut looks = Looks::new(Some(TIMEOUT), 1);
        looks.until_told(&[waiting(5)]);
        assert!(looks.arrivals.hear(&[6]));
        assert_eq!(looks.look(&[waiting(5)]), Judgement::Nothing);
        looks.now += Duration::from_secs(3_600);
        assert_eq!(looks.look(&[waiting(5)]), Judgement::Nothing, "the process was stopped");
        for _ in 0..100 {
            looks.now += SECOND;
            let judgement = looks.arrivals.look(&[waiting(5)], true, looks.now);
            assert_eq!(judgement, Judgement::Nothing);
        }
        assert!(matches!(looks.until_told(&[waiting(5)]), (8, Judgement::Lost(_))));
    }

    #[test]
    fn without_a_timeout_no_peer_is_asked() {
        let mut looks = Looks::new(None, 1);
        assert!((0..10_000).all(|_| looks.look(&[waiting(5)]) == Judgement::Nothing));
    }

    proptest! {
        /// Whatever is sent arrives within half the timeout of its being sent, by looks at any
        /// times: nothing is ever lost.
        #[test]
        fn what_arrives_in_time_is_never_lost(
            steps in proptest::collection::vec((1u64..4_000, any::<bool>(), 0u64..5_000), 1..300),
        ) {
            let mut looks = Looks::new(Some(TIMEOUT), 1);
            let start = looks.now;
            let mut under_way = std::collections::VecDeque::new();
            let (mut sent, mut arrived, mut answer) = (0, 0, None);
            for (step, sends, delay) in steps {
                looks.now += Duration::from_millis(step);
                while under_way.front().is_some_and(|at| *at <= looks.now) {
                    under_way.pop_front();
                    arrived += 1;
                }
                if let Some(said) = answer.take() {
                    prop_assert!(looks.arrivals.hear(&[said]));
                }
                match looks.arrivals.look(&[waiting(arrived)], false, looks.now) {
                    Judgement::Nothing => {}
                    Judgement::Ask => answer = Some(sent),
                    Judgement::Lost(loss) => {
                        prop_assert!(false, "{loss:?} after {:?}", looks.now - start);
                    }
                }
                if sends {
                    sent += 1;
                    let at = looks.now + Duration::from_millis(delay);
                    under_way.push_back(under_way.back().map_or(at, |last| at.max(*last)));
                }
            }
        }
    }
}
