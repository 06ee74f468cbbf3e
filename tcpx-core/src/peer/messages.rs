#![allow(unsafe_code)]
//! Traffic of a connection on its control link: small messages, operations on memory of either end,
//! and notifications.

use std::sync::Arc;
use std::time::Instant;

use tcpx_protocol::exports::exported_range::ExportKey;
use tcpx_protocol::frames::frame::Frame;
use tcpx_protocol::frames::link_frame::LinkFrame;
use tcpx_protocol::frames::messages::LinkChunk;
use tcpx_protocol::peer::action::{Landing, NoteUse};
use tcpx_protocol::peer::one_sided::NewRequest;
use tcpx_protocol::plans::piece_range::PieceRange;
use tcpx_protocol::plans::pieces::Piece;
use tcpx_protocol::plans::plan::{Member, chunk_count};
use tcpx_protocol::types::{PreparedKey, RegistrationKey, TransferKey};

use super::connection::Connection;
use super::link_copy::{is_copied, take_buffer};
use super::resources::{Ledger, Resources};
use super::{ConnectionState, Peer};
use crate::control::shared_bytes::{Place, Source};
use crate::error::{Error, MemoryUnavailable, Result};
use crate::transfer::link_buffers::LINK_BUFFER_BYTES;
use crate::transfer::link_copies::AfterCopy;

impl Connection {
    /// Passes a frame to the protocol, and puts the bytes that followed it in their place.
    pub(super) fn handle_frame(&mut self, frame: Frame, cx: &mut Resources) -> Result<()> {
        let bytes = frame.payload_bytes();
        match self.protocol.handle_frame(frame, &mut cx.ledger.exports) {
            Landing::Nowhere => Ok(()),
            Landing::Place(member) => {
                self.count_message(&member, &mut cx.ledger);
                if self.copy_message_up(&member, cx)? {
                    return Ok(());
                }
                // SAFETY: the protocol has just found this receive, whose memory the CPU reaches,
                // and has not said that it has ended: its span is checked and registered for
                // writing. It was announced and not matched, so no plugin writes there for it.
                unsafe { write(&member, self.link.payload(bytes)) };
                Ok(())
            }
            Landing::Unexpected(number) => self.unexpected.keep(number, self.link.payload(bytes)),
            Landing::Pieces { transfer, range, note } => {
                self.count_link_bytes(transfer, &range, &mut cx.ledger);
                if is_copied(cx, range.memory(), range.bytes()) {
                    let note = self.take_note(note)?;
                    return self.copy_range_up(&range, (bytes, note), cx);
                }
                let data = &self.link.payload(bytes)[..range.bytes() as usize];
                // SAFETY: these are pieces of a read of ours, which has not ended and which no
                // plugin knows, or of exports that the protocol uses for the peer until it says
                // `Served`: in either case of registrations that stay, for writing, in memory that
                // the CPU reaches.
                unsafe { scatter(&range, data) };
                self.handle_note(note, &cx.ledger)
            }
            Landing::Note(note) => self.handle_note(note, &cx.ledger),
        }
    }

