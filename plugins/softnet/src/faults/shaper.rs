//! Gives messages their bounce pages, in the way that the shape asks for.

use tcpx_sys::UNPACK_PAGE_BYTES;

use super::arrival::ArrivalPages;
use super::fragment_plan::{Fragment, FragmentPlan};
use super::rng::SeededRng;
use super::script::FaultScript;
use super::shape::Shape;
use crate::memory::{BounceBuffer, PageRange, Piece, ReceivePages};
use crate::quirk::Quirk;

/// The shaping state of one receive comm.
#[derive(Debug)]
pub(crate) struct Shaper {
    shape: Shape,
    seed: u64,
    /// Longest fragment.
    packet: u32,
    /// Whether chunks get their pages as their bytes arrive.
    piecemeal: bool,
    comm: u64,
    /// Decides when to pretend that pages have run out.
    starving: SeededRng,
    /// The last message's last page, which the next message may share, and how many of its bytes
    /// are taken. One use of the page is the shaper's.
    open: Option<(u32, u32)>,
}

impl Shaper {
    /// For receive comm number `comm`.
    pub(crate) fn new(script: &FaultScript, comm: u64) -> Self {
        let (mut shape, seed) = (script.shape, script.seed);
        shape.unaligned |= script.has(Quirk::Offsets);
        shape.share |= script.has(Quirk::Offsets);
        let starving = SeededRng::new(seed, [comm, u64::MAX, 0]);
        let packet = script.packet_bytes.unwrap_or(u32::MAX);
        let piecemeal = script.has(Quirk::Piecemeal);
        Self { shape, seed, packet, piecemeal, comm, starving, open: None }
    }

    /// Pages for a chunk that gets them as its bytes arrive; `None` when messages get theirs at
    /// once.
    pub(crate) fn pages_on_arrival(
        &self,
        bounce: &'static BounceBuffer,
        bytes: usize,
    ) -> Option<ArrivalPages> {
        self.piecemeal.then(|| ArrivalPages::new(bounce, bytes))
    }

    /// Gives message `number` its pages, cut as the shape asks. False when there are not enough
    /// now, or when the shape pretends so. Trying again draws the same fragments.
    pub(crate) fn allocate_pages(
        &mut self,
        bounce: &BounceBuffer,
        number: u64,
        total: u32,
        chunk_bytes: u32,
        receive: &mut ReceivePages,
    ) -> bool {
        if self.shape.starve && self.starving.one_in(2) {
            return false;
        }
        if !self.shape.cuts() && self.packet >= UNPACK_PAGE_BYTES as u32 {
            return receive.take_pages(bounce, total, chunk_bytes);
        }
        let mut rng = SeededRng::new(self.seed, [self.comm, number, 1]);
        let open = self.open.map_or(0, |(_, used)| used);
        let plan = FragmentPlan::draw(self.shape, &mut rng, total, chunk_bytes, open, self.packet);
        if plan.pages > bounce.total_pages() {
            // Whole pages are fewer, so the message may fit in them.
            return receive.take_pages(bounce, total, chunk_bytes);
        }
        let own = plan.pages - u32::from(open > 0);
        if !bounce.take(own, receive.ranges()) {
            return false;
        }
        let mut pages: Vec<u32> = receive
            .ranges()
            .iter()
            .flat_map(|range| range.first..range.first + range.count)
            .collect();
        if self.shape.shuffle {
            rng.shuffle(&mut pages);
        }
        if let Some((page, _)) = self.open {
            bounce.share(page);
            receive.ranges().push(PageRange { first: page, count: 1 });
            pages.insert(0, page);
        }
        let place = |fragment: &Fragment| -> Piece {
            let page = pages[fragment.page as usize] as usize;
            bounce
                .region()
                .piece(page * UNPACK_PAGE_BYTES + fragment.offset as usize, fragment.len as usize)
        };
        receive.set_pieces(plan.fragments.iter().map(place));
        self.close(bounce);
        if let (Some(used), Some(last)) = (plan.open_after(self.shape), plan.fragments.last()) {
            let page = pages[last.page as usize];
            bounce.share(page);
            self.open = Some((page, used));
        }
        true
    }

    /// Gives up the page that is kept for the next message.
    pub(crate) fn close(&mut self, bounce: &BounceBuffer) {
        if let Some((page, _)) = self.open.take() {
            bounce.release(&mut vec![PageRange { first: page, count: 1 }]);
        }
    }
}
