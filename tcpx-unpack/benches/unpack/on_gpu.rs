#![allow(unsafe_code)]
//! The backends over GPU memory.

use std::error::Error;
use std::io::Write;

use cudarc::driver::{result, sys};
use tcpx_unpack::cuda::{CudaGpu, DeviceBuffer, PinnedBuffer};
use tcpx_unpack::{Backend, Choice, MemoryKind, open};

use crate::layout::{Chunks, Shape};
use crate::measure::{Candidate, Medians, Repetitions, measure};
use crate::memory::{Ends, UnpackCandidate};

/// Bytes of the bounce buffer and of the destination: far more than any cache.
const BYTES: u64 = 1 << 30;
const PINNED_BYTES: u64 = 256 << 20;

/// One submission, and how close to a contiguous copy of its bytes the kernel must come.
#[derive(Clone, Copy)]
struct Size {
    chunk_bytes: u64,
    chunks: usize,
    kernel_bar: Option<f64>,
    shifted_bar: Option<f64>,
}

impl Size {
    const fn new(chunk_kib: u64, chunks: usize, bars: (Option<f64>, Option<f64>)) -> Self {
        Self { chunk_bytes: chunk_kib << 10, chunks, kernel_bar: bars.0, shifted_bar: bars.1 }
    }

    fn bytes(&self) -> u64 {
        self.chunk_bytes * self.chunks as u64
    }

    /// One copy call for each page takes too long to be measured at the larger sizes.
    fn backends(&self, shape: Shape) -> Vec<Backend> {
        if shape == Shape::Contiguous || self.bytes() <= 512 << 10 {
            return vec![Backend::Kernel, Backend::D2d, Backend::Host];
        }
        vec![Backend::Kernel]
    }

    fn bar(&self, backend: Backend, shape: Shape) -> Option<f64> {
        match (backend, shape) {
            (Backend::Kernel, Shape::Shifted) => self.shifted_bar,
            (Backend::Kernel, _) => self.kernel_bar,
            (Backend::D2d, Shape::Contiguous) if self.chunks == 1 => Some(D2D_BAR),
            _ => None,
        }
    }
}

const SIZES: [Size; 5] = [
    Size::new(4, 1, (None, None)),
    Size::new(64, 1, (None, None)),
    Size::new(512, 1, (Some(1.10), Some(1.25))),
    Size::new(4 << 10, 1, (Some(1.20), Some(1.35))),
    Size::new(512, 64, (Some(1.15), None)),
];
/// Bar for d2d where the pages are contiguous.
const D2D_BAR: f64 = 1.1;

/// Streams of the kernel backend, so that the copy it is compared with has as many.
const STREAMS: usize = 4;

/// One contiguous copy for each submission, on streams that take turns.
struct ContiguousCopy {
    ends: Ends,
    bytes: u64,
    queues: Vec<(sys::CUstream, sys::CUevent)>,
}

impl ContiguousCopy {
    /// The GPU's context must be current on the thread for as long as this lives.
    fn new(ends: Ends, bytes: u64, streams: usize) -> Result<Self, result::DriverError> {
        let queue = |_| {
            Ok((
                result::stream::create(result::stream::StreamKind::NonBlocking)?,
                result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?,
            ))
        };
        Ok(Self { ends, bytes, queues: (0..streams).map(queue).collect::<Result<_, _>>()? })
    }
}

impl Candidate for ContiguousCopy {
    fn submit(&mut self, index: usize) {
        let places = self.ends.bytes / self.bytes;
        let from = self.ends.bounce + index as u64 * 7 % places * self.bytes;
        let to = self.ends.dst + index as u64 % places * self.bytes;
        let (stream, _) = self.queues[index % self.queues.len()];
        // SAFETY: both ranges lie inside the two memories, which outlive this value.
        unsafe { result::memcpy_dtod_async(to, from, self.bytes as usize, stream) }
            .expect("a copy was refused");
    }

    fn finish(&mut self) {
        for &(stream, event) in &self.queues {
            // SAFETY: event and stream are alive until drop.
            unsafe { result::event::record(event, stream) }.expect("no event");
        }
        for &(_, event) in &self.queues {
            // SAFETY: as above. An error other than "not ready" ends the wait as well, and shows in
            // the next call.
            while unsafe { result::event::query(event) }
                .is_err_and(|error| error.0 == sys::CUresult::CUDA_ERROR_NOT_READY)
            {
                std::hint::spin_loop();
            }
        }
    }
}

impl Drop for ContiguousCopy {
    fn drop(&mut self) {
        for &(stream, event) in &self.queues {
            // SAFETY: new() made both, and nothing uses them any more.
            let destroyed = unsafe { result::event::destroy(event) };
            // SAFETY: as above.
            let stream_destroyed = unsafe { result::stream::destroy(stream) };
            destroyed.and(stream_destroyed).expect("event or stream was not destroyed");
        }
    }
}

