//! Long messages, a section at a time, and what goes between their sections.

use super::driver::{CHUNK_BYTES, End};
use super::exporting::no_exports;
use super::pair::Pair;
use super::said::{announce, matched, section};
use super::setting::{AMPLE, DEAL_AT_ONCE, KEEPS_ALL, Setting};
use crate::frames::eager_terms::EagerTerms;
use crate::frames::frame::Frame;
use crate::frames::messages::{Names, Ready};
use crate::peer::SLICE;
use crate::peer::action::{Action, Ending, Outcome};
use crate::peer::schedule::tuning::Tuning;
use crate::peer::violation::Violation;
use crate::types::{Direction, MemoryType, TransferKey};

const CHUNK: u64 = CHUNK_BYTES as u64;
const SECTION: u64 = 2 * CHUNK;

/// Up to a chunk is short, up to a section medium; less than two chunks under way are too few.
const SETTING: Setting = Setting {
    channels: 1,
    staging: 0,
    staging_is_late: false,
    copier: None,
    tuning: Tuning {
        short_bytes: CHUNK,
        section_bytes: SECTION,
        ahead_bytes: SECTION,
        plan_bytes: 0,
        ..DEAL_AT_ONCE
    },
    eager: EagerTerms::OFF,
    link_is_full: false,
    one_sided: AMPLE,
    kept: KEEPS_ALL,
    keeps_chunks: false,
    sends_end_late: false,
    on_demand: false,
    has_progress_thread: true,
    is_named: true,
    slice: SLICE,
    bounce_pages: None,
    is_crowded: false,
};

fn up() -> Pair {
    Pair::up([SETTING; 2])
}

/// Sends a message of this size from end 0 to end 1. End 0 knows of the receive.
fn send(pair: &mut Pair, bytes: u64) -> TransferKey {
    let message = [(1, bytes, MemoryType::Device, false)];
    pair.ends[1].post(Direction::Receive, &message).unwrap();
    pair.deliver_all().unwrap();
    pair.ends[0].post(Direction::Send, &message).unwrap();
    pair.ends[0].posted.keys().last().expect("it is up")
}

fn is_done(pair: &Pair, transfer: TransferKey) -> bool {
    pair.ends[0].posted[transfer].end == Some(End::Completed(Outcome::Done))
}

/// Returns the number of chunks that leave until a message is sent.
fn chunks_until(pair: &mut Pair, transfer: TransferKey) -> usize {
    (1..)
        .find(|_| {
            assert!(pair.send_chunk(0, 0).unwrap(), "it is not scheduled");
            is_done(pair, transfer)
        })
        .expect("it is sent some day")
}

/// The other channels send what a slow one has not been dealt, and every message ends.
#[test]
fn a_slow_channel_holds_up_only_what_it_was_dealt() {
    const FAST: [usize; 2] = [0, 2];
    let tuning = Tuning { section_bytes: 3 * CHUNK, ahead_bytes: 6 * CHUNK, ..SETTING.tuning };
    let mut pair = Pair::up([Setting { channels: 3, tuning, ..SETTING }; 2]);
    let long = send(&mut pair, 100 * CHUNK + 1);
    let mut fast = 0;
    while FAST.into_iter().filter(|channel| pair.send_chunk(0, *channel).unwrap()).count() > 0 {
        fast = FAST.map(|channel| pair.ends[0].sent[channel].len()).into_iter().sum();
    }
    let slow = 101 - fast;
    assert!((2..=6).contains(&slow), "{slow} chunks wait for the slow channel");
    for left in (0..slow).rev() {
        assert!(!is_done(&pair, long), "{left}");
        assert!(pair.send_chunk(0, 1).unwrap());
    }
    assert!(is_done(&pair, long));
    pair.settle().unwrap();
}

