//! Place where a send comm finds its stager, which is made ahead of the first send.
//!
//! A post must make nothing. The driver's creating calls wait for the thread that holds the
//! driver's lock. That thread may wait for a kernel that waits for this very send.

use std::sync::PoisonError;

use tcpx_cuda::{CudaError, CudaGpu};

use super::stager::Stager;
use crate::sync::Mutex;

/// Place for a stager, filled once, by connect or by regMr, and emptied once, by the comm.
#[derive(Debug)]
pub(crate) struct StagerSlot {
    chunk_bytes: u32,
    state: Mutex<SlotState>,
}

#[derive(Debug)]
enum SlotState {
    Unmade,
    Made(Box<Stager>),
    Taken,
}

impl StagerSlot {
    /// Creates an empty slot, for chunks of at most `chunk_bytes`.
    pub(crate) fn new(chunk_bytes: u32) -> Self {
        Self { chunk_bytes, state: Mutex::new(SlotState::Unmade) }
    }

    /// Makes the stager, if none was made.
    pub(crate) fn fill(&self, gpu: &CudaGpu) -> Result<(), CudaError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, SlotState::Unmade) {
            *state = SlotState::Made(Box::new(Stager::for_sends(gpu, self.chunk_bytes)?));
        }
        Ok(())
    }

    /// Takes the stager, once. Never waits: a thread that fills the slot now does so for memory
    /// that is not registered yet, and so not for memory that the caller sends.
    pub(crate) fn take(&self) -> Option<Box<Stager>> {
        let mut state = self.state.try_lock().ok()?;
        match std::mem::replace(&mut *state, SlotState::Taken) {
            SlotState::Made(stager) => Some(stager),
            other => {
                *state = other;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stager_is_made_once_and_taken_once() {
        let Some(gpu) = tcpx_cuda::test_gpu() else { return };
        let slot = StagerSlot::new(4096);
        assert!(slot.take().is_none(), "nothing was made");
        for _ in 0..2 {
            slot.fill(&gpu).expect("there is room");
        }
        assert!(slot.take().is_some());
        slot.fill(&gpu).expect("nothing is to be made");
        assert!(slot.take().is_none(), "once");
    }
}
