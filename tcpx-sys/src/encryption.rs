//! Addition to the table that only plugins of this project have: the symbol
//! `tcpxCommEncryption_v1`. It has the sockets of a comm encrypted.
//!
//! The v7 table has no room for a secret: its handle crosses the network as the caller sends it. A
//! session gives both ends of a comm a secret that they derive from their encrypted link, and that
//! never crosses the network. Other plugins lack the symbol, and NCCL does not look for it.

use core::ffi::{c_int, c_void};
use core::mem::{align_of, offset_of, size_of};

use crate::addition::addition;
use crate::types::{NcclResult, NetDeviceHandle, assert_layout};

/// Name of the data symbol that is the struct.
pub const ENCRYPTION_SYMBOL: &str = "tcpxCommEncryption_v1";
/// Length of a secret in bytes.
pub const COMM_SECRET_BYTES: usize = 32;

/// `encryptListen(listenComm, secret)`. Has all encrypted that the comm's peer sends and receives.
/// `secret` is 32 bytes, which the plugin copies. Called before the first `accept`. A peer that
/// does not have the secret, or that connects without, is not accepted. 3: the comm is no listen
/// comm that waits for its first `accept`, or its bytes cannot be encrypted, because a NIC places
/// them.
pub type EncryptListenFn =
    unsafe extern "C" fn(listen_comm: *mut c_void, secret: *const c_void) -> NcclResult;
/// `connectEncrypted(dev, handle, secret, sendComm, sendDevComm)`. As `connect`, and all is
/// encrypted. Every call of one attempt has the same handle; only the first reads `secret`.
pub type ConnectEncryptedFn = unsafe extern "C" fn(
    dev: c_int,
    handle: *mut c_void,
    secret: *const c_void,
    send_comm: *mut *mut c_void,
    send_dev_comm: *mut *mut NetDeviceHandle,
) -> NcclResult;

addition! {
    /// The 16 bytes that the symbol `tcpxCommEncryption_v1` *is*.
    struct CommEncryptionV1;
    /// Functions of the addition, each known to be set.
    entries EncryptionEntries;
    { encrypt_listen: EncryptListenFn, connect_encrypted: ConnectEncryptedFn }
}

assert_layout!(CommEncryptionV1, size 16, align 8, { encrypt_listen 0, connect_encrypted 8 });
