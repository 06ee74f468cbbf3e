#![allow(unsafe_code)]
//! Sessions over GPU memory, both ends in this process on GPU 0. Without a GPU each test says that
//! it is skipped; `TCPX_TEST_REQUIRE=gpu` makes that a failure.

use std::thread;

use serial_test::serial;
use tcpx_core::{
    Access, Error, MemoryAddress, MemoryId, MemoryType, MemoryUnavailable, Post,
    RegistrationProblem, Session, SessionOptions, UnpackChoice, gpu_count,
};
use tcpx_cuda::{CudaGpu, DeviceBuffer, HeldStream, ReadOnlyMapping};
use tcpx_testkit::{PATIENCE, in_own_process, pattern};
use tcpx_tests::has_gpu;
use tcpx_tests::sessions::{connect, disconnect_both, join};

use crate::gpu_sessions::session;

/// Sends `bytes` bytes from an odd offset of memory of one kind to memory of another, and checks
/// every byte and those around them.
fn send_one(left: &Session, right: &Session, kinds: [MemoryType; 2], bytes: usize, seed: u64) {
    let memories = send_as("left", left, right, kinds, bytes, seed);
    left.deregister_memory(memories[0]).expect("no operation is left");
    right.deregister_memory(memories[1]).expect("no operation is left");
}

/// The same, from a session that the other knows as `name`. Returns the memory of both ends.
fn send_as(
    name: &str,
    left: &Session,
    right: &Session,
    kinds: [MemoryType; 2],
    bytes: usize,
    seed: u64,
) -> [MemoryId; 2] {
    const EDGE: usize = 8;
    let whole = bytes + 2 * EDGE;
    let from = left.allocate(whole as u64, kinds[0]).expect("memory to send");
    let to = right.allocate(whole as u64, kinds[1]).expect("memory to receive into");
    let mut data = vec![0; whole];
    pattern::fill(seed, 0, &mut data);
    left.write_memory(from, 0, &data).expect("write");
    right.write_memory(to, 0, &vec![0xee; whole]).expect("poison");
    let post = |memory| Post { memory, offset: EDGE as u64, bytes: bytes as u64, tag: 7 };
    let (send, receive) = (
        left.create_transfer("right").expect("a transfer"),
        right.create_transfer(name).expect("a transfer"),
    );
    receive.post_recv(post(to)).expect("post_recv");
    send.post_send(post(from)).expect("post_send");
    thread::scope(|scope| {
        let sent = scope.spawn(|| send.wait(Some(PATIENCE)));
        receive.wait(Some(PATIENCE)).expect("everything arrives");
        sent.join().expect("no panic").expect("everything is sent");
    });
    drop((send, receive));
    let mut received = vec![0; whole];
    right.read_memory(to, 0, &mut received).expect("read");
    let (before, rest) = received.split_at(EDGE);
    let (middle, after) = rest.split_at(bytes);
    let wrong = pattern::first_difference(seed, EDGE as u64, middle);
    assert_eq!(wrong, None, "{kinds:?}, {bytes} bytes");
    assert!(before.iter().chain(after).all(|byte| *byte == 0xee), "{kinds:?}, {bytes} bytes");
    [from, to]
}

/// A kernel of the program waits for bytes that one peer has not sent yet. Another peer leaves: to
/// free a GPU's memory, or to close, the session must not wait for the whole GPU, with which it
/// would wait for those bytes.
#[test]
#[serial(gpu)]
fn a_program_whose_gpu_waits_for_one_peer_may_lose_another() {
    in_own_process!();
    if !has_gpu() {
        return;
    }
    let gpu = CudaGpu::open(0).expect("there is a GPU");
    let device = [MemoryType::Device; 2];
    for unpack in [UnpackChoice::Host, UnpackChoice::D2d, UnpackChoice::Kernel] {
        let right = session(Some(0), unpack);
        let [a, b] = ["a", "b"].map(|name| {
            let peer = session(None, UnpackChoice::Auto);
            join((&peer, name), (&right, "right"));
            peer
        });
        send_as("a", &a, &right, device, 5_000_000, 1);
        let [from, to] = send_as("b", &b, &right, device, 100, 2);
        let send = b.create_transfer("right").expect("a transfer");
        let receive = right.create_transfer("b").expect("a transfer");
        let mut held = HeldStream::new(&gpu).expect("a stream");
        let (received, was_held) = thread::scope(|scope| {
            let left = scope.spawn(|| a.disconnect("right"));
            let leaving = scope.spawn(|| right.disconnect("a"));
            let received = (0..200).try_for_each(|tag| {
                let post = |memory| Post { memory, offset: 0, bytes: 100, tag };
                receive.post_recv(post(to))?;
                send.post_send(post(from))?;
                let sent = scope.spawn(|| send.wait(Some(PATIENCE)));
                let received = receive.wait(Some(PATIENCE));
                sent.join().expect("no panic").and(received)
            });
            // Both ends have parted although the GPU is held.
            let parted = received.clone().and_then(|()| leaving.join().expect("no panic"));
            let was_held = !held.has_ended().expect("the GPU is well");
            held.release().expect("it goes on");
            let _ = left.join().expect("no panic");
            (parted, was_held)
        });
        received.unwrap_or_else(|error| panic!("{unpack}: {error}"));
        assert!(was_held, "{unpack}: nothing was held");
        thread::scope(|scope| {
            let goodbye = scope.spawn(|| b.disconnect("right"));
            right.close().expect("nothing is left");
            goodbye.join().expect("no panic").expect("b parts");
        });
    }
}

