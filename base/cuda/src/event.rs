#![allow(unsafe_code)]
//! Events: marks in a program's stream that the host can query.

use std::ptr;

use cudarc::driver::sys::{self, CUevent, CUevent_flags, CUstream};

use crate::driver::{CudaError, done, ok};
use crate::gpu::CudaGpu;

/// Event without a time, which makes recording it cheap.
#[derive(Debug)]
pub struct Event {
    gpu: CudaGpu,
    raw: CUevent,
}

// SAFETY: an event is a handle that the driver allows every thread to use at any time.
unsafe impl Send for Event {}

impl Event {
    /// Makes an event of this GPU.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn new(gpu: &CudaGpu) -> Result<Self, CudaError> {
        let _entered = gpu.enter()?;
        let mut raw = ptr::null_mut();
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: a context is current; the driver writes one event, which drop destroys.
        ok("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut raw, flags) })?;
        Ok(Self { gpu: gpu.clone(), raw })
    }

    /// Records the event in a stream of the program's own: it is done when everything queued there
    /// before has been done. `stream` is the driver's handle as a number; 1 is the legacy default
    /// stream, and 2 the default stream of this thread.
    ///
    /// # Errors
    /// Returns the driver's error, for a stream of another GPU too.
    ///
    /// # Safety
    /// The stream is alive.
    pub unsafe fn record_on(&self, stream: u64) -> Result<(), CudaError> {
        let _entered = self.gpu.enter()?;
        let stream: CUstream = ptr::with_exposed_provenance_mut(stream as usize);
        // SAFETY: the event is alive, a context is current, and the caller vouches for the stream.
        ok("cuEventRecord", unsafe { sys::cuEventRecord(self.raw, stream) })
    }

    /// Returns whether the work before the last record has been done. A failure of the GPU shows
    /// here.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn is_done(&self) -> Result<bool, CudaError> {
        // SAFETY: the event is alive.
        done("cuEventQuery", unsafe { sys::cuEventQuery(self.raw) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let destroyed = self.gpu.enter().and_then(|_entered| {
            // SAFETY: new() made this event, which has no other owner.
            ok("cuEventDestroy", unsafe { sys::cuEventDestroy_v2(self.raw) })
        });
        if let Err(error) = destroyed {
            tracing::debug!(%error, "an event was not destroyed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HeldStream, test_gpu};

    /// Handles of the default streams.
    const DEFAULT_STREAMS: [u64; 2] = [1, 2];

    #[test]
    fn an_event_of_a_foreign_stream_is_done_after_its_work() {
        let Some(gpu) = test_gpu() else { return };
        let mut held = HeldStream::new(&gpu).unwrap();
        let event = Event::new(&gpu).unwrap();
        // SAFETY: the stream is alive.
        unsafe { event.record_on(held.handle()) }.unwrap();
        assert!(!event.is_done().unwrap());
        held.release().unwrap();
        while !event.is_done().unwrap() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn default_streams_have_events() {
        let Some(gpu) = test_gpu() else { return };
        for stream in DEFAULT_STREAMS {
            let event = Event::new(&gpu).unwrap();
            // SAFETY: default streams are always alive.
            unsafe { event.record_on(stream) }.unwrap();
            while !event.is_done().unwrap() {
                std::thread::yield_now();
            }
        }
    }
}