    /// Reads bytes of a chunk to their place, or to a buffer from which they are copied there.
    /// Returns whether any came.
    pub(super) fn read_chunk(
        &mut self,
        chunk: LinkChunk,
        place: &PieceRange,
        now: Instant,
        cx: &mut Resources,
    ) -> Result<bool> {
        let is_copied = is_copied(cx, place.memory(), place.bytes());
        let buffer = is_copied.then(|| take_buffer(cx)).transpose()?;
        let came = match &buffer {
            Some(buffer) => {
                let most = place.bytes().min(LINK_BUFFER_BYTES);
                // SAFETY: the buffer was idle, or is new: no copy uses it. Its memory stays until
                // the session ends, and the room is used no more when the read returns.
                let room = unsafe { Place::at(buffer.address(), most) };
                self.link.read_chunk(std::iter::once(room), now)
            }
            None => {
                // SAFETY: as where the bytes of a chunk are copied in place: the protocol has just
                // said that they belong here. They are used no more when the read returns.
                let at = |piece: Piece| unsafe { Place::at(piece.address, piece.bytes) };
                self.link.read_chunk(place.iter().map(at), now)
            }
        };
        let range = match came {
            Ok(bytes) if bytes > 0 => self.land_chunk(LinkChunk { bytes, ..chunk }, cx),
            _ => None,
        };
        match (buffer, range) {
            (Some(buffer), Some(range)) => self.copy_buffer_up(buffer, &range, cx),
            (Some(buffer), None) => cx.ledger.link_buffers.give_back(buffer),
            (None, _) => {}
        }
        came.map(|bytes| bytes > 0).map_err(|error| self.link_error(error))
    }

    /// Passes to the protocol that bytes of a chunk have come which have a place. Returns it.
    fn land_chunk(&mut self, chunk: LinkChunk, cx: &mut Resources) -> Option<PieceRange> {
        match self.protocol.handle_frame(Frame::LinkChunk(chunk), &mut cx.ledger.exports) {
            Landing::Pieces { transfer, range, .. } => {
                self.count_link_bytes(transfer, &range, &mut cx.ledger);
                Some(range)
            }
            // The chunk has a place, so it is neither refused nor a breach.
            _ => None,
        }
    }

    /// Takes the last bytes that came, which are a notification. The program gets it behind what
    /// came before it.
    fn handle_note(&mut self, note: NoteUse, ledger: &Ledger) -> Result<()> {
        match self.take_note(note)? {
            None => Ok(()),
            Some(note) if self.is_copying() => {
                self.copies.follow(AfterCopy::Publish(Some(note)));
                Ok(())
            }
            Some(note) => self.publish(note, ledger),
        }
    }

    /// Takes the same, and returns it if the program gets it now.
    fn take_note(&mut self, note: NoteUse) -> Result<Option<Vec<u8>>> {
        match note {
            NoteUse::None => Ok(None),
            NoteUse::Publish(bytes) => try_copy(self.link.payload(bytes as usize)).map(Some),
            NoteUse::Keep { number, bytes } => {
                self.early_notes.keep(number, self.link.payload(bytes as usize)).map(|()| None)
            }
        }
    }

    /// Takes out a notification that waited for its write: the program gets it, or it is dropped.
    pub(super) fn release_note(
        &mut self,
        number: u64,
        is_published: bool,
        ledger: &Ledger,
    ) -> Result<()> {
        match self.early_notes.take(number).filter(|_| is_published) {
            Some(note) => self.publish(note, ledger),
            None => Ok(()),
        }
    }

    pub(super) fn publish(&self, note: Vec<u8>, ledger: &Ledger) -> Result<()> {
        ledger.notifications.push(self.key, note).map_err(|_| no_memory())
    }

    /// Sends a frame, bytes of a list behind it, and a notification behind those. Scattered bytes
    /// are gathered first, and those in memory of a GPU copied down.
    pub(super) fn send_on_link(
        &mut self,
        frame: Frame,
        bytes: Option<(TransferKey, PieceRange)>,
        note: Option<&Arc<[u8]>>,
        cx: &mut Resources,
    ) -> Result<()> {
        let note_bytes = note.map(|note| &**note).unwrap_or_default();
        let Some((transfer, range)) = bytes else {
            self.link.send_with_payload(&frame, [&[], note_bytes]);
            return Ok(());
        };
        self.count_link_bytes(transfer, &range, &mut cx.ledger);
        let Some(frame) = self.copy_range_down(frame, &range, note, cx)? else { return Ok(()) };
        // SAFETY: this is a piece of a write of ours, which has not ended, or of an export that the
        // protocol uses for the peer until it says `Served`: in either case of a registration that
        // stays, in memory that the CPU reaches. It is used no more when this call returns.
        let source = |piece: Piece| unsafe { Source::at(piece.address, piece.bytes) };
        if let Some(piece) = range.only() {
            self.link.send_shared(&frame, source(piece), note_bytes);
            return Ok(());
        }
        let mut gathered = std::mem::take(&mut self.scratch);
        gathered.clear();
        for piece in range.iter() {
            source(piece).append_to(0..piece.bytes as usize, &mut gathered);
        }
        self.link.send_with_payload(&frame, [&gathered, note_bytes]);
        self.scratch = gathered;
        Ok(())
    }

