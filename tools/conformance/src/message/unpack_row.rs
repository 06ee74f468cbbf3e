//! Row of the unpack queue: its address, its entries, and the rules for them. Pure.

use serde::{Deserialize, Serialize};
use tcpx_sys::{LoadMeta, MAX_UNPACK_ENTRIES, UNPACK_PAGE_BYTES, UNPACK_QUEUE_DEPTH};

/// Copy of one entry of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Byte offset in the bounce buffer.
    pub src_off: u32,
    /// Bytes.
    pub len: u32,
    /// Byte offset from the start of the message.
    pub dst_off: u64,
}

impl Entry {
    /// Returns the offset in the bounce buffer of the first byte behind the entry.
    pub(crate) const fn src_end(&self) -> u64 {
        self.src_off as u64 + self.len as u64
    }
}

/// Returns the address of `mem[slot]` of the queue at `meta`. The plugin chose `meta`, so the sum
/// may wrap.
pub(crate) const fn row_address(meta: u64, slot: u64) -> u64 {
    meta.wrapping_add(slot * (MAX_UNPACK_ENTRIES * size_of::<LoadMeta>()) as u64)
}

/// Returns the address of `cnt[slot]` of the queue at `meta`, which may wrap in the same way.
pub(crate) const fn count_address(meta: u64, slot: u64) -> u64 {
    row_address(meta, UNPACK_QUEUE_DEPTH as u64).wrapping_add(slot * size_of::<u64>() as u64)
}

/// Parses the bytes of a row.
pub(crate) fn parse_row(bytes: &[u8]) -> Vec<Entry> {
    let entry = |b: &[u8; 16]| Entry {
        src_off: u32::from_ne_bytes([b[0], b[1], b[2], b[3]]),
        len: u32::from_ne_bytes([b[4], b[5], b[6], b[7]]),
        dst_off: u64::from_ne_bytes([b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]]),
    };
    bytes.as_chunks::<16>().0.iter().map(entry).collect()
}

/// Returns `cnt` if it is within the slot's capacity.
pub(crate) fn check_count(cnt: u64) -> Result<usize, String> {
    match usize::try_from(cnt) {
        Ok(count) if count <= MAX_UNPACK_ENTRIES => Ok(count),
        _ => Err(format!("cnt {cnt}, more than the {MAX_UNPACK_ENTRIES} entries of a slot")),
    }
}

/// Checks that the destinations, in any order, cover `0..bytes` exactly: no gap, no overlap,
/// nothing beyond.
pub(crate) fn check_cover(entries: &[Entry], bytes: u64) -> Result<(), String> {
    let mut sorted = entries.to_vec();
    sorted.sort_unstable_by_key(|entry| entry.dst_off);
    let mut covered = 0_u64;
    for entry in &sorted {
        if entry.len == 0 {
            return Err(format!("an empty entry at dst_off {}", entry.dst_off));
        }
        if entry.dst_off > covered {
            return Err(format!(
                "a gap: nothing for bytes {covered}..{} of {bytes}",
                entry.dst_off
            ));
        }
        if entry.dst_off < covered {
            return Err(format!("an overlap: two entries have byte {} of {bytes}", entry.dst_off));
        }
        covered = covered.saturating_add(u64::from(entry.len));
    }
    if covered == bytes {
        Ok(())
    } else {
        Err(format!("entries for {covered} bytes of a message of {bytes}"))
    }
}

/// Checks that no entry crosses a page of the bounce buffer.
pub(crate) fn check_pages(entries: &[Entry]) -> Result<(), String> {
    let page = UNPACK_PAGE_BYTES as u64;
    match entries.iter().find(|e| u64::from(e.src_off) % page + u64::from(e.len) > page) {
        Some(e) => Err(format!(
            "an entry of {} bytes at src_off {} crosses a {page}-byte page",
            e.len, e.src_off
        )),
        None => Ok(()),
    }
}

