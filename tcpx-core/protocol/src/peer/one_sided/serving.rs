//! The target: what it does about requests of the peer. Its program does not know of them.

use super::super::PeerProtocol;
use super::super::action::{Action, Landing, NoteUse, Violation};
use super::super::operation::{Links, NewOperation, OpState, PostedOperation};
use super::super::route::{Load, Route, route};
use super::super::stage::Stage;
use super::super::tag_queues::Place;
use super::saying::access;
use super::told::{Opened, Refused, ToldList};
use super::{Listed, OneSided, Role, Serving};
use crate::exports::refusal::Refusal;
use crate::exports::table::Exports;
use crate::frames::eager_terms::Keeping;
use crate::frames::fields::LinkPart;
use crate::frames::frame::Frame;
use crate::frames::frame::one_sided::OneSidedFrame;
use crate::plans::piece_cursor::{PieceCursor, Stretch};
use crate::types::memory::OperationKind;
use crate::types::{Direction, MemoryType, OpKey, TransferKey};

impl PeerProtocol {
    /// A note of so many bytes has come. Whether the peer may send it.
    pub(super) fn comes(&mut self, bytes: u32) -> bool {
        let is_allowed = self.one_sided.notes.handle_note(bytes as usize);
        if !is_allowed {
            self.no_room(Keeping::Notes);
        }
        is_allowed
    }

    /// The program has taken notifications of this peer that cost so much so far.
    pub fn handle_notes_taken(&mut self, cost: u64) {
        self.one_sided.notes.take(cost);
    }

    /// The peer ends: what is left of its notifications is kept by others.
    pub fn let_go_of_notes(&mut self) {
        self.one_sided.notes.given.let_go();
    }

    /// Whether requests are passed over: after this end's goodbye nothing is served, and the
    /// goodbye is the answer. `Some(true)`: they are answered with a refusal.
    pub(super) fn is_leaving_target(&self) -> Option<bool> {
        match &self.stage {
            Stage::Closing(shutdown) if shutdown.has_said_goodbye() => None,
            Stage::Closing(_) => Some(true),
            _ => Some(false),
        }
    }

    /// What a request of the peer names, if it may ask for it now; `None`: the peer breaks the
    /// protocol.
    fn requested(&mut self, op: u64, list: u32, kind: OperationKind) -> Option<ToldList> {
        let OneSided { served, unwanted, .. } = &self.one_sided;
        let is_taken = served.contains_key(&op) || unwanted.contains_key(&op);
        let most = self.one_sided.terms.asked;
        let under_way = match kind {
            OperationKind::Write => self.one_sided.served_writes + unwanted.len(),
            OperationKind::Read => self.one_sided.undealt_reads,
        };
        let told = self.one_sided.told.get(list).filter(|told| told.kind == kind);
        match told {
            Some(told) if !is_taken && under_way < most => Some(told.clone()),
            _ => {
                self.broken(Violation::Request { op, list });
                None
            }
        }
    }

    /// What the list of a request opens, from now on in use.
    fn begin(&self, told: &ToldList, exports: &mut Exports) -> Result<Opened, Refused> {
        let opened = told.opened.clone()?;
        let refuse = |why| Refused { why, range: 0 };
        if self.is_leaving_target() != Some(false) {
            return Err(refuse(Refusal::Leaves));
        }
        exports.begin_all(&opened.uses).map_err(refuse)?;
        Ok(opened)
    }

    /// The same, for what is to be received by the plugin.
    fn begin_to_receive(&self, told: &ToldList, exports: &mut Exports) -> Result<Opened, Refused> {
        let is_host = |opened: &Opened| opened.pieces.memory == MemoryType::Host;
        if !self.one_sided.terms.receives_host && told.opened.as_ref().is_ok_and(is_host) {
            return Err(Refused { why: Refusal::ReceiveIntoHostMemory, range: 0 });
        }
        self.begin(told, exports)
    }

