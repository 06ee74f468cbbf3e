#![allow(unsafe_code)]
//! Pairs of an operation, as a program passes them in.

use std::collections::HashMap;
use std::ffi::c_void;

use tcpx_core::{Error, MemoryRange, MemoryUnavailable, RemoteKey, RemoteRange};

use crate::export::read_key;
use crate::failure::Failure;
use crate::input;
use crate::input_array::{InputArray, InputItem};

/// Most pairs of one operation.
pub const TCPX_MAX_PAIRS: usize = 1_048_576;

/// Range of registered memory here, and a range of the same size at the peer. New members are added
/// at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct tcpx_pair {
    /// Id of the registration here.
    pub memory: u64,
    /// Offset of the bytes in the registration.
    pub offset: u64,
    /// Key to the peer's memory. Pairs of one key should point to the same bytes, which are then
    /// read once.
    pub key: *const c_void,
    /// Bytes of the key.
    pub key_bytes: usize,
    /// Offset of the bytes in the memory that the key leads to.
    pub remote_offset: u64,
    /// Number of bytes. A pair of 0 bytes is skipped.
    pub bytes: u64,
}

const _: () = assert!(size_of::<tcpx_pair>() == 48);

// SAFETY: six words without padding, as asserted; a pointer may have any bits.
unsafe impl InputItem for tcpx_pair {
    const NAME: &'static str = "tcpx_pair";
    const FIRST_BYTES: usize = 48;
}

impl Default for tcpx_pair {
    fn default() -> Self {
        Self {
            memory: 0,
            offset: 0,
            key: std::ptr::null(),
            key_bytes: 0,
            remote_offset: 0,
            bytes: 0,
        }
    }
}

/// Pairs whose keys have been read.
#[derive(Default)]
pub(crate) struct Pairs {
    local: Vec<MemoryRange>,
    /// Index of the key, offset and bytes.
    remote: Vec<(usize, u64, u64)>,
    keys: Vec<RemoteKey>,
}

impl Pairs {
    /// Reads pairs, and each key once.
    ///
    /// # Safety
    /// The key of each pair is NULL or the start of `key_bytes` initialised bytes, which no thread
    /// writes during the call.
    pub(crate) unsafe fn read(items: &InputArray<'_, tcpx_pair>) -> Result<Self, Failure> {
        let count = items.count();
        let mut pairs = Self::default();
        pairs.local.try_reserve_exact(count).map_err(|_| no_memory(count))?;
        pairs.remote.try_reserve_exact(count).map_err(|_| no_memory(count))?;
        let mut key_of = HashMap::new();
        for pair in items.iter() {
            let tcpx_pair { memory, offset, key, key_bytes, remote_offset, bytes } = pair?;
            let place = (key.addr(), key_bytes);
            let key = match key_of.get(&place) {
                Some(index) => *index,
                None => {
                    // SAFETY: passed on from the caller.
                    let key = unsafe { read_key(key, key_bytes) }?;
                    let index = pairs.keys.len();
                    pairs.keys.try_reserve(1).map_err(|_| no_memory(count))?;
                    key_of.try_reserve(1).map_err(|_| no_memory(count))?;
                    pairs.keys.push(key);
                    key_of.insert(place, index);
                    index
                }
            };
            let memory = input::memory_id(memory)?;
            pairs.local.push(MemoryRange { memory, offset, bytes });
            pairs.remote.push((key, remote_offset, bytes));
        }
        Ok(pairs)
    }

    /// Returns the ranges of this end.
    pub(crate) fn local(&self) -> &[MemoryRange] {
        &self.local
    }

    /// Returns the ranges of the other end.
    pub(crate) fn remote(&self) -> Result<Vec<RemoteRange<'_>>, Failure> {
        let count = self.remote.len();
        let mut ranges = Vec::new();
        ranges.try_reserve_exact(count).map_err(|_| no_memory(count))?;
        ranges.extend(self.remote.iter().map(|&(key, offset, bytes)| RemoteRange {
            key: &self.keys[key],
            offset,
            bytes,
        }));
        Ok(ranges)
    }
}

fn no_memory(count: usize) -> Failure {
    Error::MemoryUnavailable(MemoryUnavailable::Operations { count }).into()
}