    /// Counts bytes of an operation on the link as one chunk.
    fn count_link_bytes(&self, transfer: TransferKey, range: &PieceRange, ledger: &mut Ledger) {
        ledger.transfers.matched(transfer, 1);
        ledger.transfers.chunks_done(transfer, 1, range.bytes());
    }

    /// Sends a message of ours on the link.
    pub(super) fn send_message(
        &mut self,
        frame: Frame,
        member: &Member,
        cx: &mut Resources,
    ) -> Result<()> {
        self.count_message(member, &mut cx.ledger);
        let Some(frame) = self.copy_message_down(frame, member, cx)? else { return Ok(()) };
        // SAFETY: the protocol has just found this send, whose memory the CPU reaches, and has not
        // said that it has ended: its span is checked and registered, and the program has promised
        // not to write it before that. The slice is gone when this call returns.
        let payload = unsafe {
            std::slice::from_raw_parts(member.span.address as *const u8, member.bytes as usize)
        };
        self.link.send_with_payload(&frame, [payload, &[]]);
        Ok(())
    }

    /// Takes out an unexpected message: it goes into a receive, or is dropped.
    pub(super) fn take_unexpected(
        &mut self,
        number: u64,
        into: Option<Member>,
        ledger: &mut Ledger,
    ) {
        let Some(bytes) = self.unexpected.take(number) else { return };
        let Some(member) = into else { return };
        self.count_message(&member, ledger);
        // SAFETY: as where a frame's bytes go in place. The receive was not even announced.
        unsafe { write(&member, &bytes) };
    }

    /// Counts a message on the link as if it had come in chunks.
    fn count_message(&self, member: &Member, ledger: &mut Ledger) {
        let chunks = chunk_count(member.bytes, self.protocol.agreement().chunk_bytes);
        ledger.transfers.matched(member.transfer, chunks);
        ledger.transfers.chunks_done(member.transfer, chunks, member.bytes);
    }
}

fn no_memory() -> Error {
    Error::MemoryUnavailable(MemoryUnavailable::Operations { count: 1 })
}

fn try_copy(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| no_memory())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Copies bytes to the pieces of a list, until there are no more.
///
/// # Safety
/// The CPU may write all of its pieces. Others may use them meanwhile, and pieces may overlap.
unsafe fn scatter(range: &PieceRange, mut bytes: &[u8]) {
    for piece in range.iter() {
        let count = bytes.len().min(piece.bytes as usize);
        let Some(part) = bytes.split_off(..count) else { return };
        let place = std::ptr::with_exposed_provenance_mut(piece.address as usize);
        // SAFETY: the caller vouches for the piece, which is no memory of the link's. No reference
        // to it is made.
        unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), place, count) };
    }
}

/// Writes the bytes of a message in place.
///
/// # Safety
/// The member's span holds as many bytes as it says; the CPU may write them, and nothing else
/// touches them during the call.
unsafe fn write(member: &Member, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(member.bytes as usize)];
    let place = member.span.address as *mut u8;
    // SAFETY: the caller vouches for the place, which is no memory of the link's.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
}

