#![allow(unsafe_code)]
//! Operations: reads and writes of memory that a peer exports, prepared once and posted often.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use tcpx_core::{MAX_NOTIFICATION_BYTES, Operation, OperationKind, OperationStatus, PostOptions};

use crate::extensible::{self, Extensible};
use crate::failure::Failure;
use crate::input::peer_name;
use crate::input_array::InputArray;
use crate::output::{ErrorOutput, Output};
use crate::pairs::{Pairs, TCPX_MAX_PAIRS, tcpx_pair};
use crate::session::tcpx_session;
use crate::status::tcpx_status;
use crate::transfer::{limit, timeout};
use crate::{boundary, input, registry};

/// Kind of an operation: a read, whose bytes come here.
pub const TCPX_READ: i32 = 1;
/// Kind of an operation: a write, whose bytes go to the peer.
pub const TCPX_WRITE: i32 = 2;

/// State of an operation: it has not been posted yet.
pub const TCPX_OPERATION_IDLE: i32 = 0;
/// State of an operation: it was posted, and has not ended.
pub const TCPX_OPERATION_ACTIVE: i32 = 1;
/// State of an operation: it has ended well.
pub const TCPX_OPERATION_DONE: i32 = 2;
/// State of an operation: it has ended with an error.
pub const TCPX_OPERATION_FAILED: i32 = 3;

/// Most bytes of a notification.
pub const TCPX_MAX_NOTIFICATION_BYTES: usize = 65_536;

const _: () = assert!(TCPX_MAX_NOTIFICATION_BYTES == MAX_NOTIFICATION_BYTES as usize);

/// Handle of an operation: a read or a write of a peer's memory, prepared once, posted any number
/// of times.
///
/// An id of 0 is no operation.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct tcpx_operation {
    /// A number that only this library understands.
    pub id: u64,
}

impl tcpx_operation {
    fn get(self) -> Result<Arc<Operation>, Failure> {
        registry::get(self.id)
    }
}

fn kind_from(kind: i32) -> Result<OperationKind, Failure> {
    match kind {
        TCPX_READ => Ok(OperationKind::Read),
        TCPX_WRITE => Ok(OperationKind::Write),
        _ => Err(Failure::argument(format!(
            "kind is {kind}; TCPX_READ (1) and TCPX_WRITE (2) are known"
        ))),
    }
}

/// Reads the bytes of a notification.
///
/// # Safety
/// `bytes` is NULL or may be read for `count` bytes that no thread writes during `'a`.
pub(crate) unsafe fn notification_input<'a>(
    bytes: *const c_void,
    count: usize,
) -> Result<&'a [u8], Failure> {
    // SAFETY: passed on from the caller.
    unsafe { input::array("notification", bytes.cast::<u8>(), count, TCPX_MAX_NOTIFICATION_BYTES) }
}

