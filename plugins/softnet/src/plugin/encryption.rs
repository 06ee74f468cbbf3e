#![allow(unsafe_code)]
//! The addition to the table that has the sockets of a comm encrypted.

use std::ffi::{c_int, c_void};

use tcpx_seal::secret::SharedSecret;
use tcpx_sys::{COMM_SECRET_BYTES, CommEncryptionV1, NcclResult, NetDeviceHandle};

use super::arguments::{get, guard, not_null};
use super::entries::additions;
use super::table::connect_with;
use crate::entry::Entry;

/// What the software plugin offers beside its [`table`](crate::table): the sockets of a comm
/// encrypted, with a secret that both ends have from elsewhere.
///
/// Each socket has keys of its own: X25519, fresh at both ends, mixed with the secret. Whatever
/// crosses it behind the two hellos is in records of AES-256-GCM, or of ChaCha20-Poly1305 where an
/// end has no instructions for AES. A byte that was changed, left out, repeated or made up ends the
/// comm: its requests fail with 2, with a WARN line at the first. Such sockets copy what they send,
/// whatever [`Settings::zerocopy`](crate::Settings::zerocopy) says.
#[must_use]
pub const fn comm_encryption() -> CommEncryptionV1 {
    CommEncryptionV1 {
        encrypt_listen: Some(encrypt_listen),
        connect_encrypted: Some(connect_encrypted),
    }
}

unsafe extern "C" fn encrypt_listen(listen_comm: *mut c_void, secret: *const c_void) -> NcclResult {
    guard(Entry::EncryptListen, || {
        not_null("encryptListen", "secret", secret)?;
        // SAFETY: not NULL; the ABI asks for 32 bytes.
        additions::encrypt_listen(listen_comm, unsafe { read_secret(secret) })
    })
}

unsafe extern "C" fn connect_encrypted(
    dev: c_int,
    handle: *mut c_void,
    secret: *const c_void,
    send_comm: *mut *mut c_void,
    _send_dev_comm: *mut *mut NetDeviceHandle,
) -> NcclResult {
    guard(Entry::ConnectEncrypted, || {
        not_null("connectEncrypted", "secret", secret)?;
        // SAFETY: not NULL; the ABI asks for 32 bytes.
        let secret = unsafe { read_secret(secret) };
        // SAFETY: the caller's pointers, for which the ABI's rules are those of `connect`.
        unsafe { connect_with("connectEncrypted", dev, handle, Some(secret), send_comm) }
    })
}

/// Copies a secret.
///
/// # Safety
/// The pointer leads to 32 readable bytes.
unsafe fn read_secret(secret: *const c_void) -> SharedSecret {
    // SAFETY: the caller's promise.
    SharedSecret::new(unsafe { get(secret.cast::<[u8; COMM_SECRET_BYTES]>()) })
}
