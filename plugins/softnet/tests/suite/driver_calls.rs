//! Calls of a comm to the CUDA driver between its set-up and its end: nothing is made, nothing is
//! looked up.
//!
//! Every call that is not in the list may wait for a lock which a thread of the program holds while
//! it waits for a kernel; and that kernel may wait for this very comm. The counts are those of
//! `tcpx-tests/doubles/fake-cuda`, so the test skips over a real driver.

use tcpx_cuda::{
    CudaGpu, DeviceBuffer, QUEUEING_CALLS, driver_calls, driver_calls_since, test_gpu,
};
use tcpx_softnet::BounceMemory;
use tcpx_sys::PTR_CUDA;
use tcpx_testkit::{in_own_process, report_skip};

use crate::support::{self, Net};

#[test]
fn posts_and_test_create_and_query_nothing() {
    in_own_process!();
    let Some(gpu) = test_gpu() else { return };
    if driver_calls().is_none() {
        return report_skip("this driver does not count calls");
    }
    let net = support::net(|settings| {
        settings.chunk_bytes = 64 << 10;
        // Copies up are queued too.
        settings.bounce = BounceMemory::Device;
    });
    for connects_with_gpu in [true, false] {
        stream_is_quiet(net, &gpu, connects_with_gpu);
    }
}

fn stream_is_quiet(net: Net, gpu: &CudaGpu, connects_with_gpu: bool) {
    let bytes = 300_000;
    let memory = DeviceBuffer::new(gpu, bytes as u64).expect("there is room");
    let data = std::ptr::with_exposed_provenance_mut(memory.address() as usize);
    let entered = connects_with_gpu.then(|| gpu.enter().expect("the context"));
    let (sender, mut receiver) = net.pair();
    let entered = entered.unwrap_or_else(|| gpu.enter().expect("the context"));
    let (_, from) = net.register(sender.comm, data, bytes, PTR_CUDA);
    let (_, to) = net.register(receiver.comm, data, bytes, PTR_CUDA);
    drop(entered);
    let before = driver_calls().expect("counted");
    // The first send as well.
    for round in 0..40 {
        let bytes = [4096, bytes, 0, 20_000][round % 4];
        let posted = driver_calls().expect("counted");
        let (rc, send) = net.isend(sender.comm, data.cast(), bytes as i32, from);
        assert_eq!(rc, 0);
        let is_copied = driver_calls_since(&posted).contains_key("cuMemcpyAsync");
        assert_eq!(is_copied, bytes > 0, "a copy begins with the post, before the first test");
        let (_, recv) = receiver.post(data.cast(), bytes, to);
        net.finish_both(send, recv);
        assert_eq!(net.consumed(receiver.comm, recv), 0);
    }
    // Copies are queued and looked at.
    let mut calls = driver_calls_since(&before);
    assert!(calls.contains_key("cuMemcpyAsync"), "the GPU's memory moved");
    calls.retain(|name, _| !QUEUEING_CALLS.contains(&name.as_str()));
    assert!(calls.is_empty(), "connected with a GPU: {connects_with_gpu}: {calls:?}");
}
