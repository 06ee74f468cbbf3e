#![allow(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it is what this program is for")]
//! Registers host memory of many sizes with the driver, and has GPU 0 read it. Prints the times,
//! and the driver's answers to calls that it ought to refuse: `cargo run -p tcpx-cuda --features
//! test-gpu --example registered_memory`.

use std::error::Error;
use std::ffi::c_void;
use std::ptr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use tcpx_cuda::{CudaGpu, DeviceBuffer, HeldStream, PinnedBuffer, RegisteredMemory, Stream};

const MIB: usize = 1 << 20;

/// Memory of an anonymous file.
struct Mapping {
    first: usize,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize, flags: libc::c_int) -> Self {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = flags | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, at an address that the system chooses.
        let first = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, flags, -1, 0) };
        assert_ne!(first, libc::MAP_FAILED, "there is memory");
        Self { first: first.expose_provenance(), bytes }
    }

    fn at(&self, offset: usize) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.first + offset)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: new() made this mapping, and there are no references to it.
        unsafe { libc::munmap(self.at(0), self.bytes) };
    }
}

type Registered = RegisteredMemory<Mapping>;

fn registered(gpu: &CudaGpu, bytes: usize) -> Result<Registered, tcpx_cuda::CudaError> {
    let mapping = Mapping::new(bytes, libc::MAP_SHARED);
    let first = mapping.at(0).cast();
    // SAFETY: the mapping lives as long as its owner.
    unsafe { RegisteredMemory::new(gpu, mapping, first, bytes) }
}

fn main() -> Result<(), Box<dyn Error>> {
    let gpu = CudaGpu::open(0)?;
    println!("{}, CUDA {}", gpu.name()?, CudaGpu::driver_version()?);
    for attribute in [
        Attribute::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED,
        Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
    ] {
        let mut value = -1;
        // SAFETY: the driver is loaded, and GPU 0 is there; it writes one integer.
        let status = unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, 0) };
        println!("{attribute:?}: {value} ({status:?})");
    }
    for mib in [1, 16, 64, 256, 1024] {
        time(&gpu, mib * MIB)?;
    }
    read(&gpu)?;
    end_under_work(&gpu)?;
    let _entered = gpu.enter()?;
    ask_for_what_is_wrong();
    Ok(())
}

/// Times registration and its end.
fn time(gpu: &CudaGpu, bytes: usize) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let memory = registered(gpu, bytes)?;
    let registered = begin.elapsed();
    let is_same = memory.device_address() == memory.owner().first as u64;
    let begin = Instant::now();
    drop(memory);
    let ended = begin.elapsed();
    println!(
        "{} MiB: registered in {registered:?}, at the host's address: {is_same}, ended in {ended:?}",
        bytes / MIB
    );
    Ok(())
}

/// Measures copies to the GPU, from this memory and from memory that the driver allocates.
fn read(gpu: &CudaGpu) -> Result<(), Box<dyn Error>> {
    let bytes = 256 * MIB;
    let memory = registered(gpu, bytes)?;
    let pinned = PinnedBuffer::new(gpu, bytes as u64)?;
    let target = DeviceBuffer::new(gpu, bytes as u64)?;
    let stream = Stream::new(gpu)?;
    let _entered = gpu.enter()?;
    for (name, from) in
        [("registered", memory.device_address()), ("allocated", pinned.device_address())]
    {
        for piece in [bytes, 64 << 10, 4 << 10] {
            let mut best = Duration::MAX;
            for _ in 0..4 {
                let begin = Instant::now();
                for offset in (0..bytes).step_by(piece) {
                    let at = offset as u64;
                    // SAFETY: both memories live until the stream is idle.
                    unsafe { stream.copy(target.address() + at, from + at, piece as u64) }?;
                }
                while !stream.is_idle()? {
                    std::hint::spin_loop();
                }
                best = best.min(begin.elapsed());
            }
            let rate = bytes as f64 / best.as_secs_f64() / 1e9;
            println!("{name}, in pieces of {} KiB: {rate:.2} GB/s to the GPU", piece >> 10);
        }
    }
    Ok(())
}

/// Checks whether the end of a registration waits for the GPU's work.
fn end_under_work(gpu: &CudaGpu) -> Result<(), Box<dyn Error>> {
    let memory = registered(gpu, MIB)?;
    let mut held = HeldStream::new(gpu)?;
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        drop(memory);
        // A receiver that is gone needs no message.
        let _ = sender.send(());
    });
    let answer = receiver.recv_timeout(Duration::from_secs(2));
    println!("the end of it waits for a stream that does not use it: {}", answer.is_err());
    held.release()?;
    thread.join().map_err(|_| "the thread has panicked")?;
    Ok(())
}

/// Prints the driver's answers to wrong calls, and to calls on other memory.
fn ask_for_what_is_wrong() {
    let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;
    let register = |at: *mut c_void, bytes: usize| {
        // SAFETY: the driver looks at the memory, which may or may not be mapped.
        unsafe { sys::cuMemHostRegister_v2(at, bytes, flags) }
    };
    // SAFETY: the driver looks the address up.
    let end = |at: *mut c_void| unsafe { sys::cuMemHostUnregister(at) };
    let shared = Mapping::new(MIB, libc::MAP_SHARED);
    println!("from the middle of a page: {:?}", register(shared.at(100), 5000));
    println!("its end: {:?}", end(shared.at(100)));
    println!("no bytes: {:?}", register(shared.at(0), 0));
    println!("whole: {:?}", register(shared.at(0), MIB));
    println!("again: {:?}", register(shared.at(0), MIB));
    println!("a page of it: {:?}", register(shared.at(8192), 4096));
    println!("end in its middle: {:?}", end(shared.at(8192)));
    println!("end: {:?}", end(shared.at(0)));
    println!("end once more: {:?}", end(shared.at(0)));
    let own = Mapping::new(MIB, libc::MAP_PRIVATE);
    println!("private memory: {:?}, its end: {:?}", register(own.at(0), MIB), end(own.at(0)));
    let gone = own.at(0);
    drop(own);
    println!("memory that is not there: {:?}", register(gone, MIB));
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the system reads one struct.
    let limited = unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const none) };
    let more = Mapping::new(16 * MIB, libc::MAP_SHARED);
    println!(
        "16 MiB where no memory may be locked ({limited}): {:?}",
        register(more.at(0), 16 * MIB)
    );
    println!("end: {:?}", end(more.at(0)));
    // Must be last: a driver may keep the address for good then.
    println!("memory before it is freed: {:?}", register(shared.at(0), MIB));
    let gone = shared.at(0);
    drop(shared);
    println!("its end after that: {:?}", end(gone));
}
