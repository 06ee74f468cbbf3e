//! What the two ends say to each other.

use serde::{Deserialize, Serialize};

use crate::perf::Stages;
use crate::session::Memory;

/// Most bytes of one message under test.
pub(crate) const MAX_SIZE_BYTES: u64 = 16 << 30;
/// Most iterations, counted and uncounted ones each.
pub(crate) const MAX_ITERATIONS: u32 = 100_000;
/// Most messages of one batch.
pub(crate) const MAX_MESSAGES: u32 = 1_000_000;
/// Most sizes in one run.
pub(crate) const MAX_SIZES: usize = 64;

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Message {
    /// Client: this is what we are going to do.
    Request(Request),
    /// Server: yes, and this is how my session is reached.
    Accepted(Accepted),
    /// Server: no.
    Refused { reason: String },
    /// Server: plain sockets are accepted here.
    RawOffer(RawOffer),
    /// Either end: I am connected.
    Connected,
    /// Server: my receives are posted.
    Go,
    /// Each end: what I measured at one size.
    Times(Box<CaseTimes>),
    /// Server: whether the message of `tcpx transfer` is right; empty if so.
    Verdict { difference: String },
    /// Either end: I give up.
    Abort { reason: String },
}

impl Message {
    /// The noun for errors.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Request(_) => "request",
            Self::Accepted(_) | Self::Refused { .. } => "answer",
            Self::RawOffer(_) => "offer of plain sockets",
            Self::Connected => "word that it is connected",
            Self::Go => "go",
            Self::Times(_) => "times",
            Self::Verdict { .. } => "verdict",
            Self::Abort { .. } => "abort",
        }
    }
}

/// What the client wants. The server adopts all of it or refuses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) program: Program,
    /// Bytes of a chunk.
    pub(crate) chunk_bytes: u32,
    pub(crate) channels: u16,
    pub(crate) memory: Memory,
    /// Name of the unpack implementation, if the client was given one.
    pub(crate) unpack: Option<String>,
}

/// What to run once the sessions are connected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Program {
    Perf(Plan),
    Transfer,
    Connect,
}

impl Program {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Perf(_) => "perf",
            Self::Transfer => "transfer",
            Self::Connect => "connect",
        }
    }
}

/// What `tcpx perf` measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) mode: Mode,
    /// Message sizes in bytes, one case each.
    pub(crate) sizes: Vec<u64>,
    /// Counted iterations of each case.
    pub(crate) iterations: u32,
    /// Uncounted iterations before them.
    pub(crate) warmup: u32,
    /// Of the payload.
    pub(crate) seed: u64,
    /// Whether plain sockets are measured as well, in turns.
    pub(crate) baseline: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mode {
    /// One message from client to server in each iteration.
    Throughput,
    /// There and back.
    Latency,
    /// Many messages from client to server in each iteration, in turns with few large ones of the same bytes.
    Messages(Batch),
}

/// Messages that are posted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Batch {
    pub(crate) messages: u32,
    /// Whether messages that are posted one after the other lie apart in memory, at both ends.
    pub(crate) is_scattered: bool,
}

impl Plan {
    /// Whether this end is willing to do it. Numbers from the other end are not trusted.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.sizes.is_empty() || self.sizes.len() > MAX_SIZES {
            return Err(format!("{} sizes, 1 to {MAX_SIZES} are possible", self.sizes.len()));
        }
        if let Some(size) = self.sizes.iter().find(|size| !(1..=MAX_SIZE_BYTES).contains(*size)) {
            return Err(format!("size {size}: must be 1 to {MAX_SIZE_BYTES} bytes"));
        }
        if let Mode::Messages(Batch { messages, .. }) = self.mode {
            if !(1..=MAX_MESSAGES).contains(&messages) {
                return Err(format!("{messages} messages: must be 1 to {MAX_MESSAGES}"));
            }
            if self.sizes.iter().any(|size| size * u64::from(messages) > MAX_SIZE_BYTES) {
                return Err(format!(
                    "{messages} messages: at most {MAX_SIZE_BYTES} bytes together"
                ));
            }
        }
        if !(1..=MAX_ITERATIONS).contains(&self.iterations) {
            return Err(format!("{} iterations: must be 1 to {MAX_ITERATIONS}", self.iterations));
        }
        if self.warmup > MAX_ITERATIONS {
            return Err(format!("{} warmup iterations: at most {MAX_ITERATIONS}", self.warmup));
        }
        Ok(())
    }
}

/// The server's session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Accepted {
    pub(crate) conn_info: Vec<u8>,
    /// The unpack implementation it uses.
    pub(crate) unpack: String,
}

/// How plain sockets reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RawOffer {
    /// At the address of the bootstrap connection.
    pub(crate) port: u16,
    /// How many to open.
    pub(crate) sockets: u16,
    /// What each of them begins with.
    pub(crate) token: [u8; 16],
}

/// One end's times of one case, in ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CaseTimes {
    pub(crate) session_ns: Vec<u64>,
    /// Of the same bytes in large messages; empty where only one way is measured.
    pub(crate) large_ns: Vec<u64>,
    /// Of plain sockets; empty without them.
    pub(crate) raw_ns: Vec<u64>,
    /// What the session's time went to.
    pub(crate) stages: Stages,
    /// The first wrong byte this end saw, in words.
    pub(crate) mismatch: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_checked_before_anything_is_allocated() {
        let messages = |messages| Mode::Messages(Batch { messages, is_scattered: false });
        let plan = Plan {
            mode: Mode::Throughput,
            sizes: vec![1, MAX_SIZE_BYTES],
            iterations: 1,
            warmup: 0,
            seed: 0,
            baseline: false,
        };
        assert_eq!(plan.check(), Ok(()));
        for (plan, words) in [
            (Plan { sizes: vec![], ..plan.clone() }, "0 sizes"),
            (Plan { sizes: vec![1; 65], ..plan.clone() }, "65 sizes"),
            (Plan { sizes: vec![4096, 0], ..plan.clone() }, "size 0"),
            (Plan { sizes: vec![u64::MAX], ..plan.clone() }, "size 18446744073709551615"),
            (Plan { iterations: 0, ..plan.clone() }, "0 iterations"),
            (Plan { iterations: u32::MAX, ..plan.clone() }, "4294967295 iterations"),
            (Plan { mode: messages(0), ..plan.clone() }, "0 messages"),
            (Plan { mode: messages(u32::MAX), ..plan.clone() }, "4294967295 messages"),
            (Plan { mode: messages(2), ..plan.clone() }, "2 messages: at most"),
            (Plan { warmup: u32::MAX, ..plan }, "warmup"),
        ] {
            let error = plan.check().unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
