//! Target of requests: its handling of the peer's requests. Its program does not know of them.

use super::super::action::{Action, Landing, NoteUse};
use super::super::conversation::Conversation;
use super::super::message::{Access, Lane, Message, Role, Serving, State};
use super::super::schedule::route::{Load, Route, route};
use super::super::violation::Violation;
use super::OneSided;
use super::output::access;
use super::remote_lists::{RemoteList, ResolvedList};
use crate::exports::refusal::{Refusal, Refused};
use crate::exports::table::Exports;
use crate::frames::eager_terms::ANY_LENGTH;
use crate::frames::eager_terms::CreditKind;
use crate::frames::frame::Frame;
use crate::frames::messages::{Ended, LinkChunk, MessageId, Ready, WriteWay};
use crate::plans::piece_range::PieceRange;
use crate::types::memory::OperationKind;
use crate::types::{Direction, MemoryType, OpKey, TransferKey};

impl OneSided {
    /// Handles a notification of this many bytes that has come by itself.
    pub(in super::super) fn handle_notification(
        &mut self,
        cx: &mut Conversation,
        bytes: u32,
    ) -> Landing {
        if !self.comes(cx, bytes) {
            return Landing::Nowhere;
        }
        self.stats.notifications_received += 1;
        Landing::Note(NoteUse::Publish(bytes))
    }

    /// Counts a note of this many bytes that has come. Returns whether the peer may send it.
    fn comes(&mut self, cx: &mut Conversation, bytes: u32) -> bool {
        let is_allowed = self.notes.handle_note(bytes as usize);
        if !is_allowed {
            cx.broken(self.notes.incoming.refused(CreditKind::Notes));
        }
        is_allowed
    }

    /// Returns the list that a request of the peer names, if it may ask for it now; `None`: the
    /// peer breaks the protocol.
    fn requested(
        &mut self,
        cx: &mut Conversation,
        op: u64,
        list: u32,
        kind: OperationKind,
    ) -> Option<RemoteList> {
        let OneSided { served, unwanted, .. } = self;
        let is_taken = served.contains_key(&op) || unwanted.contains_key(&op);
        let most = self.terms.asked;
        let under_way = match kind {
            OperationKind::Write => self.served_writes + unwanted.len(),
            OperationKind::Read => self.unscheduled_reads,
        };
        let remote = self.remote_lists.get(list).filter(|remote| remote.kind == kind);
        match remote {
            Some(remote) if !is_taken && under_way < most => Some(remote.clone()),
            _ => {
                cx.broken(Violation::Request { op, list });
                None
            }
        }
    }

    /// Returns the exports that the list of a request opens, from now on in use.
    fn begin(
        &self,
        cx: &Conversation,
        remote: &RemoteList,
        exports: &mut Exports,
    ) -> Result<ResolvedList, Refused> {
        let opened = remote.opened.clone()?;
        let refuse = |why| Refused { why, range: 0 };
        if cx.life.is_leaving_target() != Some(false) {
            return Err(refuse(Refusal::Leaves));
        }
        exports.begin_all(&opened.uses).map_err(refuse)?;
        Ok(opened)
    }

    /// Does the same for a request whose bytes the plugin receives.
    fn begin_to_receive(
        &self,
        cx: &Conversation,
        remote: &RemoteList,
        exports: &mut Exports,
    ) -> Result<ResolvedList, Refused> {
        let is_host = |opened: &ResolvedList| opened.pieces.memory == MemoryType::Host;
        if !self.terms.receives_host && remote.opened.as_ref().is_ok_and(is_host) {
            return Err(Refused { why: Refusal::ReceiveIntoHostMemory, range: 0 });
        }
        self.begin(cx, remote, exports)
    }

