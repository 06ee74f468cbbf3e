//! Choice of the messages that share a chunk.

use proptest::prelude::*;
use slotmap::KeyData;

use super::*;
use crate::peer::schedule::tuning::Copier;
use crate::types::{OpKey, RegistrationKey, Span, TransferKey};

const CHUNK_BYTES: u32 = 64;

fn span(registration: u64, address: u64, memory: MemoryType) -> Span {
    let registration = RegistrationKey::from(KeyData::from_ffi(registration | 1 << 32));
    Span { registration, address, memory }
}

fn matched(send: u64, address: u64, bytes: u64, delivery: Delivery) -> MatchedSend {
    let op = OpKey::from_wire(send | 1 << 32);
    let (transfer, span) = (TransferKey::default(), span(1, address, MemoryType::Host));
    let member = Member { op, transfer, span, bytes, tag: 0 };
    MatchedSend { member, announced: PostedReceive { recv: send, bytes, delivery, number: send } }
}

fn in_place() -> Tuning {
    Tuning::new(CHUNK_BYTES, 1)
}

/// Makes a tuning with which the CPU copies segments of up to 32 bytes, from two on.
fn by_cpu() -> Tuning {
    Tuning::new(CHUNK_BYTES, 1).gathering(Some(Copier::Cpu))
}

/// Makes a tuning with which the GPU copies segments of up to 5 bytes, from twelve on.
fn by_gpu() -> Tuning {
    Tuning::new(CHUNK_BYTES, 1).gathering(Some(Copier::Gpu))
}

/// A plan as (first receive, messages, bytes, whether it is gathered).
type Plan = (u64, usize, u64, bool);

fn plans(sends: &[MatchedSend], tuning: &Tuning) -> Vec<Plan> {
    let mut coalescer = Coalescer::default();
    sends.iter().for_each(|send| coalescer.push(Waiting::Send(*send)));
    std::iter::from_fn(|| {
        let portion = coalescer.next(tuning)?;
        let (members, names) = coalescer.take(portion, Vec::new())?;
        let bytes: u64 = members.as_slice().iter().map(|member| member.bytes).sum();
        assert_eq!((members.as_slice().len(), bytes), (names.len(), portion.bytes));
        Some((names[0], names.len(), bytes, portion.gathered.is_some()))
    })
    .collect()
}

/// Returns the sends of `sizes` bytes that lie apart.
fn scattered(sizes: &[u64]) -> Vec<MatchedSend> {
    let send = |(at, bytes): (u64, &u64)| matched(at, at * 1000, *bytes, Delivery::Unpacked);
    (0..).zip(sizes).map(send).collect()
}

#[test]
fn neighbours_fill_a_chunk_and_no_more() {
    for tuning in [in_place(), by_cpu(), by_gpu()] {
        let neighbours = |last| {
            let send = |at, address, bytes| matched(at, address, bytes, Delivery::Unpacked);
            [send(0, 0, 24), send(1, 24, 24), send(2, 48, last)]
        };
        assert_eq!(plans(&neighbours(16), &tuning), [(0, 3, 64, false)]);
        assert_eq!(plans(&neighbours(17), &tuning), [(0, 2, 48, false), (2, 1, 17, false)]);
    }
}

#[test]
fn short_neighbours_that_a_gpu_copies_do_not_fill_a_long_chunk() {
    const KIB: u64 = 1 << 10;
    let neighbours = |memory, count, bytes| -> Vec<MatchedSend> {
        let mut sends: Vec<_> =
            (0..count).map(|at| matched(at, at * bytes, bytes, Delivery::Unpacked)).collect();
        sends.iter_mut().for_each(|send| send.member.span.memory = memory);
        sends
    };
    let [short, longer] = [(8, 64 * KIB), (4, 128 * KIB)];
    let plans = |memory, (count, bytes), tuning: &Tuning| -> Vec<u64> {
        plans(&neighbours(memory, count, bytes), tuning).iter().map(|plan| plan.2 / KIB).collect()
    };
    let [device, host] = [MemoryType::Device, MemoryType::Host];
    let whole = Tuning::new(512 << 10, 1).pipelined();
    let copied = whole.copied_by_gpu();
    assert_eq!(plans(device, short, &copied), [256, 256]);
    assert_eq!(plans(device, short, &whole), [512]);
    assert_eq!(plans(host, short, &copied), [512]);
    assert_eq!(plans(device, longer, &copied), [512]);
    let of_short_chunks = Tuning::new(128 << 10, 1).copied_by_gpu();
    assert_eq!(plans(device, short, &of_short_chunks), [128; 4]);
}

