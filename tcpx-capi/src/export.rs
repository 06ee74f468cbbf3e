#![allow(unsafe_code)]
//! Exports: memory that peers may reach, and the keys that open it.

use std::ffi::c_void;

use tcpx_core::{Error, ExportOptions, RemoteAccess, RemoteKey};

use crate::extensible::{self, Extensible, StructOutput};
use crate::failure::Failure;
use crate::memory::ptr_type;
use crate::output::ByteOutput;
use crate::session::tcpx_session;
use crate::status::tcpx_status;
use crate::{boundary, input};

/// Bytes of a key to remote memory. A newer library may need more, so ask with a NULL buffer.
pub const TCPX_REMOTE_KEY_BYTES: usize = 86;
/// Access of an export: peers may read it.
pub const TCPX_ACCESS_READ: u32 = 1;
/// Access of an export: peers may write it. The sum of both gives both.
pub const TCPX_ACCESS_WRITE: u32 = 2;

const _: () = assert!(TCPX_REMOTE_KEY_BYTES == RemoteKey::SERIALIZED_BYTES);
/// Bound on the length of a key: no version comes near it, so a longer key is not read.
const MAX_KEY_BYTES: usize = 4096;

/// Range of a registration, and the access to it, for `tcpx_export`. New members are added at the
/// end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct tcpx_export_options {
    /// sizeof(tcpx_export_options).
    pub size: usize,
    /// Offset of the range in the registration, in bytes.
    pub offset: u64,
    /// Length of the range in bytes; 0: to the end of the registration.
    pub bytes: u64,
    /// TCPX_ACCESS_READ, TCPX_ACCESS_WRITE or their sum.
    pub access: u32,
    /// With 1, the session gives the same key, to the byte, each time that the same range of
    /// addresses is exported with the same access. This is for programs that tell their peers only
    /// once which memory they have. Such a key opens the range whenever it is exported. With 0, a
    /// key is never used again.
    pub is_stable: i32,
}

const _: () = assert!(size_of::<tcpx_export_options>() == 32);

// SAFETY: three words and two half words are 32 bytes without padding, as asserted.
unsafe impl Extensible for tcpx_export_options {
    const NAME: &'static str = "tcpx_export_options";
    const FIRST_BYTES: usize = 32;
}

/// Memory that a key leads to, as the key says. New members are added at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct tcpx_remote_memory {
    /// sizeof(tcpx_remote_memory), set by the program before the call.
    pub size: usize,
    /// Address of the first byte, in the process that exports it. Operations name offsets from
    /// here.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// TCPX_PTR_HOST or TCPX_PTR_CUDA.
    pub ptr_type: i32,
    /// TCPX_ACCESS_READ, TCPX_ACCESS_WRITE or their sum.
    pub access: u32,
}

const _: () = assert!(size_of::<tcpx_remote_memory>() == 32);

// SAFETY: three words and two half words are 32 bytes without padding, as asserted.
unsafe impl Extensible for tcpx_remote_memory {
    const NAME: &'static str = "tcpx_remote_memory";
    const FIRST_BYTES: usize = 32;
}

/// Reads a key that a program passes in.
///
/// # Safety
/// `key` is NULL or the start of `key_bytes` initialised bytes that no thread writes during the
/// call.
pub(crate) unsafe fn read_key(key: *const c_void, key_bytes: usize) -> Result<RemoteKey, Failure> {
    if key.is_null() {
        return Err(Failure::null("key"));
    }
    // SAFETY: passed on from the caller.
    let bytes = unsafe { input::array("key", key.cast::<u8>(), key_bytes, MAX_KEY_BYTES) }?;
    Ok(RemoteKey::deserialize(bytes).map_err(Error::from)?)
}

fn access_from(bits: u32) -> Result<RemoteAccess, Failure> {
    const BOTH: u32 = TCPX_ACCESS_READ | TCPX_ACCESS_WRITE;
    match bits {
        TCPX_ACCESS_READ => Ok(RemoteAccess::Read),
        TCPX_ACCESS_WRITE => Ok(RemoteAccess::Write),
        BOTH => Ok(RemoteAccess::ReadWrite),
        _ => Err(Failure::argument(format!(
            "access is {bits}; TCPX_ACCESS_READ (1), TCPX_ACCESS_WRITE (2) or both (3) are taken"
        ))),
    }
}

fn access_bits(access: RemoteAccess) -> u32 {
    match access {
        RemoteAccess::Read => TCPX_ACCESS_READ,
        RemoteAccess::Write => TCPX_ACCESS_WRITE,
        RemoteAccess::ReadWrite => TCPX_ACCESS_READ | TCPX_ACCESS_WRITE,
    }
}

