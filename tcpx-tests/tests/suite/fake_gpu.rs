#![allow(unsafe_code)]
//! The CUDA driver without a GPU is as strict as a GPU. Each test skips over a real one: what it
//! does to a program that breaks its rules is known.

use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::{ptr, thread};

use tcpx_cuda::{
    CudaGpu, DeviceBuffer, HeldStream, MarkedStream, PinnedBuffer, RegisteredMemory, allocation_end,
};
use tcpx_testkit::{PATIENCE, again, in_own_process, process, report_skip};
use tcpx_tests::has_gpu;

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
    if let Some(touched) = process::role() {
        return touch(&touched);
    }
    for (touched, signal) in [("host", None), ("device", Some(11)), ("alias", Some(11))] {
        let ended = process::finish(&mut again!(touched), PATIENCE);
        let text = process::printed(&ended);
        if let Some((_, why)) = text.split_once("skipped: ") {
            return report_skip(why.lines().next().unwrap_or(why));
        }
        let how = (ended.status.signal(), ended.status.success());
        assert_eq!(how, (signal, signal.is_none()), "{touched}: {text}");
    }
}

fn touch(touched: &str) {
    let Some(gpu) = fake_gpu() else { return };
    let device = DeviceBuffer::new(&gpu, 4096).expect("there is room");
    let pinned = PinnedBuffer::new(&gpu, 4096).expect("there is room");
    let address = match touched {
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
fn a_stream_that_waits_keeps_memory_from_being_freed_and_no_other_stream() {
    in_own_process!();
    let Some(gpu) = fake_gpu() else { return };
    let buffer = DeviceBuffer::new(&gpu, 8192).expect("there is room");
    let held = Mutex::new(HeldStream::new(&gpu).expect("a stream"));
    let has_ended = || held.lock().expect("no panic").has_ended().expect("the GPU is well");
    assert!(!has_ended(), "it waits for its value");

    let mut stream = MarkedStream::new(&gpu).expect("a stream");
    {
        let _entered = gpu.enter().expect("the context");
        // SAFETY: both halves lie in the buffer, which is freed after the copy.
        unsafe { stream.copy(buffer.address() + 4096, buffer.address(), 4096) }.expect("it queues");
        let mark = stream.mark().expect("it queues");
        while stream.reached().expect("the GPU is well") < mark {
            thread::yield_now();
        }
        assert!(stream.is_over());
    }

    thread::scope(|scope| {
        let (about_to_free, frees) = mpsc::channel();
        scope.spawn(move || {
            about_to_free.send(()).expect("the receiver lives");
            drop(buffer);
            assert!(has_ended(), "memory was freed under work");
        });
        frees.recv().expect("it begins");
        held.lock().expect("no panic").release().expect("it goes on");
    });
}

#[test]
fn copies_that_leave_their_memory_are_refused() {
    in_own_process!();
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
    assert!(refused.is_err(), "a copy went to an unmapped address");
    // SAFETY: the range lies in the buffer.
    unsafe { gpu.read(at, &mut bytes) }.expect("the GPU is as well as before");
}

/// Shared memory of the program's own, two pages of it, and whether its owner has ended.
struct Shared {
    first: usize,
    has_ended: Arc<AtomicBool>,
}

impl Shared {
    const BYTES: usize = 8192;

    fn new() -> Self {
        let first = map(ptr::null_mut(), libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        Self { first, has_ended: Arc::default() }
    }

    fn registered(self, gpu: &CudaGpu) -> Result<RegisteredMemory<Self>, String> {
        let first = ptr::with_exposed_provenance_mut(self.first);
        // SAFETY: the memory is there until its owner ends, but where a test says otherwise.
        let memory = unsafe { RegisteredMemory::new(gpu, self, first, Self::BYTES) };
        memory.map_err(|error| error.to_string())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::SeqCst);
        unmap(self.first);
    }
}

fn map(wanted: *mut libc::c_void, flags: libc::c_int) -> usize {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, or one in the place of this test's own.
    let first = unsafe { libc::mmap(wanted, Shared::BYTES, rights, flags, -1, 0) };
    assert_ne!(first, libc::MAP_FAILED);
    first.expose_provenance()
}

fn unmap(first: usize) {
    // SAFETY: the memory is a mapping of this test's own, and no thread uses it.
    unsafe { libc::munmap(ptr::with_exposed_provenance_mut(first), Shared::BYTES) };
}

#[test]
fn registered_memory_is_released_after_the_work() {
    in_own_process!();
    let Some(gpu) = fake_gpu() else { return };
    let shared = Shared::new();
    let owner_has_ended = Arc::clone(&shared.has_ended);
    let memory = shared.registered(&gpu).expect("it is taken");
    let held = Mutex::new(HeldStream::new(&gpu).expect("a stream"));
    let has_ended = || held.lock().expect("no panic").has_ended().expect("the GPU is well");
    thread::scope(|scope| {
        let (about_to_end, ends) = mpsc::channel();
        scope.spawn(move || {
            about_to_end.send(()).expect("the receiver lives");
            drop(memory);
            assert!(has_ended(), "memory was released during work");
        });
        ends.recv().expect("it begins");
        held.lock().expect("no panic").release().expect("it goes on");
    });
    assert!(owner_has_ended.load(Ordering::SeqCst));
}

#[test]
fn memory_that_is_freed_or_replaced_while_it_is_registered_is_not_released() {
    in_own_process!();
    let Some(gpu) = fake_gpu() else { return };
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let put_another = |first| map(ptr::with_exposed_provenance_mut(first), flags);
    for is_replaced in [false, true] {
        let shared = Shared::new();
        let (first, has_ended) = (shared.first, Arc::clone(&shared.has_ended));
        let memory = shared.registered(&gpu).expect("it is taken");
        unmap(first);
        if is_replaced {
            put_another(first);
        }
        // What the GPU has is there all the same.
        let mut bytes = [1; 16];
        // SAFETY: inside the registered memory.
        unsafe { gpu.read(memory.device_address() + 4096, &mut bytes) }.expect("it is locked");
        assert_eq!(bytes, [0; 16]);
        drop(memory);
        assert!(!has_ended.load(Ordering::SeqCst), "the driver has released it, {is_replaced}");
        assert!(allocation_end(&gpu, first as u64).expect("the GPU is well").is_some());
        // No other mapping gets addresses that are registered.
        put_another(first);
    }
}

#[test]
fn memory_that_is_not_there_or_not_shared_is_not_registered() {
    in_own_process!();
    let Some(gpu) = fake_gpu() else { return };
    let refused = |shared: Shared, why: &str| {
        let words = shared.registered(&gpu).map(drop).expect_err("it is refused");
        assert!(words.contains(why), "{words}");
    };
    let shared = Shared::new();
    unmap(shared.first + 4096);
    refused(shared, "CUDA_ERROR_INVALID_VALUE");
    let own = map(ptr::null_mut(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    refused(Shared { first: own, has_ended: Arc::default() }, "CUDA_ERROR_NOT_SUPPORTED");
    let pinned = PinnedBuffer::new(&gpu, Shared::BYTES as u64).expect("there is room");
    // SAFETY: the driver looks at the range, and refuses it.
    let known = unsafe { RegisteredMemory::new(&gpu, (), pinned.as_ptr(), Shared::BYTES) };
    let words = known.map(drop).expect_err("it is refused").to_string();
    assert!(words.contains("CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"), "{words}");
}
