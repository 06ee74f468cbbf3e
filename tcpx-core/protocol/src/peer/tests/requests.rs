//! Operations on memory of the other end, as a program prepares and posts them.

use std::collections::BTreeMap;
use std::sync::Arc;

use slotmap::KeyData;

use super::driver::{Check, Driver, End, ensure};
use super::exporting::Area;
use crate::exports::capability::ListedRange;
use crate::exports::refusal::Refusal;
use crate::peer::action::Outcome;
use crate::peer::one_sided::NewRequest;
use crate::peer::one_sided::local_lists::PreparedList;
use crate::plans::pieces::{Piece, Pieces};
use crate::types::memory::OperationKind;
use crate::types::{Direction, MemoryType, PreparedKey, RegistrationKey, TransferKey};

/// Numbers of transfers from here on belong to operations with a list.
const FIRST_TRANSFER: u64 = 1 << 24;

/// A notification, which is known by where it lies.
pub(super) type Note = Arc<[u8]>;

/// Place of the bytes of a pair at both ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranges {
    pub(super) here: u64,
    pub(super) there: u64,
    pub(super) bytes: u64,
}

/// An operation, and its latest post.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) list: Arc<PreparedList>,
    pub(super) ranges: Vec<Ranges>,
    /// Numbers of the areas of the other end that it means.
    pub(super) areas: Vec<usize>,
    /// Reason why the other end must refuse it, and the range that the refusal is about.
    pub(super) fault: Option<(Refusal, u32)>,
    pub(super) is_dropped: bool,
    pub(super) post: Option<PostedRequest>,
}

#[derive(Debug, Default)]
pub(super) struct PostedRequest {
    pub(super) note: Option<Note>,
    pub(super) is_note_there: bool,
    pub(super) was_cancelled: bool,
    /// Whether it does not wait for what the other end still does with it.
    pub(super) was_abandoned: bool,
    /// Bytes that are in place, by where in the list they begin.
    pub(super) in_place: BTreeMap<u64, u64>,
    pub(super) end: Option<End>,
}

/// All operations of an end.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) all: BTreeMap<TransferKey, Request>,
    /// Operations that have ended and were not looked at.
    pub(super) ended: Vec<TransferKey>,
}

impl Request {
    /// Makes an operation on the beginning of an area of the other end.
    pub(super) fn of_one(
        requests: &Requests,
        kind: OperationKind,
        (number, area): (usize, &Area),
        bytes: u64,
    ) -> Self {
        let here = (1 << 50) + (requests.all.len() as u64 * (1 << 16));
        let (owners, piece) =
            (vec![RegistrationKey::default()], Piece { owner: 0, address: here, bytes });
        let pieces = Pieces::new(MemoryType::Device, owners, vec![piece]).expect("it has bytes");
        let list = PreparedList {
            key: requests.next_key(),
            kind,
            pieces: Arc::new(pieces),
            keys: [area.listed.clone()].into(),
            key_bytes: [area.bytes].into(),
            ranges: [ListedRange { key: 0, offset: 0, bytes }].into(),
            remote_memory: area.memory,
        };
        let ranges = vec![Ranges { here, there: area.address, bytes }];
        let (list, areas) = (Arc::new(list), vec![number]);
        Self { list, ranges, areas, fault: None, is_dropped: false, post: None }
    }

    /// Returns an operation that merely brings notifications.
    pub(super) fn of_none(requests: &Requests) -> Self {
        let list = Arc::new(PreparedList::empty(requests.next_key()));
        let (ranges, areas) = (Vec::new(), Vec::new());
        Self { list, ranges, areas, fault: None, is_dropped: false, post: None }
    }

    pub(super) fn is_active(&self) -> bool {
        self.post.as_ref().is_some_and(|post| post.end.is_none())
    }

    /// Returns where in the list the first of some bytes is that are here and there, and how many
    /// of them are of the same pair.
    fn offset_of(&self, here: u64, there: u64, bytes: u64) -> Option<(u64, u64)> {
        let mut before = 0;
        for range in &self.ranges {
            if (range.here..range.here + range.bytes).contains(&here) {
                let within = here - range.here;
                let of_pair = bytes.min(range.bytes - within);
                return (there == range.there + within).then_some((before + within, of_pair));
            }
            before += range.bytes;
        }
        None
    }

