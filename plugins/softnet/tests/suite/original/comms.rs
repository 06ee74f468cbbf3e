#![allow(unsafe_code)]
//! Connecting, closing and registering as the original does.

use std::ptr;
use std::time::{Duration, Instant};

use tcpx_cuda::{CudaGpu, DeviceBuffer};
use tcpx_sys::{NetUnpackMeta, PTR_CUDA, PTR_HOST};
use tcpx_testkit::{eventually, report_skip};

use super::child::{net, pair};
use crate::support::sockets::OVERFLOWS_BYTES;
use crate::support::{Memory, PluginPtr, blank_device};

fn the_receiver_goes_in_mid_transfer() {
    let mut pair = pair(OVERFLOWS_BYTES, PTR_HOST);
    // SAFETY: the default action needs no handler.
    assert_ne!(unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) }, libc::SIG_ERR);
    let send = pair.isend(OVERFLOWS_BYTES);
    assert_eq!(pair.net.test(send), (0, 0));
    assert_eq!(pair.net.close(pair.receiver.comm), 0);
    assert_eq!(pair.net.fails_with(send), 2);
}

#[test]
fn a_write_to_a_peer_that_has_gone_kills() {
    let test = test_of!(the_receiver_goes_in_mid_transfer);
    let killed = test.run("sigpipe", &[]);
    assert_eq!(killed.signal(), Some(libc::SIGPIPE), "{}", killed.text);
    assert!(test.run("", &[]).passed());
}

fn set_up_takes_its_time() {
    let net = net();
    let (mut handle, listen) = net.listen();
    let start = Instant::now();
    let accept = std::thread::spawn({
        let listen = listen.addr();
        move || {
            let (rc, ..) = net.accept_all(std::ptr::without_provenance_mut(listen));
            (rc, start.elapsed())
        }
    });
    assert_eq!(net.connect_all(&mut handle).0, 0);
    let connected = start.elapsed();
    let (rc, accepted) = accept.join().expect("accept");
    assert_eq!(rc, 0);
    assert!(connected >= Duration::from_millis(300), "{connected:?}");
    assert!(accepted >= Duration::from_millis(700), "{accepted:?}");
}

#[test]
fn flow_steering_takes_time() {
    let test = test_of!(set_up_takes_its_time);
    let variables = [
        ("NCCL_NSOCKS_PERTHREAD", "2"),
        ("NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS", "400000"),
    ];
    // Without the quirk it is faster, on a machine that is not busy with others.
    let ended = test.run("slow", &variables);
    assert!(ended.passed(), "{}", ended.text);
}

fn an_odd_size_costs_descriptor_zero() {
    let net = net();
    let (sender, _) = net.pair();
    let mut memory = Memory::new(3 * 4096);
    let data = memory.data();
    // SAFETY: touches no memory.
    let is_open = || unsafe { libc::fcntl(0, libc::F_GETFD) } != -1;
    assert!(is_open());
    assert_eq!(net.register(sender.comm, data.wrapping_add(1), 4096, PTR_CUDA).0, 3);
    assert_eq!(net.register(sender.comm, data, 4096, PTR_CUDA).0, 0);
    assert_eq!(net.register(sender.comm, data, 4097, PTR_HOST).0, 0);
    assert!(is_open());
    assert_eq!(net.register(sender.comm, data, 4097, PTR_CUDA).0, 3);
    assert!(!is_open());
}

#[test]
fn a_failed_export_closes_a_descriptor_of_the_programs() {
    let test = test_of!(an_odd_size_costs_descriptor_zero);
    test.proves("regmr", &[]);
}

fn ordinary_memory_costs_descriptor_zero() {
    let net = net();
    let (sender, _) = net.pair();
    let Some(gpu) = tcpx_cuda::test_gpu() else { return report_skip("there is no GPU") };
    let entered = gpu.enter().expect("its context");
    let device = DeviceBuffer::new(&gpu, 1 << 21).expect("there is room");
    let address = ptr::without_provenance_mut(device.address() as usize);
    assert_eq!(net.register(sender.comm, address, 1 << 21, PTR_CUDA).0, 0);
    let mut memory = Memory::new(4096);
    assert_eq!(net.register(sender.comm, memory.data(), 4096, PTR_CUDA).0, 3);
    // SAFETY: touches no memory.
    assert_eq!(unsafe { libc::fcntl(0, libc::F_GETFD) }, -1);
    drop(entered);
}

#[test]
fn memory_that_is_no_gpus_closes_a_descriptor_of_the_programs() {
    let test = test_of!(ordinary_memory_costs_descriptor_zero);
    let ended = test.run("regmr", &[]);
    assert!(ended.passed(), "{}", ended.text);
    if ended.text.contains("skipped") {
        return report_skip("there is no GPU");
    }
    assert!(!test.run("", &[]).passed());
}