/// Prepares a read (TCPX_READ) or a write (TCPX_WRITE) of memory that a connected peer exports. End
/// it with `tcpx_operation_release`.
///
/// `pairs` is an array of `count` pairs, of `pair_bytes` each, which is sizeof(tcpx_pair). The
/// pairs are copied, and so are the keys. Neighbouring pairs are merged: the number of pairs into
/// which a range is cut does not matter. At one end all ranges lie in host memory, or all in device
/// memory; with `group` 1 they may lie on any devices. The peer receives nothing of the operation
/// before the first post.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_ARGUMENT`, also for a `count` above
/// TCPX_MAX_PAIRS; `TCPX_ERR_DESCRIPTOR` when the bytes of a key are no key;
/// `TCPX_ERR_REMOTE_MEMORY` when a key is of another session than the peer's or does not allow the
/// operation, when a range leaves the memory that its key leads to, when host and device memory are
/// mixed, and when no pair has any bytes; `TCPX_ERR_UNKNOWN_MEMORY`; `TCPX_ERR_MEMORY` when a range
/// here leaves its registration, or is to be read into and was registered with `is_recv` 0;
/// `TCPX_ERR_UNKNOWN_PEER`, `TCPX_ERR_PEER_STATE`, or the peer's own error when it is leaving or
/// over; `TCPX_ERR_NO_MEMORY`. Any thread; does not block.
///
/// # Safety
/// `peer` is NULL or a text that ends with NUL; `pairs` is NULL or may be read for `count` times
/// `pair_bytes` bytes, and the key of each pair is NULL or may be read for its `key_bytes`;
/// `out_operation` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_operation_prepare(
    session: tcpx_session,
    peer: *const c_char,
    kind: i32,
    pairs: *const tcpx_pair,
    pair_bytes: usize,
    count: usize,
    out_operation: *mut tcpx_operation,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { Output::new("out_operation", out_operation) }?;
        // SAFETY: passed on from the caller.
        let peer = unsafe { peer_name(peer) }?;
        let kind = kind_from(kind)?;
        // SAFETY: passed on from the caller.
        let items = unsafe { InputArray::new("pairs", pairs, pair_bytes, count, TCPX_MAX_PAIRS) }?;
        let session = session.get()?;
        // SAFETY: passed on from the caller.
        let pairs = unsafe { Pairs::read(&items) }?;
        let operation = session.prepare(peer, kind, pairs.local(), &pairs.remote()?)?;
        out.write(tcpx_operation { id: registry::add(operation) });
        Ok(())
    })
}

/// Prepares an operation that moves no bytes. End it with `tcpx_operation_release`.
///
/// Each post carries its notification. The post is done when the peer's program can take the
/// notification, which `tcpx_notify` does not report. A post without a notification asks whether
/// the peer still answers.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`, `TCPX_ERR_ARGUMENT`; `TCPX_ERR_UNKNOWN_PEER`,
/// `TCPX_ERR_PEER_STATE`, or the peer's own error when it is leaving or over. Any thread; does not
/// block.
///
/// # Safety
/// `peer` is NULL or a text that ends with NUL; `out_operation` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_operation_prepare_notification(
    session: tcpx_session,
    peer: *const c_char,
    out_operation: *mut tcpx_operation,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { Output::new("out_operation", out_operation) }?;
        // SAFETY: passed on from the caller.
        let peer = unsafe { peer_name(peer) }?;
        let operation = session.get()?.prepare_notification(peer)?;
        out.write(tcpx_operation { id: registry::add(operation) });
        Ok(())
    })
}

/// Posts an operation, again if it has ended. The error of the post before is forgotten.
///
/// With a `notification` that is not NULL the peer gets these bytes. The peer's program finds them
/// with `tcpx_poll_notifications` when every byte of the operation is in place. There may be up to
/// TCPX_MAX_NOTIFICATION_BYTES, also none. The bytes are copied.
///
/// A post to a peer that is being connected waits until the peer is up. A peer that is not
/// connected, or was lost, and whose connection info was loaded, is connected first, as by
/// `tcpx_session_start_connect`. If that fails, the operation ends with the error, and the next
/// post tries again.
///
/// A write is done when all its bytes are in place at the peer, and its notification can be taken
/// there. A read is done when all its bytes are in place here. Until then the bytes of a write must
/// not change here, and those of a read must be neither read nor written. Two operations that touch
/// the same bytes have no order.
///
/// A write that has failed because its peer was lost may go on at the peer for a while: the peer
/// may have received bytes that it has not put in place. These bytes are put in place before
/// anything that is sent later. So the peer's program leaves that memory alone until something has
/// come that was sent later, or until it has taken back the key (`tcpx_unexport`,
/// `tcpx_session_deregister_memory`).
///
/// Errors: `TCPX_ERR_HANDLE`; `TCPX_ERR_NULL` for bytes of a notification without an address;
/// `TCPX_ERR_ARGUMENT` for a notification that is too long; `TCPX_ERR_PEER_STATE` while the
/// operation is under way; `TCPX_ERR_UNKNOWN_MEMORY` when its memory was deregistered;
/// `TCPX_ERR_PEER_STATE`, `TCPX_ERR_CLOSED` or the peer's own error when the peer is leaving or
/// over. After an error nothing was posted. Any thread; does not block.
///
/// # Safety
/// `notification` is NULL or may be read for `notification_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_operation_post(
    operation: tcpx_operation,
    notification: *const c_void,
    notification_bytes: usize,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let bytes = unsafe { notification_input(notification, notification_bytes) }?;
        let notification = (!notification.is_null()).then_some(bytes);
        Ok(operation.get()?.post(notification)?)
    })
}

