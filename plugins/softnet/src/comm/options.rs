//! Settings of a new comm.

use std::time::Duration;

use super::zerocopy::ZeroCopy;
use crate::hooks::HookSet;
use tcpx_comm::wire::MAX_INLINE_BYTES;
use tcpx_sys::CpuSet;

/// Settings of one comm, and its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommOptions<'a> {
    /// Number of the comm in the process.
    pub(crate) number: u64,
    /// Number of helper threads; 0 when the caller of `test` moves the payload.
    pub(crate) threads: usize,
    /// Processors on which they run; `None`: all on which the program may run.
    pub(crate) cpus: Option<&'a CpuSet>,
    /// Whether sends wait for the peer's receives.
    pub(crate) recv_sync: bool,
    /// Messages of up to this many bytes travel on the control socket.
    pub(crate) inline_bytes: u32,
    /// Time for which the peer's host may acknowledge nothing; `None`: without a limit.
    pub(crate) peer_timeout: Option<Duration>,
    /// Whether the system sends chunks from their own memory.
    pub(crate) zerocopy: ZeroCopy,
    /// Whether a consumed receive leaves no count in the unpack queue, as those of the original do.
    /// NCCL's kernels read old counts when they should end, and may then never end.
    pub(crate) clears_counts: bool,
    /// Hooks of the comm and its sockets.
    pub(crate) hooks: HookSet,
}

impl CommOptions<'_> {
    /// Returns how long a message may be that goes with its record while no other is under way.
    ///
    /// A message that no other waits behind goes with its record even when it has a length of some
    /// pages. Without other messages, a system call and a wake-up at each end cost more than the
    /// receiver's copy. In a stream of messages those are shared, and the copy costs more.
    pub(crate) fn lone_inline_bytes(&self) -> u32 {
        let usual = self.inline_bytes.saturating_mul(4).min(MAX_INLINE_BYTES);
        let hooks = self.hooks.get();
        hooks.map_or(usual, |hooks| hooks.lone_inline_bytes(self.inline_bytes, usual))
    }
}
