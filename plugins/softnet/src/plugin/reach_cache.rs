//! Search for NICs that reach the memory of GPUs, where the settings leave that open.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use tcpx_cuda::CudaGpu;

use super::nic::Nic;
use crate::log;
use crate::nic_memory::check_for_gpu;
use crate::sync::{Mutex, MutexGuard};
use crate::transport::GpuReach;

/// Results of probes, by NIC and GPU.
#[derive(Debug, Default)]
pub(super) struct ReachCache(Mutex<BTreeMap<(usize, u32), GpuReach>>);

impl ReachCache {
    /// Finds out which of these NICs reach the memory of this GPU. The driver is asked with the
    /// first call.
    pub(super) fn of_nics(&self, nics: &[Nic], gpu: u32) -> Vec<GpuReach> {
        // The loopback is never asked.
        let wires = || nics.iter().enumerate().filter(|(_, nic)| !nic.interface.loopback);
        let known: Option<Vec<GpuReach>> = {
            let known = self.known();
            wires().map(|(index, _)| known.get(&(index, gpu)).cloned()).collect()
        };
        let answers = known.or_else(|| {
            let gpu = CudaGpu::open(gpu).ok()?;
            Some(wires().map(|(index, nic)| self.of_nic(index, nic, &gpu)).collect())
        });
        answers.unwrap_or_default()
    }

    /// Finds out whether NIC `index` reaches it. The result is stored, and logged once.
    pub(super) fn of_nic(&self, index: usize, nic: &Nic, gpu: &CudaGpu) -> GpuReach {
        let key = (index, gpu.ordinal());
        if let Some(known) = self.known().get(&key) {
            return known.clone();
        }
        // The kernel and the driver take their time, so no thread waits for them at the lock.
        let found = probe(&nic.interface.name, gpu);
        self.known().entry(key).or_insert_with(|| log_reach(found, gpu)).clone()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<(usize, u32), GpuReach>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn probe(name: &str, gpu: &CudaGpu) -> GpuReach {
    let error = check_for_gpu(name, gpu).err();
    let refusal = error.map(|error| match error.diagnosis() {
        Some(diagnosis) => format!("{error} [{}]", diagnosis.code),
        None => error.to_string(),
    });
    GpuReach { nic: name.to_owned(), refusal }
}

fn log_reach(reach: GpuReach, gpu: &CudaGpu) -> GpuReach {
    let GpuReach { nic, refusal } = &reach;
    match refusal {
        None => log::info!("{nic} and GPU {}: device memory is used", gpu.ordinal()),
        Some(why) => log::info!("{nic} and GPU {}: no device memory: {why}", gpu.ordinal()),
    }
    reach
}