#[test]
fn a_message_longer_than_a_chunk_is_a_plan_of_its_own() {
    let long = matched(0, 0, 1000, Delivery::Unpacked);
    let next = matched(1, 1000, 8, Delivery::Unpacked);
    assert_eq!(plans(&[long, next], &by_cpu()), [(0, 1, 1000, false), (1, 1, 8, false)]);
    let endless = MatchedSend { member: Member { bytes: u64::MAX, ..next.member }, ..next };
    assert_eq!(plans(&[next, endless], &by_cpu()).len(), 2);
}

#[test]
fn what_is_apart_at_either_end_shares_nothing_in_place() {
    let first = matched(5, 0, 8, Delivery::InPlace);
    let good = matched(6, 8, 8, Delivery::InPlaceBehind);
    let count = |next: MatchedSend, tuning| plans(&[first, next], &tuning).len();
    assert_eq!(count(good, in_place()), 1);
    for (registration, address) in [(1, 9), (1, 0), (2, 8)] {
        let span = span(registration, address, MemoryType::Host);
        let apart = MatchedSend { member: Member { span, ..good.member }, ..good };
        assert_eq!(count(apart, in_place()), 2);
        assert_eq!(count(apart, by_cpu()), 1, "its send may be copied");
    }
    for tuning in [in_place(), by_cpu(), by_gpu()] {
        for next in [
            matched(7, 8, 8, Delivery::InPlaceBehind),
            matched(6, 8, 8, Delivery::InPlace),
            matched(6, 8, 8, Delivery::Unpacked),
            matched(6, 8, 0, Delivery::InPlaceBehind),
        ] {
            assert_eq!(count(next, tuning), 2, "{next:?}");
        }
    }
}

#[test]
fn scattered_sends_are_gathered_when_there_are_enough() {
    let pair = scattered(&[20, 30]);
    assert_eq!(plans(&pair, &by_cpu()), [(0, 2, 50, true)]);
    assert_eq!(plans(&pair, &in_place()), [(0, 1, 20, false), (1, 1, 30, false)]);
    let on_gpu = |count: usize| -> Vec<MatchedSend> {
        let mut sends = scattered(&vec![4; count]);
        sends.iter_mut().for_each(|send| send.member.span.memory = MemoryType::Device);
        sends
    };
    let alone: Vec<Plan> = (0..11).map(|at| (at, 1, 4, false)).collect();
    assert_eq!(plans(&on_gpu(11), &by_gpu()), alone);
    assert_eq!(plans(&on_gpu(12), &by_gpu()), [(0, 12, 48, true)]);
}

#[test]
fn long_segments_are_sent_from_where_they_lie() {
    let tuning = by_cpu();
    // Too long by itself, as the first, as the next.
    for (sizes, expected) in [
        ([33, 4], [(0, 1, 33, false), (1, 1, 4, false)]),
        ([4, 33], [(0, 1, 4, false), (1, 1, 33, false)]),
    ] {
        assert_eq!(plans(&scattered(&sizes), &tuning), expected);
    }
    // Two messages that are too long together, behind two others, which go without them.
    let mut sends = scattered(&[4, 5, 30]);
    sends.push(matched(3, 2030, 3, Delivery::Unpacked));
    assert_eq!(plans(&sends, &tuning), [(0, 2, 9, true), (2, 2, 33, false)]);
    // Of one kind of memory alone, and of device memory only where that is copied quickly.
    let mut pair = scattered(&[4, 5]);
    pair[1].member.span.memory = MemoryType::Device;
    assert_eq!(plans(&pair, &tuning).len(), 2);
    pair[0].member.span.memory = MemoryType::Device;
    for (copier, count) in [(Some(Copier::Cpu), 1), (None, 2)] {
        let tuning = Tuning::new(CHUNK_BYTES, 1).gathering(copier);
        assert_eq!(plans(&pair, &tuning).len(), count);
    }
}

