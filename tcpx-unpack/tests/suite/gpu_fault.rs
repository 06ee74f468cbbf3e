#![allow(unsafe_code)]
//! Test of a GPU fault: it gives an error, soon, and again at every later call.
//!
//! The test has a process of its own, since a fault takes the process's CUDA context with it.

use std::time::Instant;

use tcpx_rx::UnpackDescriptor;
use tcpx_testkit::{PATIENCE, in_own_process};
use tcpx_unpack::cuda::{CudaError, DeviceBuffer};
use tcpx_unpack::{Choice, MemoryKind, UnpackError, UnpackJob, open};

#[test]
fn a_fault_becomes_an_error_that_stays() {
    in_own_process!();
    let Some(gpu) = tcpx_cuda::test_gpu() else { return };
    let bounce = DeviceBuffer::new(&gpu, 4096).unwrap();
    let mut unpack = open(Choice::Kernel, MemoryKind::Cuda { gpu: 0 }).unwrap().unpack;
    let descriptors = [UnpackDescriptor { src_off: 0, len: 4096, dst_off: 0 }];
    let job = UnpackJob::new(&descriptors)
        .with_bounce(bounce.address(), 4096)
        .with_destination(4096, 4096);
    // SAFETY: against the contract, nothing is mapped at the destination. The GPU finds that out
    // when it writes there, and stops; no memory of this process changes.
    let ticket = unsafe { unpack.submit(&[job]) }.unwrap();

    let start = Instant::now();
    let failure = loop {
        match unpack.poll() {
            Ok(finished) => assert!(finished < ticket, "a write to nowhere counts as finished"),
            Err(error) => break error,
        }
        assert!(start.elapsed() < PATIENCE, "the fault was never reported");
    };
    assert!(matches!(failure, UnpackError::Cuda(CudaError::Call { .. })), "{failure:?}");
    assert_eq!(unpack.poll(), Err(failure.clone()));
    // SAFETY: refused before anything is copied.
    assert_eq!(unsafe { unpack.submit(&[job]) }, Err(failure));

    assert!(unpack.shutdown(), "a broken context runs nothing");
    drop(unpack);
}
