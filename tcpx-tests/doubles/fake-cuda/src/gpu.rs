//! GPUs, each with its primary context.

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cudarc::driver::sys::{CUcontext, CUresult};

use crate::status::Result;

/// How many GPUs there are.
const COUNT_VARIABLE: &str = "TCPX_FAKE_CUDA_GPUS";
const DEFAULT_COUNT: u32 = 2;
const MAX_COUNT: u32 = 16;

/// A GPU and its primary context, whose handle is the GPU's address.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) ordinal: u32,
    /// How often the primary context is held.
    holds: Mutex<u32>,
    /// Whether a kernel has broken the context, for good.
    is_broken: AtomicBool,
}

/// The GPUs of this machine.
pub(crate) fn gpus() -> &'static [Gpu] {
    static GPUS: OnceLock<Vec<Gpu>> = OnceLock::new();
    GPUS.get_or_init(|| {
        let asked = std::env::var(COUNT_VARIABLE).ok().and_then(|count| count.parse().ok());
        (0..asked.unwrap_or(DEFAULT_COUNT).min(MAX_COUNT)).map(Gpu::new).collect()
    })
}

/// The GPU with this ordinal, which is also the device's handle.
pub(crate) fn gpu(ordinal: i32) -> Result<&'static Gpu> {
    let found = usize::try_from(ordinal).ok().and_then(|ordinal| gpus().get(ordinal));
    found.ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)
}

/// The GPU whose primary context this is.
pub(crate) fn of_context(context: CUcontext) -> Result<&'static Gpu> {
    let found = gpus().iter().find(|gpu| gpu.context() == context);
    let held = found.filter(|gpu| *gpu.holds() > 0);
    held.ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)
}

impl Gpu {
    fn new(ordinal: u32) -> Self {
        Self { ordinal, holds: Mutex::new(0), is_broken: AtomicBool::new(false) }
    }

    pub(crate) fn context(&self) -> CUcontext {
        ptr::from_ref(self).cast_mut().cast()
    }

    fn holds(&self) -> MutexGuard<'_, u32> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn retain(&self) {
        *self.holds() += 1;
    }

    /// Whether that was the last hold, with which the context ends.
    pub(crate) fn release(&self) -> Result<bool> {
        let mut holds = self.holds();
        *holds = holds.checked_sub(1).ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        Ok(*holds == 0)
    }

    /// A kernel has touched what it may not.
    pub(crate) fn break_context(&self) {
        self.is_broken.store(true, Ordering::Release);
    }

    /// The error that every call of a broken context answers.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_broken.load(Ordering::Acquire) {
            true => Err(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS),
            false => Ok(()),
        }
    }
}