    /// Notes that bytes are in place at the end that receives them.
    pub(super) fn place(&mut self, here: u64, there: u64, bytes: u64) -> Check {
        let Some((offset, of_pair)) = self.offset_of(here, there, bytes) else {
            return Err(format!("{bytes} bytes of {here:#x} here and {there:#x} there"));
        };
        if of_pair < bytes {
            self.place(here, there, of_pair)?;
            return self.place(here + of_pair, there + of_pair, bytes - of_pair);
        }
        let is_over = |post: &PostedRequest| post.end.is_some() && post.was_abandoned;
        if self
            .post
            .as_ref()
            .is_some_and(|post| post.end == Some(End::WithThePeer) || is_over(post))
        {
            return Ok(());
        }
        let Some(post) = self.post.as_mut().filter(|post| post.end.is_none()) else {
            return Err(format!("{bytes} bytes move of what has ended: {self:?}"));
        };
        let before = post.in_place.range(..=offset).next_back();
        let behind = post.in_place.range(offset..).next();
        let is_new = before.is_none_or(|(at, bytes)| at + bytes <= offset)
            && behind.is_none_or(|(at, _)| offset + bytes <= *at);
        ensure!(is_new, "bytes {offset} to {} come twice", offset + bytes);
        post.in_place.insert(offset, bytes);
        Ok(())
    }
}

impl Requests {
    /// Returns the next number of a transfer.
    pub(super) fn next_transfer(&self) -> TransferKey {
        let number = FIRST_TRANSFER + self.all.len() as u64;
        TransferKey::from(KeyData::from_ffi(1 << 32 | number))
    }

    /// Returns the key of the list of the operation that is prepared next.
    pub(super) fn next_key(&self) -> PreparedKey {
        PreparedKey::from(KeyData::from_ffi(1 << 32 | (1 + self.all.len() as u64)))
    }

    /// Checks that bytes that a request moves lie in its memory as long as it uses that.
    pub(super) fn check_touched(&self, transfer: TransferKey) -> Check {
        let Some(request) = self.all.get(&transfer) else { return Ok(()) };
        ensure!(request.is_active(), "memory of {request:?} is used");
        Ok(())
    }
}

impl Driver {
    /// Posts an operation of the program, unless its peer is not up or it is under way. Returns
    /// whether it does.
    pub(super) fn post_request(
        &mut self,
        transfer: TransferKey,
        note: Option<Note>,
    ) -> Result<bool, String> {
        let Some(protocol) = &mut self.protocol else { return Ok(false) };
        let Some(request) = self.requests.all.get_mut(&transfer) else { return Ok(false) };
        let may_post = protocol.check_posts(Direction::Send, 1).is_ok();
        if !may_post || request.is_active() || request.is_dropped {
            return Ok(false);
        }
        let list = Arc::clone(&request.list);
        request.post = Some(PostedRequest { note: note.clone(), ..PostedRequest::default() });
        protocol.handle_request(NewRequest { transfer, list, note });
        self.act()?;
        Ok(true)
    }

    /// Gives an operation up for the program.
    pub(super) fn cancel_request(&mut self, transfer: TransferKey) -> Check {
        if let Some(request) = self.requests.all.get_mut(&transfer)
            && let Some(post) = &mut request.post
        {
            post.was_cancelled = true;
        }
        self.input(|protocol| protocol.handle_cancel(transfer))
    }

    /// Abandons an operation that the program has no more time for.
    pub(super) fn abandon_request(&mut self, transfer: TransferKey) -> Check {
        if let Some(request) = self.requests.all.get_mut(&transfer)
            && let Some(post) = &mut request.post
        {
            (post.was_cancelled, post.was_abandoned) = (true, true);
        }
        self.input(|protocol| protocol.handle_overdue(transfer))
    }

    /// Lets go of an operation for the program, for good.
    pub(super) fn drop_request(&mut self, transfer: TransferKey) -> Check {
        let Some(request) = self.requests.all.get_mut(&transfer) else { return Ok(()) };
        if std::mem::replace(&mut request.is_dropped, true) {
            return Ok(());
        }
        let key = request.list.key;
        if request.is_active() {
            self.cancel_request(transfer)?;
        }
        self.input(|protocol| protocol.handle_unprepared(key))
    }

    /// Takes the word of the protocol that an operation has ended.
    pub(super) fn request_ended(&mut self, transfer: TransferKey, end: End) -> Check {
        self.seen.ends(transfer, end);
        let Some(request) = self.requests.all.get_mut(&transfer) else {
            return Err("what ends was not posted".into());
        };
        let kind = request.list.kind;
        let Some(post) = &mut request.post else { return Err("it was never posted".into()) };
        ensure!(post.end.is_none(), "{post:?} ends a second time, with {end:?}");
        post.end = Some(end);
        if end == End::Completed(Outcome::Done)
            && kind == OperationKind::Read
            && let Some(note) = &post.note
        {
            self.notes.sent.push_back(Arc::clone(note));
        }
        self.requests.ended.push(transfer);
        Ok(())
    }

    /// Takes an area back for the program.
    pub(super) fn unexport(&mut self, area: usize) -> Check {
        let key = self.exporting.revoke(area);
        self.input(|protocol| {
            protocol.handle_revoked(&[key]);
        })
    }
}
