#![allow(unsafe_code)]
//! A GPU that fails in the middle of a session. A fault takes the process's CUDA context with it,
//! so each backend's runs in a process of its own: this program again.

use std::thread;

use tcpx_core::{Error, MemoryType, Post, UnpackChoice, UnpackFailure};
use tcpx_testkit::{PATIENCE, again, process};
use tcpx_tests::has_gpu;
use tcpx_tests::sessions::connect;
use tcpx_unpack::cuda::{CudaGpu, DeviceBuffer};
use tcpx_unpack::{Choice, MemoryKind, Unpack, UnpackJob};

use crate::gpu_sessions::session;

const MESSAGE_BYTES: u64 = (64 << 20) + 3;

#[test]
fn a_gpu_fault_ends_the_session_with_the_chunk_and_the_process_goes_on() {
    if !has_gpu() {
        return;
    }
    if let Some(backend) = process::role() {
        return lose_the_gpu(&backend);
    }
    for backend in ["host", "d2d", "kernel"] {
        let said = process::pass(&mut again!(backend));
        assert!(said.contains(&format!("{backend}: closed after the fault")), "{said}");
    }
}

/// Makes the GPU write where nothing is mapped, which breaks the context of the whole process.
fn break_context(kernel: &mut dyn Unpack, bounce: &DeviceBuffer) {
    let descriptors = [tcpx_rx::UnpackDescriptor { src_off: 0, len: 4096, dst_off: 0 }];
    let job = UnpackJob::new(&descriptors)
        .with_bounce(bounce.address(), 4096)
        .with_destination(4096, 4096);
    // SAFETY: against the contract, nothing is mapped at the destination. The GPU finds that out
    // when it writes there, and stops; no memory of this process changes.
    unsafe { kernel.submit(&[job]) }.expect("the launch itself works");
}

fn lose_the_gpu(backend: &str) {
    let backend: UnpackChoice = backend.parse().expect("the test above names one");
    let gpu = CudaGpu::open(0).expect("there is a GPU");
    let bounce = DeviceBuffer::new(&gpu, 4096).expect("there is room");
    let mut kernel =
        tcpx_unpack::open(Choice::Kernel, MemoryKind::Cuda { gpu: 0 }).expect("it opens").unpack;

    // The sender has no GPU: its part must not fail first.
    let (left, right) = (session(None, UnpackChoice::Auto), session(Some(0), backend));
    connect(&left, &right);
    let [from, to] = [&left, &right]
        .map(|end| end.allocate(MESSAGE_BYTES, MemoryType::Device).expect("there is room"));
    let mut message = |tag| {
        let post = |memory| Post { memory, offset: 0, bytes: MESSAGE_BYTES, tag };
        let send = left.create_transfer("right").expect("a transfer");
        let receive = right.create_transfer("left")?;
        receive.post_recv(post(to))?;
        send.post_send(post(from)).expect("post_send");
        thread::scope(|scope| {
            scope.spawn(|| send.wait(Some(PATIENCE)));
            if tag == 2 {
                // In the middle of the message.
                while receive.counts()?.chunks_done == 0 && receive.error().is_none() {
                    right.progress();
                }
                break_context(kernel.as_mut(), &bounce);
            }
            receive.wait(Some(PATIENCE))
        })
    };
    message(1).expect("the first message arrives");
    // The GPU may notice only after a whole message more.
    let error = (2..50).find_map(|tag| message(tag).err()).expect("a fault is reported");
    let Error::UnpackFailed(failure) = &error else { panic!("not an unpack: {error}") };
    let UnpackFailure { peer, registration, tag, chunk, chunk_bytes, .. } = &**failure;
    assert_eq!((peer.as_str(), *registration), ("left", Some(to)), "{error}");
    assert!((2..50).contains(tag) && chunk * chunk_bytes < MESSAGE_BYTES, "{error}");
    assert!(error.to_string().contains("cu"), "the driver call is missing: {error}");
    right.deregister_memory(to).expect("no operation uses it any more");
    println!("{backend}: {error}");
    drop((right, left, kernel));
    println!("{backend}: closed after the fault");
}
