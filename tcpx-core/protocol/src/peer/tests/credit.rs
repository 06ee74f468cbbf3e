//! Ends that may only send what the other has room for.
//!
//! The bounce buffer of one end: what its peer may have in it, and others that share it. A chunk
//! takes one page.

use std::sync::Arc;

use tcpx_testkit::Random;

use super::driver::{Check, ensure};
use super::exporting::no_exports;
use super::pair::Pair;
use super::setting::{AMPLE, DEAL_AT_ONCE, KEEPS_ALL, Setting};
use crate::frames::eager_terms::{CreditKind, EagerTerms};
use crate::frames::frame::{ChunkCounts, Frame};
use crate::peer::SLICE;
use crate::peer::action::{Action, Ending};
use crate::peer::credit::{BounceCredit, BouncePool};
use crate::peer::violation::Violation;
use crate::types::{Direction, MemoryType};

const SETTING: Setting = Setting {
    channels: 2,
    staging: u16::MAX,
    staging_is_late: false,
    copier: None,
    tuning: DEAL_AT_ONCE,
    has_progress_thread: true,
    is_named: true,
    slice: SLICE,
    bounce_pages: Some(2),
    is_crowded: false,
    eager: EagerTerms::OFF,
    link_is_full: false,
    one_sided: AMPLE,
    kept: KEEPS_ALL,
    keeps_chunks: false,
    sends_end_late: false,
    on_demand: false,
};

fn post(pair: &mut Pair, bytes: u64) {
    for (end, direction) in [(0, Direction::Send), (1, Direction::Receive)] {
        pair.ends[end].post(direction, &[(1, bytes, MemoryType::Device, false)]).unwrap();
    }
    pair.deliver_all().unwrap();
}

/// Sends what may be sent. Returns the number of chunks.
fn send_all(pair: &mut Pair) -> usize {
    (0..2).map(|channel| std::iter::from_fn(|| sends(pair, channel)).count()).sum()
}

fn sends(pair: &mut Pair, channel: usize) -> Option<()> {
    pair.send_chunk(0, channel).unwrap().then_some(())
}

#[test]
fn a_chunk_on_each_channel_goes_at_once_and_one_more_for_each_that_is_consumed() {
    let mut pair = Pair::up([SETTING; 2]);
    post(&mut pair, 10 * 64);
    assert_eq!(send_all(&mut pair), 2);
    assert!(pair.receive_chunk(1, 1).unwrap());
    pair.ends[1].round().unwrap();
    pair.deliver_all().unwrap();
    assert_eq!(send_all(&mut pair), 0, "it has arrived, and is where it was");
    assert!(pair.ends[1].consume_chunk(1).unwrap());
    assert_eq!(send_all(&mut pair), 0, "the sender does not know");
    pair.ends[1].round().unwrap();
    pair.deliver_all().unwrap();
    assert_eq!(send_all(&mut pair), 1);
    pair.settle().unwrap();
    assert!(pair.ends[1].posted.values().all(|posted| posted.end.is_some()));
}

#[test]
fn what_is_matched_gets_more_where_there_is_more() {
    let setting = Setting { bounce_pages: Some(12), ..SETTING };
    let mut pair = Pair::up([setting; 2]);
    post(&mut pair, 100 * 64);
    assert_eq!(send_all(&mut pair), 2, "the first go before the match is read");
    pair.ends[1].round().unwrap();
    pair.deliver_all().unwrap();
    assert_eq!(send_all(&mut pair), 6, "five to the one, and half of what is left to the other");
}

#[test]
fn a_channel_begins_without_credit_where_others_have_all_of_it() {
    let setting = Setting { channels: 3, bounce_pages: Some(4), is_crowded: true, ..SETTING };
    let mut pair = Pair::up([setting; 2]);
    post(&mut pair, 3 * 64);
    assert_eq!((send_all(&mut pair), sends(&mut pair, 2)), (2, None));
    pair.ends[1].round().unwrap();
    pair.deliver_all().unwrap();
    assert_eq!(sends(&mut pair, 2), None, "nothing was given back");
    pair.settle().unwrap();
    assert!(pair.ends[0].posted.values().all(|posted| posted.end.is_some()));
}

#[test]
fn an_end_that_counts_nothing_sends_no_credit() {
    let setting = Setting { bounce_pages: None, ..SETTING };
    let mut pair = Pair::up([setting; 2]);
    post(&mut pair, 100 * 64);
    assert_eq!(send_all(&mut pair), 100);
}

/// Returns the word of an end on a peer whose credit is not right.
fn violation(frames: impl IntoIterator<Item = Frame>) -> Option<Violation> {
    let mut pair = Pair::up([SETTING; 2]);
    let mut protocol = pair.ends[0].take_protocol().expect("it is up");
    for frame in frames {
        protocol.handle_frame(frame, &mut no_exports());
    }
    std::iter::from_fn(|| protocol.poll_action()).find_map(|action| match action {
        Action::End { ending: Ending::Broken(violation), .. } => Some(violation),
        _ => None,
    })
}

