//! Events that a receive comm waits for.

use std::io;

use tcpx_sys::CommDescriptor;

use super::RecvComm;
use super::feeding::FeedStop;
use super::records::{MAX_WAITING_CHUNKS, MatchStop};
use crate::comm::lanes::descriptor;
use crate::comm::needs_call::NeedsCall;
use crate::memory::Uploader;

impl RecvComm {
    /// Returns the descriptors to watch for edges, while the comm is open.
    pub(crate) fn descriptors(&self) -> io::Result<Vec<CommDescriptor>> {
        let mut all = self.lanes.descriptors()?;
        // The count of posted receives may find the socket full.
        let credit = if self.credit.is_some() { libc::EPOLLOUT } else { 0 };
        all.push(descriptor(self.control.stream(), libc::EPOLLIN | credit));
        Ok(all)
    }

    /// Returns whether another test may make progress although no descriptor becomes ready.
    pub(crate) fn needs_call(&self) -> NeedsCall {
        self.needs_call.when(self.requests.ring.oldest_unreported().is_some())
    }

    /// Returns whether more may happen although no descriptor becomes ready, apart from what lanes
    /// do.
    pub(super) fn more_to_do(&self, records: MatchStop, chunks: FeedStop) -> NeedsCall {
        let records_go_on = match records {
            MatchStop::NothingCame => NeedsCall::No,
            MatchStop::Held => NeedsCall::Soon,
            MatchStop::TooManyChunks => {
                NeedsCall::AtOnce.when(self.chunks.len() < MAX_WAITING_CHUNKS)
            }
            MatchStop::NoRoom => NeedsCall::AtOnce.when(self.chunks.is_empty()),
        };
        let chunks_go_on = match chunks {
            FeedStop::NoneWait => NeedsCall::No,
            // The step itself may have made room.
            FeedStop::NoRoom => NeedsCall::AtOnce
                .when(self.chunks.front().is_some_and(|it| self.lanes.has_room(it.lane))),
            // Other comms give pages back, too.
            FeedStop::NoPages => NeedsCall::Soon,
        };
        let is_uploading = self.uploader.as_ref().and_then(Uploader::oldest).is_some();
        let is_copying = is_uploading || self.downloads.as_ref().is_some_and(|it| !it.is_idle());
        let counts_calls = self.requests.hook.says(|hook| hook.counts_calls());
        records_go_on.max(chunks_go_on).max(NeedsCall::Soon.when(is_copying || counts_calls))
    }
}
