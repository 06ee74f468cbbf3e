//! Runs as each end sees them, and both ends against each other.

use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;
use slotmap::{Key, KeyData};

use super::*;
use crate::matching::{Matcher, Met};
use crate::registration::RegistrationKey;

const CHUNK_BYTES: u32 = 64;

fn span(registration: u64, address: u64, memory: MemoryType) -> Span {
    let registration = RegistrationKey::from(KeyData::from_ffi(registration | 1 << 32));
    assert!(!registration.is_null());
    Span { registration, address, memory }
}

fn member(send: u64, address: u64, bytes: u64, landing: Landing) -> Member<u64> {
    let announced = Announced { recv: send + 1000, bytes, landing, number: send };
    Member { send, span: span(1, address, MemoryType::Host), bytes, announced }
}

#[test]
fn neighbours_fill_a_chunk_and_no_more() {
    let mut run = OpenRun::default();
    run.open(member(0, 0, 24, Landing::Unpacked));
    assert_eq!(run.join(&member(1, 24, 24, Landing::Unpacked), CHUNK_BYTES), Some(0));
    assert_eq!(run.join(&member(2, 48, 17, Landing::Unpacked), CHUNK_BYTES), None, "65 bytes");
    assert_eq!(run.join(&member(2, 48, 16, Landing::Unpacked), CHUNK_BYTES), Some(1));
    let names = [1000, 1001, 1002].into_iter().collect();
    assert_eq!(run.close(), Some(Closed { first: 0, bytes: 64, names }));
    assert_eq!(run.close(), None);
}

#[test]
fn what_is_apart_at_either_end_shares_nothing() {
    let first = member(5, 0, 8, Landing::Direct);
    let good = member(6, 8, 8, Landing::DirectBehind);
    let joins = |next: Member<u64>| {
        let mut run = OpenRun::default();
        run.open(first);
        run.join(&next, CHUNK_BYTES).is_some()
    };
    assert!(joins(good));
    let elsewhere = |registration, address| Member {
        span: span(registration, address, MemoryType::Host),
        ..good
    };
    assert!(!joins(elsewhere(1, 9)) && !joins(elsewhere(1, 0)) && !joins(elsewhere(2, 8)));
    assert!(!joins(member(7, 8, 8, Landing::DirectBehind)), "behind another receive");
    assert!(!joins(member(6, 8, 8, Landing::Direct)));
    assert!(!joins(member(6, 8, 8, Landing::Unpacked)), "one direct, one unpacked");
    assert!(!joins(member(6, 8, 0, Landing::DirectBehind)), "an empty one has no chunk");
    assert!(!joins(Member { bytes: u64::MAX, ..good }));
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
    let mut run = OpenRun::default();
    run.open(member(0, 0, 1, Landing::Unpacked));
    let joined = (1..5000)
        .take_while(|at| run.join(&member(*at, *at, 1, Landing::Unpacked), 1 << 20).is_some());
    assert_eq!(joined.count(), MAX_RUN_MESSAGES - 1);
}

/// A message to post. `is_behind`: where the one posted before it at this end has its end.
#[derive(Clone, Debug)]
struct Posted {
    tag: i32,
    bytes: u64,
    is_behind: bool,
    is_device: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Send(Posted),
    Receive(Posted),
    /// So many announcements reach the sender.
    Deliver(usize),
    /// The locked call at the sender ends.
    EndCall,
    WithdrawSend(usize),
    WithdrawReceive(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Mostly equal sizes, so that sends and receives of a tag fit each other.
    let bytes = prop_oneof![6 => Just(8u64), 1 => Just(12), 1 => Just(0), 1 => Just(200)];
    let posted = (0i32..3, bytes, 0u8..4, 0u8..8).prop_map(|(tag, bytes, near, device)| Posted {
        tag,
        bytes,
        is_behind: near > 0,
        is_device: device > 3,
    });
    proptest::collection::vec(
        prop_oneof![
            6 => posted.clone().prop_map(Step::Send),
            6 => posted.prop_map(Step::Receive),
            3 => (1usize..8).prop_map(Step::Deliver),
            1 => Just(Step::EndCall),
            1 => any::<usize>().prop_map(Step::WithdrawSend),
            1 => any::<usize>().prop_map(Step::WithdrawReceive),
        ],
        0..200,
    )
}

/// Where an end puts its messages: kinds of memory are registrations of their own, far apart.
#[derive(Default)]
struct Place {
    end: u64,
    is_device: bool,
}

impl Place {
    fn next(&mut self, posted: &Posted) -> Span {
        let is_near = posted.is_behind && posted.is_device == self.is_device;
        let address = if is_near { self.end } else { self.end + 1000 };
        *self = Self { end: address + posted.bytes, is_device: posted.is_device };
        match posted.is_device {
            true => span(2, address, MemoryType::Device),
            false => span(1, address, MemoryType::Host),
        }
    }
}

/// Both ends: the sender decides, the receiver checks, and the model knows which message is whose.
#[derive(Default)]
struct Ends {
    matcher: Matcher<u64>,
    run: OpenRun<u64>,
    sends: HashMap<u64, (Span, u64)>,
    receives: HashMap<u64, (Span, u64)>,
    sending: Place,
    receiving: Place,
    last_announced: Option<Tail>,
    announcements: VecDeque<(i32, Announced)>,
    /// Pairs in the order of their matching.
    met: VecDeque<(u64, u64)>,
}

impl Ends {
    fn meet(&mut self, met: Met<u64>) {
        let Met { send, send_bytes: bytes, announced } = met;
        if bytes != announced.bytes {
            return;
        }
        let member = Member { send, span: self.sends[&send].0, bytes, announced };
        let before = self.met.back().map(|(send, _)| *send);
        match self.run.join(&member, CHUNK_BYTES) {
            Some(joined) => {
                assert_eq!(Some(joined), before, "behind the one matched before it")
            }
            None => {
                self.close();
                self.run.open(member);
            }
        }
        self.met.push_back((send, announced.recv));
    }

