//! Plan of `tcpx perf`, and the messages of its two ends about it.

use std::time::Duration;

use super::operations::{Direction, OneSided};
use crate::rendezvous::{Message, Role};
use serde::{Deserialize, Serialize};

/// Most bytes of one message under test.
const MAX_SIZE_BYTES: u64 = 16 << 30;
/// Most iterations, counted and uncounted ones each.
pub(super) const MAX_ITERATIONS: u32 = 100_000;
/// Most messages of one batch, and descriptors of one operation.
pub(super) const MAX_MESSAGES: u32 = 1_000_000;
/// Longest notification.
const MAX_NOTIFICATION_BYTES: u64 = 64 << 10;
/// Most sizes in one run.
const MAX_SIZES: usize = 64;
/// Longest time of one case: a day.
const MAX_DURATION_MS: u32 = 86_400_000;
/// Longest idleness before a message, and most threads of other work.
const MAX_IDLE_MS: u32 = 10_000;
const MAX_BUSY: u32 = 1024;

/// Most data paths of an iteration; each of their messages has a pattern of its own.
pub(super) const MAX_PATHS: u64 = 3;
/// Bytes of the messages that small ones are compared with.
pub(super) const LARGE_BYTES: u64 = 512 << 10;

/// Plan of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) mode: Mode,
    /// Message sizes in bytes, one case each.
    pub(super) sizes: Vec<u64>,
    /// Counted iterations of each case; without a duration.
    pub(super) iterations: u32,
    /// Time for which each case is measured, if that decides the iterations.
    pub(super) duration_ms: Option<u32>,
    /// Time after which it says how fast it has been since the last time.
    pub(super) interval_ms: Option<u32>,
    /// Uncounted iterations before them.
    pub(super) warmup: u32,
    /// Seed of the payload.
    pub(super) seed: u64,
    /// Whether plain sockets are measured as well, in turns.
    pub(super) baseline: bool,
    pub(super) receives: Receives,
    /// Round trips: for how long both ends do nothing before a message.
    pub(super) idle_ms: u32,
    /// Threads that are busy with other work meanwhile, on each machine.
    pub(super) busy: u32,
    /// Sends: whether the server sends and the client receives.
    pub(super) reverse: bool,
    /// Whether the clients of a server send to each other, too.
    pub(super) is_all_to_all: bool,
}

/// Time at which receives are posted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Receives {
    /// Before the sender may send
    #[default]
    Ahead,
    /// When both ends have received "go"; one way only
    Go,
    /// When the message is on its way; with --latency only
    Late,
}

impl std::fmt::Display for Receives {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ahead => "ahead",
            Self::Go => "go",
            Self::Late => "late",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Mode {
    /// One message one way in each iteration.
    Throughput,
    /// One message each way at once, in each iteration.
    Bidirectional,
    /// There and back.
    Latency,
    /// Many messages one way in each iteration, in turns with few large ones of the
    /// same bytes.
    Messages(Batch),
    /// The client reads or writes memory of the server, whose program only waits.
    OneSided(OneSided),
    /// Notifications there and back.
    Notifications,
}

impl Mode {
    /// Returns the name of the operation in `--op` and the report.
    pub(super) fn op(self) -> &'static str {
        match self {
            Self::Throughput | Self::Bidirectional | Self::Latency | Self::Messages(_) => "send",
            Self::OneSided(OneSided { direction: Direction::Write, .. }) => "write",
            Self::OneSided(OneSided { direction: Direction::Read, .. }) => "read",
            Self::Notifications => "notify",
        }
    }

    /// Returns whether the figures are times of single messages.
    pub(super) fn is_latency(self) -> bool {
        match self {
            Self::Latency | Self::Notifications => true,
            Self::OneSided(OneSided { is_latency, .. }) => is_latency,
            Self::Throughput | Self::Bidirectional | Self::Messages(_) => false,
        }
    }

    pub(super) fn one_sided(self) -> Option<OneSided> {
        match self {
            Self::OneSided(one_sided) => Some(one_sided),
            _ => None,
        }
    }

    /// Returns whether several clients of a server may do it at once.
    pub(super) fn can_be_incast(self) -> bool {
        matches!(self, Self::Throughput | Self::Bidirectional)
    }

    /// Returns whether sent bytes are received, so that plain sockets can be measured beside it.
    fn is_two_sided(self) -> bool {
        self.op() == "send" && self != Self::Bidirectional
    }
}

/// Messages that are posted barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Batch {
    pub(super) messages: u32,
    /// Whether messages that are posted one after the other lie apart in memory, at both ends.
    pub(super) is_scattered: bool,
}

impl Plan {
    /// Returns the length of an interval, if there are any.
    pub(super) fn interval(&self) -> Option<Duration> {
        Some(Duration::from_millis(self.interval_ms?.into()))
    }