/// Options of a post of an operation. With all members 0 but `size` the post has none. New members
/// are added at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tcpx_operation_options {
    /// sizeof(tcpx_operation_options).
    pub size: usize,
    /// Notification, as the parameter of `tcpx_operation_post`; NULL: no notification.
    pub notification: *const c_void,
    /// Number of bytes of the notification.
    pub notification_bytes: usize,
    /// Time limit of the post in milliseconds; 0: no limit.
    pub timeout_ms: u64,
}

const _: () = assert!(size_of::<tcpx_operation_options>() == 32);

// SAFETY: a size, an address and two more words are 32 bytes without padding, as asserted; any bits
// are an address that is not read before the caller vouches for it.
unsafe impl Extensible for tcpx_operation_options {
    const NAME: &'static str = "tcpx_operation_options";
    const FIRST_BYTES: usize = 32;
}

const NO_OPTIONS: tcpx_operation_options = tcpx_operation_options {
    size: size_of::<tcpx_operation_options>(),
    notification: std::ptr::null(),
    notification_bytes: 0,
    timeout_ms: 0,
};

/// As `tcpx_operation_post`, with options. `options` may be NULL.
///
/// A post whose time limit has passed is given up, as `tcpx_operation_cancel` does. It ends with
/// `TCPX_ERR_EXPIRED` once nothing of it uses memory of this session, also if the peer never
/// answers. Some bytes may have moved, or all. A read may have to wait for the peer, which may send
/// its bytes at any time. Rounds of progress check the time limit.
///
/// Errors: those of `tcpx_operation_post`, and `TCPX_ERR_ARGUMENT` for a `size` that no version
/// has. Any thread; does not block.
///
/// # Safety
/// `options` is NULL or points to a size that gives the number of bytes from it on; `notification`
/// is NULL or may be read for `notification_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_operation_post_with(
    operation: tcpx_operation,
    options: *const tcpx_operation_options,
) -> tcpx_status {
    boundary::call(|| {
        let options = match options.is_null() {
            true => NO_OPTIONS,
            // SAFETY: passed on from the caller.
            false => unsafe { extensible::read(options, NO_OPTIONS) }?,
        };
        // SAFETY: passed on from the caller.
        let bytes =
            unsafe { notification_input(options.notification, options.notification_bytes) }?;
        let mut post = PostOptions::default();
        post.notification = (!options.notification.is_null()).then_some(bytes);
        post.timeout = limit(options.timeout_ms);
        Ok(operation.get()?.post_with(post)?)
    })
}

/// Writes the state of an operation: TCPX_OPERATION_IDLE, TCPX_OPERATION_ACTIVE,
/// TCPX_OPERATION_DONE or TCPX_OPERATION_FAILED. The call makes no system call and no progress: in
/// a session without a progress thread, call `tcpx_session_progress` too.
///
/// `out_error`, which may be NULL, gets TCPX_OK, or the status of the error with which the
/// operation has failed. `tcpx_operation_error` has the text.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`. Any thread; does not block, and takes no lock that
/// another call may hold for long.
///
/// # Safety
/// `out_state` and `out_error` are NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_operation_status(
    operation: tcpx_operation,
    out_state: *mut i32,
    out_error: *mut tcpx_status,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out_state = unsafe { Output::new("out_state", out_state) }?;
        // SAFETY: passed on from the caller.
        let out_error = unsafe { Output::optional("out_error", out_error) }?;
        let (state, error) = match operation.get()?.status() {
            OperationStatus::Active => (TCPX_OPERATION_ACTIVE, tcpx_status::TCPX_OK),
            OperationStatus::Done => (TCPX_OPERATION_DONE, tcpx_status::TCPX_OK),
            OperationStatus::Failed(error) => (TCPX_OPERATION_FAILED, (&error).into()),
            // Idle. The enum may grow.
            _ => (TCPX_OPERATION_IDLE, tcpx_status::TCPX_OK),
        };
        out_state.write(state);
        if let Some(out) = out_error {
            out.write(error);
        }
        Ok(())
    })
}

