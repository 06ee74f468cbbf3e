#![allow(unsafe_code)]
//! Small messages on the control link, between the link and the memory of operations.

use super::commons::{Commons, Ledger};
use super::connection::Connection;
use super::protocol::action::Landing;
use crate::control::frame::Frame;
use crate::control::link_frame::LinkFrame;
use crate::error::Result;
use crate::transfer::plan::Member;
use crate::transfer::stripe::chunk_count;

impl Connection {
    /// Gives a frame to the protocol, and puts the bytes that followed it where they belong.
    pub(super) fn handle_frame(&mut self, frame: Frame, cx: &mut Commons) -> Result<()> {
        let bytes = frame.payload_bytes();
        match self.protocol.handle_frame(frame) {
            Landing::Nowhere => Ok(()),
            Landing::Place(member) => {
                self.count_message(&member, &mut cx.ledger);
                // SAFETY: the protocol has just found this receive, whose memory the CPU reaches,
                // and has not said that it has ended: its span is checked and registered for
                // writing. It was announced and not matched, so no plugin writes there for it.
                unsafe { write(&member, self.link.payload(bytes)) };
                Ok(())
            }
            Landing::Kept(number) => self.kept.keep(number, self.link.payload(bytes)),
        }
    }

    /// Sends a message of ours on the link.
    pub(super) fn send_message(&mut self, frame: &Frame, member: &Member, ledger: &mut Ledger) {
        self.count_message(member, ledger);
        // SAFETY: the protocol has just found this send, whose memory the CPU reaches, and has not
        // said that it has ended: its span is checked and registered, and the program has promised
        // not to write it before that. The slice is gone when this call returns.
        let payload = unsafe {
            std::slice::from_raw_parts(member.span.address as *const u8, member.bytes as usize)
        };
        self.link.send_with_payload(frame, payload);
    }

    /// Takes a message that was kept: it goes into a receive, or nowhere.
    pub(super) fn take_kept(&mut self, number: u64, into: Option<Member>, ledger: &mut Ledger) {
        let Some(bytes) = self.kept.take(number) else { return };
        let Some(member) = into else { return };
        self.count_message(&member, ledger);
        // SAFETY: as where a frame's bytes go in place. The receive was not even announced.
        unsafe { write(&member, &bytes) };
    }

    /// A message on the link counts as a chunk of its own.
    fn count_message(&self, member: &Member, ledger: &mut Ledger) {
        let chunks = chunk_count(member.bytes, self.protocol.agreement().chunk_bytes);
        ledger.transfers.matched(member.transfer, chunks);
        ledger.transfers.chunks_done(member.transfer, chunks, member.bytes);
    }
}

/// Writes the bytes of a message in place.
///
/// # Safety
/// The member's span holds as many bytes as it says; the CPU may write them, and nobody else
/// touches them during the call.
unsafe fn write(member: &Member, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(member.bytes as usize)];
    let place = member.span.address as *mut u8;
    // SAFETY: the caller vouches for the place, which is no memory of the link's.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
}