    /// Handles a write, or the wish for one, of the peer.
    pub(in super::super) fn handle_write(
        &mut self,
        cx: &mut Conversation,
        (op, list): (u64, u32),
        note: Option<u32>,
        way: WriteWay,
        exports: &mut Exports,
    ) -> Landing {
        if cx.life.is_leaving_target().is_none() {
            return Landing::Nowhere;
        }
        let Some(remote) = self.requested(cx, op, list, OperationKind::Write) else {
            return Landing::Nowhere;
        };
        // A write of no bytes needs no grant, and no chunks.
        let is_allowed = match way {
            WriteWay::Inline(0) => remote.bytes == 0,
            WriteWay::Inline(bytes) => {
                remote.bytes == u64::from(bytes) && cx.link.terms.allows_access(remote.bytes)
            }
            WriteWay::Link => remote.bytes > 0 && cx.link.terms.allows_access(remote.bytes),
            WriteWay::Channels => remote.bytes > 0,
        };
        if !is_allowed {
            cx.broken(Violation::Request { op, list });
            return Landing::Nowhere;
        }
        if note.is_some_and(|bytes| !self.comes(cx, bytes)) {
            return Landing::Nowhere;
        }
        let begun = match way {
            WriteWay::Inline(_) | WriteWay::Link => self.begin(cx, &remote, exports),
            WriteWay::Channels => self.begin_to_receive(cx, &remote, exports),
        };
        match begun {
            Ok(opened) => self.serve_write(cx, (op, list), note, way, opened, exports),
            Err(refused) => {
                if way == WriteWay::Link {
                    self.unwanted.insert(op, remote.bytes);
                }
                self.count_refusal(cx, refused);
                self.answer(cx, op, Some(refused));
                self.drop_note(note);
                Landing::Nowhere
            }
        }
    }

    /// Begins a write of the peer. The write is over if its bytes are here.
    fn serve_write(
        &mut self,
        cx: &mut Conversation,
        (op, list): (u64, u32),
        note: Option<u32>,
        way: WriteWay,
        opened: ResolvedList,
        exports: &mut Exports,
    ) -> Landing {
        let memory = opened.pieces.memory;
        if way != WriteWay::Channels && opened.pieces.bytes > cx.link.terms.longest_in(memory) {
            exports.end_all(&opened.uses);
            cx.broken(Violation::Request { op, list });
            return Landing::Nowhere;
        }
        if let WriteWay::Inline(bytes) = way {
            return self.land_write(cx, op, bytes, note, opened);
        }
        let number = note.map(|bytes| (self.next_note(), bytes));
        let cut = self.cuts(memory);
        let lane = if way == WriteWay::Link { Lane::Link } else { Lane::Channels };
        let recv = self.serve(cx, (op, list), Direction::Receive, (opened, cut, lane), number);
        if lane == Lane::Channels {
            cx.send(Frame::Ready(Ready::Write { op, recv: recv.to_wire(), cut }));
        }
        number.map_or(Landing::Nowhere, |(number, bytes)| {
            Landing::Note(NoteUse::Keep { number, bytes })
        })
    }

    /// Lands the bytes of a write that are behind its frame: the write is over when they are in
    /// place.
    fn land_write(
        &mut self,
        cx: &mut Conversation,
        op: u64,
        bytes: u32,
        note: Option<u32>,
        ResolvedList { pieces, uses }: ResolvedList,
    ) -> Landing {
        cx.actions.push_back(Action::Served(uses));
        self.stats.link_bytes_received += u64::from(bytes);
        if bytes > 0 {
            self.stats.served(OperationKind::Write, bytes.into(), None);
        }
        self.stats.notifications_received += u64::from(note.is_some());
        self.answer(cx, op, None);
        let note = note.map_or(NoteUse::None, NoteUse::Publish);
        cx.work.spend(pieces.count() as u64);
        let (transfer, range) = (TransferKey::default(), PieceRange::whole(pieces));
        Landing::Pieces { transfer, range, note }
    }

    /// Counts a request of the peer that is refused.
    fn count_refusal(&mut self, cx: &mut Conversation, refused: Refused) {
        let Refused { why, .. } = refused;
        self.stats.refused(why);
        if why.is_mistake() && !std::mem::replace(&mut self.has_warned, true) {
            cx.actions.push_back(Action::Refused(why));
        }
    }

    /// Returns whether each range travels by itself into this memory.
    pub(super) fn cuts(&self, memory: MemoryType) -> bool {
        memory == MemoryType::Host && !self.terms.scatters_host
    }

    fn next_note(&mut self) -> u64 {
        let number = self.notes.numbers_used;
        self.notes.numbers_used += 1;
        number
    }

    /// Begins a request of the peer. Returns the name of its operation here.
    fn serve(
        &mut self,
        cx: &mut Conversation,
        (op, list): (u64, u32),
        direction: Direction,
        (ResolvedList { pieces, uses }, cuts_pairs, lane): (ResolvedList, bool, Lane),
        note: Option<(u64, u32)>,
    ) -> OpKey {
        let role = Role::Target(Serving { list, uses, note });
        let access = Access { cuts_pairs, lane, ..Access::new(pieces, role) };
        let of = (TransferKey::default(), direction);
        let message = Message { name: op, ..Message::of_access(of, State::Moving, access) };
        let key = cx.operations.insert(message);
        self.remote_lists.begin_use(list);
        self.served.insert(op, key);
        self.served_writes += usize::from(direction == Direction::Receive);
        key
    }

