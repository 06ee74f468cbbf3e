//! Speed of a session, measured against its NICs. Pure but for [`NicSample::of`].
//!
//! It is judged block by block, of [`BLOCK_BYTES`] each. Time in which nothing was under way does
//! not count, and what other sessions and processes moved over the same NICs does.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tcpx_diagnosis::pci::{nic_bytes, nic_speed};

use crate::stats::stages::StageTimes;

/// Bytes of a block.
const BLOCK_BYTES: u64 = 1 << 30;
/// Share of the NICs' speed below which a block is slow: one in `SLOW_SHARE`.
const SLOW_SHARE: u64 = 4;

/// Counters of a session at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpeedSample {
    /// Bytes that channels have sent, and received.
    pub(crate) moved: [u64; 2],
    pub(crate) stages: StageTimes,
}

/// Counters of the NICs that a session uses, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NicSample {
    /// Names, with a comma between them.
    pub(crate) names: String,
    /// Speed of all of them, in Mbit/s. `None`: the kernel does not know the speed of one of them.
    pub(crate) speed_mbps: Option<u64>,
    /// Bytes that they have sent, and received, for all programs.
    pub(crate) bytes: [u64; 2],
}

impl NicSample {
    /// Reads three files for each of these NICs. Hold no lock meanwhile.
    pub(crate) fn of(names: &BTreeSet<Arc<str>>) -> Self {
        let mut sample = Self { speed_mbps: (!names.is_empty()).then_some(0), ..Self::default() };
        for name in names {
            let (speed, bytes) = (nic_speed(Path::new("/"), name), nic_bytes(Path::new("/"), name));
            let sum = sample.speed_mbps.zip(speed);
            sample.speed_mbps = sum.map(|(sum, speed)| sum + u64::from(speed));
            sample.bytes = [0, 1].map(|way: usize| sample.bytes[way] + bytes[way]);
            let comma = if sample.names.is_empty() { "" } else { ", " };
            sample.names.extend([comma, name.as_ref()]);
        }
        sample
    }
}

/// Block that was slower than its NICs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlowBlock {
    bytes: u64,
    busy_ns: u64,
    nics: String,
    speed_mbps: u64,
    waited_for: &'static str,
    waited_ns: u64,
}

/// Block that is being measured, and the outcome of the last one.
#[derive(Debug, Default)]
pub(crate) struct SpeedWatch {
    begin: Option<(SpeedSample, NicSample)>,
    /// Counters at a moment at which the NICs are being read.
    awaiting: Option<SpeedSample>,
    slow: Option<SlowBlock>,
}

impl SpeedWatch {
    /// Takes the session's counters. Returns whether the NICs are to be read now, because a block
    /// begins or ends: [`read`](Self::read) takes the outcome.
    pub(crate) fn check(&mut self, sample: SpeedSample) -> bool {
        let is_end = match &self.begin {
            None => sample.moved != [0; 2],
            Some((begin, _)) => grown(sample.moved, begin.moved) >= BLOCK_BYTES,
        };
        let asks = is_end && self.awaiting.is_none();
        if asks {
            self.awaiting = Some(sample);
        }
        asks
    }

    /// Takes the counters of the NICs, and judges the block that has ended.
    pub(crate) fn read(&mut self, nics: NicSample) {
        let Some(sample) = self.awaiting.take() else { return };
        if let Some((begin, nics_then)) = &self.begin {
            let bytes = grown(sample.moved, begin.moved);
            // A peer over other NICs has come or gone.
            self.slow = (nics.names == nics_then.names)
                .then(|| judge(bytes, (begin, &sample), grown(nics.bytes, nics_then.bytes), &nics))
                .flatten();
        }
        self.begin = Some((sample, nics));
    }

    /// Returns the last whole block, if it was slow.
    pub(crate) fn slow(&self) -> Option<&SlowBlock> {
        self.slow.as_ref()
    }
}

/// Returns what more there is now than before, of the direction with more.
fn grown(now: [u64; 2], before: [u64; 2]) -> u64 {
    now[0].saturating_sub(before[0]).max(now[1].saturating_sub(before[1]))
}

/// What the time of each stage goes to.
const STAGES: [&str; 5] = [
    "the network and the peer, to send",
    "the network and the peer, to receive",
    "receiving and unpacking at once",
    "unpacking",
    "unpacking on the CPU",
];

/// Returns the times in the order of [`STAGES`].
fn stages(times: &StageTimes) -> [u64; STAGES.len()] {
    [
        times.sending_ns,
        times.receiving_ns,
        times.receiving_and_unpacking_ns,
        times.unpacking_ns,
        times.submitting_ns,
    ]
}

