//! How many threads unpack where the CPU has to.

use std::fmt;
use std::str::FromStr;

use crate::types::MAX_COPY_THREADS;

/// So many of eight processors copy. With both ends on 16 processors, six threads were faster than
/// four or eight.
const OF_EIGHT: usize = 3;
/// On fewer processors, those who receive and send need all.
const FEWEST_PROCESSORS: usize = 8;
/// More wait for the memory.
const ENOUGH: usize = 8;

/// How many threads of a session copy received bytes from the bounce buffer to ordinary memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyThreads {
    /// Three for each eight processors that the process may use, at most 8; none on fewer than 8
    /// processors, where the thread that makes progress copies.
    #[default]
    Auto,
    /// So many at most, up to 64; 0: the thread that makes progress copies.
    Count(u16),
}

impl CopyThreads {
    /// The number of threads where the process may use so many processors.
    pub(crate) fn count(self, processors: usize) -> usize {
        match self {
            Self::Auto if processors < FEWEST_PROCESSORS => 0,
            Self::Auto => (processors * OF_EIGHT / 8).min(ENOUGH),
            Self::Count(count) => count.into(),
        }
    }
}

/// A text that is no number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be auto or 0 to {MAX_COPY_THREADS}")]
pub struct CopyThreadsError;

impl FromStr for CopyThreads {
    type Err = CopyThreadsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            number => number.parse().map(Self::Count).map_err(|_| CopyThreadsError),
        }
    }
}

impl fmt::Display for CopyThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Count(count) => count.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_processors_have_no_copy_threads_unless_they_are_asked_for() {
        let counts =
            [1, 2, 7, 8, 16, 32, 256].map(|processors| CopyThreads::Auto.count(processors));
        assert_eq!(counts, [0, 0, 0, 3, 6, 8, 8]);
        assert_eq!([1, 256].map(|processors| CopyThreads::Count(3).count(processors)), [3, 3]);
        assert_eq!(CopyThreads::Count(0).count(256), 0);
    }
}
