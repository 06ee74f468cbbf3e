#![allow(unsafe_code)]
//! Counters of a driver, by the ethtool ioctl: the netlink family has none.

use std::io;

use tcpx_devmem::nic::EthtoolSocket;

use super::queries::Statistics;

const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_SET_INFO: u32 = 0x37;
/// String set with the names of counters.
const SET_STATISTICS: u32 = 1;
const NAME_BYTES: usize = 32;
/// Most counters that are read, which bounds the allocation.
const MAX_COUNTERS: usize = 1 << 16;
/// Spare room for queues that are added between two calls: the kernel writes all counters of the
/// driver at that moment, and not the requested number.
const SPARE_COUNTERS: usize = 4096;

/// Reads the counters of a NIC.
pub(super) fn read(nic: &str) -> io::Result<Statistics> {
    let socket = EthtoolSocket::open(nic)?;
    let count = count(&socket)?;
    let capacity = count + SPARE_COUNTERS;
    let strings = fetch(&socket, GET_STRINGS, capacity, NAME_BYTES / 8)?;
    let values = fetch(&socket, GET_STATISTICS, capacity, 1)?;
    Ok(combine(&strings, &values, count))
}

/// Returns the number of counters that the driver has.
fn count(socket: &EthtoolSocket) -> io::Result<usize> {
    // ethtool_sset_info: cmd, reserved, mask, then one u32 for each set in the mask.
    let mut words = [pack(GET_SET_INFO, 0), 1 << SET_STATISTICS, 0];
    // SAFETY: the words hold the header, and room for the one requested number.
    unsafe { socket.call(&mut words) }?;
    let has_set = words[1] & (1 << SET_STATISTICS) != 0;
    let count = u32::from_ne_bytes(words[2].to_ne_bytes()[..4].try_into().unwrap_or_default());
    match usize::try_from(count) {
        Ok(count) if has_set && (1..=MAX_COUNTERS).contains(&count) => Ok(count),
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "the driver has no counters")),
    }
}

/// Returns the words of the reply to `command`, with its header.
fn fetch(
    socket: &EthtoolSocket,
    command: u32,
    capacity: usize,
    item_words: usize,
) -> io::Result<Vec<u64>> {
    // ethtool_gstrings: cmd, set, len, then names right behind (12 bytes in). ethtool_stats: cmd,
    // n, then values.
    let second = if command == GET_STRINGS { SET_STATISTICS } else { 0 };
    let mut words = vec![0; 2 + capacity * item_words];
    words[0] = pack(command, second);
    // SAFETY: there is room for the header, for as many items as the driver has just reported, and
    // for thousands more in case it has grown since.
    unsafe { socket.call(&mut words) }?;
    Ok(words)
}

/// Packs two `u32` in the order of memory.
fn pack(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// Combines names and values of `count` counters.
fn combine(strings: &[u64], values: &[u64], count: usize) -> Statistics {
    let strings: Vec<u8> = strings.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let names = strings.get(12..).unwrap_or_default().chunks_exact(NAME_BYTES);
    let values = values.get(1..).unwrap_or_default();
    names
        .zip(values)
        .take(count)
        .filter(|(name, _)| name[0] != 0)
        .map(|(name, &value)| {
            let end = name.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
            (String::from_utf8_lossy(&name[..end]).trim().to_owned(), value)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_combined_with_their_values() {
        let mut bytes = vec![0; 12];
        for name in ["rx_devmem_pkts", "tx_packets", ""] {
            let mut entry = name.as_bytes().to_vec();
            entry.resize(NAME_BYTES, 0);
            bytes.extend(entry);
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let strings: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")))
            .collect();
        let statistics = combine(&strings, &[0, 5, 6, 7], 3);
        assert_eq!(
            statistics,
            Statistics::from([("rx_devmem_pkts".into(), 5), ("tx_packets".into(), 6)])
        );
        assert_eq!(combine(&strings, &[0, 5, 6, 7], 1).len(), 1);
        assert_eq!(combine(&[], &[], 3), Statistics::new());
    }

    #[test]
    fn absent_interfaces_and_long_names_are_errors() {
        assert_eq!(
            read("no-such-nic").map_err(|error| error.raw_os_error()),
            Err(Some(libc::ENODEV))
        );
        assert!(read("a-name-of-sixteen-bytes").is_err());
    }
}
