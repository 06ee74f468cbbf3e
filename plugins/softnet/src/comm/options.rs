//! What a new comm is told.

use std::time::Duration;

use super::zerocopy::ZeroCopy;
use crate::cpu_set::CpuSet;
use crate::hooks::Hooked;
use tcpx_comm::wire::MAX_INLINE_BYTES;

/// Settings of one comm, and its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommOptions<'a> {
    /// Which comm of the process it is.
    pub(crate) number: u64,
    /// Helper threads; 0 when the caller of `test` moves the payload.
    pub(crate) threads: usize,
    /// Where they run; `None`: wherever the program may.
    pub(crate) cpus: Option<&'a CpuSet>,
    /// Whether sends wait for the peer's receives.
    pub(crate) recv_sync: bool,
    /// Messages of up to this many bytes travel on the control socket.
    pub(crate) inline_bytes: u32,
    /// How long the peer's host may acknowledge nothing; `None`: for ever.
    pub(crate) peer_timeout: Option<Duration>,
    /// Whether the system sends chunks from their own memory.
    pub(crate) zerocopy: ZeroCopy,
    /// Whether a receive that was consumed leaves no count in the unpack queue, as the original's
    /// do: NCCL's kernels read old ones once they are told to end, and may then never do.
    pub(crate) clears_counts: bool,
    /// What is changed of it and its sockets.
    pub(crate) hooks: Hooked,
}

impl CommOptions<'_> {
    /// How long a message may be that goes with its record while no other is under way.
    ///
    /// A message that nobody else waits behind goes with its record even when it is some pages
    /// long: a system call and a wake-up at each end cost more than the receiver's copy. In a
    /// stream of messages they are shared, and the copy costs more.
    pub(crate) fn lone_inline_bytes(&self) -> u32 {
        let usual = self.inline_bytes.saturating_mul(4).min(MAX_INLINE_BYTES);
        let hooks = self.hooks.get();
        hooks.map_or(usual, |hooks| hooks.lone_inline_bytes(self.inline_bytes, usual))
    }
}