#[test]
fn a_short_message_waits_for_what_is_under_way_and_not_for_the_rest() {
    let mut pair = up();
    let long = send(&mut pair, 1000 * CHUNK);
    let short = send(&mut pair, 8);
    assert_eq!(chunks_until(&mut pair, short), 2 + 1, "a section, and then it");
    assert!(!is_done(&pair, long));
    for _ in 0..100 {
        let short = send(&mut pair, 8);
        assert!(chunks_until(&mut pair, short) <= 2 + 2 + 1);
    }
    pair.settle().unwrap();
    assert!(is_done(&pair, long));
}

#[test]
fn a_long_message_moves_while_short_ones_are_posted_without_end() {
    let mut pair = up();
    let long = send(&mut pair, 100 * CHUNK);
    let mut shorts = 0;
    while !is_done(&pair, long) {
        // Two are posted for each chunk that leaves, more than ever can leave.
        send(&mut pair, CHUNK);
        send(&mut pair, CHUNK);
        shorts += 2;
        assert!(pair.send_chunk(0, 0).unwrap());
        // They have half of the channel, and the long message the other half.
        assert!(shorts <= 2 * (100 + 100 + 2), "it starves");
    }
    pair.settle().unwrap();
}

#[test]
fn medium_and_long_messages_take_turns() {
    let mut pair = up();
    let long = send(&mut pair, 100 * CHUNK);
    let mediums: Vec<_> = (0..10).map(|_| send(&mut pair, CHUNK + 1)).collect();
    let mut chunks = 0;
    for medium in &mediums {
        chunks += chunks_until(&mut pair, *medium);
    }
    // Each has two chunks, and so has the section before it. One more section was under way.
    assert!((10 * 4..=11 * 4).contains(&chunks), "{chunks}");
    assert!(!is_done(&pair, long));
    // Long ones go in order, and do not starve.
    let next = send(&mut pair, 4 * CHUNK);
    let medium = send(&mut pair, CHUNK + 1);
    chunks_until(&mut pair, medium);
    assert!(!is_done(&pair, long));
    chunks_until(&mut pair, next);
    assert!(is_done(&pair, long), "it was first");
    pair.settle().unwrap();
}

#[test]
fn a_long_message_takes_a_frame_for_each_section() {
    let mut pair = up();
    let message = [(1, 99 * CHUNK + 1, MemoryType::Device, false)];
    pair.ends[1].post(Direction::Receive, &message).unwrap();
    pair.deliver_all().unwrap();
    pair.ends[0].post(Direction::Send, &message).unwrap();
    let mut frames = pair.ends[0].outbox.len();
    while pair.send_chunk(0, 0).unwrap() {
        frames = pair.ends[0].outbox.len();
    }
    assert_eq!(frames, 50);
    pair.settle().unwrap();
}

#[test]
fn what_is_not_dealt_yet_is_finished_before_the_goodbye() {
    let mut pair = up();
    let long = send(&mut pair, 100 * CHUNK);
    pair.ends[0].cancel(long).unwrap();
    pair.ends[0].disconnect().unwrap();
    pair.ends[1].disconnect().unwrap();
    pair.settle().unwrap();
    assert!(is_done(&pair, long), "what has a counterpart runs to its end");
    pair.check_end(false).unwrap();
}

/// Returns what an end says of a peer that schedules like this to a receive of `bytes` bytes. Its
/// name is put into the frames.
fn violation(
    bytes: u64,
    frames: impl FnOnce(u64) -> Vec<Frame>,
) -> Result<Vec<(u64, u64)>, Violation> {
    let mut pair = up();
    pair.ends[0].post(Direction::Receive, &[(1, bytes, MemoryType::Device, false)]).unwrap();
    let Some(Frame::Ready(Ready::Receive { recv, .. })) = pair.ends[0].outbox.pop_front() else {
        panic!("it announces")
    };
    let mut protocol = pair.ends[0].take_protocol().expect("it is up");
    frames(recv).into_iter().for_each(|frame| {
        protocol.handle_frame(frame, &mut no_exports());
    });
    let mut scheduled = Vec::new();
    while let Some(action) = protocol.poll_action() {
        match action {
            Action::ReceiveChunks(plan) => scheduled.push((plan.offset, plan.bytes)),
            Action::Complete(..) => assert_eq!(bytes, 0, "nothing has moved"),
            Action::End { ending: Ending::Broken(violation), .. } => return Err(violation),
            other => panic!("{other:?}"),
        }
    }
    Ok(scheduled)
}

