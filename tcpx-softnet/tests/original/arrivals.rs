//! Fragments, and where they lie, as in the original.

use tcpx_sys::{LoadMeta, PTR_CUDA};

use super::child::{Pair, proves, run};
use super::support::poll;

const LARGE: usize = 4 << 20;

/// Sends one message and gives its entries, all bytes checked, and the request.
fn entries_of(pair: &mut Pair, bytes: usize) -> (Vec<LoadMeta>, super::support::Word) {
    let send = pair.isend(bytes);
    let (number, recv) = pair.irecv(bytes);
    pair.net.finish_both(send, recv);
    assert!(pair.receiver.unpack(number, bytes) == pair.memory.bytes()[..bytes]);
    (pair.receiver.entries(number), recv)
}

#[test]
#[ignore = "runs with quirks in a process of its own"]
fn two_mebibytes_come_in_packets() {
    let mut pair = Pair::new(LARGE, PTR_CUDA);
    let (entries, recv) = entries_of(&mut pair, 2 << 20);
    assert!(entries.iter().all(|entry| entry.len <= 1448));
    assert!((1449..=1500).contains(&entries.len()), "{}", entries.len());
    assert_eq!(pair.consumed(recv), 0);
    pair.close();
}

#[test]
#[ignore = "runs with quirks in a process of its own"]
fn four_mebibytes_come_in_packets() {
    let mut pair = Pair::new(LARGE, PTR_CUDA);
    let (send, (_, recv)) = (pair.isend(LARGE), pair.irecv(LARGE));
    let rc = poll(|| {
        pair.net.test(send);
        let (rc, done) = pair.net.test(recv);
        assert_eq!(done, 0);
        (rc != 0).then_some(rc)
    });
    assert_eq!((rc, pair.net.test(recv)), (3, (3, 0)), "an error that stays");
    pair.close();
}

#[test]
fn no_fragment_is_longer_than_a_packet() {
    let packets = [("TCPX_SOFT_PACKET_BYTES", "1448"), ("NCCL_DYNAMIC_CHUNK_SIZE", "4194304")];
    for (quirks, stop) in [("", "failstop"), ("piecemeal", "failstop,piecemeal")] {
        assert!(run("arrivals::two_mebibytes_come_in_packets", quirks, &packets).passed());
        let test = "arrivals::four_mebibytes_come_in_packets";
        assert!(run(test, quirks, &packets).passed(), "{quirks}");
        let ended = run(test, stop, &packets);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.text);
        assert!(ended.text.contains("segs, failstop"), "{}", ended.text);
    }
}

#[test]
#[ignore = "runs with quirks in a process of its own"]
fn fragments_begin_inside_pages() {
    let mut pair = Pair::new(LARGE, PTR_CUDA);
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
    let small = [("TCPX_SOFT_INLINE_BYTES", "0")];
    for quirks in ["offsets", "offsets,piecemeal"] {
        proves("arrivals::fragments_begin_inside_pages", quirks, &small);
    }
}
