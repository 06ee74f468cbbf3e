//! Sizes on the command line: listed, or from one to another, each a factor of the one before.

use std::fmt;
use std::str::FromStr;

use crate::input::ByteSize;

const FACTOR: u64 = 4;
/// Default limits, of throughput and of latency.
const STREAM: (u64, u64) = (4 << 10, 64 << 20);
const LATENCY: (u64, u64) = (64, 4 << 20);

/// Value of `--sweep`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sweep {
    range: Option<(u64, u64)>,
    factor: u64,
}

impl Sweep {
    /// Returns the sizes, which end with the last one.
    pub(super) fn sizes(self, is_latency: bool) -> Vec<u64> {
        let (from, to) = self.range.unwrap_or(if is_latency { LATENCY } else { STREAM });
        let next = |size: &u64| size.checked_mul(self.factor);
        let steps = std::iter::successors(Some(from), next).take_while(|size| *size < to);
        steps.chain([to]).collect()
    }
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (range, factor) = match text.rsplit_once(':') {
            Some((range, factor)) => (range, Some(factor)),
            None if text.contains("..") => (text, None),
            None => ("", Some(text)),
        };
        let wrong = || {
            format!(
                "\"{text}\" is no sweep: say FROM..TO, such as 4K..64M, FROM..TO:FACTOR, or a \
                 factor of 2 to 1024"
            )
        };
        let factor = factor.map_or(Ok(FACTOR), |it| it.parse().map_err(|_| wrong()))?;
        if !(2..=1024).contains(&factor) {
            return Err(wrong());
        }
        if range.is_empty() {
            return Ok(Self { range: None, factor });
        }
        let (from, to) = range.split_once("..").ok_or_else(wrong)?;
        let size = |text: &str| text.parse::<ByteSize>().map(|size| size.0);
        match (size(from)?, size(to)?) {
            (from, to) if from <= to => Ok(Self { range: Some((from, to)), factor }),
            _ => Err(format!("{range}: the first size must not be the larger one")),
        }
    }
}

/// Sizes as they are written on the command line.
#[derive(PartialEq)]
pub(super) struct Sizes(pub(super) Vec<ByteSize>);

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&sizes.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str, is_latency: bool) -> Vec<u64> {
        text.parse::<Sweep>().unwrap().sizes(is_latency)
    }

    #[test]
    fn a_sweep_goes_from_its_first_size_to_its_last() {
        for (factor, count) in [("2", 15), ("4", 8)] {
            let sweep = sizes(factor, false);
            assert_eq!((sweep.len(), sweep[0], sweep[count - 1]), (count, 4 << 10, 64 << 20));
        }
        assert_eq!(sizes("4", true).first(), Some(&64));
        assert_eq!(sizes("1K..16K", true), [1024, 4096, 16_384]);
        assert_eq!(sizes("1..10:3", false), [1, 3, 9, 10]);
        assert_eq!(sizes("5..5", false), [5]);
        assert_eq!(sizes("1..18446744073709551615:1024", false).len(), 8);
    }

    #[test]
    fn an_invalid_sweep_is_refused_with_an_example() {
        for text in ["", "client", "1", "1025", "1..2:x", "..", "4K..", "8K..4K", "4K..1X", "a:2"] {
            let error = text.parse::<Sweep>().unwrap_err();
            assert!(
                error.contains("4K..64M") || error.contains("64MiB") || error.contains("first")
            );
        }
    }
}