    /// The chunk goes over: every receive gets the bytes of its own send.
    fn close(&mut self) {
        let Some(Closed { first, bytes, names }) = self.run.close() else { return };
        let start = self.sends[&first].0.address;
        let mut at = start;
        let mut received: Option<Receives> = None;
        let direct = self.receives[&names[0]].0;
        for name in &names {
            let (send, recv) = self.met.pop_front().expect("a run has what was matched");
            assert_eq!(*name, recv, "in the order of matching");
            let (source, send_bytes) = self.sends[&send];
            let (target, recv_bytes) = self.receives[&recv];
            assert_eq!((source.address, send_bytes), (at, recv_bytes), "its bytes come next");
            if target.memory == MemoryType::Host {
                assert_eq!(target.address - direct.address, at - start, "straight into place");
            }
            match &mut received {
                None => received = Some(Receives::new(target, recv_bytes)),
                Some(receives) => assert!(receives.join(target, recv_bytes, CHUNK_BYTES)),
            }
            at += send_bytes;
        }
        assert_eq!(received.map(|receives| receives.bytes), Some(bytes), "both ends deal the same");
        assert!(names.len() == 1 || bytes <= u64::from(CHUNK_BYTES));
    }

    fn step(&mut self, name: u64, step: Step) {
        match step {
            Step::Send(posted) => {
                let span = self.sending.next(&posted);
                self.sends.insert(name, (span, posted.bytes));
                if let Some(met) = self.matcher.post_send(posted.tag, name, posted.bytes) {
                    self.meet(met);
                }
            }
            Step::Receive(posted) => {
                let (span, bytes) = (self.receiving.next(&posted), posted.bytes);
                let landing = Tail::landing(self.last_announced.as_ref(), &span);
                self.last_announced = Some(Tail::new(span, bytes));
                let number = self.receives.len() as u64;
                self.receives.insert(name, (span, bytes));
                let announced = Announced { recv: name, bytes, landing, number };
                self.announcements.push_back((posted.tag, announced));
            }
            Step::Deliver(count) => {
                for (tag, announced) in self
                    .announcements
                    .drain(..count.min(self.announcements.len()))
                    .collect::<Vec<_>>()
                {
                    if let Some(met) = self.matcher.announce(tag, announced).expect("new") {
                        self.meet(met);
                    }
                }
            }
            Step::EndCall => self.close(),
            Step::WithdrawSend(pick) => {
                let name = pick as u64 % name.max(1);
                (0..3).any(|tag| self.matcher.withdraw_send(tag, name));
            }
            Step::WithdrawReceive(pick) => {
                self.matcher.withdraw_receive(pick as u64 % name.max(1));
            }
        }
    }
}

proptest! {
    #[test]
    fn two_ends_put_the_same_messages_into_the_same_chunks(steps in steps()) {
        let mut ends = Ends::default();
        for (name, step) in (0u64..).zip(steps) {
            ends.step(name, step);
        }
        ends.step(u64::MAX, Step::Deliver(usize::MAX));
        ends.step(u64::MAX, Step::EndCall);
        prop_assert!(ends.met.is_empty(), "what was matched has gone");
    }
}
