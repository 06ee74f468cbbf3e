//! Times of one end and one case.

use serde::{Deserialize, Serialize};

use super::pattern::Mismatch;
use super::processor::ProcessorTimes;
use super::stages::StageTimes;
use super::tcp::EndConnections;
use crate::rendezvous::Message;
use crate::session::RESULT_LIMIT;

/// Most times of operations under way that are kept: the first ones.
pub(super) const MOST_UNDER_WAY: usize = 100_000;

/// Times of one case at one end, in ns. In round trips the client's are those of the whole trips,
/// and the server's are those for which it held a message before it answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct CaseTimes {
    pub(super) session_ns: Vec<u64>,
    /// Times of the same bytes in large messages, or in one range; empty where these are not
    /// measured.
    pub(super) large_ns: Vec<u64>,
    /// Processor time at the client for a repeated post of an operation; empty for sends.
    pub(super) repost_ns: Vec<u64>,
    /// Times of operations while others are under way; empty for sends, and for one at a time.
    pub(super) under_way_ns: Vec<u64>,
    /// Times of plain sockets; empty without them.
    pub(super) raw_ns: Vec<u64>,
    /// Processor time of this end in the counted iterations of the session, where it is known.
    pub(super) processor: Option<ProcessorTimes>,
    /// Breakdown of the session's time.
    pub(super) stages: StageTimes,
    pub(super) connections: EndConnections,
    /// Whether this end was interrupted.
    pub(super) is_interrupted: bool,
    /// First wrong byte at this end, in words.
    pub(super) mismatch: Option<String>,
}

impl Message for CaseTimes {
    const KIND: u16 = 6;
    /// Bound on the times: those of every iteration there can be, of three paths each, and room to
    /// spare.
    const BODY_LIMIT: usize = RESULT_LIMIT;
}

impl CaseTimes {
    /// Adds the times of the next part.
    pub(super) fn add(&mut self, part: Self) {
        self.session_ns.extend(part.session_ns);
        self.large_ns.extend(part.large_ns);
        self.repost_ns.extend(part.repost_ns);
        let room = MOST_UNDER_WAY.saturating_sub(self.under_way_ns.len());
        self.under_way_ns.extend(part.under_way_ns.into_iter().take(room));
        self.raw_ns.extend(part.raw_ns);
        part.processor.into_iter().for_each(|times| self.count(times));
        self.stages.add(&part.stages);
        self.connections.add(&part.connections);
        self.is_interrupted |= part.is_interrupted;
        self.mismatch = self.mismatch.take().or(part.mismatch);
    }

    /// Counts the processor time of an iteration or part.
    pub(super) fn count(&mut self, times: ProcessorTimes) {
        self.processor.get_or_insert_default().add(times);
    }

    /// Records the first wrong byte.
    pub(super) fn note(
        &mut self,
        mismatch: Option<Mismatch>,
        iteration: u64,
        bytes: u64,
        path: &str,
    ) {
        if let Some(mismatch) = mismatch {
            let text = || format!("{bytes} bytes over {path}, iteration {iteration}: {mismatch}");
            self.mismatch.get_or_insert_with(text);
        }
    }
}
