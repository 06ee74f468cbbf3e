#![allow(unsafe_code)]
//! Notifications: messages between programs beside their memory.

use std::ffi::{c_char, c_void};

use tcpx_core::Notification;

use crate::boundary;
use crate::extensible::Extensible;
use crate::failure::Failure;
use crate::input::peer_name;
use crate::operation::{TCPX_MAX_NOTIFICATION_BYTES, notification_input};
use crate::output::{Output, PackedOutput, fixed_text};
use crate::output_array::OutputArray;
use crate::session::tcpx_session;
use crate::status::tcpx_status;
use crate::transfer::timeout;

/// Size of `tcpx_notification.peer` in bytes.
pub const TCPX_NOTIFICATION_PEER_BYTES: usize = 72;

/// Notification that has come. New members are added at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tcpx_notification {
    /// The `entry_bytes` of the call.
    pub size: usize,
    /// Offset of the notification's bytes in the buffer of the call.
    pub offset: usize,
    /// Number of bytes, which may be 0.
    pub bytes: usize,
    /// Name of the sender. It ends with NUL.
    pub peer: [c_char; TCPX_NOTIFICATION_PEER_BYTES],
}

const _: () = assert!(size_of::<tcpx_notification>() == 96);

// SAFETY: three words and an array of 72 bytes are 96 bytes without padding, as asserted.
unsafe impl Extensible for tcpx_notification {
    const NAME: &'static str = "tcpx_notification";
    const FIRST_BYTES: usize = 96;
}

/// Sends a notification to a connected peer, in the order of the calls. It has up to
/// TCPX_MAX_NOTIFICATION_BYTES bytes, also none, and NUL among them. The bytes are copied.
///
/// The peer's program takes it with `tcpx_poll_notifications`. No notification is dropped while
/// both sessions live. Notifications that the peer's program does not take wait. When too much
/// waits, this call returns `TCPX_ERR_AGAIN`.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_ARGUMENT` when it is too long;
/// `TCPX_ERR_AGAIN`; `TCPX_ERR_UNKNOWN_PEER`; `TCPX_ERR_PEER_STATE`, or the peer's own error when
/// the peer is leaving or over. A notification to a peer that is being connected waits until the
/// peer is up. A peer that is not connected is connected first, as by `tcpx_operation_post`. As
/// much may wait for that as for a peer that is up. If the peer does not come up, what waits is
/// lost: the next call returns the peer's error, once, and the call after that connects it again.
/// After an error nothing was sent. Any thread; does not block.
///
/// # Safety
/// `peer` is NULL or a text that ends with NUL; `notification` is NULL or may be read for
/// `notification_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_notify(
    session: tcpx_session,
    peer: *const c_char,
    notification: *const c_void,
    notification_bytes: usize,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let peer = unsafe { peer_name(peer) }?;
        // SAFETY: passed on from the caller.
        let bytes = unsafe { notification_input(notification, notification_bytes) }?;
        Ok(session.get()?.notify(peer, bytes)?)
    })
}

/// Takes out notifications that have come, in the order in which they came: those sent alone, and
/// those of operations.
///
/// `out_notifications` is an array of `capacity` entries, of `entry_bytes` each, which is
/// sizeof(tcpx_notification). Their bytes are put into `buffer`, one behind the other. `buffer` has
/// `buffer_bytes` bytes, TCPX_MAX_NOTIFICATION_BYTES at least, so that any notification finds room.
/// `out_count` gets the number of entries written; more may wait if it is not 0. The call makes no
/// progress: without a progress thread, `tcpx_session_progress` does.
///
/// The descriptor of `tcpx_session_event_fd` is readable when a notification has come, and while
/// some wait.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; nothing is taken out then. Any
/// thread; does not block.
///
/// # Safety
/// `out_notifications` is NULL or may be written for `capacity` times `entry_bytes` bytes; `buffer`
/// is NULL or may be written for `buffer_bytes` bytes; `out_count` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_poll_notifications(
    session: tcpx_session,
    out_notifications: *mut tcpx_notification,
    entry_bytes: usize,
    capacity: usize,
    buffer: *mut c_void,
    buffer_bytes: usize,
    out_count: *mut usize,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let count = unsafe { Output::new("out_count", out_count) }?;
        // SAFETY: passed on from the caller.
        let mut output = unsafe {
            NotificationOutput::new(out_notifications, entry_bytes, capacity, buffer, buffer_bytes)
        }?;
        let mut taken = Vec::new();
        session.get()?.poll_notifications_within(&mut taken, capacity, buffer_bytes)?;
        output.write(&taken)?;
        count.write(taken.len());
        Ok(())
    })
}