    /// The peer wants to write.
    pub(super) fn handle_write(
        &mut self,
        (op, list): (u64, u32),
        note: Option<u32>,
        on_link: bool,
        exports: &mut Exports,
    ) -> Landing {
        if self.is_leaving_target().is_none() {
            return Landing::Nowhere;
        }
        let Some(told) = self.requested(op, list, OperationKind::Write) else {
            return Landing::Nowhere;
        };
        // One of nothing needs no grant, and no parts.
        let is_allowed = !on_link || self.eager.terms.allows_access(told.bytes);
        if told.bytes == 0 || !is_allowed {
            self.broken(Violation::Request { op, list });
            return Landing::Nowhere;
        }
        if note.is_some_and(|bytes| !self.comes(bytes)) {
            return Landing::Nowhere;
        }
        let begun = match on_link {
            true => self.begin(&told, exports),
            false => self.begin_to_receive(&told, exports),
        };
        let opened = match begun {
            Ok(opened) if on_link && !self.eager.terms.reaches(opened.pieces.memory) => {
                exports.end_all(&opened.uses);
                self.broken(Violation::Request { op, list });
                return Landing::Nowhere;
            }
            Ok(opened) => opened,
            Err(refused) => {
                if on_link {
                    self.one_sided.unwanted.insert(op, told.bytes);
                }
                self.count_refusal(refused);
                self.answer(op, Some(refused));
                self.drop_note(note);
                return Landing::Nowhere;
            }
        };
        let cut = self.cuts(opened.pieces.memory);
        let number = note.map(|bytes| (self.next_note(), bytes));
        let recv = self.serve((op, list), Direction::Receive, opened, number);
        if let Some(listed) = self.one_sided.listed.get_mut(recv) {
            (listed.cuts_pairs, listed.is_on_link) = (cut, on_link);
        }
        if !on_link {
            self.begin_to_serve(recv);
        }
        number.map_or(Landing::Nowhere, |(number, bytes)| {
            Landing::Note(NoteUse::Keep { number, bytes })
        })
    }

    /// The peer writes what follows.
    pub(super) fn handle_write_now(
        &mut self,
        op: u64,
        list: u32,
        bytes: u32,
        note: Option<u32>,
        exports: &mut Exports,
    ) -> Landing {
        if self.is_leaving_target().is_none() {
            return Landing::Nowhere;
        }
        let Some(told) = self.requested(op, list, OperationKind::Write) else {
            return Landing::Nowhere;
        };
        let is_allowed = bytes == 0 || self.eager.terms.allows_access(bytes.into());
        if told.bytes != u64::from(bytes) || !is_allowed {
            self.broken(Violation::Request { op, list });
            return Landing::Nowhere;
        }
        if note.is_some_and(|bytes| !self.comes(bytes)) {
            return Landing::Nowhere;
        }
        let reaches = |opened: &Opened| self.eager.terms.reaches(opened.pieces.memory);
        match self.begin(&told, exports) {
            Ok(opened) if reaches(&opened) => {
                self.actions.push_back(Action::Served(opened.uses));
                self.one_sided.stats.link_bytes_received += u64::from(bytes);
                if bytes > 0 {
                    self.one_sided.stats.served(OperationKind::Write, bytes.into(), None);
                }
                self.one_sided.stats.notifications_received += u64::from(note.is_some());
                self.answer(op, None);
                let note = note.map_or(NoteUse::None, NoteUse::Publish);
                self.work.spend(opened.pieces.count() as u64);
                let (transfer, stretch) = (TransferKey::default(), Stretch::whole(opened.pieces));
                Landing::Pieces { transfer, stretch, note }
            }
            Ok(opened) => {
                exports.end_all(&opened.uses);
                self.broken(Violation::Request { op, list });
                Landing::Nowhere
            }
            Err(refused) => {
                self.count_refusal(refused);
                self.answer(op, Some(refused));
                self.drop_note(note);
                Landing::Nowhere
            }
        }
    }

