#![allow(unsafe_code)]
//! Host memory on the NUMA node that is nearest to a GPU.
//!
//! A page lies on the node that the memory policy of the thread names that touches it first. Of
//! pinned memory that is the thread that pins it, in a call of the driver.

use std::ffi::{c_int, c_long, c_ulong};
use std::io;
use std::ptr;

use crate::gpu::CudaGpu;

/// Largest number of nodes that the system knows.
const MAX_NODES: u32 = 1024;
const WORD_BITS: u32 = c_ulong::BITS;

/// Memory policy of the calling thread while this lives: pages come from the GPU's node, or from
/// another one if that has none left.
#[derive(Debug)]
pub(crate) struct NearGpu {
    /// The policy belongs to one thread.
    _thread: std::marker::PhantomData<*const ()>,
}

impl NearGpu {
    /// Begins the policy. `None`: the node is not known, the program has a policy of its own, such
    /// as `numactl` sets, or the system does not let it be changed.
    pub(crate) fn begin(gpu: &CudaGpu) -> Option<Self> {
        let node = gpu.host_node().filter(|node| *node < MAX_NODES)?;
        if policy().ok()? != libc::MPOL_DEFAULT {
            return None;
        }
        let mut nodes = [0; (MAX_NODES / WORD_BITS) as usize];
        nodes[(node / WORD_BITS) as usize] = 1 << (node % WORD_BITS);
        match set_policy(libc::MPOL_PREFERRED, &nodes) {
            Ok(()) => Some(Self { _thread: std::marker::PhantomData }),
            Err(error) => {
                tracing::debug!(gpu = gpu.ordinal(), node, %error, "pinned memory may lie anywhere");
                None
            }
        }
    }
}

impl Drop for NearGpu {
    fn drop(&mut self) {
        if let Err(error) = set_policy(libc::MPOL_DEFAULT, &[]) {
            tracing::warn!(%error, "the memory policy of a thread stays as it was for pinned memory");
        }
    }
}

/// Returns the policy of the calling thread.
fn policy() -> io::Result<c_int> {
    let (mut mode, none) = (0, ptr::null_mut::<c_ulong>());
    // SAFETY: the system writes one integer; without an address and a mask it takes none.
    let status = unsafe {
        libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, none, 0 as c_ulong, 0 as c_ulong, 0)
    };
    result(status).map(|()| mode)
}

/// Sets the policy of the calling thread. No nodes are no mask.
fn set_policy(mode: c_int, nodes: &[c_ulong]) -> io::Result<()> {
    let (mask, bits) = match nodes {
        [] => (ptr::null(), 0),
        // The system reads one bit less than this number.
        _ => (nodes.as_ptr(), c_ulong::from(MAX_NODES) + 1),
    };
    // SAFETY: the mask is null with no bits, or has a bit for each node. It is only read.
    result(unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask, bits) })
}

fn result(status: c_long) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pinned_buffer::PinnedBuffer;
    use crate::registered_memory::RegisteredMemory;
    use crate::test_gpu::test_gpu;

    const PAGES: usize = 8;
    const PAGE: usize = crate::PAGE_BYTES as usize;

    /// Returns the node on which each page lies. Negative: the system's error.
    fn nodes_of(first: *const u8) -> [c_int; PAGES] {
        let pages: [_; PAGES] = std::array::from_fn(|page| first.wrapping_add(page * PAGE));
        let mut nodes = [c_int::MIN; PAGES];
        // SAFETY: both lists have as many entries as the number says; no nodes: pages stay where
        // they are. 0 is this process.
        let status = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0,
                PAGES as c_ulong,
                pages.as_ptr(),
                ptr::null::<c_int>(),
                nodes.as_mut_ptr(),
                0,
            )
        };
        result(status).expect("the process may look at its own memory");
        nodes
    }

    #[test]
    fn pinned_memory_lies_on_the_node_of_the_gpu() {
        let Some(gpu) = test_gpu() else { return };
        let Some(node) = gpu.host_node() else { return };
        let pinned = PinnedBuffer::new(&gpu, (PAGES * PAGE) as u64).expect("there is memory");
        assert_eq!(nodes_of(pinned.as_ptr()), [node as c_int; PAGES]);

        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, at an address that the system chooses. It is never ended.
        let first = unsafe { libc::mmap(ptr::null_mut(), PAGES * PAGE, rights, flags, -1, 0) };
        assert_ne!(first, libc::MAP_FAILED);
        // SAFETY: the mapping is there until the process ends.
        let registered = unsafe { RegisteredMemory::new(&gpu, (), first.cast(), PAGES * PAGE) };
        let _registered = registered.expect("the driver takes it");
        assert_eq!(nodes_of(first.cast()), [node as c_int; PAGES]);
        assert_eq!(policy().expect("the system has one"), libc::MPOL_DEFAULT);
    }

    #[test]
    fn a_policy_of_the_program_stays() {
        let Some(gpu) = test_gpu() else { return };
        let mut first_node = [0; (MAX_NODES / WORD_BITS) as usize];
        first_node[0] = 1;
        set_policy(libc::MPOL_BIND, &first_node).expect("every process may");
        assert!(NearGpu::begin(&gpu).is_none());
        assert_eq!(policy().expect("the system has one"), libc::MPOL_BIND);
        set_policy(libc::MPOL_DEFAULT, &[]).expect("every process may");
    }
}
