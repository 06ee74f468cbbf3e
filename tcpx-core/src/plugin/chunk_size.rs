//! Chunk size of a session, within the limits of plugin and NICs. Pure.

use tcpx_protocol::types::{DEFAULT_CHUNK_BYTES, MAX_CHUNK_BYTES};

use crate::error::{Error, Result, SettingProblem};

/// Largest number of fragments of a chunk. The hardware plugin ends the process at 2048 fragments
/// of one chunk. The rest is for packets that are not full, and for those at the ends of a chunk.
const MAX_FRAGMENTS: u64 = 2000;
/// Length of the longest fragment.
const PAGE_BYTES: u64 = 4096;
/// Number of bytes of a packet that are not payload: the headers of IPv4 and TCP, and TCP's
/// timestamps.
const HEADER_BYTES: u32 = 40 + 12;
/// Smallest MTU of an interface that carries IPv4.
const SMALLEST_MTU: u32 = 68;

/// Limit of the chunk size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChunkLimit {
    /// Chunk size with which the plugin was started.
    Plugin { bytes: u32 },
    /// Packet size of a NIC.
    Packets { nic: String, mtu: u32 },
}

impl ChunkLimit {
    fn bytes(&self) -> u32 {
        match self {
            Self::Plugin { bytes } => *bytes,
            Self::Packets { mtu, .. } => largest_in_packets(*mtu),
        }
    }

    fn problem(self, chunk_bytes: u32) -> SettingProblem {
        let largest = self.bytes();
        match self {
            Self::Plugin { bytes } => {
                SettingProblem::AbovePluginChunk { chunk_bytes, plugin_chunk_bytes: bytes }
            }
            Self::Packets { nic, mtu } => SettingProblem::TooManyFragments { nic, mtu, largest },
        }
    }
}

/// Returns the size for a session that asked for `asked`. The number that a program asks for is
/// never changed: above a limit it is refused. The default is lowered to the limit.
///
/// # Errors
/// [`Error::Setting`] with the limit's numbers.
pub(crate) fn choose(asked: Option<u32>, limits: Vec<ChunkLimit>) -> Result<u32> {
    let wanted = asked.unwrap_or(DEFAULT_CHUNK_BYTES);
    let Some(tightest) = limits.into_iter().min_by_key(ChunkLimit::bytes) else {
        return Ok(wanted);
    };
    let largest = tightest.bytes();
    match asked {
        _ if wanted <= largest => Ok(wanted),
        None => {
            tracing::info!(limit = ?tightest, "chunks of {largest} bytes instead of {wanted}");
            Ok(largest)
        }
        Some(_) => Err(Error::setting("chunk_bytes", wanted.to_string(), tightest.problem(wanted))),
    }
}

/// Returns the bytes of payload in a packet of the NIC that has the smallest packets. `None`: no
/// limit is a NIC's.
pub(crate) fn packet_bytes(limits: &[ChunkLimit]) -> Option<u32> {
    let mtu_of = |limit: &ChunkLimit| match limit {
        ChunkLimit::Plugin { .. } => None,
        ChunkLimit::Packets { mtu, .. } => Some(*mtu),
    };
    limits.iter().filter_map(mtu_of).min().map(payload)
}

fn payload(mtu: u32) -> u32 {
    mtu.max(SMALLEST_MTU) - HEADER_BYTES
}