    /// Returns the end that sends, one way.
    pub(super) fn sender(&self) -> Role {
        if self.reverse { Role::Server } else { Role::Client }
    }

    /// Checks the plan. Numbers from the other end are not trusted.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.sizes.is_empty() || self.sizes.len() > MAX_SIZES {
            return Err(format!("{} sizes, 1 to {MAX_SIZES} are possible", self.sizes.len()));
        }
        if let Some(size) = self.sizes.iter().find(|size| !(1..=MAX_SIZE_BYTES).contains(*size)) {
            return Err(format!("size {size}: must be 1 to {MAX_SIZE_BYTES} bytes"));
        }
        self.check_mode()?;
        if !(1..=MAX_ITERATIONS).contains(&self.iterations) {
            return Err(format!("{} iterations: must be 1 to {MAX_ITERATIONS}", self.iterations));
        }
        if self.duration_ms.is_some_and(|ms| !(1..=MAX_DURATION_MS).contains(&ms)) {
            return Err(format!("--duration: at most {} s", MAX_DURATION_MS / 1000));
        }
        if self.warmup > MAX_ITERATIONS {
            return Err(format!("{} warmup iterations: at most {MAX_ITERATIONS}", self.warmup));
        }
        self.check_conditions()
    }

    fn check_mode(&self) -> Result<(), String> {
        match self.mode {
            Mode::Throughput | Mode::Bidirectional | Mode::Latency => Ok(()),
            Mode::Messages(Batch { messages, .. }) => {
                check_count(messages, MAX_MESSAGES, "messages")?;
                self.check_together(messages.into(), "messages")
            }
            Mode::OneSided(one_sided) => {
                one_sided.check()?;
                let OneSided { depth, descriptors, .. } = one_sided;
                check_count(descriptors, MAX_MESSAGES, "descriptors")?;
                self.check_together(u64::from(depth) * u64::from(descriptors), "descriptors")
            }
            Mode::Notifications => {
                match self.sizes.iter().find(|size| **size > MAX_NOTIFICATION_BYTES) {
                    Some(size) => Err(format!(
                        "notifications of {size} bytes: at most {MAX_NOTIFICATION_BYTES}"
                    )),
                    None => Ok(()),
                }
            }
        }
    }

    /// Checks whether `count` of any size fit.
    fn check_together(&self, count: u64, what: &str) -> Result<(), String> {
        match self.sizes.iter().any(|size| size.saturating_mul(count) > MAX_SIZE_BYTES) {
            true => Err(format!("{count} {what}: at most {MAX_SIZE_BYTES} bytes together")),
            false => Ok(()),
        }
    }

    /// Checks whether the way of the bytes can be turned round, if that is asked for.
    fn check_reverse(&self) -> Result<(), String> {
        let why_not = match self.mode {
            _ if !self.reverse => return Ok(()),
            Mode::Throughput | Mode::Messages(_) => return Ok(()),
            Mode::Bidirectional => "with --bidir both ends send already",
            Mode::Latency | Mode::Notifications => {
                "with --latency every message is sent back, so both ways are measured already"
            }
            Mode::OneSided(_) => "the reverse of --op write is --op read",
        };
        Err(format!("--reverse: {why_not}"))
    }

    fn check_conditions(&self) -> Result<(), String> {
        self.check_reverse()?;
        let is_possible = match self.receives {
            Receives::Ahead => true,
            Receives::Go => matches!(self.mode, Mode::Throughput | Mode::Messages(_)),
            Receives::Late => self.mode == Mode::Latency,
        };
        if !is_possible {
            return Err(format!("--receives {}: not with this kind of measurement", self.receives));
        }
        if self.interval_ms.is_some_and(|ms| !(1..=MAX_DURATION_MS).contains(&ms)) {
            return Err(format!("--interval: at most {} s", MAX_DURATION_MS / 1000));
        }
        if self.interval_ms.is_some() && (self.duration_ms.is_none() || self.mode.is_latency()) {
            return Err("--interval: only with --duration, and not with --latency".into());
        }
        if self.idle_ms > 0 && self.mode != Mode::Latency {
            return Err("--idle-ms: only with --latency of sends".into());
        }
        if self.baseline && !self.mode.is_two_sided() {
            return Err("--baseline: only beside sends, one way at a time".into());
        }
        if self.idle_ms > MAX_IDLE_MS {
            return Err(format!("--idle-ms {}: at most {MAX_IDLE_MS}", self.idle_ms));
        }
        if self.is_all_to_all && (self.mode != Mode::Bidirectional || self.interval_ms.is_some()) {
            return Err("--all-to-all: only with sends, and not with --interval".into());
        }
        if self.busy > MAX_BUSY {
            return Err(format!("--busy {}: at most {MAX_BUSY}", self.busy));
        }
        Ok(())
    }
}