/// Waits until an operation has ended, for at most `timeout_ms` milliseconds; TCPX_WAIT_FOREVER
/// (-1) sets no limit. For an operation that was not posted the call returns at once.
///
/// Errors: `TCPX_ERR_HANDLE`; `TCPX_ERR_ARGUMENT` for another negative number; `TCPX_ERR_TIMEOUT`
/// while the operation goes on: wait again, or cancel it; else the error with which it has ended.
/// No operation ends with `TCPX_ERR_TIMEOUT`. Any thread. Blocks for at most `timeout_ms`.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_operation_wait(operation: tcpx_operation, timeout_ms: i32) -> tcpx_status {
    boundary::call(|| Ok(operation.get()?.wait(timeout(timeout_ms)?)?))
}

/// Gives up a posted operation. It ends with `TCPX_ERR_CANCELLED`, or as without a cancel when it
/// is too late. Wait for the operation to learn its outcome, and until its memory is free.
///
/// Errors: `TCPX_ERR_HANDLE`. Any thread, also while another one waits for the operation; does not
/// block.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_operation_cancel(operation: tcpx_operation) -> tcpx_status {
    boundary::call(|| Ok(operation.get()?.cancel()?))
}

/// Writes the error with which an operation has ended.
///
/// `out_error` gets the status, or TCPX_OK if the operation was not posted, goes on or has ended
/// well. `buffer` gets the text with a terminating NUL. `out_size` gets the bytes of the text,
/// including the NUL; a NULL `buffer` asks for the number alone.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_BUFFER_TOO_SMALL`, with the needed size in
/// `out_size`, and `out_error` written too. Any thread; does not block.
///
/// # Safety
/// `out_error` and `out_size` are NULL or may be written; `buffer` is NULL or may be written for
/// `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_operation_error(
    operation: tcpx_operation,
    out_error: *mut tcpx_status,
    buffer: *mut c_char,
    capacity: usize,
    out_size: *mut usize,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { ErrorOutput::new(out_error, buffer, capacity, out_size) }?;
        match operation.get()?.status() {
            OperationStatus::Failed(error) => out.write(Some(&error)),
            _ => out.write(None),
        }
    })
}

/// Makes `tcpx_session_poll_completions` report the end of each post from now on, as
/// `tcpx_transfer_report_completions` does for a transfer: each post is a round. `context` is any
/// number that identifies the operation to the program; the queue holds entries of transfers and of
/// operations.
///
/// Errors: `TCPX_ERR_HANDLE`. Any thread; does not block.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_operation_report_completions(
    operation: tcpx_operation,
    context: u64,
) -> tcpx_status {
    boundary::call(|| Ok(operation.get()?.report_completions(context)?))
}

/// Ends an operation. Its handle is no longer valid.
///
/// An operation that is under way is given up, as by `tcpx_operation_cancel`. Its registrations
/// stay in use until the peer has answered or is gone: when `tcpx_session_deregister_memory`
/// returns TCPX_OK, the memory is free.
///
/// Errors: `TCPX_ERR_HANDLE`; `TCPX_ERR_BUSY` while another thread is inside a call on this
/// operation: nothing was done. `tcpx_operation_cancel` makes a thread that waits for it return.
/// Any thread; does not block.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_operation_release(operation: tcpx_operation) -> tcpx_status {
    boundary::call(|| {
        let held = registry::get_unused::<Operation>(operation.id)?;
        drop(registry::take(operation.id, held)?);
        Ok(())
    })
}
