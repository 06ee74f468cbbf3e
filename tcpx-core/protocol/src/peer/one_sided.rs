//! Reads and writes of memory that one end exports, and notifications.
//!
//! An operation is one message whose memory is a list of pieces at each end. The *initiator* tells
//! the list, once, and asks; the *target* grants a write, or begins to send what is read. From then
//! on the sender deals the operation in sections, as it deals a long message. Operations that both
//! ends have [agreed on](crate::frames::eager_terms) travel on the link, with their frame or in
//! parts, and need no grant. Every write gets exactly one answer, and every read its bytes or the
//! word that no more come.
//!
//! - [`telling`], [`told`]: a list, and which lists the peer knows, at the initiator and at the
//!   target.
//! - [`notes`]: notifications, both ways.
//! - `asking`: the initiator's requests. `saying`: what is said next of them.
//! - `hearing`: the receiver of a frame, and what ends when exports are taken back. `serving`: what
//!   the target does about requests.
//! - `parts`: their bytes on the link, at both ends. `ending`: what was dealt and has moved, how
//!   they end, and what becomes free then; all others call it, and it calls none of them.
//!
//! `OneSided` owns what is known of them; its methods take the conversation that they share with
//! tagged messages.

mod asking;
mod ending;
mod hearing;
pub mod notes;
pub(super) mod parts;
mod saying;
mod serving;
pub mod telling;
pub mod told;

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::HashMap;

use self::notes::Notes;
use self::telling::{ListLimits, PreparedList, Telling};
use self::told::ToldLists;
use super::action::Violation;
use super::room::KeptTerms;
use crate::frames::eager_terms::Keeping;
use crate::stats::OneSidedStats;
use crate::types::kept_budget::Share;
use crate::types::{OpKey, PreparedKey, TransferKey};

/// Most writes that a peer asks for and has no answer to, and most reads that are not dealt to the
/// end.
pub const MAX_ASKED: usize = 1024;

/// Limit of what the peer has dealt and this end has planned, as it
/// [costs](crate::plans::pieces::Pieces::cost): while as much has not arrived, no more is planned.
pub const MOST_PLANNED: u64 = 64 << 20;

/// Bytes that a peer's lists may take, whatever others do.
const LISTS_OWN: u64 = 16 << 10;

/// Terms that both ends have agreed on, and abilities of this end.
#[derive(Clone, Copy, Debug)]
pub struct OneSidedTerms {
    /// Most lists that a peer has to know.
    pub lists: ListLimits,
    /// Room for notifications at each end, in bytes.
    pub note_bytes: u64,
    /// Most that notifications may cost which wait here for room at the peer.
    pub queued_note_bytes: u64,
    /// Most requests of a kind that are asked at a time, [`MAX_ASKED`] but for tests.
    pub asked: usize,
    /// Most of what the peer deals that is planned at a time, [`MOST_PLANNED`] but for tests.
    pub planned: u64,
    /// Whether host memory can be received into at all.
    pub receives_host: bool,
    /// Whether what is received into host memory may lie apart.
    pub scatters_host: bool,
}

/// A request that a program posts.
#[derive(Clone, Debug)]
pub struct NewRequest {
    /// The transfer that it is of.
    pub transfer: TransferKey,
    /// The list.
    pub list: Arc<PreparedList>,
    /// The note behind it, if there is one.
    pub note: Option<Arc<[u8]>>,
}

/// A write that has no answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unanswered {
    pub(super) list: PreparedKey,
    /// Bytes of it that travel on the link.
    pub on_link: u64,
}

/// The books of one end.
#[derive(Debug)]
pub(super) struct OneSided {
    terms: OneSidedTerms,
    /// The operation of each transfer that has one.
    of_transfer: HashMap<TransferKey, OpKey>,
    telling: Telling,
    told: ToldLists,
    notes: Notes,
    /// Requests whose list the peer neither knows nor is learning, oldest first.
    unlisted: VecDeque<OpKey>,
    /// Requests whose list the peer knows: writes and reads.
    writes: VecDeque<OpKey>,
    noted_writes: VecDeque<OpKey>,
    reads: VecDeque<OpKey>,
    /// Writes that have no answer, by their names.
    unanswered: HashMap<u64, Unanswered>,
    /// Bytes of those among them that travel on the link.
    writes_on_link: u64,
    /// Bytes of reads of the peer that travel there and are not dealt.
    reads_on_link: u64,
    /// Writes of the peer that travel on the link and were refused, by the initiator's names: the
    /// number of unwanted bytes that are to come.
    unwanted: HashMap<u64, u64>,
    /// Reads that are not dealt to the end, likewise.
    undealt: HashMap<u64, PreparedKey>,
    /// Requests of the peer that are served, by the initiator's names.
    served: HashMap<u64, OpKey>,
    /// Writes among them.
    served_writes: usize,
    /// Number of reads among them that are not dealt to the end.
    undealt_reads: usize,
    stats: OneSidedStats,
    /// Whether the driver knows that the peer was refused something.
    has_warned: bool,
}