#[test]
fn sections_that_are_not_right_are_a_violation() {
    let message_bytes = 5 * CHUNK + 10;
    let section = |recv, offset, bytes| section(recv, 0, (offset, bytes), CHUNK_BYTES);
    let of = |sections: &[(u64, u64)]| {
        violation(message_bytes, |recv| {
            sections.iter().map(|(offset, bytes)| section(recv, *offset, *bytes)).collect()
        })
    };
    let right = [(0, 3 * CHUNK), (3 * CHUNK, CHUNK), (4 * CHUNK, CHUNK + 10)];
    assert_eq!(of(&right).as_deref(), Ok(&right[..]));
    assert_eq!(of(&[(0, message_bytes)]), Ok(vec![(0, message_bytes)]));

    for (why, sections, scheduled) in [
        ("twice", &[(0, CHUNK), (0, CHUNK)][..], CHUNK),
        ("out of order", &[(0, CHUNK), (2 * CHUNK, CHUNK)], CHUNK),
        ("not from the start", &[(CHUNK, CHUNK)], 0),
        ("a part of a chunk", &[(0, CHUNK + 1)], 0),
        ("nothing", &[(0, 0)], 0),
        ("beyond the message", &[(0, 6 * CHUNK)], 0),
        ("behind its end", &[(0, message_bytes), (message_bytes, CHUNK)], message_bytes),
        ("without end", &[(0, CHUNK), (CHUNK, u64::MAX / CHUNK * CHUNK)], CHUNK),
    ] {
        match of(sections) {
            Err(Violation::Section { scheduled: known, message_bytes: bytes, .. }) => {
                assert_eq!((known, bytes), (scheduled, message_bytes), "{why}");
            }
            other => panic!("{why}: {other:?}"),
        }
    }
}

#[test]
fn a_section_is_of_a_receive_that_is_there() {
    let bytes = 3 * CHUNK;
    let section = |recv, first_channel| section(recv, first_channel, (0, bytes), CHUNK_BYTES);
    let outcome = violation(bytes, |recv| vec![section(recv, 1)]);
    assert_eq!(outcome, Err(Violation::MatchChannel(1)));
    let outcome = violation(bytes, |recv| vec![section(recv + 1, 0)]);
    assert!(matches!(outcome, Err(Violation::UnknownReceive { .. })), "{outcome:?}");
    // A message that came as a whole does not begin again.
    let outcome = violation(bytes, |recv| vec![section(recv, 0), section(recv, 0)]);
    assert!(matches!(outcome, Err(Violation::Section { scheduled: 192, .. })), "{outcome:?}");
    let outcome = violation(0, |recv| vec![matched(&[recv], 0, CHUNK_BYTES); 2]);
    assert!(matches!(outcome, Err(Violation::UnknownReceive { .. })), "{outcome:?}");
    // Nor does one that shared a chunk.
    let outcome =
        violation(bytes, |recv| vec![section(recv, 0), matched(&[recv; 2], 0, CHUNK_BYTES)]);
    assert!(matches!(outcome, Err(Violation::UnknownReceive { .. })), "{outcome:?}");
}