impl Peer {
    /// Checks that operations and notifications can be posted to the peer, now or when it is up.
    ///
    /// # Errors
    /// [`Error::Closed`] once the program has left it; [`Error::PeerState`] while one of the ends
    /// leaves; what it ended with.
    pub(crate) fn check_requests(&self) -> Result<()> {
        match &self.state {
            _ if self.is_left => Err(Error::Closed),
            ConnectionState::Dialling(_) | ConnectionState::Welcomed => Ok(()),
            ConnectionState::Linked(connection) => connection.check_requests(),
            ConnectionState::Gone(gone) => Err(gone.why.clone()),
        }
    }

    /// Posts an operation whose registrations are in use for it.
    pub(crate) fn post_request(&mut self, request: NewRequest, cx: &mut Resources) -> Result<()> {
        match &mut self.state {
            ConnectionState::Linked(connection) => connection.post_request(request, cx)?,
            _ => self.pending.push(request),
        }
        Ok(())
    }

    /// Returns whether bytes of operations wait to be sent on the link.
    pub(crate) fn sends_link_chunks(&self) -> bool {
        matches!(&self.state, ConnectionState::Linked(connection) if connection.protocol.sends_link_chunks())
    }

    /// Sends a notification, behind waiting ones.
    ///
    /// # Errors
    /// [`Error::NotificationsFull`]: too many wait.
    pub(crate) fn notify(&mut self, note: Arc<[u8]>, cx: &mut Resources) -> Result<()> {
        if let ConnectionState::Linked(connection) = &mut self.state {
            return connection.notify(note, cx);
        }
        let room = cx.session.options.notification_bytes.into();
        self.pending.push_note(note, room).map_err(|queued_bytes| Error::NotificationsFull {
            peer: self.name.to_string(),
            queued_bytes,
        })
    }

    /// Sends queued frames until the system takes no more. Returns whether there is a link.
    pub(crate) fn flush(&mut self) -> Result<bool> {
        self.connection_mut().map_or(Ok(false), |connection| connection.flush().map(|_| true))
    }

    /// Returns the transfers of the program with operations on a registration.
    pub(crate) fn transfers_on(&self, registration: RegistrationKey) -> Vec<TransferKey> {
        match &self.state {
            ConnectionState::Linked(connection) => connection.protocol.transfers_on(registration),
            _ => self.pending.transfers_on(registration),
        }
    }

    /// Withdraws the operations of a transfer that have no counterpart.
    pub(crate) fn cancel(&mut self, transfer: TransferKey, cx: &mut Resources) -> Result<()> {
        self.pending.cancel(transfer, &mut cx.ledger);
        self.connection_mut().map_or(Ok(()), |connection| connection.cancel(transfer, cx))
    }

    /// Gives up the operations of an overdue transfer where possible.
    pub(crate) fn overdue(&mut self, transfer: TransferKey, cx: &mut Resources) -> Result<()> {
        self.pending.cancel(transfer, &mut cx.ledger);
        self.connection_mut().map_or(Ok(()), |connection| connection.overdue(transfer, cx))
    }
}

impl Connection {
    /// Releases a prepared operation.
    pub(crate) fn unprepare(&mut self, prepared: PreparedKey) {
        self.protocol.handle_unprepared(prepared);
    }

    /// Records the cost of all notifications of this peer that the program has taken. The next step
    /// reports it to the peer.
    pub(crate) fn notes_taken(&mut self, cost: u64) {
        self.protocol.handle_notes_taken(cost);
    }

    /// Returns whether operations of either end use a registration.
    pub(crate) fn uses(&self, registration: RegistrationKey) -> bool {
        self.protocol.uses(registration)
    }

    /// Returns whether the peer uses any of these exports.
    pub(crate) fn serves(&self, exports: &[ExportKey]) -> bool {
        self.protocol.serves(exports)
    }

    /// Revokes exports. Returns whether the peer uses any.
    pub(crate) fn revoke(&mut self, exports: &[ExportKey]) -> bool {
        self.protocol.handle_revoked(exports)
    }
}