#[test]
fn credit_only_grows_and_is_for_every_channel() {
    let credit = |chunks: &[u64]| Frame::Credit {
        what: CreditKind::Chunks,
        counts: ChunkCounts::from_slice(chunks),
    };
    assert_eq!(violation([credit(&[1, 1]), credit(&[5, 1]), credit(&[5, u64::MAX])]), None);
    let taken_back = Violation::CreditTakenBack { channel: 1, before: 7, now: 6 };
    assert_eq!(violation([credit(&[1, 7]), credit(&[2, 6])]), Some(taken_back));
    assert_eq!(violation([credit(&[2])]), Some(Violation::CreditChannels(1)));
    assert_eq!(violation([credit(&[])]), Some(Violation::CreditChannels(0)));
    let again = violation([Frame::Open { credit: ChunkCounts::new() }]);
    assert!(matches!(again, Some(Violation::Unexpected { .. })), "{again:?}");
}

/// Channel of another peer, which has sent whatever may be sent.
#[derive(Debug)]
struct Other {
    credit: BounceCredit,
    consumed: u64,
}

#[derive(Debug)]
pub(super) struct Bounce {
    pool: Arc<BouncePool>,
    pages: u64,
    /// Of each channel of the peer.
    credits: Vec<BounceCredit>,
    consumed: Vec<u64>,
    others: Vec<Other>,
}

impl Bounce {
    /// Makes a buffer with at least a page for each channel. In a crowded one another channel has
    /// more than one already, if there are any to spare.
    pub(super) fn new(pages: u64, channels: u16, is_crowded: bool) -> Self {
        let pool = BouncePool::new(pages);
        let mut others = Vec::new();
        if is_crowded && pages > u64::from(channels) {
            others.extend(pool.admit(1).map(|credit| Other { credit, consumed: 0 }));
        }
        for other in &mut others {
            other.credit.expect(pages);
            other.credit.renew(0);
        }
        let credits: Vec<_> = (0..channels).filter_map(|_| pool.admit(1)).collect();
        assert_eq!(credits.len(), usize::from(channels), "{pages} pages are too few");
        let consumed = vec![0; credits.len()];
        Self { pool, pages, credits, consumed, others }
    }

    /// Returns how many chunks the peer may send on each channel.
    pub(super) fn limits(&self) -> ChunkCounts {
        self.credits.iter().map(BounceCredit::limit).collect()
    }

    pub(super) fn expect(&mut self, channel: u16, chunks: u64) {
        self.credits[usize::from(channel)].expect(chunks);
    }

    pub(super) fn consume(&mut self, channel: usize) {
        self.consumed[channel] += 1;
    }

    /// Returns new limits, if there are any.
    pub(super) fn renew(&mut self) -> Option<ChunkCounts> {
        let mut is_more = false;
        for (credit, consumed) in self.credits.iter_mut().zip(&self.consumed) {
            is_more |= credit.renew(*consumed);
        }
        is_more.then(|| self.limits())
    }

    /// Others come, expect, consume and go.
    pub(super) fn disturb(&mut self, random: &mut Random) {
        let count = self.others.len();
        match (random.below(4), count) {
            (0, _) | (_, 0) => {
                let others = self.pool.admit(1).map(|credit| Other { credit, consumed: 0 });
                self.others.extend(others);
            }
            (1, _) => drop(self.others.swap_remove(random.below(count))),
            (2, _) => self.others[random.below(count)].credit.expect(random.below(9) as u64),
            _ => {
                let other = &mut self.others[random.below(count)];
                other.consumed = other.credit.limit();
                other.credit.renew(other.consumed);
            }
        }
    }

    /// Removes all other channels.
    pub(super) fn leave_alone(&mut self) {
        self.others.clear();
    }

    /// Checks that all that the peer has sent has a place. This end has consumed some of it.
    pub(super) fn check(&self, sent: &[u64]) -> Check {
        let limits = self.limits();
        let is_allowed = sent.iter().zip(&limits).all(|(sent, limit)| sent <= limit);
        ensure!(is_allowed, "{sent:?} chunks are sent, credit is {limits:?}");
        let unconsumed = sent.iter().sum::<u64>() - self.consumed.iter().sum::<u64>();
        let of_others =
            self.others.iter().map(|other| other.credit.limit() - other.consumed).sum::<u64>();
        let (all, pages) = (unconsumed + of_others, self.pages);
        ensure!(all <= pages, "{unconsumed} chunks and {of_others} of others in {pages} pages");
        Ok(())
    }
}
