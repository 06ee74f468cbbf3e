//! Thread that sees whether a NIC still has the memory that it receives into. The NIC may be
//! removed, or its driver be loaded anew, and no socket shows this.

use std::time::Duration;

use tcpx_cuda::CudaGpu;
use tcpx_devmem::DevmemError;

use super::receive_path::Binding;
use super::region::{NicRegion, RegionUser};
use crate::log;
use crate::transport::Transport;

/// Time between two looks.
const LOOK_AFTER: Duration = Duration::from_millis(500);

/// Makes a region, and starts the thread that has its binding. Both end when the memory is lost;
/// before that they live as long as the process.
///
/// # Errors
/// Each with its diagnosis.
pub(crate) fn watched_region(
    interface: &str,
    transport: Transport,
    gpu: Option<&CudaGpu>,
    pool_bytes: u64,
    poison: bool,
) -> Result<&'static NicRegion, DevmemError> {
    let (binding, user) = NicRegion::make(interface, transport, gpu, pool_bytes, poison)?;
    let region = user.region();
    start(WatchedRegion { binding, user })?;
    Ok(region)
}

/// Objects of the thread. The memory may get another user only when the kernel has released it, so
/// the binding ends before this use of the region does.
struct WatchedRegion {
    binding: Binding,
    user: RegionUser,
}

fn start(watched: WatchedRegion) -> Result<(), DevmemError> {
    let region = watched.user.region();
    let name = "tcpx-soft-nic".to_owned();
    let thread = std::thread::Builder::new().name(name).spawn(move || watch(&watched));
    thread.map(drop).map_err(|source| {
        // The binding has gone with the thread.
        let (nic, queue) = (region.nic().name().to_owned(), region.queue());
        region.lose(DevmemError::BindingLost { nic, queue });
        DevmemError::System { what: "a thread that watches a NIC cannot start", source }
    })
}

fn watch(watched: &WatchedRegion) {
    let WatchedRegion { binding, user } = watched;
    let region = user.region();
    while region.lost().is_none() {
        std::thread::sleep(LOOK_AFTER);
        match region.receive_path().check().and_then(|()| binding.is_up()) {
            Ok(is_up) => {
                if region.set_down(!is_up) {
                    let state = if is_up { "up again" } else { "down; its memory stays" };
                    log::warn!("{}: the NIC is {state}", region.nic().name());
                }
            }
            Err(
                error @ (DevmemError::BindingLost { .. }
                | DevmemError::NoNic { .. }
                | DevmemError::RingFailed { .. }),
            ) => {
                log::warn!("{error}: its connections end");
                region.lose(error);
            }
            // The question failed, so the answer says nothing about the NIC.
            Err(_) => {}
        }
    }
}
