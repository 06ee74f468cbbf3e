//! Intervals of a measurement: each has a line with its rate while the measurement goes on, and an
//! object in JSON.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::case_parts::PART;
use super::rates::Throughput;
use super::samples::gb_per_s;

/// Most intervals of a size that are kept.
const MOST_ENDED: usize = 100_000;

/// Interval of one size, which consists of whole parts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Interval {
    /// Bytes of one message.
    #[serde(skip)]
    pub(super) size_bytes: u64,
    /// Times since the size began.
    #[serde(rename = "from_s", serialize_with = "as_seconds")]
    pub(super) begin: Duration,
    #[serde(rename = "to_s", serialize_with = "as_seconds")]
    pub(super) end: Duration,
    /// Bytes by the time of the counted iterations.
    pub(super) gb_per_s: f64,
    pub(super) ops_per_s: f64,
}

fn as_seconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

/// Intervals of one size so far, and sums of the parts since the last one ended.
#[derive(Debug)]
pub(super) struct Intervals {
    length: Duration,
    /// Bytes of one message, and of an operation or message with all its ranges.
    size_bytes: u64,
    operation_bytes: u64,
    begin: Duration,
    end: Duration,
    due: Duration,
    bytes: u64,
    ns: u64,
    ended: Vec<Interval>,
}

impl Intervals {
    /// Returns no parts yet. `ranges`: those of one operation.
    pub(super) fn new(length: Duration, size_bytes: u64, ranges: u32) -> Self {
        let operation_bytes = size_bytes * u64::from(ranges);
        let (begin, end, due) = (Duration::ZERO, Duration::ZERO, length);
        let (bytes, ns, ended) = (0, 0, Vec::new());
        Self { length, size_bytes, operation_bytes, begin, end, due, bytes, ns, ended }
    }

    /// Adds the main rate of a part that ended `now`, a time since the size began. Returns the
    /// interval that ends with it.
    pub(super) fn add(&mut self, rate: &Throughput, now: Duration) -> Option<Interval> {
        self.bytes += rate.total_bytes();
        self.ns += rate.times_ns.iter().sum::<u64>();
        self.end = now;
        // The end of a part that is nearest to the interval's.
        if now + PART.min(self.length) / 2 < self.due {
            return None;
        }
        self.take()
    }

    /// Returns the interval until the last part; `None` without parts since the one before.
    pub(super) fn take(&mut self) -> Option<Interval> {
        if self.bytes == 0 {
            return None;
        }
        let gb_per_s = gb_per_s(self.bytes, self.ns);
        let interval = Interval {
            size_bytes: self.size_bytes,
            begin: self.begin,
            end: self.end,
            gb_per_s,
            ops_per_s: gb_per_s * 1e9 / self.operation_bytes.max(1) as f64,
        };
        let whole = (self.end.as_secs_f64() / self.length.as_secs_f64()).round();
        (self.begin, self.due) = (self.end, self.length.mul_f64(whole + 1.0));
        (self.bytes, self.ns) = (0, 0);
        if self.ended.len() < MOST_ENDED {
            self.ended.push(interval);
        }
        Some(interval)
    }

    /// Returns the intervals that have ended: the first ones, where there are very many.
    pub(super) fn into_ended(self) -> Vec<Interval> {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_sums_its_parts_and_the_last_one_is_what_is_left() {
        let part = |times: &[u64]| Throughput::new(1000, times).unwrap();
        let ms = Duration::from_millis;
        let mut intervals = Intervals::new(ms(1000), 500, 2);
        assert_eq!(intervals.take(), None, "nothing was measured");
        assert_eq!(intervals.add(&part(&[100, 300]), ms(510)), None);
        let first = intervals.add(&part(&[600]), ms(990)).unwrap();
        assert_eq!((first.begin, first.end), (ms(0), ms(990)), "nearer to its end than the next");
        assert_eq!((first.gb_per_s, first.ops_per_s), (3.0, 3e6), "3,000 bytes in 1,000 ns");
        assert_eq!(intervals.add(&part(&[500]), ms(1500)), None);
        let second = intervals.add(&part(&[500]), ms(3600)).unwrap();
        assert_eq!((second.begin, second.end, second.gb_per_s), (ms(990), ms(3600), 2.0));
        assert_eq!(intervals.add(&part(&[250]), ms(4100)), None, "the next ends at 5 s");
        assert_eq!(intervals.take().map(|it| (it.begin, it.end)), Some((ms(3600), ms(4100))));
        assert_eq!(intervals.take(), None);
        let ended = intervals.into_ended();
        assert_eq!(ended.len(), 3, "each is kept once");
        let object = serde_json::to_value(ended[1]).unwrap();
        let expected =
            serde_json::json!({"from_s": 0.99, "to_s": 3.6, "gb_per_s": 2.0, "ops_per_s": 2e6});
        assert_eq!(object, expected);
    }
}
