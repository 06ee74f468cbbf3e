//! Chooser of what is said next of lists, requests and notifications, within the room on the link.

use std::collections::VecDeque;
use std::sync::Arc;

use super::super::action::Action;
use super::super::conversation::Conversation;
use super::super::message::{Lane, State};
use super::super::schedule::route::{Load, Message, Route, route};
use super::{OneSided, Unanswered};
use crate::frames::frame::Frame;
use crate::frames::link_frame::LinkFrame;
use crate::frames::list_part::{KEY_BYTES, RANGE_BYTES};
use crate::frames::messages::{Offer, Ready, WriteWay};
use crate::plans::piece_range::PieceRange;
use crate::plans::pieces::Pieces;
use crate::types::OpKey;

impl OneSided {
    /// Says the next thing that is due about lists, requests and notifications, and sends a chunk
    /// in between. Returns false when there is nothing, or the link has no room.
    #[inline]
    pub(in super::super) fn send_next(&mut self, cx: &mut Conversation) -> bool {
        !self.is_idle(cx) && self.send_due(cx)
    }

    /// Returns whether nothing waits to be said, whatever there is room for.
    #[inline]
    fn is_idle(&self, cx: &Conversation) -> bool {
        cx.schedule.link.is_empty()
            && self.reads.is_empty()
            && self.writes.is_empty()
            && self.noted_writes.is_empty()
            && !self.local_lists.has_more()
            && !self.notes.has_any()
    }

    fn send_due(&mut self, cx: &mut Conversation) -> bool {
        if cx.link.bytes == 0 || !cx.life.can_send() {
            return false;
        }
        if cx.schedule.link.comes_first() && self.next_link_chunk(cx) {
            return true;
        }
        if self.send_next_request(cx) || self.send_list_part(cx) || self.send_next_note(cx) {
            cx.schedule.link.sent_other();
            return true;
        }
        self.next_link_chunk(cx)
    }

    /// Returns whether there is something to say, as soon as the link has room.
    pub(in super::super) fn has_output(&self, cx: &Conversation) -> bool {
        let OneSided { local_lists, notes, reads, writes, unscheduled, unanswered, .. } = self;
        let asked = self.terms.asked;
        let has_more = !cx.schedule.link.is_empty()
            || local_lists.has_more()
            || notes.has_next()
            || (!reads.is_empty() && unscheduled.len() < asked)
            || (!writes.is_empty() && unanswered.len() < asked)
            || (unanswered.len() < asked
                && self.next_noted_write(cx).is_some_and(|bytes| notes.may_send_with_write(bytes)));
        has_more && cx.life.can_send()
    }

    /// Returns the number of bytes of the note of the next write that has one.
    fn next_noted_write(&self, cx: &Conversation) -> Option<usize> {
        let note_bytes = |op: &OpKey| {
            let message = cx.operations.get(*op).filter(|it| it.state == State::RequestQueued)?;
            Some(message.request()?.note.as_ref()?.len())
        };
        self.noted_writes.iter().find_map(note_bytes)
    }

    /// Asks for the next write or read whose list the peer knows.
    fn send_next_request(&mut self, cx: &mut Conversation) -> bool {
        let asked = self.terms.asked;
        if self.unscheduled.len() < asked
            && let Some(op) = self.next_of(cx, |it| &mut it.reads)
        {
            self.reads.pop_front();
            return self.send_read_request(cx, op);
        }
        if self.unanswered.len() >= asked {
            return false;
        }
        if let Some(op) = self.next_of(cx, |it| &mut it.writes) {
            self.writes.pop_front();
            return self.send_write_request(cx, op);
        }
        let Some(op) = self.next_of(cx, |it| &mut it.noted_writes) else {
            return false;
        };
        let bytes = cx.request(op).and_then(|request| Some(request.note.as_ref()?.len()));
        let bytes = bytes.unwrap_or_default();
        if !self.notes.may_send_with_write(bytes) {
            return false;
        }
        self.notes.send_with_write(bytes);
        self.noted_writes.pop_front();
        self.send_write_request(cx, op)
    }

    /// Returns the first request of a queue that still waits, and takes out those before it.
    fn next_of(
        &mut self,
        cx: &Conversation,
        queue: impl Fn(&mut Self) -> &mut VecDeque<OpKey>,
    ) -> Option<OpKey> {
        while let Some(op) = queue(self).front().copied() {
            if cx.operations.get(op).is_some_and(|message| message.state == State::RequestQueued) {
                return Some(op);
            }
            queue(self).pop_front();
        }
        None
    }

