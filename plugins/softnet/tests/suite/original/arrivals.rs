//! Fragments, and where they lie, as in the original.

use tcpx_sys::{LoadMeta, PTR_CUDA};
use tcpx_testkit::eventually;

use super::child::pair;
use crate::support::PluginPtr;
use crate::support::pair::Pair;

const LARGE: usize = 4 << 20;

/// Sends one message and gives its entries, all bytes checked, and the request.
fn entries_of(pair: &mut Pair, bytes: usize) -> (Vec<LoadMeta>, PluginPtr) {
    let send = pair.isend(bytes);
    let (number, recv) = pair.irecv(bytes);
    pair.net.finish_both(send, recv);
    assert!(pair.receiver.unpack(number, bytes) == pair.memory.bytes()[..bytes]);
    (pair.receiver.entries(number), recv)
}

fn two_mebibytes_come_in_packets() {
    let mut pair = pair(LARGE, PTR_CUDA);
    let (entries, recv) = entries_of(&mut pair, 2 << 20);
    assert!(entries.iter().all(|entry| entry.len <= 1448));
    assert!((1449..=1500).contains(&entries.len()), "{}", entries.len());
    assert_eq!(pair.consumed(recv), 0);
    pair.close();
}

fn four_mebibytes_come_in_packets() {
    let mut pair = pair(LARGE, PTR_CUDA);
    let (send, (_, recv)) = (pair.isend(LARGE), pair.irecv(LARGE));
    let rc = eventually(|| {
        pair.net.test(send);
        let (rc, done) = pair.net.test(recv);
        assert_eq!(done, 0);
        (rc != 0).then_some(rc)
    });
    assert_eq!((rc, pair.net.test(recv)), (3, (3, 0)), "an error that stays");
    pair.close();
}

/// Messages come whole, and are cut to packets.
const PACKETS: [(&str, &str); 2] =
    [("TCPX_SOFT_PACKET_BYTES", "1448"), ("NCCL_DYNAMIC_CHUNK_SIZE", "4194304")];

#[test]
fn no_fragment_is_longer_than_a_packet() {
    let test = test_of!(two_mebibytes_come_in_packets);
    for quirks in ["", "piecemeal"] {
        let ended = test.run(quirks, &PACKETS);
        assert!(ended.passed(), "{quirks}: {}", ended.text);
    }
}

#[test]
fn more_packets_than_fit_a_row_are_an_error_or_the_end() {
    let test = test_of!(four_mebibytes_come_in_packets);
    for (quirks, stop) in [("", "failstop"), ("piecemeal", "failstop,piecemeal")] {
        let ended = test.run(quirks, &PACKETS);
        assert!(ended.passed(), "{quirks}: {}", ended.text);
        let ended = test.run(stop, &PACKETS);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.text);
        assert!(ended.text.contains("segs, failstop"), "{}", ended.text);
    }
}

fn fragments_begin_inside_pages() {
    let mut pair = pair(LARGE, PTR_CUDA);
    let mut inside = 0;
    for bytes in [100, 10_000, 1, 70_001] {
        let (entries, recv) = entries_of(&mut pair, bytes);
        inside += entries.iter().filter(|entry| entry.src_off % 4096 != 0).count();
        assert_eq!(pair.consumed(recv), 0);
    }
    assert!(inside >= 3, "{inside}");
    let (entries, recv) = entries_of(&mut pair, 30_000);
    assert_eq!(pair.consumed(recv), 0);
    let late = pair.receiver.read(entries[1].src_off, 64);
    assert_eq!(late, [0xdb; 64], "recycled pages are poisoned");
    pair.close();
}

#[test]
fn offsets_are_any() {
    let test = test_of!(fragments_begin_inside_pages);
    let small = [("TCPX_SOFT_INLINE_BYTES", "0")];
    for quirks in ["offsets", "offsets,piecemeal"] {
        test.proves(quirks, &small);
    }
}
