//! Scattered small sends over channels, some without a staging buffer.

use super::pair::Pair;
use super::setting::{AMPLE, DEAL_AT_ONCE, KEEPS_ALL, Setting};
use crate::frames::eager_terms::EagerTerms;
use crate::peer::SLICE;
use crate::peer::schedule::tuning::{Copier, Tuning};
use crate::types::{Direction, MemoryType};

const MESSAGE_BYTES: u64 = 8;

/// Makes two ends; the first one sends, and has staging buffers for these channels.
fn up(channels: u16, staging: u16) -> Pair {
    up_with(channels, staging, DEAL_AT_ONCE)
}

fn up_with(channels: u16, staging: u16, tuning: Tuning) -> Pair {
    let setting = Setting {
        channels,
        staging,
        staging_is_late: false,
        copier: Some(Copier::Cpu),
        tuning,
        has_progress_thread: true,
        is_named: true,
        slice: SLICE,
        bounce_pages: None,
        is_crowded: false,
        eager: EagerTerms::OFF,
        link_is_full: false,
        one_sided: AMPLE,
        kept: KEEPS_ALL,
        keeps_chunks: false,
        sends_end_late: false,
        on_demand: false,
    };
    Pair::up([setting; 2])
}

/// Sends messages that are matched at once, and says how many share each chunk, by channel. `near`
/// says of each message whether it lies behind the one before it.
fn chunks(pair: &mut Pair, near: &[bool]) -> Vec<Vec<usize>> {
    let memory = MemoryType::Device;
    let receives: Vec<_> = near.iter().map(|_| (1, MESSAGE_BYTES, memory, false)).collect();
    pair.ends[1].post(Direction::Receive, &receives).unwrap();
    pair.deliver_all().unwrap();
    let sends: Vec<_> = near.iter().map(|near| (1, MESSAGE_BYTES, memory, *near)).collect();
    pair.ends[0].post(Direction::Send, &sends).unwrap();
    let channels = pair.ends[0].sent.len();
    for channel in 0..channels {
        while pair.send_chunk(0, channel).unwrap() {}
    }
    let sent = pair.ends[0].sent.iter();
    let shared = sent.map(|chunks| chunks.iter().map(Vec::len).collect()).collect();
    pair.settle().unwrap();
    let is_done = |end: usize| pair.ends[end].posted.values().all(|posted| posted.end.is_some());
    assert!(is_done(0) && is_done(1));
    shared
}

#[test]
fn a_channel_without_a_buffer_does_not_keep_others_from_gathering() {
    let mut pair = up(2, 0b10);
    assert_eq!(chunks(&mut pair, &[false; 6]), [vec![1], vec![5]]);
    // And so it stays: the next plan begins on the first channel again.
    assert_eq!(chunks(&mut pair, &[false; 6]), [vec![1], vec![5]]);
}

#[test]
fn neighbours_share_a_chunk_without_a_buffer() {
    let mut pair = up(2, 0b10);
    let near = [false, true, true, false, false, true];
    assert_eq!(chunks(&mut pair, &near), [vec![3], vec![3]]);
}

/// Each goes to the channel that has the least.
#[test]
fn without_any_buffer_each_segment_is_a_chunk() {
    let mut pair = up(2, 0);
    let near = [false, true, false, false, true, false];
    assert_eq!(chunks(&mut pair, &near), [vec![2, 1], vec![1, 2]]);
}

/// By itself each message would be cut into chunks that are shorter than what shares one.
#[test]
fn messages_that_share_a_chunk_are_not_cut() {
    let longest_chunk = MESSAGE_BYTES as u32 + 1;
    let tuning = Tuning { shortest_chunk: MESSAGE_BYTES as u32 - 1, longest_chunk, ..DEAL_AT_ONCE };
    for staging in [0, u16::MAX] {
        let mut pair = up_with(2, staging, tuning);
        assert_eq!(chunks(&mut pair, &[false, true, true]), [vec![3], vec![]]);
    }
}