/// As `tcpx_poll_notifications`, but waits until there is a notification, for at most `timeout_ms`
/// milliseconds. TCPX_WAIT_FOREVER (-1) sets no limit. The call makes progress meanwhile. With a
/// `capacity` of 0 it does not wait. It asks the peers for signs of life, so a frozen peer ends. It
/// goes on when peers end, even the last one: another may come.
///
/// Errors: those of `tcpx_poll_notifications`; `TCPX_ERR_ARGUMENT` for another negative number;
/// `TCPX_ERR_TIMEOUT` when none has come; `TCPX_ERR_CLOSED`, also when another thread closes the
/// session meanwhile. After any of these `out_count` is not written. Any thread. Blocks for at most
/// `timeout_ms`.
///
/// # Safety
/// As for `tcpx_poll_notifications`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_wait_notifications(
    session: tcpx_session,
    out_notifications: *mut tcpx_notification,
    entry_bytes: usize,
    capacity: usize,
    buffer: *mut c_void,
    buffer_bytes: usize,
    out_count: *mut usize,
    timeout_ms: i32,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let count = unsafe { Output::new("out_count", out_count) }?;
        // SAFETY: passed on from the caller.
        let mut output = unsafe {
            NotificationOutput::new(out_notifications, entry_bytes, capacity, buffer, buffer_bytes)
        }?;
        let (timeout, mut taken) = (timeout(timeout_ms)?, Vec::new());
        session.get()?.wait_notifications_within(&mut taken, capacity, buffer_bytes, timeout)?;
        output.write(&taken)?;
        count.write(taken.len());
        Ok(())
    })
}

/// Output of notifications, checked in advance: nothing can fail once notifications are taken out.
struct NotificationOutput {
    entries: OutputArray<tcpx_notification>,
    entry_bytes: usize,
    bytes: PackedOutput,
}

impl NotificationOutput {
    /// # Safety
    /// For as long as the result lives, `first` is NULL or may be written for `capacity` times
    /// `entry_bytes` bytes, and `buffer` is NULL or for `buffer_bytes` bytes.
    unsafe fn new(
        first: *mut tcpx_notification,
        entry_bytes: usize,
        capacity: usize,
        buffer: *mut c_void,
        buffer_bytes: usize,
    ) -> Result<Self, Failure> {
        // SAFETY: passed on from the caller.
        let entries =
            unsafe { OutputArray::new("out_notifications", first, entry_bytes, capacity) }?;
        let min_bytes = if capacity == 0 { 0 } else { TCPX_MAX_NOTIFICATION_BYTES };
        // SAFETY: passed on from the caller.
        let bytes = unsafe { PackedOutput::new("buffer", buffer.cast(), buffer_bytes, min_bytes) }?;
        Ok(Self { entries, entry_bytes, bytes })
    }

    fn write(&mut self, taken: &[Notification]) -> Result<(), Failure> {
        let Self { entries, entry_bytes, bytes } = self;
        entries.write(taken.iter().map(|notification| tcpx_notification {
            size: *entry_bytes,
            offset: bytes.append(&notification.bytes),
            bytes: notification.bytes.len(),
            peer: fixed_text(&notification.peer),
        }))
    }
}