    /// Handles the wish of the peer to read.
    pub(in super::super) fn handle_read(
        &mut self,
        cx: &mut Conversation,
        (op, list): (u64, u32),
        cut: bool,
        on_link: bool,
        exports: &mut Exports,
    ) {
        if cx.life.is_leaving_target().is_none() {
            return;
        }
        let Some(remote) = self.requested(cx, op, list, OperationKind::Read) else { return };
        let opened = match self.begin(cx, &remote, exports) {
            Ok(opened) => opened,
            Err(refused) => {
                self.count_refusal(cx, refused);
                return self.send_read_stopped(cx, op, refused);
            }
        };
        let load = Load { link_room: cx.link.bytes, on_link: self.reads_on_link };
        let terms = &cx.link.terms;
        let message = access(&opened.pieces, None);
        let longest =
            [terms.longest_in(opened.pieces.memory), if on_link { ANY_LENGTH } else { 0 }];
        let route = route((&cx.schedule.tuning, terms), load, message, longest);
        if route == Route::Inline {
            return self.serve_read_at_once(cx, op, opened);
        }
        let lane = if route == Route::Link { Lane::Link } else { Lane::Channels };
        let key = self.serve(cx, (op, list), Direction::Send, (opened, cut, lane), None);
        self.unscheduled_reads += 1;
        self.begin_to_send(cx, key, lane);
    }

    /// Answers a short read with all of its bytes.
    fn serve_read_at_once(
        &mut self,
        cx: &mut Conversation,
        op: u64,
        ResolvedList { pieces, uses }: ResolvedList,
    ) {
        let total = pieces.bytes;
        cx.link.bytes -= total as usize;
        cx.work.spend(pieces.count() as u64);
        let chunk = LinkChunk { of: MessageId::Read(op), bytes: total as u32 };
        let frame = Frame::LinkChunk(chunk);
        let bytes = Some((TransferKey::default(), PieceRange::whole(pieces)));
        cx.actions.push_back(Action::SendWithPayload { frame, bytes, note: None });
        self.stats.served(OperationKind::Read, total, None);
        self.stats.link_bytes_sent += total;
        cx.actions.push_back(Action::Served(uses));
    }

    fn send_read_stopped(&mut self, cx: &mut Conversation, op: u64, why: Refused) {
        cx.send(Frame::End { message: MessageId::Read(op), how: Ended::Stopped(why) });
    }

    /// Ends a write of the peer: its initiator sends no more.
    pub(in super::super) fn handle_write_stopped(
        &mut self,
        cx: &mut Conversation,
        name: u64,
        refused: Refused,
    ) {
        // The write was refused, or passed over, as all requests are after this end's goodbye.
        if self.unwanted.remove(&name).is_some() || cx.life.is_leaving_target().is_none() {
            return;
        }
        let broken = Violation::UnknownRequest { op: name };
        let Some(op) = self.served.get(&name).copied() else { return cx.broken(broken) };
        let message = &mut cx.operations[op];
        let is_received = message.posted.direction == Direction::Receive;
        if !is_received || message.left() == 0 || !message.takes_more() {
            return cx.broken(broken);
        }
        message.state = State::Ending { why: Some(refused), is_agreed: true };
        self.check_moved(cx, op);
    }

    /// Ends a read of the peer: its initiator wants no more.
    pub(in super::super) fn handle_read_halted(
        &mut self,
        cx: &mut Conversation,
        name: u64,
        why: Refusal,
    ) {
        let Some(op) = self.served.get(&name).copied() else { return };
        if cx.operations[op].posted.direction != Direction::Send {
            return cx.broken(Violation::UnknownRequest { op: name });
        }
        self.stop_serving_read(cx, op, Refused { why, range: 0 });
    }

    /// Deals no more of a read, with the knowledge of its initiator. If all is scheduled, it is too
    /// late.
    pub(super) fn stop_serving_read(&mut self, cx: &mut Conversation, op: OpKey, refused: Refused) {
        let Some(message) = cx.operations.get_mut(op) else { return };
        let (name, left) = (message.name, message.left());
        if left == 0 || message.state != State::Moving {
            return;
        }
        message.state = State::Ending { why: Some(refused), is_agreed: true };
        if message.is_on_link() {
            self.reads_on_link -= left;
        }
        if let Some(Access { role: Role::Target(serving), .. }) = &message.access {
            self.read_is_scheduled(serving.list);
        }
        self.send_read_stopped(cx, name, refused);
        self.check_moved(cx, op);
    }
}