    /// A request of the peer is refused.
    fn count_refusal(&mut self, refused: Refused) {
        let Refused { why, .. } = refused;
        self.one_sided.stats.refused(why);
        if why.is_mistake() && !std::mem::replace(&mut self.one_sided.has_warned, true) {
            self.actions.push_back(Action::Refused(why));
        }
    }

    /// The note of a write that is refused is nobody's: its room is free again.
    fn drop_note(&mut self, note: Option<u32>) {
        if let Some(bytes) = note {
            self.one_sided.notes.drop_note(bytes as usize);
        }
    }

    /// Each range travels by itself into this memory.
    fn cuts(&self, memory: MemoryType) -> bool {
        memory == MemoryType::Host && !self.one_sided.terms.scatters_host
    }

    fn next_note(&mut self) -> u64 {
        let number = self.one_sided.notes.numbers_used;
        self.one_sided.notes.numbers_used += 1;
        number
    }

    fn answer(&mut self, op: u64, refused: Option<Refused>) {
        let (why, range) = refused.map_or((None, 0), |it| (Some(it.why), it.range));
        self.say(OneSidedFrame::Answer { op, why, range });
    }

    /// A request of the peer begins. Returns the name of its operation here.
    fn serve(
        &mut self,
        (op, list): (u64, u32),
        direction: Direction,
        opened: Opened,
        note: Option<(u64, u32)>,
    ) -> OpKey {
        let Opened { pieces, uses } = opened;
        let bytes = pieces.bytes;
        let transfer = TransferKey::default();
        let posted = NewOperation { transfer, direction, tag: 0, span: pieces.start(), bytes };
        let state = OpState::Matched { bytes_left: bytes, bytes_dealt: 0 };
        let (links, place) = (Links::default(), Place::default());
        let key = self.operations.insert(PostedOperation { posted, state, links, place });
        self.one_sided.told.begin_use(list);
        let serving = Serving { op, list, uses, note, stopped: None, is_halting: false };
        let (role, cursor) = (Role::Serves(serving), PieceCursor::default());
        let listed =
            Listed { pieces, cursor, cuts_pairs: false, is_on_link: false, recv: op, role };
        self.one_sided.listed.insert(key, listed);
        self.one_sided.served.insert(op, key);
        self.one_sided.served_writes += usize::from(direction == Direction::Receive);
        key
    }

    /// The peer wants to read.
    pub(super) fn handle_read(
        &mut self,
        op: u64,
        list: u32,
        cut: bool,
        on_link: bool,
        exports: &mut Exports,
    ) {
        if self.is_leaving_target().is_none() {
            return;
        }
        let Some(told) = self.requested(op, list, OperationKind::Read) else { return };
        let opened = match self.begin(&told, exports) {
            Ok(opened) => opened,
            Err(refused) => {
                self.count_refusal(refused);
                return self.say_stopped_read(op, refused);
            }
        };
        let load = Load { link_room: self.eager.link_room, on_link: self.one_sided.reads_on_link };
        let numbers = (&self.schedule.tuning, &self.eager.terms);
        let message = access(&opened.pieces, None);
        let route = route(numbers, load, message, opened.pieces.memory, on_link);
        if route == Route::Inline {
            return self.serve_read_at_once(op, opened);
        }
        let key = self.serve((op, list), Direction::Send, opened, None);
        self.one_sided.undealt_reads += 1;
        if route == Route::Link {
            return self.begin_parts(key);
        }
        if let Some(listed) = self.one_sided.listed.get_mut(key) {
            listed.cuts_pairs = cut;
        }
        self.begin_to_serve(key);
    }