#[test]
fn a_send_is_no_receive_that_a_section_could_go_on_with() {
    let mut pair = up();
    let mut protocol = pair.ends[0].take_protocol().expect("it is up");
    let mut transfers = slotmap::SlotMap::<TransferKey, ()>::with_key();
    let span = crate::types::Span {
        registration: crate::types::RegistrationKey::default(),
        address: 0,
        memory: MemoryType::Device,
    };
    let (recv, tag, bytes) = (7, 1, 3 * CHUNK);
    protocol.handle_frame(announce(recv, tag, bytes), &mut no_exports());
    let op = protocol.handle_post(crate::peer::message::NewOperation {
        transfer: transfers.insert(()),
        direction: Direction::Send,
        tag,
        span,
        bytes,
    });
    let recv = op.to_wire();
    protocol.handle_frame(section(recv, 0, (0, CHUNK), CHUNK_BYTES), &mut no_exports());
    let end = std::iter::from_fn(|| protocol.poll_action())
        .find(|action| matches!(action, Action::End { .. }));
    assert!(
        matches!(
            end,
            Some(Action::End { ending: Ending::Broken(Violation::UnknownReceive { .. }), .. })
        ),
        "{end:?}"
    );
}

#[test]
fn a_peer_may_cut_a_message_into_shorter_chunks_but_not_into_crumbs() {
    let matched = |bytes, chunk_bytes| {
        violation(bytes, |recv| vec![self::matched(&[recv], bytes, chunk_bytes)])
    };
    for chunk_bytes in [CHUNK_BYTES / 8, CHUNK_BYTES / 3, CHUNK_BYTES] {
        assert_eq!(matched(3 * CHUNK, chunk_bytes), Ok(vec![(0, 3 * CHUNK)]));
    }
    for chunk_bytes in [0, 1, CHUNK_BYTES / 8 - 1, CHUNK_BYTES + 1, u32::MAX] {
        let most = CHUNK_BYTES;
        assert_eq!(
            matched(3 * CHUNK, chunk_bytes),
            Err(Violation::ChunkBytes { chunk_bytes, most })
        );
    }
    // Receives that share a chunk must fit it.
    let mut pair = up();
    let messages = [(1, 20, MemoryType::Device, false); 2];
    pair.ends[0].post(Direction::Receive, &messages).unwrap();
    let names = |frame: &Frame| match frame {
        Frame::Ready(Ready::Receive { recv, .. }) => *recv,
        other => panic!("{other:?}"),
    };
    let recvs: Names = pair.ends[0].outbox.iter().map(names).collect();
    let recv = recvs[1];
    let first = recvs[0];
    let wrong_bytes = |bytes| {
        let (recv, offset, scheduled, message_bytes) = (first, 0, 0, 40);
        Violation::Section { recv, offset, bytes, scheduled, message_bytes }
    };
    for (bytes, chunk_bytes, violation) in [
        (40, 39, Violation::CannotShare { recv }),
        (39, 40, wrong_bytes(39)),
        (41, 41, wrong_bytes(41)),
    ] {
        let mut pair = up();
        pair.ends[0].post(Direction::Receive, &messages).unwrap();
        let mut protocol = pair.ends[0].take_protocol().expect("it is up");
        protocol.handle_frame(self::matched(&recvs, bytes, chunk_bytes), &mut no_exports());
        let end = protocol.poll_action();
        let is_refused = |ending: &Ending| *ending == Ending::Broken(violation.clone());
        assert!(matches!(&end, Some(Action::End { ending, .. }) if is_refused(ending)), "{end:?}");
    }
}

#[test]
fn what_begins_while_nothing_is_on_its_way_begins_with_the_first_channel() {
    let mut pair = Pair::up([Setting { channels: 4, ..SETTING }; 2]);
    let sent = |pair: &mut Pair, channel| pair.send_chunk(0, channel).unwrap();
    for _ in 0..3 {
        // Of two chunks.
        let message = send(&mut pair, CHUNK + 1);
        assert!(sent(&mut pair, 0) && sent(&mut pair, 1) && !sent(&mut pair, 2));
        assert!(is_done(&pair, message));
    }
    let first = send(&mut pair, SECTION - 1);
    assert!(sent(&mut pair, 1), "one is still on its way");
    let second = send(&mut pair, SECTION - 1);
    assert!(sent(&mut pair, 2) && sent(&mut pair, 3) && sent(&mut pair, 0));
    assert!(is_done(&pair, first) && is_done(&pair, second));
}
