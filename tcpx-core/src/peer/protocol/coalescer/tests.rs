//! Runs as each end sees them.

mod two_ends;

use slotmap::{Key, KeyData};

use super::*;
use crate::peer::protocol::coalescing_limits::Copier;
use crate::types::RegistrationKey;

const CHUNK_BYTES: u32 = 64;

fn span(registration: u64, address: u64, memory: MemoryType) -> Span {
    let registration = RegistrationKey::from(KeyData::from_ffi(registration | 1 << 32));
    assert!(!registration.is_null());
    Span { registration, address, memory }
}

fn member(send: u64, address: u64, bytes: u64, landing: Delivery) -> Member<u64> {
    let announced = Announced { recv: send + 1000, bytes, landing, number: send };
    Member { send, span: span(1, address, MemoryType::Host), bytes, announced }
}

fn in_place() -> RunLimits {
    RunLimits::in_place(CHUNK_BYTES)
}

/// The CPU copies stretches of up to 32 bytes, from two on.
fn by_cpu() -> RunLimits {
    RunLimits::gathering(CHUNK_BYTES, Some(Copier::Cpu))
}

/// The GPU copies stretches of up to 5 bytes, from twelve on.
fn by_gpu() -> RunLimits {
    RunLimits::gathering(CHUNK_BYTES, Some(Copier::Gpu))
}

/// A run of these members, which all fit.
fn run_of(members: &[Member<u64>], limits: &RunLimits) -> OpenRun<u64> {
    let mut run = OpenRun::default();
    for member in members {
        let is_first = run.last.is_none();
        assert!(is_first || run.fit(member, limits) == Fit::Joins, "{member:?}");
        assert_eq!(run.join(*member).is_none(), is_first);
    }
    run
}

/// What a run comes to: first send, bytes and whether it is gathered, by part.
fn parts(run: &mut OpenRun<u64>, limits: &RunLimits, has_staging: bool) -> Vec<(u64, u64, bool)> {
    std::iter::from_fn(|| run.take(false, limits, |_| has_staging))
        .map(|part| (part.first, part.bytes, part.gathered.is_some()))
        .collect()
}

#[test]
fn neighbours_fill_a_chunk_and_no_more() {
    for limits in [in_place(), by_cpu(), by_gpu()] {
        let pair = [member(0, 0, 24, Delivery::Unpacked), member(1, 24, 24, Delivery::Unpacked)];
        let mut run = run_of(&pair, &limits);
        let long = member(2, 48, 17, Delivery::Unpacked);
        assert_eq!(run.fit(&long, &limits), Fit::Apart, "65 bytes");
        let last = member(2, 48, 16, Delivery::Unpacked);
        assert_eq!(run.fit(&last, &limits), Fit::Joins);
        assert_eq!(run.join(last), Some(1));
        let names = [1000, 1001, 1002].into_iter().collect();
        let whole = Part { first: 0, last: 2, bytes: 64, names, gathered: None };
        assert_eq!(run.take(false, &limits, |_| unreachable!("in one piece")), Some(whole));
        assert_eq!(run.take(false, &limits, |_| true), None);
        assert_eq!(run.fit(&last, &limits), Fit::Apart, "nothing is open");
    }
}

#[test]
fn what_is_apart_at_either_end_shares_nothing_in_place() {
    let first = member(5, 0, 8, Delivery::Direct);
    let good = member(6, 8, 8, Delivery::DirectBehind);
    let fits = |next: Member<u64>, limits: RunLimits| run_of(&[first], &limits).fit(&next, &limits);
    let joins = |next: Member<u64>| fits(next, in_place()) == Fit::Joins;
    assert!(joins(good));
    let elsewhere = |registration, address| Member {
        span: span(registration, address, MemoryType::Host),
        ..good
    };
    for apart in [elsewhere(1, 9), elsewhere(1, 0), elsewhere(2, 8)] {
        assert!(!joins(apart));
        assert_eq!(fits(apart, by_cpu()), Fit::Joins, "its send may be copied");
    }
    for limits in [in_place(), by_cpu(), by_gpu()] {
        for next in [
            member(7, 8, 8, Delivery::DirectBehind),
            member(6, 8, 8, Delivery::Direct),
            member(6, 8, 8, Delivery::Unpacked),
            member(6, 8, 0, Delivery::DirectBehind),
            Member { bytes: u64::MAX, ..good },
        ] {
            assert_eq!(fits(next, limits), Fit::Apart, "{next:?}");
        }
    }
}

/// Sends of `sizes` bytes that lie apart.
fn scattered(sizes: &[u64]) -> Vec<Member<u64>> {
    let member = |(at, bytes): (u64, &u64)| member(at, at * 1000, *bytes, Delivery::Unpacked);
    (0..).zip(sizes).map(member).collect()
}

