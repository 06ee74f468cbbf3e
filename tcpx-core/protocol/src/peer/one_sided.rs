//! Reads and writes of memory that one end exports, and notifications.
//!
//! An operation is one message whose memory is a list of pieces at each end. The *initiator* tells
//! the list, once, and asks; the *target* grants a write, or begins to send what is read. From then
//! on the sender schedules the operation in sections, as it schedules a long message. Operations
//! that both ends have [agreed on](crate::frames::eager_terms) travel on the link, with their frame
//! or in chunks, and need no grant. Every write gets exactly one answer, and every read its bytes
//! or the word that no more come. On the channels:
//!
//! ```text
//! write  initiator                       target
//!        list, once on a connection ───▶ checks its keys and ranges
//!        offer, notification        ───▶ begins to use the exports, makes a receive
//!                                   ◀─── ready
//!        chunks                     ───▶ unpacks, publishes the notification
//!                                   ◀─── end: all bytes are in place
//! read   ready                      ───▶ begins to use the exports
//!        unpacks                    ◀─── chunks
//!        offer, with a notification ───▶ publishes it
//! ```
//!
//! - [`local_lists`], [`remote_lists`]: a list, and which lists the peer knows, at the initiator
//!   and at the target.
//! - [`notes`]: notifications, both ways.
//! - `requests`: the initiator's requests. `output`: what is said next of them.
//! - `input`: the receiver of a frame, and what ends when exports are taken back. `serving`: what
//!   the target does about requests.
//! - `link_chunks`: their bytes on the link, at both ends. `ending`: what was scheduled and has
//!   moved, how they end, and what becomes free then; all others call it, and it calls none of
//!   them.
//!
//! `OneSided` owns what is known of them; its methods take the conversation that they share with
//! tagged messages.

mod ending;
mod input;
pub(super) mod link_chunks;
pub mod local_lists;
pub mod notes;
mod output;
pub mod remote_lists;
mod requests;
mod serving;

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::HashMap;

use self::local_lists::{ListLimits, LocalLists, PreparedList};
use self::notes::Notes;
use self::remote_lists::RemoteLists;
use super::flow_control::FlowTerms;
use super::violation::Violation;
use crate::frames::eager_terms::CreditKind;
use crate::stats::OneSidedStats;
use crate::types::peer_budget::BudgetShare;
use crate::types::{OpKey, PreparedKey, TransferKey};

/// Most writes that a peer asks for and has no answer to, and most reads that are not scheduled to
/// the end.
pub const MAX_ACTIVE_REQUESTS: usize = 1024;

/// Limit of what the peer has scheduled and this end has planned, as it
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
    /// Most requests of a kind that are asked at a time, [`MAX_ACTIVE_REQUESTS`] but for tests.
    pub asked: usize,
    /// Most of what the peer schedules that is planned at a time, [`MOST_PLANNED`] but for tests.
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
    local_lists: LocalLists,
    remote_lists: RemoteLists,
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
    /// Bytes of reads of the peer that travel there and are not scheduled.
    reads_on_link: u64,
    /// Writes of the peer that travel on the link and were refused, by the initiator's names: the
    /// number of unwanted bytes that are to come.
    unwanted: HashMap<u64, u64>,
    /// Reads that are not scheduled to the end, likewise.
    unscheduled: HashMap<u64, PreparedKey>,
    /// Requests of the peer that are served, by the initiator's names.
    served: HashMap<u64, OpKey>,
    /// Writes among them.
    served_writes: usize,
    /// Number of reads among them that are not scheduled to the end.
    unscheduled_reads: usize,
    stats: OneSidedStats,
    /// Whether the driver knows that the peer was refused something.
    has_warned: bool,
}

impl OneSided {
    pub(super) fn new(terms: OneSidedTerms, kept: &FlowTerms) -> Self {
        Self {
            terms,
            of_transfer: HashMap::default(),
            local_lists: LocalLists::new(terms.lists),
            remote_lists: RemoteLists::new(terms.lists, BudgetShare::new(&kept.budget, LISTS_OWN)),
            notes: Notes::new(kept.notes(terms.note_bytes), terms.queued_note_bytes),
            unlisted: VecDeque::new(),
            writes: VecDeque::new(),
            noted_writes: VecDeque::new(),
            reads: VecDeque::new(),
            unanswered: HashMap::default(),
            writes_on_link: 0,
            reads_on_link: 0,
            unwanted: HashMap::default(),
            unscheduled: HashMap::default(),
            served: HashMap::default(),
            served_writes: 0,
            unscheduled_reads: 0,
            stats: OneSidedStats::default(),
            has_warned: false,
        }
    }

    /// Returns the number of reads of the peer that are all scheduled, and not all sent.
    pub(super) fn unsent_reads(&self) -> usize {
        self.served.len() - self.served_writes - self.unscheduled_reads
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
        self.notes.incoming.release();
    }

    /// Notes that the peer takes notifications that cost `cost`, from the first one on.
    pub(super) fn handle_credit_of(&mut self, cost: u64) -> Result<(), Violation> {
        self.notes.outgoing.handle_grant(CreditKind::Notes, cost)
    }

    /// Returns the cost that notifications of the peer may have at first, if that is more than its
    /// own room.
    pub(super) fn first_grants(&mut self) -> Option<(CreditKind, u64)> {
        self.notes.incoming.first_grant().map(|count| (CreditKind::Notes, count))
    }

    /// Returns whether it may be time to give the peer more room for notifications.
    #[inline]
    pub(super) fn needs_grant(&mut self) -> bool {
        self.notes.look()
    }

    /// Gives it, if it may be time. Returns what they may cost from now on.
    pub(super) fn grant_room(&mut self, is_due: bool) -> Option<(CreditKind, u64)> {
        let count = is_due.then(|| self.notes.incoming.grant()).flatten()?;
        Some((CreditKind::Notes, count))
    }

    /// Returns how much there is of everything.
    pub(super) fn counts(&self) -> Counts {
        let served = [self.served.len(), self.served_writes, self.unscheduled_reads];
        let [served, served_writes, unscheduled_reads] = served;
        let listed = self.of_transfer.len() + served;
        let (unanswered, unscheduled) = (self.unanswered.len(), self.unscheduled.len());
        Counts {
            requests: [listed, unanswered, unscheduled, served, served_writes, unscheduled_reads],
            on_link: [self.writes_on_link, self.reads_on_link, self.unwanted.len() as u64],
            lists_told: self.local_lists.sizes(),
            lists_known: self.remote_lists.sizes(),
        }
    }
}

/// Counts of what an end keeps for requests, lists and bytes on the link: all of it is bounded.
#[derive(Debug, PartialEq, Eq)]
pub struct Counts {
    /// Operations with a list, writes without an answer, reads that are not scheduled; and what is
    /// served, writes among it, and reads that are not scheduled.
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
        self.notes.outgoing.granted
    }
}