#[test]
fn a_full_chunk_of_scattered_sends_never_falls_apart() {
    for copier in [Copier::Cpu, Copier::Gpu] {
        for chunk_bytes in [4096, 5000, 1 << 19, 4 << 20] {
            let tuning = Tuning::new(chunk_bytes, 1).gathering(Some(copier));
            for memory in [MemoryType::Host, MemoryType::Device] {
                let limit = tuning.gathered(memory).unwrap();
                let fewest = u64::from(chunk_bytes).div_ceil(limit.segment_bytes);
                assert!(fewest >= limit.segments as u64, "{limit:?}");
            }
        }
    }
}

#[test]
fn a_plan_fits_its_frame() {
    for (distance, tuning) in
        [(1, Tuning::new(1 << 20, 1)), (9, Tuning::new(1 << 20, 1).gathering(None))]
    {
        let byte = |at: u64| matched(at, at * distance, 1, Delivery::Unpacked);
        let sends: Vec<MatchedSend> = (0..5000).map(byte).collect();
        let plans = plans(&sends, &tuning);
        assert_eq!((plans[0].1, plans.len()), (MAX_NAMES, 5000usize.div_ceil(MAX_NAMES)));
    }
}

/// Returns a message by where it lies: behind the one before it, or apart; its kind of memory; how
/// it is received.
fn any_sends() -> impl Strategy<Value = Vec<MatchedSend>> {
    let bytes = prop_oneof![6 => Just(8u64), 1 => Just(12), 1 => Just(0), 1 => Just(200)];
    let one = (bytes, 0u8..4, any::<bool>(), 0u8..3, 0u8..8);
    proptest::collection::vec(one, 0..60).prop_map(|sends| {
        let (mut end, mut number) = (0, 0);
        let mut of = |send: (u64, (u64, u8, bool, u8, u8))| {
            let (name, (bytes, near, is_device, delivery, gap)) = send;
            let address = if near > 0 { end } else { end + 1000 };
            end = address + bytes;
            number += 1 + u64::from(gap == 0);
            let delivery = Delivery::from_wire(delivery).expect("one of three");
            let mut send = matched(name, address, bytes, delivery);
            send.announced.number = number;
            if is_device {
                send.member.span = span(2, address, MemoryType::Device);
            }
            send
        };
        (0..).zip(sends).map(&mut of).collect()
    })
}

proptest! {
    /// Whatever was matched: every message is in one plan, in order; those of a plan may share a
    /// chunk by every rule, and lie in one piece or are gathered from one kind of memory.
    #[test]
    fn plans_hold_every_message_once_and_keep_the_rules(sends in any_sends(), which in 0usize..3) {
        let tuning = [in_place(), by_cpu(), by_gpu()][which];
        let mut at = 0;
        for (first, messages, bytes, is_gathered) in plans(&sends, &tuning) {
            let plan = &sends[at..at + messages];
            prop_assert_eq!(plan[0].announced.recv, first);
            at += messages;
            prop_assert!(messages == 1 || bytes <= u64::from(CHUNK_BYTES));
            prop_assert!(!is_gathered || messages > 1);
            for pair in plan.windows(2) {
                prop_assert!(pair[0].may_share_with(&pair[1]));
                prop_assert!(is_gathered || pair[0].member.is_followed_by(&pair[1].member));
                prop_assert_eq!(pair[0].member.span.memory, pair[1].member.span.memory);
            }
        }
        prop_assert_eq!(at, sends.len());
    }
}
