//! Both ends of runs against each other.

use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::peer::protocol::matcher::{Matched, Matcher};

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
struct CommLabel {
    end: u64,
    is_device: bool,
}

impl CommLabel {
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
struct Ends {
    limits: RunLimits,
    has_staging: bool,
    matcher: Matcher<u64>,
    run: OpenRun<u64>,
    sends: HashMap<u64, (Span, u64)>,
    receives: HashMap<u64, (Span, u64)>,
    sending: CommLabel,
    receiving: CommLabel,
    last_announced: Option<MessageEnd>,
    announcements: VecDeque<(i32, Announced)>,
    /// Pairs in the order of their matching.
    met: VecDeque<(u64, u64)>,
}

impl Ends {
    fn new(limits: RunLimits, has_staging: bool) -> Self {
        Self {
            limits,
            has_staging,
            matcher: Matcher::default(),
            run: OpenRun::default(),
            sends: HashMap::new(),
            receives: HashMap::new(),
            sending: CommLabel::default(),
            receiving: CommLabel::default(),
            last_announced: None,
            announcements: VecDeque::new(),
            met: VecDeque::new(),
        }
    }

    fn meet(&mut self, met: Matched<u64>) {
        let Matched { send, send_bytes: bytes, announced } = met;
        if bytes != announced.bytes {
            return;
        }
        let member = Member { send, span: self.sends[&send].0, bytes, announced };
        let before = self.met.back().map(|(send, _)| *send);
        match self.run.fit(&member, &self.limits) {
            Fit::Joins => {}
            Fit::JoinsLast => self.close(true),
            Fit::Apart => self.close(false),
        }
        if let Some(joined) = self.run.join(member) {
            assert_eq!(Some(joined), before, "behind the one matched before it");
        }
        self.met.push_back((send, announced.recv));
    }

    fn close(&mut self, keeps_last: bool) {
        let has_staging = self.has_staging;
        while let Some(part) = self.run.take(keeps_last, &self.limits, |_| has_staging) {
            self.go_over(part);
        }
    }

    /// The chunk goes over: every receive gets the bytes of its own send.
    fn go_over(&mut self, part: Part<u64>) {
        let Part { first, last, bytes, names, gathered } = part;
        let start = self.sends[&first].0;
        let mut at = 0;
        let mut received: Option<Receives> = None;
        let direct = self.receives[&names[0]].0;
        let mut last_send = first;
        for name in &names {
            let (send, recv) = self.met.pop_front().expect("a run has what was matched");
            assert_eq!(*name, recv, "in the order of matching");
            let (source, send_bytes) = self.sends[&send];
            let (target, recv_bytes) = self.receives[&recv];
            assert_eq!(send_bytes, recv_bytes);
            match gathered {
                Some(memory) => assert_eq!(memory, source.memory, "one copier for all"),
                None => assert_eq!(source, Span { address: start.address + at, ..start }),
            }
            if target.memory == MemoryType::Host {
                assert_eq!(target.address, direct.address + at, "straight into place");
            }
            match &mut received {
                None => received = Some(Receives::new(target, recv_bytes)),
                Some(receives) => assert!(receives.join(target, recv_bytes, CHUNK_BYTES)),
            }
            at += send_bytes;
            last_send = send;
        }
        assert_eq!((last_send, at), (last, bytes));
        assert_eq!(received.map(|receives| receives.bytes), Some(bytes), "both ends deal the same");
        assert!(names.len() == 1 || bytes <= u64::from(CHUNK_BYTES));
        assert!(gathered.is_none() || self.has_staging && names.len() > 1);
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
                let landing = MessageEnd::landing(self.last_announced.as_ref(), &span);
                self.last_announced = Some(MessageEnd::new(span, bytes));
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
            Step::EndCall => self.close(false),
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
    fn two_ends_put_the_same_messages_into_the_same_chunks(
        steps in steps(), gathers in 0usize..3, has_staging in any::<bool>(),
    ) {
        let mut ends = Ends::new([in_place(), by_cpu(), by_gpu()][gathers], has_staging);
        for (name, step) in (0u64..).zip(steps) {
            ends.step(name, step);
        }
        ends.step(u64::MAX, Step::Deliver(usize::MAX));
        ends.step(u64::MAX, Step::EndCall);
        prop_assert!(ends.met.is_empty(), "what was matched has gone");
    }
}