impl OneSided {
    pub(super) fn new(terms: OneSidedTerms, kept: &KeptTerms) -> Self {
        Self {
            terms,
            of_transfer: HashMap::default(),
            telling: Telling::new(terms.lists),
            told: ToldLists::new(terms.lists, Share::new(&kept.budget, LISTS_OWN)),
            notes: Notes::new(kept.notes(terms.note_bytes), terms.queued_note_bytes),
            unlisted: VecDeque::new(),
            writes: VecDeque::new(),
            noted_writes: VecDeque::new(),
            reads: VecDeque::new(),
            unanswered: HashMap::default(),
            writes_on_link: 0,
            reads_on_link: 0,
            unwanted: HashMap::default(),
            undealt: HashMap::default(),
            served: HashMap::default(),
            served_writes: 0,
            undealt_reads: 0,
            stats: OneSidedStats::default(),
            has_warned: false,
        }
    }

    /// Returns the number of reads of the peer that are all dealt, and not all sent.
    pub(super) fn unsent_reads(&self) -> usize {
        self.served.len() - self.served_writes - self.undealt_reads
    }

    /// Returns the counts so far.
    pub(super) fn stats(&self) -> OneSidedStats {
        self.stats
    }

    /// Notifications of the program that the peer has no room for.
    pub(super) fn unsent_notes(&self) -> usize {
        self.notes.waiting()
    }

    /// Returns the cost of the notifications that wait to be sent.
    pub(super) fn queued_notes(&self) -> u64 {
        self.notes.queued()
    }

    /// Notes that the program has taken notifications of this peer that cost `cost` so far.
    pub(super) fn notes_taken(&mut self, cost: u64) {
        self.notes.take(cost);
    }

    /// Ends the share of the peer: others keep what is left of its notifications.
    pub(super) fn let_go_of_notes(&mut self) {
        self.notes.given.let_go();
    }

    /// Notes that the peer takes notifications that cost `cost`, from the first one on.
    pub(super) fn peer_takes(&mut self, cost: u64) -> Result<(), Violation> {
        self.notes.allowed.hear(Keeping::Notes, cost)
    }

    /// Returns the cost that notifications of the peer may have at first, if that is more than its
    /// own room.
    pub(super) fn first_room(&mut self) -> Option<(Keeping, u64)> {
        self.notes.given.first().map(|count| (Keeping::Notes, count))
    }

    /// Returns whether it may be time to give the peer more room for notifications.
    #[inline]
    pub(super) fn look_at_room(&mut self) -> bool {
        self.notes.look()
    }

    /// Gives it, if it may be time. Returns what they may cost from now on.
    pub(super) fn give_room(&mut self, is_due: bool) -> Option<(Keeping, u64)> {
        let count = is_due.then(|| self.notes.given.give()).flatten()?;
        Some((Keeping::Notes, count))
    }

    /// Returns how much there is of everything.
    pub(super) fn counts(&self) -> Counts {
        let served = [self.served.len(), self.served_writes, self.undealt_reads];
        let [served, served_writes, undealt_reads] = served;
        let listed = self.of_transfer.len() + served;
        let (unanswered, undealt) = (self.unanswered.len(), self.undealt.len());
        Counts {
            requests: [listed, unanswered, undealt, served, served_writes, undealt_reads],
            on_link: [self.writes_on_link, self.reads_on_link, self.unwanted.len() as u64],
            lists_told: self.telling.sizes(),
            lists_known: self.told.sizes(),
        }
    }
}

/// Counts of what an end keeps for requests, lists and bytes on the link: all of it is bounded.
#[derive(Debug, PartialEq, Eq)]
pub struct Counts {
    /// Operations with a list, writes without an answer, reads that are not dealt; and what is
    /// served, writes among it, and reads that are not dealt.
    pub requests: [usize; 6],
    /// Bytes of writes and of reads that travel on the link, and writes there that were refused.
    pub on_link: [u64; 3],
    /// Lists that the peer knows, and their ranges.
    pub lists_told: (usize, usize),
    /// Lists of the peer's, and their ranges.
    pub lists_known: (usize, usize),
}

#[cfg(test)]
impl OneSided {
    /// Returns the cost of the notifications that the peer takes, from the first one on.
    pub(super) fn allowed(&self) -> u64 {
        self.notes.allowed.allowed
    }
}