pub(crate) fn run(
    gpu: &CudaGpu,
    repetitions: Repetitions,
    only: &str,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let device = result::device::get(gpu.ordinal() as i32)?;
    // SAFETY: the primary context is held by `gpu` while it is current here.
    let context = unsafe { result::primary_ctx::retain(device) }?;
    // SAFETY: as above.
    unsafe { result::ctx::set_current(context) }?;

    let version = CudaGpu::driver_version()?;
    writeln!(
        out,
        "CPU: {}; GPU: {}, driver for CUDA {}.{}, GPU {}\n",
        processor(),
        gpu.name()?,
        version / 1000,
        version % 1000 / 10,
        gpu.pci_bus_id()?
    )?;
    let source = DeviceBuffer::new(gpu, BYTES)?;
    let dst = DeviceBuffer::new(gpu, BYTES)?;
    scramble(&source)?;
    let ends = Ends { bounce: source.address(), dst: dst.address(), bytes: BYTES };
    writeln!(out, "### From device memory\n")?;
    table(gpu, ends, repetitions, only, out)?;

    let mut pinned = PinnedBuffer::new(gpu, PINNED_BYTES)?;
    pinned.write(0, &noise(PINNED_BYTES as usize))?;
    let ends = Ends { bounce: pinned.address(), dst: dst.address(), bytes: PINNED_BYTES };
    writeln!(out, "\n### From pinned host memory (the bars are for device memory)\n")?;
    table(gpu, ends, repetitions, only, out)?;
    writeln!(out)?;
    Ok(())
}

/// Returns the system's name of the processor, which bounds the smaller submissions.
pub(crate) fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or("unknown", |(_, name)| name.trim()).to_owned()
}

fn table(
    gpu: &CudaGpu,
    ends: Ends,
    repetitions: Repetitions,
    only: &str,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    writeln!(
        out,
        "| submission | layout | copier | µs each | × copy | CPU µs | latency µs | bar |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|")?;
    for size in SIZES {
        for shape in Shape::ALL {
            let row = format!("{} | {}", size_name(size.chunk_bytes, size.chunks), shape.name());
            if !row.contains(only) {
                continue;
            }
            let chunks = Chunks::new(shape, size.chunk_bytes, ends.bytes);
            let mut candidates: Vec<Box<dyn Candidate>> = Vec::new();
            for streams in [STREAMS, 1] {
                candidates.push(Box::new(ContiguousCopy::new(ends, size.bytes(), streams)?));
            }
            let backends = size.backends(shape);
            for backend in &backends {
                let opened = open(Choice::from(*backend), MemoryKind::Cuda { gpu: gpu.ordinal() })?;
                // SAFETY: the caller's buffers outlive the candidates and have no other user.
                let unpacking =
                    unsafe { UnpackCandidate::new(opened.unpack, &chunks, ends, size.chunks) };
                candidates.push(Box::new(unpacking));
            }
            let figures = measure(&mut candidates, repetitions);
            let copy = figures[0];
            write_row(out, &row, "contiguous copy, 4 streams", copy, copy, None)?;
            write_row(out, &row, "contiguous copy, 1 stream", figures[1], copy, None)?;
            for (backend, figure) in backends.iter().zip(&figures[2..]) {
                // Its copies are on one stream, so they are compared with one.
                let copy = if *backend == Backend::D2d { figures[1] } else { copy };
                write_row(out, &row, backend.name(), *figure, copy, size.bar(*backend, shape))?;
            }
        }
    }
    Ok(())
}

fn write_row(
    out: &mut impl Write,
    row: &str,
    copier: &str,
    figures: Medians,
    copy: Medians,
    bar: Option<f64>,
) -> std::io::Result<()> {
    let ratio = figures.each / copy.each;
    let bar = bar.map_or(String::new(), |bar| {
        format!("≤ {bar:.2} {}", if ratio <= bar { "met" } else { "**missed**" })
    });
    writeln!(
        out,
        "| {row} | {copier} | {:.2} | {ratio:.2} | {:.2} | {:.2} | {bar} |",
        figures.each, figures.cpu, figures.latency
    )
}

pub(crate) fn size_name(chunk_bytes: u64, at_once: usize) -> String {
    let size = if chunk_bytes >= 1 << 20 {
        format!("{} MiB", chunk_bytes >> 20)
    } else {
        format!("{} KiB", chunk_bytes >> 10)
    };
    if at_once == 1 { size } else { format!("{at_once} × {size}") }
}

/// Bytes that no copy engine and no memory can compress.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    tcpx_testkit::pattern::fill(1, 0, &mut content);
    content
}

fn scramble(buffer: &DeviceBuffer) -> Result<(), Box<dyn Error>> {
    let piece = noise(64 << 20);
    for at in (0..buffer.bytes()).step_by(piece.len()) {
        let left = (buffer.bytes() - at).min(piece.len() as u64);
        buffer.copy_from_host(at, &piece[..left as usize])?;
    }
    Ok(())
}
