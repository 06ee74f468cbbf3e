//! Every byte of a list comes to its place, and nothing else is written.

use tcpx_protocol::types::MemoryType;
use tcpx_testkit::pattern;

use super::ends::{Buffer, Receiver, Sender, ends, transfer};

const MARK: u8 = 0xa5;

/// Lengths of pairs: short ones, runs of tiny ones, and some of several chunks.
fn lengths() -> Vec<u64> {
    let mut lengths = vec![1, 4096, 600_001, 17, 16_384, 16_385, 3_000_000, 4095];
    lengths.extend((0..900).map(|at| 1 + at * 37 % 5000));
    lengths.extend([2_000_000, 8, 524_288, 524_287]);
    lengths
}

/// Where pairs of these lengths lie: in an order of their own, some of them neighbours.
fn places(lengths: &[u64], stride: usize, gap_at: usize) -> Vec<(u64, u64)> {
    let count = lengths.len();
    let mut places = vec![(0, 0); count];
    let mut offset = 3;
    for at in 0..count {
        // Every pair once: the stride and the count have no common factor.
        let pair = at * stride % count;
        places[pair] = (offset, lengths[pair]);
        offset += lengths[pair];
        if at % gap_at == 0 {
            offset += 1 + at as u64 % 70;
        }
    }
    places
}

fn size(places: &[(u64, u64)]) -> usize {
    places.iter().map(|(offset, bytes)| offset + bytes).max().unwrap_or_default() as usize + 100
}

fn range(&(offset, bytes): &(u64, u64)) -> std::ops::Range<usize> {
    offset as usize..(offset + bytes) as usize
}

/// Moves the list several times, and looks at every byte of the destination.
fn moves(sender: &mut Sender, receiver: &mut Receiver, from: MemoryType, to: MemoryType) {
    let lengths = lengths();
    let (left, right) = (places(&lengths, 5, 3), places(&lengths, 7, 2));
    let source = Buffer::new(size(&left), 0);
    let destination = Buffer::new(size(&right), MARK);
    let lists = (sender.pieces(&source, from, &left), receiver.pieces(&destination, to, &right));
    for round in 0..3u64 {
        let mut bytes = vec![0; size(&left)];
        pattern::fill(round, 0, &mut bytes);
        source.write(&bytes);
        transfer(sender, receiver, (&lists.0, &lists.1));
        let mut expected = vec![MARK; size(&right)];
        for (from, to) in left.iter().zip(&right) {
            expected[range(to)].copy_from_slice(&bytes[range(from)]);
        }
        assert!(destination.read() == expected, "{from} to {to}, round {round}");
    }
}

#[test]
fn every_byte_of_a_list_comes_to_its_place_in_all_four_ways() {
    let (mut sender, mut receiver) = ends();
    let memories = [MemoryType::Host, MemoryType::Device];
    memories.iter().for_each(|memory| sender.prepare_staging(*memory));
    let mut gathered = 0;
    for from in memories {
        for to in memories {
            moves(&mut sender, &mut receiver, from, to);
            let (_, now) = sender.chunks();
            assert!(now > gathered, "short pieces are gathered");
            gathered = now;
        }
    }
    assert_eq!(receiver.landing(), vec![0; 4096], "nobody writes what all of them name");
    sender.close();
    receiver.close();
}

#[test]
fn only_what_lies_apart_comes_through_the_bounce_buffer() {
    let (mut sender, mut receiver) = ends();
    let memory = MemoryType::Host;
    sender.prepare_staging(memory);
    let pages: Vec<(u64, u64)> = (0..500).map(|at| (at * 4096, 4096)).collect();
    let apart: Vec<(u64, u64)> = (0..500).map(|at| (at * 8192, 4096)).collect();
    let buffers = [(); 2].map(|()| Buffer::new(500 * 8192, 0));
    for (left, right, gathers, lands) in [
        (&pages, &pages, false, false),
        (&apart, &pages, true, false),
        (&pages, &apart, false, true),
        (&apart, &apart, true, true),
    ] {
        let lists =
            (sender.pieces(&buffers[0], memory, left), receiver.pieces(&buffers[1], memory, right));
        let before = (sender.chunks().1, receiver.fragments());
        transfer(&mut sender, &mut receiver, (&lists.0, &lists.1));
        let gathered = sender.chunks().1 - before.0;
        let fragments = receiver.fragments() - before.1;
        assert_eq!((gathered > 0, fragments > 0), (gathers, lands));
    }
    sender.close();
    receiver.close();
}
