#![allow(unsafe_code)]
//! Check that a new kernel backend copies and reports.

use std::time::{Duration, Instant};

use tcpx_cuda::{CudaError, CudaGpu, DeviceBuffer, PinnedBuffer};
use tcpx_rx::UnpackDescriptor;

use super::launch::TILES_BY_VALUE;
use super::launch_queue::LaunchQueue;
use crate::job::{UnpackJob, check_all};
use crate::ticket::Ticket;

/// Longest wait for a copy of a few KiB by a GPU that may be busy with other work.
const LIMIT: Duration = Duration::from_secs(10);
const POISON: u8 = 0xa5;
const FRAGMENT_BYTES: u32 = 37;

/// Unpacks a few KiB from device memory and from pinned host memory, by value and through the ring,
/// and compares the bytes. Returns a description of the failure.
pub(super) fn run(gpu: &CudaGpu, queue: &mut LaunchQueue) -> Result<(), String> {
    // The first number is one fragment more than fits into the parameters, and the second fits.
    for fragments in [TILES_BY_VALUE + 1, 3] {
        let list = descriptors(fragments);
        let bytes = list.len() as u64 * u64::from(FRAGMENT_BYTES);
        let content: Vec<u8> = (0..bytes).map(|at| (at * 7 % 251) as u8).collect();
        let device = DeviceBuffer::new(gpu, bytes).map_err(describe)?;
        device.copy_from_host(0, &content).map_err(describe)?;
        let mut pinned = PinnedBuffer::new(gpu, bytes).map_err(describe)?;
        pinned.write(0, &content).map_err(describe)?;
        for (bounce, kind) in [(device.address(), "device"), (pinned.address(), "pinned host")] {
            let dst = DeviceBuffer::new(gpu, bytes + 1).map_err(describe)?;
            dst.fill(POISON).map_err(describe)?;
            let job = UnpackJob {
                bounce,
                bounce_bytes: bytes,
                dst: dst.address(),
                dst_bytes: dst.bytes(),
                descriptors: &list,
            };
            let checked = check_all(&[job]).map_err(describe)?;
            // SAFETY: both memories are this function's own and outlive the wait. After a failed
            // wait they are dropped only when the driver has finished with them, because frees wait
            // for the driver.
            let ticket = unsafe { queue.submit(&[job], checked) }.map_err(describe)?;
            wait(queue, ticket)?;
            let mut arrived = vec![0; bytes as usize + 1];
            dst.copy_to_host(0, &mut arrived).map_err(describe)?;
            if arrived != expected(&content, &list) {
                return Err(format!("{fragments} fragments from {kind} memory arrived damaged"));
            }
        }
    }
    Ok(())
}

/// Odd lengths, in reverse order, shifted by one byte at the destination.
fn descriptors(fragments: usize) -> Vec<UnpackDescriptor> {
    let len = FRAGMENT_BYTES;
    let last = fragments as u32 - 1;
    (0..=last)
        .map(|index| UnpackDescriptor {
            src_off: index * len,
            len,
            dst_off: u64::from((last - index) * len) + 1,
        })
        .collect()
}

fn expected(content: &[u8], list: &[UnpackDescriptor]) -> Vec<u8> {
    let mut bytes = vec![POISON; content.len() + 1];
    for descriptor in list {
        let (src, dst) = (descriptor.src_off as usize, descriptor.dst_off as usize);
        let len = descriptor.len as usize;
        bytes[dst..dst + len].copy_from_slice(&content[src..src + len]);
    }
    bytes
}

fn wait(queue: &mut LaunchQueue, ticket: Ticket) -> Result<(), String> {
    let start = Instant::now();
    while queue.poll().map_err(describe)? < ticket {
        if start.elapsed() > LIMIT {
            return Err(describe(CudaError::Stalled { waited_ms: LIMIT.as_millis() as u64 }));
        }
        std::thread::yield_now();
    }
    Ok(())
}

fn describe(error: impl std::fmt::Display) -> String {
    error.to_string()
}
