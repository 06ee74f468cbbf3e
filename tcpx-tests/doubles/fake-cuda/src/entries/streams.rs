#![allow(unsafe_code)]
//! Streams, and what makes them wait.

use std::ffi::c_uint;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use cudarc::driver::sys::{
    CUdeviceptr, CUresult, CUstream, CUstream_flags, CUstreamWaitValue_flags,
};

use super::copies::own_stream;
use crate::address_space::{MemoryLocation, READ, WRITE, space};
use crate::current;
use crate::status::{Result, answer, put};
use crate::stream::{STREAMS, Stream};

/// Interval at which a stream polls a value that it waits for: the program that writes the value
/// notifies no thread.
const LOOK_EVERY: Duration = Duration::from_micros(100);

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) -> CUresult {
    answer(|| {
        let gpu = current::working()?;
        // There is no default stream here that others would wait for.
        if flags != CUstream_flags::CU_STREAM_NON_BLOCKING as u32 {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let made = STREAMS.insert(Stream::new(gpu)?);
        // SAFETY: the caller keeps the driver's contract.
        unsafe { put(stream, made) }
    })
}

/// Does not wait for what is queued.
#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: CUstream) -> CUresult {
    answer(|| {
        STREAMS.remove(stream)?.destroy();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(stream: CUstream) -> CUresult {
    answer(|| {
        let stream = STREAMS.get(stream)?;
        let is_idle = stream.is_idle();
        stream.gpu.check()?;
        if is_idle { Ok(()) } else { Err(CUresult::CUDA_ERROR_NOT_READY) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: CUstream) -> CUresult {
    answer(|| {
        let stream = STREAMS.get(stream)?;
        stream.wait();
        stream.gpu.check()
    })
}

/// A 32-bit word that a stream looks at or writes.
fn word(address: CUdeviceptr, rights: u32) -> Result<MemoryLocation> {
    let place = space().place(address, 4, rights)?;
    place
        .filter(|place| place.pages.word(place.offset).is_some())
        .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
}

/// Only "at least", in the signed sense of the manual.
#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitValue32_v2(
    stream: CUstream,
    address: CUdeviceptr,
    value: u32,
    flags: c_uint,
) -> CUresult {
    answer(|| {
        let stream = own_stream(stream)?;
        if flags != CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ as u32 {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let place = word(address, READ)?;
        let gpu = stream.gpu;
        stream.push(move || {
            let Some(word) = place.pages.word(place.offset) else { return Ok(()) };
            while (word.load(Ordering::Acquire).wrapping_sub(value) as i32) < 0 {
                gpu.check()?;
                thread::sleep(LOOK_EVERY);
            }
            Ok(())
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWriteValue32_v2(
    stream: CUstream,
    address: CUdeviceptr,
    value: u32,
    flags: c_uint,
) -> CUresult {
    answer(|| {
        let stream = own_stream(stream)?;
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let place = word(address, WRITE)?;
        stream.push(move || {
            if let Some(word) = place.pages.word(place.offset) {
                word.store(value, Ordering::Release);
            }
            Ok(())
        });
        Ok(())
    })
}
