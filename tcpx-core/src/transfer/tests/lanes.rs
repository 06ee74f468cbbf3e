#![allow(unsafe_code)]
//! Tests of what a lane counts, and of what it finds wrong: credit, arrivals, short chunks and
//! connections that have died.
//!
//! Every byte of a list comes to its place, and nothing else is written.

use std::os::fd::BorrowedFd;

use tcpx_protocol::plans::piece_cursor::PieceCursor;
use tcpx_protocol::plans::pieces::Pieces;
use tcpx_protocol::types::MemoryType;
use tcpx_testkit::{eventually, in_own_process, pattern, until};

use super::ends::{AnnouncedSections, Buffer, CHANNELS, Receiver, Sender, ends, transfer};
use crate::error::{Error, Result};
use crate::transfer::recv_lane::RecvLane;
use crate::transfer::send_lane::SendLane;

const CHUNK_BYTES: u32 = 64 << 10;

/// Returns the number of bytes of `count` chunks on each channel.
fn chunks_of_each(count: u64) -> u64 {
    u64::from(CHANNELS) * count * u64::from(CHUNK_BYTES)
}

/// Deals a list that is one section. What the receiver is to be told of it.
fn deal(sender: &mut Sender, pieces: &Pieces) -> AnnouncedSections {
    sender.chunk_bytes = CHUNK_BYTES;
    let mut told = Vec::new();
    sender.deal(pieces, &mut PieceCursor::default(), |section| told.push(section));
    assert_eq!(told.len(), 1, "{told:?}");
    told[0]
}

/// Lets this many chunks in all arrive on each of these lanes, or fail, while nothing is consumed.
fn arrive(sender: &mut Sender, receiver: &mut Receiver, lanes: usize, all: u64) -> Result<()> {
    eventually(|| {
        sender.round();
        let progress = receiver.progress();
        let mut lanes = receiver.lanes[..lanes].iter();
        let have_arrived = lanes.all(|lane| lane.stats.posts == all && !lane.awaits_bytes());
        (progress.is_err() || have_arrived).then_some(progress)
    })
}

#[test]
fn no_more_chunks_are_gathered_than_the_peer_has_room_for() {
    const CHUNKS: u64 = 5;
    let (mut sender, mut receiver) = ends();
    sender.prepare_staging(MemoryType::Device);
    let bytes = chunks_of_each(CHUNKS);
    let buffers = [2 * bytes, bytes].map(|bytes| Buffer::new(bytes as usize, 0));
    let apart: Vec<(u64, u64)> = (0..bytes / 4096).map(|at| (at * 8192, 4096)).collect();
    let from = sender.pieces(&buffers[0], MemoryType::Device, &apart);
    let to = receiver.pieces(&buffers[1], MemoryType::Device, &[(0, bytes)]);
    sender.lanes.iter_mut().for_each(|lane| lane.set_credit(0));
    let told = deal(&mut sender, &from);
    receiver.take(&to, &mut PieceCursor::default(), told);
    for credit in 0..=CHUNKS {
        sender.lanes.iter_mut().for_each(|lane| lane.set_credit(credit));
        until("as many as may be are sent", || {
            sender.round();
            receiver.round();
            for stats in sender.lanes.iter().map(|lane| lane.stats) {
                assert!(stats.gathered <= credit && stats.posts <= credit, "{credit}: {stats:?}");
            }
            sender.lanes.iter().all(|lane| lane.stats.chunks == credit)
        });
    }
    assert!(sender.lanes.iter().all(|lane| lane.stats.gathered == CHUNKS && lane.is_idle()));
    sender.close();
    receiver.close();
}

#[test]
fn a_chunk_of_host_memory_that_comes_short_is_an_error() {
    let (mut sender, mut receiver) = ends();
    let buffers = [(); 2].map(|()| Buffer::new(1000, 0));
    let from = sender.pieces(&buffers[0], MemoryType::Host, &[(0, 999)]);
    let to = receiver.pieces(&buffers[1], MemoryType::Host, &[(0, 1000)]);
    let mut told = deal(&mut sender, &from);
    told.bytes += 1;
    receiver.take(&to, &mut PieceCursor::default(), told);
    let error = arrive(&mut sender, &mut receiver, 1, 1).expect_err("a byte is missing");
    let Error::Protocol { detail, .. } = &error else { panic!("{error:?}") };
    assert_eq!(detail, "999 bytes arrived for a chunk of 1000");
    sender.close();
    receiver.close();
}

#[test]
fn chunks_have_arrived_whether_they_are_consumed_or_not() {
    let (mut sender, mut receiver) = ends();
    let buffers = [(); 2].map(|()| Buffer::new(chunks_of_each(3) as usize, 0));
    let mut all = 0;
    for chunks in [3, 2] {
        let list = [(0, chunks_of_each(chunks))];
        let from = sender.pieces(&buffers[0], MemoryType::Host, &list);
        let to = receiver.pieces(&buffers[1], MemoryType::Host, &list);
        let told = deal(&mut sender, &from);
        receiver.take(&to, &mut PieceCursor::default(), told);
        all += chunks;
        arrive(&mut sender, &mut receiver, CHANNELS.into(), all).expect("they arrive");
        let have_arrived = |lane: &RecvLane| lane.chunks_arrived() == all;
        assert!(receiver.lanes.iter().all(RecvLane::holds_slots), "they are not consumed");
        assert!(receiver.lanes.iter().all(have_arrived), "{chunks} of {all}");
        receiver.round();
        assert!(!receiver.lanes.iter().any(RecvLane::holds_slots), "they are consumed");
        assert!(receiver.lanes.iter().all(have_arrived), "all {all}");
    }
    sender.close();
    receiver.close();
}

/// Resets every TCP connection of this process.
fn reset_connections() {
    for entry in std::fs::read_dir("/proc/self/fd").expect("Linux has it") {
        let name = entry.expect("it is readable").file_name();
        let fd = name.to_str().and_then(|name| name.parse().ok()).expect("a number");
        // SAFETY: nothing here closes descriptors meanwhile but the list of them, and a call on a
        // closed one is refused. What is no socket refuses it, too.
        let _ = rustix::net::connect_unspec(unsafe { BorrowedFd::borrow_raw(fd) });
    }
}

#[test]
fn idle_lanes_find_that_their_connections_have_died() {
    in_own_process!();
    let (mut sender, mut receiver) = ends();
    sender.lanes.iter_mut().for_each(|lane| lane.check_alive_if_unknown().expect("it lives"));
    receiver.lanes.iter_mut().for_each(|lane| lane.check_alive_if_unknown().expect("it lives"));
    reset_connections();
    let sends = sender.lanes.iter_mut().map(SendLane::check_alive_if_unknown);
    let receives = receiver.lanes.iter_mut().map(RecvLane::check_alive_if_unknown);
    for look in sends.chain(receives) {
        let error = look.expect_err("it has died").to_string();
        assert!(error.contains("checkComm"), "{error}");
    }
    sender.close();
    receiver.close();
}

const MARK: u8 = 0xa5;

/// Lengths of pairs: short ones, runs of tiny ones, and some of several chunks.
fn lengths() -> Vec<u64> {
    let mut lengths = vec![1, 4096, 600_001, 17, 16_384, 16_385, 3_000_000, 4095];
    lengths.extend((0..900).map(|at| 1 + at * 37 % 5000));
    lengths.extend([2_000_000, 8, 524_288, 524_287]);
    lengths
}

/// Returns the places of pairs of these lengths: in an order of their own, some of them neighbours.
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
    assert_eq!(receiver.landing(), vec![0; 4096], "the page that all of them name is not written");
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