fn small_messages_go_where_they_were_posted() {
    let mut pair = pair(4096, PTR_CUDA);
    let mut place = Memory::new(4096);
    for (bytes, is_copied) in [(100, true), (101, false)] {
        let (rc, mhandle) = pair.net.register(pair.receiver.comm, place.data(), 4096, PTR_CUDA);
        assert_eq!(rc, 0);
        let (number, recv) = pair.receiver.post(place.data(), bytes, mhandle);
        let send = pair.isend(bytes);
        pair.net.finish_both(send, recv);
        assert_eq!(pair.receiver.entries(number).is_empty(), is_copied, "{bytes} bytes");
        if is_copied {
            assert_eq!(place.bytes()[..bytes], pair.memory.bytes()[..bytes]);
        } else {
            assert!(pair.receiver.unpack(number, bytes) == pair.memory.bytes()[..bytes]);
        }
        assert_eq!(pair.consumed(recv), 0);
    }
    pair.close();
}

#[test]
fn inline_messages_are_copied_to_device_pointers() {
    let test = test_of!(small_messages_go_where_they_were_posted);
    test.proves("inline", &[("NCCL_INLINE_THRESHOLD", "100")]);
    assert!(!test.run("inline", &[]).passed(), "unset, nothing is inline");
}

fn another_gpu_accepts() {
    const BYTES: usize = 20_000;
    if !CudaGpu::count().is_ok_and(|count| count >= 2) {
        return report_skip("there are no two GPUs");
    }
    let net = net();
    let gpus = [0, 1].map(|ordinal| CudaGpu::open(ordinal).expect("it is there"));
    let entered = gpus[0].enter().expect("its context");
    let (mut handle, listen) = net.listen();
    drop(entered);
    let mut device = blank_device();
    let mut send: PluginPtr = ptr::null_mut();
    let mut accepted: (i32, PluginPtr) = (0, ptr::null_mut());
    eventually(|| {
        if send.is_null() {
            let (rc, comm) = net.connect(&mut handle);
            assert_eq!(rc, 0);
            send = comm;
        }
        if accepted == (0, ptr::null_mut()) {
            let _entered = gpus[1].enter().expect("its context");
            accepted = net.accept(listen, &mut device);
        }
        let is_over = accepted.0 != 0 || !accepted.1.is_null();
        (is_over && !send.is_null()).then_some(())
    });
    assert_eq!(accepted.0, 0, "refused");
    let mut memory = Memory::patterned(BYTES, 1);
    let (_, mhandle) = net.register(accepted.1, memory.data(), BYTES, PTR_CUDA);
    let (_, sent) = net.isend(send, memory.data(), BYTES as i32, mhandle);
    let (rc, recv) = net.irecv(accepted.1, ptr::null_mut(), BYTES as i32, mhandle);
    assert_eq!(rc, 0);
    net.finish_both(sent, recv);
    let landed = unpack_through(&gpus[1], device.handle.addr() as u64);
    assert_eq!(landed.len(), BYTES);
    assert!(landed != memory.bytes(), "garbage, and no error");
}

/// The first message of a comm, read with the eyes of a GPU, which alone may look.
fn unpack_through(gpu: &CudaGpu, device: u64) -> Vec<u8> {
    let read = |address: u64, bytes: usize| {
        let mut place = vec![0; bytes];
        // SAFETY: accept has filled the struct, the message is done, and the comm is open.
        unsafe { gpu.read(address, &mut place) }.expect("it is readable");
        place
    };
    let word = |address: u64| u64::from_ne_bytes(read(address, 8).try_into().expect("eight"));
    let (meta, bounce) = (word(device), word(device + 8));
    let count = word(meta + std::mem::offset_of!(NetUnpackMeta, cnt) as u64);
    let mut landed = Vec::new();
    for entry in 0..count {
        let entry = word(meta + 16 * entry);
        // The low half is the place in the bounce region, the high one the length.
        landed.extend(read(bounce + (entry & 0xffff_ffff), (entry >> 32) as usize));
    }
    landed
}

#[test]
fn two_gpus_for_one_comm_deliver_garbage() {
    let test = test_of!(another_gpu_accepts);
    let wrong = test.run("gpus", &[]);
    assert!(wrong.passed(), "{}", wrong.text);
    if wrong.text.contains("skipped") {
        return report_skip("there are no two GPUs");
    }
    let refused = test.run("", &[]);
    assert!(!refused.passed(), "{}", refused.text);
    assert!(refused.text.contains("GPU 1 is current, and listen was called with 0"));
}
