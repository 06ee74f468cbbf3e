//! Frames out of bytes that have arrived. Pure.

use super::inbound::Inbound;
use super::link_frame::{FrameError, LinkFrame};
use super::link_part::LinkPart;

/// Takes the frame at the front of what has arrived, with the bytes of a message that follow it. A
/// part comes in as many frames as it takes to arrive: `part` is what is left of the one on its
/// way.
#[inline]
pub fn take_frame<F: LinkFrame>(
    arrived: &mut Inbound,
    part: &mut Option<LinkPart>,
) -> Result<Option<F>, FrameError> {
    if part.is_some() {
        return Ok(next_of_part(arrived, part));
    }
    let waiting = arrived.waiting();
    let Some((frame, head)) = F::decode(waiting)? else {
        return Ok(None);
    };
    let taken = head + frame.payload_bytes();
    if taken <= waiting.len() {
        arrived.take(taken);
        return Ok(Some(frame));
    }
    *part = frame.as_part();
    if part.is_some() {
        arrived.take(head);
    }
    Ok(next_of_part(arrived, part))
}

/// What has come of the part on its way.
fn next_of_part<F: LinkFrame>(arrived: &mut Inbound, part: &mut Option<LinkPart>) -> Option<F> {
    let whole = (*part)?;
    let came = whole.first(arrived.waiting().len());
    if came.bytes == 0 {
        return None;
    }
    arrived.take(came.bytes as usize);
    *part = whole.after(came.bytes as usize);
    F::from_part(came)
}
