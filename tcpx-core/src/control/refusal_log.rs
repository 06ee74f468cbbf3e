//! What the log says of strangers who connect to the control listener, so that a flood of them does
//! not fill it.

use std::time::{Duration, Instant};

/// Lines that are written before the rest is only counted.
const LINES: u32 = 8;
/// Time after which lines are written again.
const WINDOW: Duration = Duration::from_secs(60);

/// Writes a line for each stranger, or counts it.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog {
    window_ends: Option<Instant>,
    written: u32,
    unwritten: u64,
}

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is written. So many were not, since the last one that was.
    Write {
        unwritten: u64,
    },
    Count,
}

impl RefusalLog {
    /// Somebody at the address `from` is not let in, or not any more.
    pub(crate) fn say(&mut self, now: Instant, from: &str, reason: &str) {
        match self.judge(now) {
            Verdict::Write { unwritten: 0 } => {
                tracing::warn!(from, reason, "control connection refused");
            }
            Verdict::Write { unwritten } => {
                tracing::warn!(
                    from,
                    reason,
                    unwritten,
                    "control connection refused, as others before"
                );
            }
            Verdict::Count => {}
        }
    }

    fn judge(&mut self, now: Instant) -> Verdict {
        if self.window_ends.is_none_or(|end| now >= end) {
            self.window_ends = Some(now + WINDOW);
            self.written = 0;
        }
        if self.written == LINES {
            self.unwritten += 1;
            return Verdict::Count;
        }
        self.written += 1;
        Verdict::Write { unwritten: std::mem::take(&mut self.unwritten) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_and_a_count_in_each_window() {
        let begin = Instant::now();
        let mut log = RefusalLog::default();
        for _ in 0..LINES {
            assert_eq!(log.judge(begin), Verdict::Write { unwritten: 0 });
        }
        for _ in 0..500 {
            assert_eq!(log.judge(begin + WINDOW / 2), Verdict::Count);
        }
        assert_eq!(log.judge(begin + WINDOW), Verdict::Write { unwritten: 500 });
        assert_eq!(log.judge(begin + WINDOW), Verdict::Write { unwritten: 0 });
    }
}
