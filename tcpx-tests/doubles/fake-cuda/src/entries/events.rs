#![allow(unsafe_code)]
//! Events.

use std::ffi::c_uint;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUevent, CUevent_flags, CUresult, CUstream};

use crate::current;
use crate::event::{EVENTS, Event};
use crate::handles::DEFAULT_STREAMS;
use crate::status::{Result, answer, put};
use crate::stream::{STREAMS, Stream, default_stream};

/// Only events without a time.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut CUevent, flags: c_uint) -> CUresult {
    answer(|| {
        let gpu = current::working()?;
        if flags != CUevent_flags::CU_EVENT_DISABLE_TIMING as u32 {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        // SAFETY: the caller keeps the driver's contract.
        unsafe { put(event, EVENTS.insert(Event::new(gpu))) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: CUevent) -> CUresult {
    answer(|| EVENTS.remove(event).map(drop))
}

/// A stream by its handle, which may name a default stream of the current GPU.
fn stream_of(handle: CUstream) -> Result<Arc<Stream>> {
    match handle.addr() {
        0..=DEFAULT_STREAMS => default_stream(current::working()?),
        _ => STREAMS.get(handle),
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: CUevent, stream: CUstream) -> CUresult {
    answer(|| {
        let (event, stream) = (EVENTS.get(event)?, stream_of(stream)?);
        stream.gpu.check()?;
        if !ptr::eq(event.gpu, stream.gpu) {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        event.record(&stream);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: CUevent) -> CUresult {
    answer(|| {
        let event = EVENTS.get(event)?;
        let is_reached = event.is_reached();
        event.gpu.check()?;
        if is_reached { Ok(()) } else { Err(CUresult::CUDA_ERROR_NOT_READY) }
    })
}