    /// A short read is answered with all of its bytes.
    fn serve_read_at_once(&mut self, op: u64, Opened { pieces, uses }: Opened) {
        let (kind, total) = (OperationKind::Read, pieces.bytes);
        self.eager.link_room -= total as usize;
        self.work.spend(pieces.count() as u64);
        let frame =
            Frame::OneSided(OneSidedFrame::Part(LinkPart { kind, op, bytes: total as u32 }));
        let bytes = Some((TransferKey::default(), Stretch::whole(pieces)));
        self.actions.push_back(Action::SendListed { frame, bytes, note: None });
        self.one_sided.stats.served(kind, total, None);
        self.one_sided.stats.link_bytes_sent += total;
        self.actions.push_back(Action::Served(uses));
    }

    fn say_stopped_read(&mut self, op: u64, Refused { why, range }: Refused) {
        self.say(OneSidedFrame::Stopped { kind: OperationKind::Read, op, why, range });
    }

    /// The bytes of a request may move.
    fn begin_to_serve(&mut self, op: OpKey) {
        let Some(Listed { recv, cuts_pairs, .. }) = self.one_sided.listed.get(op) else { return };
        match self.operations[op].posted.direction {
            Direction::Send => self.begin_to_deal(op),
            Direction::Receive => {
                let (name, cut) = (*recv, *cuts_pairs);
                self.say(OneSidedFrame::Grant { op: name, recv: op.to_wire(), cut });
            }
        }
    }

    /// Whoever reads wants no more.
    pub(super) fn handle_read_halted(&mut self, name: u64, why: Refusal) {
        let Some(op) = self.one_sided.served.get(&name).copied() else { return };
        if self.operations[op].posted.direction != Direction::Send {
            return self.broken(Violation::UnknownRequest { op: name });
        }
        self.stop_serving_read(op, Refused { why, range: 0 });
    }

    /// No more of a read is dealt, and its initiator knows. If all is dealt, it is too late.
    pub(super) fn stop_serving_read(&mut self, op: OpKey, refused: Refused) {
        let Some(listed) = self.one_sided.listed.get_mut(op) else { return };
        let left = listed.pieces.bytes - listed.cursor.dealt;
        let is_on_link = listed.is_on_link;
        let Role::Serves(serving) = &mut listed.role else { return };
        if left == 0 || serving.stopped.is_some() {
            return;
        }
        serving.stopped = Some(refused);
        let (name, list) = (serving.op, serving.list);
        if is_on_link {
            self.one_sided.reads_on_link -= left;
        }
        self.read_is_dealt(list);
        self.say_stopped_read(name, refused);
        self.listed_moved(op);
    }

    /// No more is dealt of a read, and nothing of its list is needed.
    pub(super) fn read_is_dealt(&mut self, list: u32) {
        self.one_sided.undealt_reads -= 1;
        self.one_sided.told.end_use(list);
    }

    /// A request of the peer is over.
    pub(super) fn finish_serving(&mut self, op: OpKey) {
        let Some(Listed { pieces, cursor, role: Role::Serves(serving), .. }) =
            self.one_sided.listed.remove(op)
        else {
            return;
        };
        let Some(operation) = self.operations.remove(op) else { return };
        let Serving { op: name, list, uses, note, stopped, .. } = serving;
        self.one_sided.served.remove(&name);
        let is_write = operation.posted.direction == Direction::Receive;
        let is_whole = cursor.dealt == pieces.bytes;
        let kind = if is_write { OperationKind::Write } else { OperationKind::Read };
        if is_write {
            self.one_sided.served_writes -= 1;
            self.one_sided.told.end_use(list);
        }
        let why = stopped.filter(|_| !is_whole).map(|refused| refused.why);
        self.one_sided.stats.served(kind, cursor.dealt, why);
        self.actions.push_back(Action::Served(uses));
        if let Some((number, bytes)) = note {
            self.actions.push_back(Action::Note { number, is_published: is_whole });
            match is_whole {
                true => self.one_sided.stats.notifications_received += 1,
                false => self.drop_note(Some(bytes)),
            }
        }
        if is_write {
            self.answer(name, stopped.filter(|_| !is_whole));
        }
    }
}