    fn send_write_request(&mut self, cx: &mut Conversation, op: OpKey) -> bool {
        let Some(request) = cx.request(op) else { return false };
        let (key, remote_memory) = (request.list.key, request.list.remote_memory);
        let Some(list) = self.local_lists.number(key) else { return false };
        let (pieces, note) = (Arc::clone(&request.list.pieces), request.note.take());
        let name = op.to_wire();
        let note_bytes = note.as_ref().map(|note| note.len() as u32);
        let message = access(&pieces, note_bytes);
        // Where many operations are under way the channels move more.
        let load = Load { link_room: cx.link.bytes, on_link: self.writes_on_link };
        let terms = &cx.link.terms;
        let longest = [terms.longest_in(pieces.memory), terms.longest_at_peer(remote_memory)];
        let route = route((&cx.schedule.tuning, terms), load, message, longest);
        // An operation that travels inline has no more than 32 bits of bytes.
        let (state, on_link, way) = match route {
            Route::Inline => {
                (State::AwaitsAnswer, pieces.bytes, WriteWay::Inline(pieces.bytes as u32))
            }
            Route::Link => (State::Moving, pieces.bytes, WriteWay::Link),
            Route::Channels => (State::RequestSent, 0, WriteWay::Channels),
        };
        let message = &mut cx.operations[op];
        message.state = state;
        let transfer = message.posted.transfer;
        self.unanswered.insert(name, Unanswered { list: key, on_link });
        self.writes_on_link += on_link;
        let sent = (route == Route::Inline).then(|| {
            self.stats.link_bytes_sent += pieces.bytes;
            (transfer, PieceRange::whole(pieces))
        });
        self.stats.notifications_sent += u64::from(note.is_some());
        let frame = Frame::Offer(Offer::Write { op: name, list, way, note: note_bytes });
        cx.link.take(frame.payload_bytes());
        // A frame that nothing follows leaves together with the next bytes.
        cx.actions.push_back(match (&sent, &note) {
            (None, None) => Action::Send(frame),
            _ => Action::SendWithPayload { frame, bytes: sent, note },
        });
        if route == Route::Link {
            self.begin_to_send(cx, op, Lane::Link);
        }
        true
    }

    fn send_read_request(&mut self, cx: &mut Conversation, op: OpKey) -> bool {
        let Some(message) = cx.operations.get_mut(op) else { return false };
        let (bytes, memory) = (message.posted.bytes, message.posted.span.memory);
        let Some(key) = message.request().map(|request| request.list.key) else { return false };
        let Some(list) = self.local_lists.number(key) else { return false };
        let (cut, on_link) = (self.cuts(memory), cx.link.terms.takes_access(bytes, memory));
        message.state = State::Moving;
        if let Some(access) = &mut message.access {
            access.cuts_pairs = cut;
        }
        self.unscheduled.insert(op.to_wire(), key);
        cx.link.take(0);
        cx.send(Frame::Ready(Ready::Read { op: op.to_wire(), list, cut, on_link }));
        true
    }

    fn send_list_part(&mut self, cx: &mut Conversation) -> bool {
        let Some(said) = self.local_lists.next() else { return false };
        let bytes = match &said.frame {
            Frame::List(part) => {
                self.stats.ranges_told += part.ranges.len() as u64;
                KEY_BYTES * part.keys.len() + RANGE_BYTES * part.ranges.len()
            }
            _ => 0,
        };
        cx.link.take(bytes);
        cx.send(said.frame);
        for op in said.ready {
            self.ready(cx, op);
        }
        // A list whose requests were given up while it was being told makes room now.
        self.begin_waiting_lists(cx);
        true
    }

    fn send_next_note(&mut self, cx: &mut Conversation) -> bool {
        let Some(note) = self.notes.next() else { return false };
        self.stats.notifications_sent += 1;
        cx.link.take(note.len());
        let frame = Frame::Offer(Offer::Note { bytes: note.len() as u32 });
        cx.actions.push_back(Action::SendWithPayload { frame, bytes: None, note: Some(note) });
        true
    }
}

/// Returns a read or write of these pieces, in the terms that its route depends on.
pub(super) fn access(pieces: &Pieces, note_bytes: Option<u32>) -> Message {
    Message::Access {
        bytes: pieces.bytes,
        pieces: pieces.count(),
        note_bytes: note_bytes.unwrap_or_default(),
    }
}
