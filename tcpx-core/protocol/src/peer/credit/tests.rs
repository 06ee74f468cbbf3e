//! Pools that are divided among channels which come, receive and go.

use proptest::prelude::*;

use super::*;

/// A channel, and what is in its part of the bounce buffer.
struct Channel {
    credit: BounceCredit,
    pages: u64,
    /// Chunks that the peer is to send.
    posted: u64,
    sent: u64,
    consumed: u64,
}

impl Channel {
    fn new(credit: BounceCredit, pages: u64) -> Self {
        Self { credit, pages, posted: 0, sent: 0, consumed: 0 }
    }

    /// Sends a chunk if the peer may. Returns whether it did.
    fn send(&mut self) -> bool {
        let sends = self.sent < self.credit.limit().min(self.posted);
        self.sent += u64::from(sends);
        sends
    }

    /// Matches what is posted, perhaps after some of it came.
    fn meet(&mut self) {
        self.credit.expect(self.posted - self.credit.scheduled);
        self.credit.renew(self.consumed);
    }

    /// Returns whether there was a chunk to consume, or more may come now.
    fn consume(&mut self) -> bool {
        let is_there = self.consumed < self.sent;
        self.consumed += u64::from(is_there);
        self.credit.renew(self.consumed) || is_there
    }
}

fn in_use(channels: &[Channel]) -> u64 {
    channels.iter().map(|channel| (channel.sent - channel.consumed) * channel.pages).sum()
}

proptest! {
    /// Peers that send whenever they may never fill the pool, whichever channels come and go. Every
    /// channel comes to send, and nothing is left of those that went.
    #[test]
    fn whatever_comes_finds_room(
        pages in 1u64..200,
        steps in proptest::collection::vec((0u8..8, 1u64..20, any::<usize>()), 0..400),
    ) {
        let pool = BouncePool::new(pages);
        let mut channels: Vec<Channel> = Vec::new();
        for (step, number, which) in steps {
            let which = which.checked_rem(channels.len()).unwrap_or(0);
            match (step, channels.get_mut(which)) {
                (0, _) => {
                    let kept: u64 = channels.iter().map(|channel| channel.pages).sum();
                    let credit = pool.admit(number);
                    prop_assert_eq!(credit.is_some(), kept + number <= pages);
                    channels.extend(credit.map(|credit| Channel::new(credit, number)));
                }
                (1, Some(_)) => drop(channels.swap_remove(which)),
                (2, Some(channel)) => channel.posted += number,
                (3, Some(channel)) => channel.meet(),
                (4 | 5, Some(channel)) => drop(channel.send()),
                (_, Some(channel)) => drop(channel.consume()),
                (_, None) => {}
            }
            prop_assert!(in_use(&channels) <= pages);
            let account = pool.lock();
            let held = |channel: &Channel| channel.credit.held * channel.pages;
            prop_assert_eq!(account.promised, channels.iter().map(held).sum::<u64>());
            prop_assert!(account.promised <= pages);
        }
        // All consume what is there. Then all may send.
        channels.iter_mut().for_each(Channel::meet);
        while channels.iter_mut().any(|channel| channel.send() || channel.consume()) {}
        for channel in &mut channels {
            prop_assert_eq!(channel.consumed, channel.posted);
            channel.credit.renew(channel.consumed);
            prop_assert!(!channel.credit.is_withheld());
        }
        drop(channels);
        let account = pool.lock();
        let counts = (account.promised, account.owed, account.kept, account.channels);
        prop_assert_eq!(counts, (0, 0, 0, 0));
    }
}

#[test]
fn busy_channels_share_alike_and_leave_as_much_free() {
    let pool = BouncePool::new(110);
    let mut channels: Vec<_> = (0..10).filter_map(|_| pool.admit(1)).collect();
    channels[0].expect(1000);
    channels[0].renew(0);
    assert_eq!(channels[0].limit(), 50, "half of what is left by nine idle ones, and its own");
    channels.iter_mut().skip(1).for_each(|channel| channel.expect(1000));
    // Each consumes what it has got, one after the other.
    let mut consumed = [0; 10];
    for round in 0..1000 {
        let turn = round % 10;
        consumed[turn] += u64::from(consumed[turn] < channels[turn].limit());
        channels[turn].renew(consumed[turn]);
    }
    let held: Vec<u64> = channels.iter().map(|channel| channel.held).collect();
    assert!(held.iter().all(|held| (9..=11).contains(held)), "{held:?}");
}

#[test]
fn a_newcomer_gets_its_first_chunk_from_those_who_have_more() {
    let pool = BouncePool::new(4);
    let mut first = pool.admit(1).unwrap();
    first.expect(100);
    first.renew(0);
    let mut others: Vec<_> = std::iter::from_fn(|| pool.admit(1)).collect();
    assert_eq!((first.limit(), others.len(), pool.kept().channels), (2, 3, 4));
    let is_withheld =
        |others: &[BounceCredit]| others.iter().filter(|credit| credit.is_withheld()).count();
    assert_eq!(is_withheld(&others), 1);
    assert!(!first.renew(1), "nothing is free for more than its own");
    assert!(others.iter_mut().any(|credit| credit.renew(0)));
    assert_eq!(is_withheld(&others), 0);
    assert!(first.renew(2), "it has always room for one");
}

#[test]
fn sessions_share_the_pool_of_a_buffer() {
    let (left, right) = (BouncePool::of(0x1000, 8), BouncePool::of(0x1000, 8));
    assert!(Arc::ptr_eq(&left, &right));
    assert!(!Arc::ptr_eq(&left, &BouncePool::of(0x2000, 8)));
    // For a moment other memory was mapped right behind it.
    assert!(Arc::ptr_eq(&left, &BouncePool::of(0x1000, 20)));
    let credit = left.admit(5);
    assert!(credit.is_some() && right.admit(4).is_none() && right.admit(3).is_some());
    assert_eq!(right.kept(), ReservedPages { channels: 1, pages: 5 });
    let less = BouncePool::of(0x1000, 7);
    assert!(Arc::ptr_eq(&left, &less) && less.admit(3).is_none() && less.admit(2).is_some());
}
