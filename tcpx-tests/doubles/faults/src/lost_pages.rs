//! Pages whose tokens the original forgets: when it puts another chunk of a request on a socket,
//! those of the request's chunks before it on that socket; when it frees a request in place of an
//! empty one, all of that request.
//!
//! Of chunks the original forgets what has arrived by then, which depends on time. Here it is
//! always all.

use tcpx_softnet::hooks::Pages;
use tcpx_sys::UNPACK_PAGE_BYTES;

use crate::quirk::Quirk;
use crate::script::FaultScript;

/// A chunk that has arrived and was not consumed.
#[derive(Debug)]
struct Arrived {
    number: u64,
    lane: usize,
    pages: Vec<u32>,
}

/// The chunks of one receive comm and the pages that it has lost.
#[derive(Debug)]
pub(crate) struct LostPages {
    loses: bool,
    chunks: Vec<Arrived>,
    lost: Vec<u32>,
}

impl LostPages {
    pub(crate) fn new(script: &FaultScript) -> Self {
        Self { loses: script.has(Quirk::Leak), chunks: Vec::new(), lost: Vec::new() }
    }

    /// A chunk of request `number` has arrived on socket `lane`, in pieces at these offsets.
    pub(crate) fn arrived(
        &mut self,
        number: u64,
        lane: usize,
        pieces: &mut dyn Iterator<Item = (usize, usize)>,
    ) {
        if self.loses {
            let pages_of = |(start, bytes): (usize, usize)| {
                let end = (start + bytes).div_ceil(UNPACK_PAGE_BYTES);
                // A region has at most 2^20 pages.
                (start / UNPACK_PAGE_BYTES) as u32..end as u32
            };
            self.chunks.push(Arrived { number, lane, pages: pieces.flat_map(pages_of).collect() });
        }
    }

    /// Request `number` is consumed: its lost pages get a use that is never given back.
    pub(crate) fn consumed(&mut self, pages: Pages, number: u64) {
        let (mine, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.chunks).into_iter().partition(|chunk| chunk.number == number);
        self.chunks = others;
        for (index, chunk) in mine.iter().enumerate() {
            if mine[index + 1..].iter().any(|later| later.lane == chunk.lane) {
                chunk.pages.iter().for_each(|&page| pages.share(page));
                self.lost.extend(&chunk.pages);
            }
        }
    }

    /// These pages of a freed request are not given back.
    pub(crate) fn forgot(&mut self, mut pages: Vec<u32>) {
        self.lost.append(&mut pages);
    }

    /// The comm's sockets close, and all pages come back.
    pub(crate) fn close(&mut self, pages: Pages) {
        pages.release(&std::mem::take(&mut self.lost));
    }
}