fn judge(
    bytes: u64,
    (begin, end): (&SpeedSample, &SpeedSample),
    nic_bytes: u64,
    nics: &NicSample,
) -> Option<SlowBlock> {
    let speed_mbps = nics.speed_mbps?;
    let (from, to) = (stages(&begin.stages), stages(&end.stages));
    let spent = to.iter().zip(from).map(|(to, from)| to.saturating_sub(from));
    let busy_ns: u64 = spent.clone().sum();
    let (waited_ns, waited_for) = spent.zip(STAGES).max()?;
    // Mbit/s are bits a microsecond.
    let whole_ns = u128::from(bytes.max(nic_bytes)) * 8 * 1000 / u128::from(speed_mbps.max(1));
    let is_slow = u128::from(busy_ns) > whole_ns * u128::from(SLOW_SHARE);
    let nics = nics.names.clone();
    is_slow.then_some(SlowBlock { bytes, busy_ns, nics, speed_mbps, waited_for, waited_ns })
}

impl fmt::Display for SlowBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, busy) = (self.bytes as f64, self.busy_ns as f64);
        let percent = 100.0 * self.waited_ns as f64 / busy;
        write!(
            f,
            "{:.2} GB in {:.1} s of transfers are {:.3} GB/s of {:.3} GB/s that {} has; \
             {percent:.0} % of the time went to {}",
            bytes / 1e9,
            busy / 1e9,
            bytes / busy,
            self.speed_mbps as f64 / 8000.0,
            self.nics,
            self.waited_for,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GBIT_10: Option<u64> = Some(10_000);

    /// Returns the counters after some blocks that took this time each.
    fn sample(blocks: u64, busy_ms: u64) -> SpeedSample {
        let receiving_ns = blocks * busy_ms * 1_000_000;
        let stages = StageTimes { receiving_ns, idle_ns: u64::MAX / 2, ..StageTimes::default() };
        SpeedSample { moved: [1, 1 + blocks * BLOCK_BYTES], stages }
    }

    fn nics(speed_mbps: Option<u64>, received: u64) -> NicSample {
        NicSample { names: "eth1".to_owned(), speed_mbps, bytes: [0, received] }
    }

    /// Returns what is said after a block that took this time.
    fn after(busy_ms: u64, speed_mbps: Option<u64>, nic_bytes: u64) -> Option<String> {
        let mut watch = SpeedWatch::default();
        assert!(!watch.check(SpeedSample::default()), "nothing moved");
        assert!(watch.check(sample(0, 0)));
        watch.read(nics(speed_mbps, 0));
        let half = SpeedSample { moved: [1, BLOCK_BYTES], ..sample(0, 0) };
        assert!(!watch.check(half), "the block is not whole");
        assert!(watch.check(sample(1, busy_ms)));
        assert!(!watch.check(sample(3, busy_ms)) && watch.slow().is_none(), "the NICs are read");
        watch.read(nics(speed_mbps, nic_bytes));
        watch.slow().map(SlowBlock::to_string)
    }

    #[test]
    fn a_block_is_slow_below_a_quarter_of_the_nics_speed() {
        // 2^30 bytes take 0.86 s at 10 Gbit/s, and 3.44 s at a quarter of it.
        assert_eq!(after(3_400, GBIT_10, 0), None);
        let said = after(3_500, GBIT_10, 0).expect("it is slow");
        assert_eq!(
            said,
            "1.07 GB in 3.5 s of transfers are 0.307 GB/s of 1.250 GB/s that eth1 has; 100 % of \
             the time went to the network and the peer, to receive"
        );
    }

    #[test]
    fn a_nic_of_unknown_speed_or_busy_with_others_says_nothing() {
        assert_eq!(after(1_000_000, None, 0), None);
        assert_eq!(after(8_000, GBIT_10, 3 * BLOCK_BYTES), None);
        assert!(after(8_000, GBIT_10, 2 * BLOCK_BYTES).is_some());
    }

    #[test]
    fn each_block_is_judged_by_itself_and_not_across_other_nics() {
        let mut watch = SpeedWatch::default();
        let mut look = |blocks, busy_ms, nics| {
            assert!(watch.check(sample(blocks, busy_ms)));
            watch.read(nics);
            watch.slow().is_some()
        };
        assert!(!look(0, 0, nics(GBIT_10, 0)));
        assert!(look(1, 9_000, nics(GBIT_10, 0)));
        // Two blocks after 9 s of one: 1.5 s for the second.
        assert!(!look(2, 5_250, nics(GBIT_10, 0)));
        assert!(look(3, 9_000, nics(GBIT_10, 0)));
        let other = NicSample { names: "eth1, eth2".to_owned(), ..nics(GBIT_10, 0) };
        assert!(!look(4, 90_000, other));
    }
}