fn check_count(count: u32, most: u32, what: &str) -> Result<(), String> {
    match (1..=most).contains(&count) {
        true => Ok(()),
        false => Err(format!("{count} {what}: must be 1 to {most}")),
    }
}

/// Server's number of the next counted iterations; 0: this size is complete.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NextIterations {
    pub(super) iterations: u32,
    /// Whether the whole measurement ends.
    pub(super) is_end: bool,
}

impl Message for NextIterations {
    const KIND: u16 = 11;
}

/// Server's "go" of an iteration; and, where receives are posted late, the notice of a message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Go;

impl Message for Go {
    const KIND: u16 = 5;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_checked_before_anything_is_allocated() {
        let messages = |messages| Mode::Messages(Batch { messages, is_scattered: false });
        let one_sided = |depth, descriptors| OneSided {
            direction: Direction::Read,
            depth,
            descriptors,
            is_scattered: false,
            is_latency: false,
            is_notified: false,
        };
        let operations = |depth, descriptors| Mode::OneSided(one_sided(depth, descriptors));
        let scattered = Mode::OneSided(OneSided { is_scattered: true, ..one_sided(1, 1) });
        let latency = Mode::OneSided(OneSided { is_latency: true, ..one_sided(2, 1) });
        let notified = Mode::OneSided(OneSided { is_notified: true, ..one_sided(1, 1) });
        let plan = Plan {
            mode: Mode::Throughput,
            sizes: vec![1, MAX_SIZE_BYTES],
            iterations: 1,
            duration_ms: None,
            interval_ms: None,
            warmup: 0,
            seed: 0,
            baseline: false,
            receives: Receives::Ahead,
            idle_ms: 0,
            busy: 0,
            reverse: false,
            is_all_to_all: false,
        };
        assert_eq!(plan.check(), Ok(()));
        for (plan, words) in [
            (Plan { sizes: vec![], ..plan.clone() }, "0 sizes"),
            (Plan { sizes: vec![1; 65], ..plan.clone() }, "65 sizes"),
            (Plan { sizes: vec![4096, 0], ..plan.clone() }, "size 0"),
            (Plan { sizes: vec![u64::MAX], ..plan.clone() }, "size 18446744073709551615"),
            (Plan { iterations: 0, ..plan.clone() }, "0 iterations"),
            (Plan { iterations: u32::MAX, ..plan.clone() }, "4294967295 iterations"),
            (Plan { duration_ms: Some(0), ..plan.clone() }, "--duration"),
            (Plan { duration_ms: Some(u32::MAX), ..plan.clone() }, "--duration"),
            (Plan { interval_ms: Some(1), ..plan.clone() }, "only with --duration"),
            (Plan { interval_ms: Some(0), ..plan.clone() }, "--interval: at most"),
            (Plan { mode: Mode::Bidirectional, baseline: true, ..plan.clone() }, "--baseline"),
            (Plan { receives: Receives::Late, ..plan.clone() }, "--receives late"),
            (Plan { idle_ms: 1, ..plan.clone() }, "only with --latency"),
            (Plan { mode: operations(0, 1), ..plan.clone() }, "0 operations"),
            (Plan { mode: operations(u32::MAX, 1), ..plan.clone() }, "4294967295 operations"),
            (Plan { mode: operations(1, u32::MAX), ..plan.clone() }, "4294967295 descriptors"),
            (Plan { mode: operations(2, 1), ..plan.clone() }, "2 descriptors: at most"),
            (Plan { mode: latency, ..plan.clone() }, "--depth 2"),
            (Plan { mode: notified, ..plan.clone() }, "notifications behind reads"),
            (Plan { mode: scattered, ..plan.clone() }, "--scattered"),
            (Plan { mode: operations(1, 1), baseline: true, ..plan.clone() }, "--baseline"),
            (Plan { mode: Mode::Notifications, ..plan.clone() }, "notifications of 171"),
            (Plan { mode: Mode::Latency, idle_ms: 10_001, ..plan.clone() }, "--idle-ms 10001"),
            (Plan { busy: u32::MAX, ..plan.clone() }, "--busy 4294967295"),
            (Plan { mode: Mode::Latency, receives: Receives::Go, ..plan.clone() }, "--receives go"),
            (Plan { mode: messages(0), ..plan.clone() }, "0 messages"),
            (Plan { mode: messages(u32::MAX), ..plan.clone() }, "4294967295 messages"),
            (Plan { mode: messages(2), ..plan.clone() }, "2 messages: at most"),
            (Plan { mode: operations(1, 1), reverse: true, ..plan.clone() }, "is --op read"),
            (Plan { mode: Mode::Latency, reverse: true, ..plan.clone() }, "sent back"),
            (Plan { mode: Mode::Bidirectional, reverse: true, ..plan.clone() }, "both ends send"),
            (Plan { warmup: u32::MAX, ..plan }, "warmup"),
        ] {
            let error = plan.check().unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