/// Returns the largest chunk, in whole pages, that stays below the limit of fragments in packets of
/// a NIC.
///
/// A fragment ends where its packet ends, or its page. So a chunk has about one fragment for each
/// packet and one for each page. This holds whether packets lie one behind the other or each begins
/// a page. Smaller packets never allow a larger chunk. The packets between two ends are those of
/// the smaller MTU, so the smaller limit of both ends holds.
fn largest_in_packets(mtu: u32) -> u32 {
    let payload = u64::from(payload(mtu));
    let bytes = MAX_FRAGMENTS * payload * PAGE_BYTES / (payload + PAGE_BYTES);
    let pages = bytes / PAGE_BYTES * PAGE_BYTES;
    u32::try_from(pages).map_or(MAX_CHUNK_BYTES, |bytes| bytes.min(MAX_CHUNK_BYTES))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tcpx_protocol::types::MIN_CHUNK_BYTES;

    use super::*;

    #[test]
    fn the_smallest_packets_count() {
        let plugin = ChunkLimit::Plugin { bytes: 1 };
        assert_eq!(packet_bytes(std::slice::from_ref(&plugin)), None);
        assert_eq!(packet_bytes(&[eth1(8244), plugin, eth1(1460)]), Some(1408));
    }

    fn eth1(mtu: u32) -> ChunkLimit {
        ChunkLimit::Packets { nic: "eth1".into(), mtu }
    }

    /// Observations of the original: 4 MiB in packets of 1448 bytes ends the process, 2 MiB does
    /// not, and 4 MiB in packets of two pages come in 1026 fragments.
    #[test]
    fn what_is_known_to_work_is_allowed_and_what_ends_the_process_is_not() {
        assert!((2 << 20..4 << 20).contains(&largest_in_packets(1500)));
        assert_eq!(largest_in_packets(8244), 4 << 20);
        assert_eq!(largest_in_packets(65_536), 4 << 20);
        for mtu in [0, 68, 576] {
            assert!(largest_in_packets(mtu) >= MIN_CHUNK_BYTES, "{mtu}");
        }
    }

    #[test]
    fn the_default_gives_way_and_what_was_asked_for_is_refused() {
        let plugin = |bytes| ChunkLimit::Plugin { bytes };
        for (asked, limits, chosen) in [
            (None, vec![], 524_288),
            (Some(1 << 20), vec![], 1 << 20),
            (None, vec![plugin(65_536), eth1(1500)], 65_536),
            (None, vec![plugin(4 << 20), eth1(1500)], 524_288),
            (None, vec![plugin(4 << 20), eth1(1500), eth1(200)], largest_in_packets(200)),
            (Some(65_536), vec![plugin(65_536), eth1(1500)], 65_536),
            (Some(2 << 20), vec![plugin(4 << 20), eth1(1500)], 2 << 20),
        ] {
            assert_eq!(choose(asked, limits.clone()).unwrap(), chosen, "{asked:?} {limits:?}");
        }
        for (limits, words) in [
            (
                vec![plugin(524_288), eth1(1500)],
                "chunk_bytes = 4194304: the plugin was opened for chunks of at most 524288 bytes, \
                 by NCCL_DYNAMIC_CHUNK_SIZE or by this process's first session; use a smaller \
                 chunk, ask the first session for the larger one too (--chunk at both ends), or \
                 set NCCL_DYNAMIC_CHUNK_SIZE=4194304 on both hosts [TCPX-133]",
            ),
            (
                vec![plugin(4 << 20), eth1(8244), eth1(1500)],
                "chunk_bytes = 4194304: with the MTU of eth1, 1500, such a chunk may come in 2048 \
                 fragments or more, at which the plugin ends the process; use at most 2138112 \
                 bytes, or raise the MTU [TCPX-814]",
            ),
        ] {
            assert_eq!(choose(Some(4 << 20), limits).unwrap_err().to_string(), words);
        }
    }

    /// Cuts a chunk that begins `shift` bytes into a packet, as a NIC does. The NIC puts packets
    /// one behind the other, or each at a page's start. Some packets are not full.
    fn fragments(chunk: u64, payload: u64, shift: u64, is_packed: bool, short: u64) -> u64 {
        let (mut left, mut at, mut count) = (chunk, shift % PAGE_BYTES, 0);
        let mut packets = 0;
        let mut in_packet = payload - shift % payload;
        while left > 0 {
            if packets < short {
                in_packet = in_packet.div_ceil(2);
            }
            let mut rest = in_packet.min(left);
            left -= rest;
            while rest > 0 {
                let taken = rest.min(PAGE_BYTES - at % PAGE_BYTES);
                (rest, at, count) = (rest - taken, at + taken, count + 1);
            }
            if !is_packed {
                at = 0;
            }
            packets += 1;
            in_packet = payload;
        }
        count
    }

    #[test]
    fn the_count_of_the_tests_is_that_of_the_original() {
        assert_eq!(fragments(4 << 20, 8192, 0, false, 0), 1024);
        assert_eq!(fragments(4 << 20, 1448, 0, false, 0), 2897);
        assert_eq!(fragments(8192, 4096, 1, true, 0), 3);
    }

    proptest! {
        #[test]
        fn an_allowed_chunk_stays_below_the_limit_however_it_lies(
            mtu in prop_oneof![68u32..3000, 3000u32..=65_536],
            shift in 0u64..100_000,
            is_packed: bool,
            short in 0u64..20,
        ) {
            let payload = u64::from(mtu - HEADER_BYTES);
            let chunk = u64::from(largest_in_packets(mtu));
            let count = fragments(chunk, payload, shift, is_packed, short);
            prop_assert!(count < 2048, "{count} fragments");
        }

        #[test]
        fn a_smaller_mtu_never_allows_more(one in 0u32..=65_536, other in 0u32..=65_536) {
            let agreed = largest_in_packets(one).min(largest_in_packets(other));
            prop_assert_eq!(agreed, largest_in_packets(one.min(other)));
        }
    }
}
