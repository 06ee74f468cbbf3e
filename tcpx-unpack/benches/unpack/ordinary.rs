#![allow(unsafe_code)]
//! The host backend over ordinary memory.

use std::error::Error;
use std::io::Write;
use std::ptr;

use tcpx_unpack::{Choice, MemoryKind, open};

use crate::layout::{Chunks, Shape};
use crate::measure::{Candidate, Repetitions, measure};
use crate::memory::{Ends, UnpackCandidate};
use crate::on_gpu::{noise, size_name};

/// Bytes of the bounce buffer and of the destination.
const BYTES: u64 = 256 << 20;

/// One `memcpy` for each submission.
struct Memcpy {
    ends: Ends,
    bytes: u64,
}

impl Candidate for Memcpy {
    fn submit(&mut self, index: usize) {
        let places = self.ends.bytes / self.bytes;
        let from = self.ends.bounce + index as u64 * 7 % places * self.bytes;
        let to = self.ends.dst + index as u64 % places * self.bytes;
        let (from, to) = (from as usize, to as usize);
        // SAFETY: both ranges lie inside the two memories, which don't overlap, are exposed, and
        // outlive this value.
        unsafe {
            ptr::copy_nonoverlapping::<u8>(
                ptr::with_exposed_provenance(from),
                ptr::with_exposed_provenance_mut(to),
                self.bytes as usize,
            );
        }
    }

    fn finish(&mut self) {}
}

pub(crate) fn run(repetitions: Repetitions, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let mut source = noise(BYTES as usize);
    let mut dst = vec![1_u8; BYTES as usize];
    let ends = Ends {
        bounce: source.as_mut_ptr().expose_provenance() as u64,
        dst: dst.as_mut_ptr().expose_provenance() as u64,
        bytes: BYTES,
    };
    writeln!(out, "### Ordinary memory\n")?;
    writeln!(out, "| chunk | layout | memcpy µs | host µs | × memcpy | GB/s |")?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    for chunk_bytes in [4 << 10, 64 << 10, 512 << 10, 4 << 20] {
        for shape in Shape::ALL {
            let chunks = Chunks::new(shape, chunk_bytes, BYTES);
            let unpack = open(Choice::Host, MemoryKind::Host)?.unpack;
            // SAFETY: both memories live until the end of the function and have no other user.
            let unpacking = unsafe { UnpackCandidate::new(unpack, &chunks, ends, 1) };
            let mut candidates: Vec<Box<dyn Candidate>> =
                vec![Box::new(Memcpy { ends, bytes: chunk_bytes }), Box::new(unpacking)];
            let figures = measure(&mut candidates, repetitions);
            writeln!(
                out,
                "| {} | {} | {:.2} | {:.2} | {:.2} | {:.2} |",
                size_name(chunk_bytes, 1),
                shape.name(),
                figures[0].each,
                figures[1].each,
                figures[1].each / figures[0].each,
                chunk_bytes as f64 / figures[1].each / 1e3
            )?;
        }
    }
    Ok(())
}