#[test]
fn scattered_sends_are_gathered_when_there_are_enough_and_staging() {
    let pair = scattered(&[20, 30]);
    let alone = vec![(0, 20, false), (1, 30, false)];
    for (limits, has_staging, expected) in
        [(by_cpu(), true, vec![(0, 50, true)]), (by_cpu(), false, alone.clone())]
    {
        assert_eq!(parts(&mut run_of(&pair, &limits), &limits, has_staging), expected);
    }
    // Gathering has stopped since they met.
    assert_eq!(parts(&mut run_of(&pair, &by_cpu()), &in_place(), true), alone);
    let on_gpu = |count: usize| -> Vec<Member<u64>> {
        let on_gpu = |it: &Member<u64>| {
            let span = span(1, it.span.address, MemoryType::Device);
            Member { span, ..*it }
        };
        scattered(&vec![4; count]).iter().map(on_gpu).collect()
    };
    let few = parts(&mut run_of(&on_gpu(11), &by_gpu()), &by_gpu(), true);
    assert_eq!(few, (0..11).map(|at| (at, 4, false)).collect::<Vec<_>>());
    let enough = parts(&mut run_of(&on_gpu(12), &by_gpu()), &by_gpu(), true);
    assert_eq!(enough, [(0, 48, true)]);
}

#[test]
fn long_stretches_are_sent_from_where_they_lie() {
    let limits = by_cpu();
    // Too long by itself, as the first, as the next.
    for sizes in [[33, 4], [4, 33]] {
        let members = scattered(&sizes);
        assert_eq!(run_of(&members[..1], &limits).fit(&members[1], &limits), Fit::Apart);
    }
    // Grown too long behind two others, which end without it.
    let mut members = scattered(&[4, 5, 30]);
    let mut run = run_of(&members, &limits);
    let next = member(3, 2030, 3, Delivery::Unpacked);
    assert_eq!(run.fit(&next, &limits), Fit::JoinsLast);
    let names = [1000, 1001].into_iter().collect();
    let before = Part { first: 0, last: 1, bytes: 9, names, gathered: Some(MemoryType::Host) };
    assert_eq!(run.take(true, &limits, |_| true), Some(before));
    assert_eq!(run.take(true, &limits, |_| true), None);
    assert_eq!(run.fit(&next, &limits), Fit::Joins);
    assert_eq!(run.join(next), Some(2));
    assert_eq!(parts(&mut run, &limits, true), [(2, 33, false)]);
    // Of one kind of memory alone, and of device memory only where that is copied quickly.
    members[1].span.memory = MemoryType::Device;
    assert_eq!(run_of(&members[..1], &limits).fit(&members[1], &limits), Fit::Apart);
    members[0].span.memory = MemoryType::Device;
    for (copier, fit) in [(Some(Copier::Cpu), Fit::Joins), (None, Fit::Apart)] {
        let limits = RunLimits::gathering(CHUNK_BYTES, copier);
        assert_eq!(run_of(&members[..1], &limits).fit(&members[1], &limits), fit);
    }
}

#[test]
fn a_full_run_of_scattered_sends_never_falls_apart() {
    for copier in [Copier::Cpu, Copier::Gpu] {
        for chunk_bytes in [4096, 5000, 1 << 19, 4 << 20] {
            let limits = RunLimits::gathering(chunk_bytes, Some(copier));
            for memory in [MemoryType::Host, MemoryType::Device] {
                let limit = limits.of(memory).unwrap();
                let fewest = u64::from(chunk_bytes).div_ceil(limit.stretch_bytes);
                assert!(fewest >= limit.stretches as u64, "{limit:?}");
            }
        }
    }
}

#[test]
fn a_match_of_receives_that_lie_apart_is_refused() {
    let [near, host, device] =
        [(0, MemoryType::Host), (90, MemoryType::Host), (90, MemoryType::Device)]
            .map(|(address, memory)| span(1, address, memory));
    let join = |first: (Span, u64), next: (Span, u64)| {
        Receives::new(first.0, first.1).join(next.0, next.1, CHUNK_BYTES)
    };
    assert!(join((near, 90 - 60), (span(1, 30, MemoryType::Host), 34)));
    assert!(!join((near, 30), (host, 34)), "it would be written behind the first");
    assert!(join((device, 30), (span(2, 0, MemoryType::Device), 34)));
    assert!(!join((device, 31), (span(2, 0, MemoryType::Device), 34)), "longer than a chunk");
    assert!(!join((device, 30), (span(1, 0, MemoryType::Host), 34)));
    assert!(!join((device, 0), (device, 8)) && !join((device, 8), (device, 0)));
    assert!(!join((device, 8), (device, u64::MAX)));
}

#[test]
fn a_run_fits_its_frame() {
    for (distance, limits) in
        [(1, RunLimits::in_place(1 << 20)), (9, RunLimits::gathering(1 << 20, None))]
    {
        let byte = |at: u64| member(at, at * distance, 1, Delivery::Unpacked);
        let mut run = run_of(&[byte(0)], &limits);
        let joins = |at: &u64| {
            let fits = run.fit(&byte(*at), &limits) == Fit::Joins;
            fits && run.join(byte(*at)).is_some()
        };
        assert_eq!((1..5000).take_while(joins).count(), MAX_RUN_MESSAGES - 1);
    }
}
