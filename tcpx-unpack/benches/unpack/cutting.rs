//! Bench of the CPU's part of a submission to the kernel backend, without the launch. Needs no GPU.

use std::error::Error;
use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use tcpx_unpack::{Cutter, UnpackJob};

use crate::layout::{Chunks, PAGE, Shape};
use crate::measure::Repetitions;
use crate::on_gpu::{processor, size_name};

/// Bytes of the bounce buffer. Its descriptors, 4 MiB of them, exceed a second-level cache.
const BYTES: u64 = 1 << 30;
/// Pages of all submissions that are timed together.
const PAGES: usize = 1 << 14;
/// Timings of a round, which are short here.
const TIMINGS: usize = 20;

/// Chunk size in bytes, and chunks of one submission.
const SIZES: [(u64, usize); 3] = [(512 << 10, 1), (4 << 20, 1), (512 << 10, 64)];

pub(crate) fn run(repetitions: Repetitions, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "### Checking and cutting for the kernel, without a launch\n")?;
    writeln!(out, "CPU: {}. Nanoseconds for each 4 KiB, the least and the median.\n", processor())?;
    writeln!(out, "| submission | layout | descriptors again and again | 4 MiB of them in turn |")?;
    writeln!(out, "|---|---|---|---|")?;
    for (chunk_bytes, at_once) in SIZES {
        for shape in Shape::ALL {
            let chunks = Chunks::new(shape, chunk_bytes, BYTES);
            let mut cells = String::new();
            for different in [at_once, chunks.len() / at_once * at_once] {
                let mut times = time(&chunks, at_once, different, repetitions)?;
                times.sort_by(f64::total_cmp);
                cells += &format!(" {:.2}, {:.2} |", times[0], times[times.len() / 2]);
            }
            let name = size_name(chunk_bytes, at_once);
            writeln!(out, "| {name} | {} |{cells}", shape.name())?;
        }
    }
    writeln!(out)?;
    Ok(())
}

/// Returns nanoseconds per page, for submissions that go through the first `different` chunks in
/// turn.
fn time(
    chunks: &Chunks,
    at_once: usize,
    different: usize,
    repetitions: Repetitions,
) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut cutting = Cutter::new();
    let pages_each = (chunks.chunk_bytes / PAGE) as usize * at_once;
    let (submissions, mut next) = (PAGES.div_ceil(pages_each), 0);
    let mut jobs = Vec::with_capacity(at_once);
    let mut times = Vec::new();
    for _ in 0..repetitions.rounds * TIMINGS {
        let start = Instant::now();
        for _ in 0..submissions {
            jobs.clear();
            jobs.extend((next..next + at_once).map(|chunk| {
                UnpackJob::new(chunks.descriptors(chunk))
                    .with_bounce(BYTES, BYTES)
                    .with_destination(
                        2 * BYTES + chunk as u64 * chunks.chunk_bytes,
                        chunks.chunk_bytes,
                    )
            }));
            black_box(cutting.cut(&jobs)?);
            next = (next + at_once) % different;
        }
        times.push(start.elapsed().as_nanos() as f64 / (submissions * pages_each) as f64);
    }
    Ok(times)
}
