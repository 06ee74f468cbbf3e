#![allow(unsafe_code)]
//! The CUDA driver without a GPU is as strict as a GPU. Each test skips over a real one: what it
//! does to a program that breaks its rules is known.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::ptr;
use std::sync::{Mutex, mpsc};
use std::thread;

use serial_test::serial;
use tcpx_cuda::{CudaGpu, DeviceBuffer, Event, HeldStream, PinnedBuffer, Stream, allocation_end};
use tcpx_tests::{has_gpu, report_skip};

/// Names what the process that loses its life touches.
const TOUCHED: &str = "TCPX_TEST_TOUCHED";

/// GPU 0, if it is none.
fn fake_gpu() -> Option<CudaGpu> {
    if !has_gpu() {
        return None;
    }
    let gpu = CudaGpu::open(0).expect("there is a GPU");
    if gpu.name().expect("it has a name") != "TCPX fake GPU" {
        report_skip("this GPU is a real one");
        return None;
    }
    Some(gpu)
}

#[test]
fn a_cpu_that_touches_gpu_addresses_ends_by_a_signal() {
    if fake_gpu().is_none() {
        return;
    }
    for (touched, signal) in [("host", None), ("device", Some(11)), ("alias", Some(11))] {
        let program = std::env::current_exe().expect("a test knows its own file");
        let status = Command::new(program)
            .args(["--exact", "touch", "--ignored"])
            .env(TOUCHED, touched)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("this program starts");
        assert_eq!((status.signal(), status.success()), (signal, signal.is_none()), "{touched}");
    }
}

#[test]
#[ignore = "a part of the test above, in a process of its own"]
fn touch() {
    let Ok(touched) = std::env::var(TOUCHED) else { return };
    let gpu = CudaGpu::open(0).expect("there is a GPU");
    let device = DeviceBuffer::new(&gpu, 4096).expect("there is room");
    let pinned = PinnedBuffer::new(&gpu, 4096).expect("there is room");
    let address = match touched.as_str() {
        "device" => device.address(),
        "alias" => pinned.device_address(),
        _ => pinned.address(),
    };
    let byte = ptr::with_exposed_provenance::<u8>(address as usize);
    // SAFETY: on purpose, there is none but for "host". The process ends here.
    let byte = unsafe { byte.read_volatile() };
    assert_eq!(byte, 0, "pinned memory begins zeroed");
}

/// Work is done when its turn comes, and memory is freed when all work is done.
#[test]
#[serial]
fn a_stream_that_waits_keeps_memory_from_being_freed_and_no_other_stream() {
    let Some(gpu) = fake_gpu() else { return };
    let buffer = DeviceBuffer::new(&gpu, 8192).expect("there is room");
    let held = Mutex::new(HeldStream::new(&gpu).expect("a stream"));
    let has_ended = || held.lock().expect("no panic").has_ended().expect("the GPU is well");
    assert!(!has_ended(), "it waits for its value");

    let (stream, event) =
        (Stream::new(&gpu).expect("a stream"), Event::new(&gpu).expect("an event"));
    {
        let _entered = gpu.enter().expect("the context");
        // SAFETY: both halves lie in the buffer, which is freed after the copy.
        unsafe { stream.copy(buffer.address() + 4096, buffer.address(), 4096) }.expect("it queues");
        stream.record(&event).expect("it queues");
        while !event.is_done().expect("the GPU is well") {
            thread::yield_now();
        }
        // The mark is done a moment before its stream has put it away.
        while !stream.is_idle().expect("the GPU is well") {
            thread::yield_now();
        }
    }

    thread::scope(|scope| {
        let (about_to_free, frees) = mpsc::channel();
        scope.spawn(move || {
            about_to_free.send(()).expect("somebody listens");
            drop(buffer);
            assert!(has_ended(), "memory was freed under work");
        });
        frees.recv().expect("it begins");
        held.lock().expect("no panic").release().expect("it goes on");
    });
}

#[test]
#[serial]
fn copies_that_leave_their_memory_are_refused() {
    let Some(gpu) = fake_gpu() else { return };
    let buffer = DeviceBuffer::new(&gpu, 8192).expect("there is room");
    let at = buffer.address();
    let end = allocation_end(&gpu, at).expect("the GPU is well").expect("it is the GPU's");
    let mut bytes = [0; 16];
    // SAFETY: the driver looks at the range, and refuses it.
    let refused = unsafe { gpu.read(end - 8, &mut bytes) };
    assert!(refused.is_err(), "a copy reached past the allocation");
    // SAFETY: as above: nothing is mapped at that address.
    let refused = unsafe { gpu.write(4096, &bytes) };
    assert!(refused.is_err(), "a copy went to an address that is nobody's");
    // SAFETY: the range lies in the buffer.
    unsafe { gpu.read(at, &mut bytes) }.expect("the GPU is as well as before");
}