impl tcpx_export_options {
    fn to_core(self) -> Result<ExportOptions, Failure> {
        let mut options = ExportOptions::new(access_from(self.access)?);
        options.offset = self.offset;
        options.bytes = (self.bytes != 0).then_some(self.bytes);
        Ok(options.stable(input::flag("is_stable", self.is_stable)?))
    }
}

/// Exports a range of registered memory to peers, and writes the key that opens it.
///
/// The key is a plain value of TCPX_REMOTE_KEY_BYTES bytes, which may contain NUL. Give it only to
/// the peers that are to reach the range, on a path that you trust. A peer that has the key and a
/// connection to the session may do with the range what `access` says, and nothing with any other
/// memory. `out_size` gets the number of bytes; a NULL `buffer` asks for the number alone, and
/// exports nothing.
///
/// From now until the key is taken back, peers may read or write the range at any time, as `access`
/// says. The programs of both ends must agree on when each uses the range.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_MEMORY`; `TCPX_ERR_ARGUMENT` for
/// an unknown `access`, or an `is_stable` other than 0 and 1; `TCPX_ERR_MEMORY` when the range is
/// not all in the registration, or is to be written and was registered with `is_recv` 0;
/// `TCPX_ERR_BUFFER_TOO_SMALL`, with the needed size in `out_size`; `TCPX_ERR_CLOSED`. After an
/// error nothing was exported. Any thread; does not block.
///
/// # Safety
/// `options` is NULL or points to a struct of the size it names; `buffer` is NULL or may be written
/// for `capacity` bytes; `out_size` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_export(
    session: tcpx_session,
    memory: u64,
    options: *const tcpx_export_options,
    buffer: *mut c_void,
    capacity: usize,
    out_size: *mut usize,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let options = unsafe { extensible::read(options, tcpx_export_options::default()) }?;
        // SAFETY: passed on from the caller.
        let out = unsafe { ByteOutput::new(buffer.cast(), capacity, out_size) }?;
        let options = options.to_core()?;
        let memory = input::memory_id(memory)?;
        let session = session.get()?;
        if out.write_size(TCPX_REMOTE_KEY_BYTES)? {
            out.write(&session.export(memory, options)?.serialize())?;
        }
        Ok(())
    })
}

/// Takes a key back. After TCPX_OK no peer touches the memory through the key any more. Operations
/// that were under way have failed at the peers with `TCPX_ERR_REMOTE_MEMORY`.
///
/// `tcpx_session_deregister_memory` does the same for every export of its memory.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_DESCRIPTOR` when the
/// bytes are no key; `TCPX_ERR_REMOTE_MEMORY` for a key of another session, a key that this session
/// never gave out, and a key that was taken back; `TCPX_ERR_MEMORY_IN_USE` when a plugin or a GPU
/// does not release the memory within 10 seconds after the peers were ended: no peer can begin a
/// new use, but the memory must stay. Any thread; blocks while peers use the memory, as a rule for
/// microseconds. Peers that still use it after `close_timeout_ms` are ended.
///
/// # Safety
/// `key` is NULL or may be read for `key_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_unexport(
    session: tcpx_session,
    key: *const c_void,
    key_bytes: usize,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let key = unsafe { read_key(key, key_bytes) }?;
        Ok(session.get()?.unexport(&key)?)
    })
}

/// Writes what a key says of the memory that it leads to. Whether the key still opens that memory
/// shows when an operation is posted.
///
/// Set `out_memory->size` to sizeof(tcpx_remote_memory) first.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`; `TCPX_ERR_DESCRIPTOR` when the bytes are no key,
/// are damaged or of another version. Any thread; does not block.
///
/// # Safety
/// `key` is NULL or may be read for `key_bytes` bytes; `out_memory` is NULL or points to a struct
/// of the size it names, which may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_remote_key_info(
    key: *const c_void,
    key_bytes: usize,
    out_memory: *mut tcpx_remote_memory,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { StructOutput::new(out_memory) }?;
        // SAFETY: passed on from the caller.
        let key = unsafe { read_key(key, key_bytes) }?;
        out.write(tcpx_remote_memory {
            size: size_of::<tcpx_remote_memory>(),
            address: key.address(),
            bytes: key.bytes(),
            ptr_type: ptr_type(key.memory()),
            access: access_bits(key.access()),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_round_trips_as_bits() {
        for bits in 1..=3 {
            assert_eq!(access_bits(access_from(bits).unwrap()), bits);
        }
        for bits in [0, 4, 7, u32::MAX] {
            assert!(access_from(bits).is_err());
        }
    }
}
