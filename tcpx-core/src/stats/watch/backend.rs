//! Whether GPU memory is unpacked by a backend that cannot keep up with a fast network.

use tcpx_unpack::{Backend, MemoryKind};

use crate::stats::channel::ChannelStats;

/// Chunks before a judgement.
const ENOUGH_CHUNKS: u64 = 64;
/// Copies for each chunk at which d2d is slow: each costs a call of the driver.
const MANY_COPIES: u64 = 8;

/// Whether what was received so far was unpacked slowly. Ordinary memory has nothing faster than a
/// plain copy; there nobody adds up what was received.
pub(crate) fn is_slow(
    memory: MemoryKind,
    backend: Backend,
    received: impl FnOnce() -> ChannelStats,
) -> bool {
    if memory == MemoryKind::Host {
        return false;
    }
    let ChannelStats { chunks, fragments, fragments_merged, .. } = received();
    if chunks < ENOUGH_CHUNKS || fragments == 0 {
        return false;
    }
    match backend {
        Backend::Host => true,
        Backend::D2d => fragments.saturating_sub(fragments_merged) >= MANY_COPIES * chunks,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: MemoryKind = MemoryKind::Cuda { gpu: 0 };

    fn received(chunks: u64, copies: u64) -> ChannelStats {
        let (fragments, fragments_merged) = (128 * chunks, (128 - copies) * chunks);
        ChannelStats { chunks, fragments, fragments_merged, ..ChannelStats::default() }
    }

    #[test]
    fn slow_is_host_for_a_gpu_and_d2d_with_many_copies() {
        for (memory, backend, received, expected) in [
            (GPU, Backend::Host, received(64, 1), true),
            (GPU, Backend::Host, received(63, 1), false),
            (GPU, Backend::D2d, received(64, 8), true),
            (GPU, Backend::D2d, received(64, 7), false),
            (GPU, Backend::Kernel, received(1000, 128), false),
            (MemoryKind::Host, Backend::Host, received(1000, 128), false),
        ] {
            assert_eq!(is_slow(memory, backend, || received), expected, "{backend} {received:?}");
        }
    }

    #[test]
    fn what_needs_no_unpacking_is_not_slow() {
        let direct = ChannelStats { chunks: 1000, ..ChannelStats::default() };
        assert!(
            !is_slow(GPU, Backend::Host, || direct),
            "host memory is received straight into place"
        );
    }
}