/// Checks that no two entries share a byte of the bounce buffer. They may be of several rows.
pub(crate) fn check_sources(entries: &[Entry]) -> Result<(), String> {
    let mut sorted = entries.to_vec();
    sorted.sort_unstable_by_key(|entry| entry.src_off);
    match sorted.windows(2).find(|pair| pair[0].src_end() > u64::from(pair[1].src_off)) {
        Some(pair) => Err(format!(
            "two entries share bounce bytes: {}..{} and {}..{}",
            pair[0].src_off,
            pair[0].src_end(),
            pair[1].src_off,
            pair[1].src_end()
        )),
        None => Ok(()),
    }
}

/// Checks that every source lies in a region of `bytes`.
pub(crate) fn check_region(entries: &[Entry], bytes: u64) -> Result<(), String> {
    match entries.iter().find(|entry| entry.src_end() > bytes) {
        Some(e) => {
            Err(format!("an entry {}..{} in a region of {bytes} bytes", e.src_off, e.src_end()))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tcpx_sys::NetUnpackMeta;

    fn entry(src_off: u32, len: u32, dst_off: u64) -> Entry {
        Entry { src_off, len, dst_off }
    }

    #[test]
    fn addresses_are_those_of_the_struct() {
        assert_eq!(row_address(0, 1), 32_768);
        assert_eq!(count_address(0, 0), std::mem::offset_of!(NetUnpackMeta, cnt) as u64);
        assert_eq!(count_address(64, 15), 64 + 524_288 + 120);
    }

    #[test]
    fn a_row_is_parsed_as_it_lies_in_memory() {
        let mut bytes = Vec::new();
        for word in [7_u32, 9] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes.extend_from_slice(&(1_u64 << 40).to_ne_bytes());
        assert_eq!(parse_row(&bytes), [Entry { src_off: 7, len: 9, dst_off: 1 << 40 }]);
    }

    #[test]
    fn any_order_covers() {
        assert_eq!(check_cover(&[], 0), Ok(()));
        assert_eq!(check_cover(&[entry(0, 3, 7), entry(9, 7, 0)], 10), Ok(()));
    }

    #[test]
    fn gaps_overlaps_excess_and_empty_entries_are_different_errors() {
        let text = |entries: &[Entry], bytes| check_cover(entries, bytes).expect_err("broken");
        assert!(text(&[], 1).contains("0 bytes"));
        assert!(text(&[entry(0, 3, 1)], 4).contains("gap"));
        assert!(text(&[entry(0, 3, 0), entry(3, 3, 2)], 5).contains("overlap"));
        assert!(text(&[entry(0, 3, 0)], 2).contains("3 bytes of a message of 2"));
        assert!(text(&[entry(0, 0, 0)], 0).contains("empty"));
        assert!(text(&[entry(0, u32::MAX, u64::MAX)], 4).contains("gap"));
    }

    #[test]
    fn pages_sources_region_and_count() {
        assert!(check_pages(&[entry(4095, 1, 0), entry(4096, 4096, 1)]).is_ok());
        assert!(check_pages(&[entry(4095, 2, 0)]).is_err());
        assert!(check_sources(&[entry(100, 4, 0), entry(0, 100, 4)]).is_ok());
        assert!(check_sources(&[entry(100, 4, 0), entry(0, 101, 4)]).is_err());
        assert!(check_region(&[entry(4, 4, 0)], 8).is_ok());
        assert!(check_region(&[entry(u32::MAX, u32::MAX, 0)], 1 << 32).is_err());
        assert_eq!(check_count(2048), Ok(2048));
        assert!(check_count(2049).is_err() && check_count(u64::MAX).is_err());
    }

    proptest! {
        /// A shuffled partition covers; the same with one entry changed does not.
        #[test]
        fn a_partition_covers_and_a_damaged_one_does_not(
            lens in proptest::collection::vec(1_u32..5000, 1..40),
            damaged in any::<proptest::sample::Index>(),
            shift in 1_u64..5000,
        ) {
            let mut at = 0_u64;
            let mut entries: Vec<Entry> = lens.iter().map(|&len| {
                let entry = entry(0, len, at);
                at += u64::from(len);
                entry
            }).collect();
            entries.reverse();
            prop_assert_eq!(check_cover(&entries, at), Ok(()));
            let index = damaged.index(entries.len());
            entries[index].dst_off += shift;
            prop_assert!(check_cover(&entries, at).is_err());
        }
    }
}
