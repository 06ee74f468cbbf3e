//! Admission policy for unauthenticated inbound connections, and rate limit of the log lines about
//! refused ones. Pure.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use foldhash::HashMap;

/// Largest number of handshakes at once. More connections wait in the system's queue.
pub(super) const MAX_HANDSHAKES: usize = 256;
/// Smallest number of places, however few files the process may open.
const LEAST_PLACES: usize = 8;
/// Time after which an honest connection has mostly proven itself: a few round trips.
const ENOUGH: Duration = Duration::from_millis(250);

/// Returns the number of places. A process that may open `files` files keeps three quarters of them
/// from unauthenticated connections: proven peers need some for their channels. `None`: there is no
/// limit of files.
pub(super) fn places(files: Option<u64>) -> usize {
    let share =
        files.map_or(MAX_HANDSHAKES, |files| usize::try_from(files / 4).unwrap_or(MAX_HANDSHAKES));
    share.clamp(LEAST_PLACES, MAX_HANDSHAKES)
}

/// Properties of a handshake that decide whether it may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occupant {
    pub(super) from: IpAddr,
    pub(super) is_proven: bool,
    /// Time since the connection came.
    pub(super) age: Duration,
}

/// Decision on whether a new connection gets a place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// There is room.
    Free,
    /// The handshake at this index is evicted for the new connection.
    Evict(usize),
    /// There is no room, and every handshake is proven.
    Full,
}

/// Decides on one more connection from `from`. `table` is in the order in which connections came.
/// `draw` returns a number below its argument.
pub(super) fn admit(
    from: IpAddr,
    table: &[Occupant],
    places: usize,
    draw: impl FnOnce(usize) -> usize,
) -> Admission {
    if table.len() < places {
        return Admission::Free;
    }
    let unproven = || table.iter().enumerate().filter(|(_, occupant)| !occupant.is_proven);
    // The new connection counts for its own address.
    let mut counts = HashMap::from_iter([(from, 1)]);
    for (_, occupant) in unproven() {
        *counts.entry(occupant.from).or_insert(0) += 1;
    }
    let most = unproven().map(|(_, occupant)| counts[&occupant.from]).max();
    let of_most = || unproven().filter(|(_, occupant)| Some(counts[&occupant.from]) == most);
    match of_most().next() {
        None => Admission::Full,
        Some((oldest, occupant)) if occupant.age >= ENOUGH => Admission::Evict(oldest),
        Some((oldest, _)) => {
            let drawn = of_most().nth(draw(of_most().count()));
            Admission::Evict(drawn.map_or(oldest, |(index, _)| index))
        }
    }
}

/// Number of lines that are written before further ones are only counted.
const LINES: u32 = 8;
/// Time after which lines are written again.
const WINDOW: Duration = Duration::from_secs(60);

/// Log of refused connections: writes a line for each, or counts it.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog {
    window_ends: Option<Instant>,
    written: u32,
    unwritten: u64,
}

/// Decision on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogDecision {
    /// The line is written. `unwritten` is the number of lines that were only counted since the
    /// last written one.
    Write {
        unwritten: u64,
    },
    Count,
}

impl RefusalLog {
    /// Logs that the connection from the address `from` is refused or evicted, for this reason.
    pub(crate) fn log(&mut self, now: Instant, from: &str, reason: &str) {
        match self.decide(now) {
            LogDecision::Write { unwritten: 0 } => {
                tracing::warn!(from, reason, "control connection refused");
            }
            LogDecision::Write { unwritten } => {
                tracing::warn!(
                    from,
                    reason,
                    unwritten,
                    "control connection refused, as others before"
                );
            }
            LogDecision::Count => {}
        }
    }

    fn decide(&mut self, now: Instant) -> LogDecision {
        if self.window_ends.is_none_or(|end| now >= end) {
            self.window_ends = Some(now + WINDOW);
            self.written = 0;
        }
        if self.written == LINES {
            self.unwritten += 1;
            return LogDecision::Count;
        }
        self.written += 1;
        LogDecision::Write { unwritten: std::mem::take(&mut self.unwritten) }
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod inner_tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_and_a_count_in_each_window() {
        let begin = Instant::now();
        let mut log = RefusalLog::default();
        for _ in 0..LINES {
            assert_eq!(log.decide(begin), LogDecision::Write { unwritten: 0 });
        }
        for _ in 0..500 {
            assert_eq!(log.decide(begin + WINDOW / 2), LogDecision::Count);
        }
        assert_eq!(log.decide(begin + WINDOW), LogDecision::Write { unwritten: 500 });
        assert_eq!(log.decide(begin + WINDOW), LogDecision::Write { unwritten: 0 });
    }
}
