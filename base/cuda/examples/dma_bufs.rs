#![allow(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it is what this program is for")]
//! Exports memory of GPU 0 as dma-bufs, of many sizes and alignments, closes them again, and prints
//! the driver's answers: `cargo run -p tcpx-cuda --example dma_bufs`. No NIC takes part.

use std::error::Error;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Instant;

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use tcpx_cuda::{CudaGpu, DeviceBuffer, DmaBuf, PAGE_BYTES, PinnedBuffer, check_exports};

fn main() -> Result<(), Box<dyn Error>> {
    let gpu = CudaGpu::open(0)?;
    println!("{}, CUDA {}", gpu.name()?, CudaGpu::driver_version()?);
    print_attributes();
    println!("hands memory to other devices: {:?}", check_exports(&gpu));
    let before = open_files()?;
    for kib in [4, 64, 1 << 10, 2 << 10, 3 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20] {
        match DeviceBuffer::new(&gpu, kib << 10) {
            Ok(buffer) => try_ranges(&gpu, &buffer),
            Err(error) => println!("{kib} KiB are not there: {error}"),
        }
    }
    let pinned = PinnedBuffer::new(&gpu, 2 << 20)?;
    try_range(&gpu, "pinned memory", pinned.address(), 2 << 20);
    drop(pinned);
    outlive(&gpu)?;
    println!("open files: {before} before, {} after", open_files()?);
    Ok(())
}

/// Prints the attributes that decide whether NICs get memory.
fn print_attributes() {
    for attribute in [
        Attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
        Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
        Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
        Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
    ] {
        let mut value = -1;
        // SAFETY: the driver is loaded, and GPU 0 is there; it writes one integer.
        let status = unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, 0) };
        println!("{attribute:?}: {value} ({status:?})");
    }
}

fn try_ranges(gpu: &CudaGpu, buffer: &DeviceBuffer) {
    let (at, bytes) = (buffer.address(), buffer.bytes());
    println!("{} KiB at {at:#x}, {} KiB past 2 MiB", bytes >> 10, (at % (2 << 20)) >> 10);
    try_range(gpu, "whole", at, bytes);
    try_range(gpu, "first page", at, PAGE_BYTES);
    try_range(gpu, "last page", at + bytes - PAGE_BYTES, PAGE_BYTES);
    try_range(gpu, "from the second page on", at + PAGE_BYTES, bytes - PAGE_BYTES);
    try_range(gpu, "from the middle of a page", at + 512, PAGE_BYTES);
    try_range(gpu, "part of a page", at, 1000);
    try_range(gpu, "far past the end", at, bytes + (1 << 40));
}

fn try_range(gpu: &CudaGpu, name: &str, address: u64, bytes: u64) {
    let start = Instant::now();
    let made = DmaBuf::export(gpu, address, bytes);
    let exporting = start.elapsed();
    match made {
        Ok(made) => {
            let (size, maker) = describe(&made);
            let start = Instant::now();
            drop(made);
            let closing = start.elapsed();
            println!(
                "  {name}: {} KiB, {maker}, in {exporting:?}, closed in {closing:?}",
                size >> 10
            );
        }
        Err(error) => println!("  {name}: {error}; the driver: {}", asked(gpu, address, bytes)),
    }
}

/// Returns the answer of the driver itself for a range that need not be whole pages.
fn asked(gpu: &CudaGpu, address: u64, bytes: u64) -> String {
    let entered = match gpu.enter() {
        Ok(entered) => entered,
        Err(error) => return error.to_string(),
    };
    let kind = sys::CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
    let mut file = -1;
    let to = (&raw mut file).cast();
    // SAFETY: a context is current; the driver looks the range up and does not touch it. It writes
    // one descriptor.
    let status =
        unsafe { sys::cuMemGetHandleForAddressRange(to, address, bytes as usize, kind, 0) };
    drop(entered);
    if status == sys::CUresult::CUDA_SUCCESS && file >= 0 {
        // SAFETY: the driver has opened this descriptor for its caller, which owns it now.
        let dma_buf = unsafe { OwnedFd::from_raw_fd(file) };
        return format!("{status:?}, {} KiB", size_of(&dma_buf) >> 10);
    }
    format!("{status:?}")
}

/// Returns the size of a dma-buf, and the name of its exporter.
fn describe(dma_buf: &DmaBuf) -> (i64, String) {
    let file = dma_buf.as_fd().as_raw_fd();
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{file}")).unwrap_or_default();
    let maker =
        info.lines().find(|line| line.starts_with("exp_name")).unwrap_or("exp_name unknown");
    (size_of(dma_buf), maker.replace('\t', " "))
}

fn size_of(dma_buf: &impl AsFd) -> i64 {
    // SAFETY: the descriptor is open; the call takes no memory.
    unsafe { libc::lseek(dma_buf.as_fd().as_raw_fd(), 0, libc::SEEK_END) }
}

/// Checks whether memory can be freed while others have it, and allocated again.
fn outlive(gpu: &CudaGpu) -> Result<(), Box<dyn Error>> {
    let buffer = DeviceBuffer::new(gpu, 64 << 20)?;
    let address = buffer.address();
    let dma_buf = DmaBuf::export(gpu, address, buffer.bytes())?;
    let start = Instant::now();
    drop(buffer);
    let freeing = start.elapsed();
    let next = DeviceBuffer::new(gpu, 64 << 20)?;
    let is_same = next.address() == address;
    let (size, _) = describe(&dma_buf);
    println!(
        "freed while it was exported in {freeing:?}; the next one has its addresses: {is_same}; \
         the dma-buf has {} KiB still",
        size >> 10
    );
    Ok(())
}

fn open_files() -> std::io::Result<usize> {
    Ok(fs::read_dir("/proc/self/fd")?.count())
}