#[test]
#[serial(gpu)]
fn every_backend_moves_every_byte_between_all_kinds_of_memory() {
    in_own_process!();
    if !has_gpu() {
        return;
    }
    for unpack in [UnpackChoice::Host, UnpackChoice::D2d, UnpackChoice::Kernel] {
        let (left, right) = (session(Some(0), unpack), session(Some(0), unpack));
        connect(&left, &right);
        let stats = right.stats();
        assert_eq!((stats.device_memory.as_str(), stats.unpack), ("cuda", unpack.to_string()));
        let (host, device) = (MemoryType::Host, MemoryType::Device);
        for kinds in [[device, device], [host, device], [device, host], [host, host]] {
            for bytes in [1, 4095, 8192, 8193, 524_288, (3 << 20) + 17, (40 << 20) + 5] {
                send_one(&left, &right, kinds, bytes, bytes as u64);
            }
        }
        disconnect_both(&left, &right);
    }
}

#[test]
#[serial(gpu)]
fn a_gpu_session_and_an_emulated_one_interoperate() {
    in_own_process!();
    if !has_gpu() {
        return;
    }
    let device = MemoryType::Device;
    for gpus in [[Some(0), None], [None, Some(0)]] {
        let [left, right] = gpus.map(|gpu| session(gpu, UnpackChoice::Auto));
        connect(&left, &right);
        for bytes in [100, 100_000, 5_000_000] {
            send_one(&left, &right, [device, device], bytes, 3);
            send_one(&left, &right, [device, device], bytes + 1, 4);
        }
        disconnect_both(&left, &right);
    }
}

#[test]
#[serial(gpu)]
fn device_memory_that_the_gpu_does_not_reach_is_refused() {
    in_own_process!();
    const BYTES: u64 = 64 << 20;
    if !has_gpu() {
        return;
    }
    let session = session(Some(0), UnpackChoice::Host);
    let gpu = CudaGpu::open(0).expect("there is a GPU");
    let buffer = DeviceBuffer::new(&gpu, BYTES).expect("there is room");
    let ordinary = vec![0_u8; 8192];
    let register = |address: MemoryAddress, bytes| {
        // SAFETY: the ranges that are registered live to the end of the test, and nothing is posted
        // on them.
        unsafe { session.register_memory(address, bytes, MemoryType::Device, Access::ReadWrite) }
    };
    let on_gpu = MemoryAddress::from_device;
    let own =
        register(on_gpu(buffer.address() + 3), BYTES - 3).expect("memory of the GPU registers");
    session.deregister_memory(own).expect("nothing is posted");
    for (address, bytes) in
        [(MemoryAddress::from_ptr(ordinary.as_ptr()), 8192), (on_gpu(buffer.address()), 1 << 40)]
    {
        let refused = register(address, bytes).expect_err("it is not the GPU's");
        assert!(matches!(refused, Error::Registration { .. }), "{refused}");
    }
}

#[test]
#[serial(gpu)]
fn memory_that_the_gpu_may_only_read_is_sent_from_and_not_received_into() {
    in_own_process!();
    if !has_gpu() {
        return;
    }
    let session = session(Some(0), UnpackChoice::Kernel);
    let gpu = CudaGpu::open(0).expect("there is a GPU");
    let mapping = ReadOnlyMapping::new(&gpu, 1 << 20).expect("there is room");
    let register = |access| {
        let address = MemoryAddress::from_device(mapping.address());
        // SAFETY: the mapping lives to the end of the test, and nothing is posted on it.
        unsafe { session.register_memory(address, mapping.bytes(), MemoryType::Device, access) }
    };
    let id = register(Access::ReadOnly).expect("it may be read");
    session.deregister_memory(id).expect("nothing is posted");
    let refused = register(Access::ReadWrite).expect_err("it may not be written");
    let (address, bytes) = (mapping.address(), mapping.bytes());
    assert!(
        matches!(
            refused,
            Error::Registration {
                problem: RegistrationProblem::ReadOnlyOnGpu { address: at, bytes: long },
                ..
            } if (at, long) == (address, bytes)
        ),
        "{refused}"
    );
    // The GPU is as well as before.
    let id = session.allocate(4096, MemoryType::Device).expect("there is room");
    session.write_memory(id, 0, &[7; 16]).expect("it is the session's");
}

#[test]
#[serial(gpu)]
fn a_gpu_that_is_not_there_is_a_typed_error() {
    in_own_process!();
    let options = SessionOptions::default().gpu(Some(gpu_count() + 1));
    let error = Session::new(options).expect_err("there is no such GPU");
    assert!(matches!(error, Error::MemoryUnavailable(MemoryUnavailable::Cuda(_))), "{error}");
}
