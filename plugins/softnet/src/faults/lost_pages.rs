//! Pages whose tokens the original forgets: when it puts another chunk of a request on a socket,
//! those of the request's chunks before it on that socket; when it frees a request in place of an
//! empty one, all of that request.
//!
//! Of chunks the original forgets what has arrived by then, which depends on time. Here it is
//! always all.

use tcpx_sys::UNPACK_PAGE_BYTES;

use super::script::FaultScript;
use crate::memory::{BounceBuffer, PageRange, Piece};
use crate::quirk::Quirk;

/// The chunks of one receive comm and the pages that it has lost.
#[derive(Debug)]
pub(crate) struct LostPages {
    loses: bool,
    /// Request, socket and pages of chunks that have arrived and were not consumed.
    chunks: Vec<(u64, usize, Vec<PageRange>)>,
    lost: Vec<PageRange>,
}

impl LostPages {
    pub(crate) fn new(script: &FaultScript) -> Self {
        Self { loses: script.has(Quirk::Leak), chunks: Vec::new(), lost: Vec::new() }
    }

    /// A chunk of request `number` has arrived on socket `lane`, in `pieces`.
    #[inline]
    pub(crate) fn arrived(
        &mut self,
        bounce: &BounceBuffer,
        number: u64,
        lane: usize,
        pieces: &[Piece],
    ) {
        if self.loses {
            let pages = |&piece: &Piece| {
                let start = bounce.region().offset(piece);
                let first = start / UNPACK_PAGE_BYTES;
                let end = (start + piece.len()).div_ceil(UNPACK_PAGE_BYTES);
                // A region has at most 2^20 pages.
                PageRange { first: first as u32, count: (end - first) as u32 }
            };
            self.chunks.push((number, lane, pieces.iter().map(pages).collect()));
        }
    }

    /// Request `number` is consumed: its lost pages get a use that nobody gives back.
    #[inline]
    pub(crate) fn consumed(&mut self, bounce: &BounceBuffer, number: u64) {
        if !self.loses {
            return;
        }
        let (mine, others) =
            std::mem::take(&mut self.chunks).into_iter().partition(|chunk| chunk.0 == number);
        self.chunks = others;
        let mine: Vec<(u64, usize, Vec<PageRange>)> = mine;
        for (index, (_, lane, pages)) in mine.iter().enumerate() {
            if !mine[index + 1..].iter().any(|(_, later, _)| later == lane) {
                continue;
            }
            for range in pages {
                (range.first..range.first + range.count).for_each(|page| bounce.share(page));
                self.lost.push(*range);
            }
        }
    }

    /// These pages of a freed request are not given back.
    pub(crate) fn forget(&mut self, pages: &mut Vec<PageRange>) {
        self.lost.append(pages);
    }

    /// The comm's sockets close, and all pages come back.
    pub(crate) fn close(&mut self, bounce: &BounceBuffer) {
        bounce.release(&mut self.lost);
    }
}
