//! Pools that are divided among channels which come, receive and go.

use proptest::prelude::*;

use super::*;

const PAGE: u64 = UNPACK_PAGE_BYTES as u64;

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

    /// The peer sends if it may. Whether it did.
    fn send(&mut self) -> bool {
        let sends = self.sent < self.credit.limit().min(self.posted);
        self.sent += u64::from(sends);
        sends
    }

    /// The match of what is posted comes, perhaps after some of it.
    fn meet(&mut self) {
        self.credit.expect(self.posted - self.credit.dealt);
        self.credit.renew(self.consumed);
    }

    /// Whether there was a chunk to consume, or more may come now.
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
    /// Peers that send whenever they may never fill the pool, whoever comes and goes; every channel
    /// comes to send; and nothing is left of those that went.
    #[test]
    fn whatever_comes_finds_room(
        pages in 1u64..200,
        steps in proptest::collection::vec((0u8..8, 1u64..20, any::<usize>()), 0..400),
    ) {
        let pool = BouncePool::new(pages * PAGE);
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
        // Everybody consumes what is there. Then everybody may send.
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

    #[test]
    fn a_chunk_takes_its_bytes_in_pages_at_least(bytes in 1u32..=4 << 20, packet in 1u32..20_000) {
        let pages = chunk_pages(bytes, packet);
        let least = u64::from(bytes.div_ceil(UNPACK_PAGE_BYTES as u32));
        prop_assert!((least..=2048).contains(&pages), "{pages}");
        let packets = u64::from(bytes.div_ceil(packet));
        prop_assert!(pages >= packets.min(2048));
    }
}

/// What was measured with packets of 8 KiB and pages of 4 KiB: 129 pages for 512 KiB, 1026 for
/// 4 MiB.
#[test]
fn measured_chunks_take_no_more_than_they_are_given() {
    assert_eq!((chunk_pages(512 << 10, 8192), chunk_pages(4 << 20, 8192)), (140, 1092));
    assert_eq!((chunk_pages(512 << 10, 1448), chunk_pages(4 << 20, 1448)), (387, 2048));
}

/// Buffers that were seen to fill up with parts of chunks, and buffers that were not.
#[test]
fn a_pool_takes_as_many_channels_as_it_has_chunks() {
    let fits = |pool_mib: u64, channels: usize, chunk_kib: u32| {
        let pool = BouncePool::new(pool_mib << 20);
        let pages = chunk_pages(chunk_kib << 10, 1448);
        let credits: Vec<_> = (0..channels).map_while(|_| pool.admit(pages)).collect();
        credits.len() == channels
    };
    for (pool, channels, chunk) in [(64, 16, 4096), (2, 4, 512), (4, 8, 2048), (1, 4, 4096)] {
        assert!(!fits(pool, channels, chunk), "{channels} of {chunk} KiB in {pool} MiB");
    }
    for (pool, channels) in [(8, 2), (16, 8), (32, 4), (64, 32)] {
        assert!(fits(pool, channels, 512), "{channels} in {pool} MiB");
    }
}

#[test]
fn busy_channels_share_alike_and_leave_as_much_free() {
    let pool = BouncePool::new(110 * PAGE);
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
    let pool = BouncePool::new(4 * PAGE);
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
    let (left, right) = (BouncePool::of(0x1000, 8 * PAGE), BouncePool::of(0x1000, 8 * PAGE));
    assert!(Arc::ptr_eq(&left, &right));
    assert!(!Arc::ptr_eq(&left, &BouncePool::of(0x2000, 8 * PAGE)));
    // For a moment other memory was mapped right behind it.
    assert!(Arc::ptr_eq(&left, &BouncePool::of(0x1000, 20 * PAGE)));
    let credit = left.admit(5);
    assert!(credit.is_some() && right.admit(4).is_none() && right.admit(3).is_some());
    assert_eq!(right.kept(), Kept { channels: 1, bytes: 5 * PAGE });
    let less = BouncePool::of(0x1000, 7 * PAGE);
    assert!(Arc::ptr_eq(&left, &less) && less.admit(3).is_none() && less.admit(2).is_some());
}
