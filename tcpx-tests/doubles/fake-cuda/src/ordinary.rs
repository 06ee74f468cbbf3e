#![allow(unsafe_code)]
//! Ordinary memory, which the driver does not know, and which need not be there.
//!
//! The system moves its bytes through a file in memory, because it says EFAULT where a load would
//! end the process.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys::CUresult;

use crate::status::Result;

/// A file in memory, without a name.
pub(crate) fn memory_file() -> Result<OwnedFd> {
    // SAFETY: the name ends with 0.
    let file = unsafe { libc::memfd_create(c"fake-cuda".as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    }
    // SAFETY: the file was just made, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

/// Bytes that go through the file at once.
const PIECE_BYTES: usize = 1 << 20;

/// Runs `moves` with the file, which holds no other caller's bytes.
fn with_file<T>(moves: impl FnOnce(&OwnedFd) -> Result<T>) -> Result<T> {
    static FILE: Mutex<Option<OwnedFd>> = Mutex::new(None);
    let mut file = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    if file.is_none() {
        *file = Some(memory_file()?);
    }
    moves(file.as_ref().ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?)
}

/// What lies at `address`.
pub(crate) fn read(address: u64, bytes: usize) -> Result<Vec<u8>> {
    let mut content = vec![0; bytes];
    with_file(|file| {
        for (number, piece) in content.chunks_mut(PIECE_BYTES).enumerate() {
            let from = ptr::with_exposed_provenance(address as usize + number * PIECE_BYTES);
            // SAFETY: the system reads the memory, if it is there.
            let moved = unsafe { libc::pwrite(file.as_raw_fd(), from, piece.len(), 0) };
            check(moved, piece.len())?;
            let to = piece.as_mut_ptr().cast();
            // SAFETY: the piece is valid for writes of its length.
            let moved = unsafe { libc::pread(file.as_raw_fd(), to, piece.len(), 0) };
            check(moved, piece.len())?;
        }
        Ok(())
    })?;
    Ok(content)
}

/// Puts `content` at `address`.
pub(crate) fn write(address: u64, content: &[u8]) -> Result<()> {
    with_file(|file| {
        for (number, piece) in content.chunks(PIECE_BYTES).enumerate() {
            let from = piece.as_ptr().cast();
            // SAFETY: the piece is valid for reads of its length.
            let moved = unsafe { libc::pwrite(file.as_raw_fd(), from, piece.len(), 0) };
            check(moved, piece.len())?;
            let to = ptr::with_exposed_provenance_mut(address as usize + number * PIECE_BYTES);
            // SAFETY: the system writes the memory, if it is there. The program has asked for that.
            let moved = unsafe { libc::pread(file.as_raw_fd(), to, piece.len(), 0) };
            check(moved, piece.len())?;
        }
        Ok(())
    })
}

/// Part of the bytes, or none: the rest of the memory is not there.
fn check(moved: isize, bytes: usize) -> Result<()> {
    match usize::try_from(moved) == Ok(bytes) {
        true => Ok(()),
        false => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reservation::Reservation;

    #[test]
    fn memory_that_is_not_there_is_an_error_and_no_signal() {
        let mut memory: Vec<u8> = (0..PIECE_BYTES + 5).map(|at| at as u8).collect();
        let address = memory.as_mut_ptr().expose_provenance() as u64;
        let content = read(address, PIECE_BYTES + 5).expect("it is there");
        assert!(content == memory);
        write(address + 1, &content[..3]).expect("it is there");
        assert_eq!(memory[..5], [0, 0, 1, 2, 4]);
        let nothing = Reservation::new(4096, 4096).expect("there is room").start;
        assert_eq!(read(nothing, 8), Err(CUresult::CUDA_ERROR_INVALID_VALUE));
        assert_eq!(write(nothing, &content[..8]), Err(CUresult::CUDA_ERROR_INVALID_VALUE));
    }
}
