//! Gives messages their bounce pages, in the way that the shape asks for.

use tcpx_softnet::hooks::{Pages, Placement};
use tcpx_sys::UNPACK_PAGE_BYTES;
use tcpx_testkit::Random;

use crate::fragment_plan::FragmentPlan;
use crate::quirk::Quirk;
use crate::script::FaultScript;
use crate::shape::Shape;

/// The shaping state of one receive comm.
#[derive(Debug)]
pub(crate) struct Shaper {
    shape: Shape,
    seed: u64,
    /// Longest fragment.
    packet: u32,
    comm: u64,
    /// Decides when to pretend that pages have run out.
    starving: Random,
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
        let starving = Random::of(seed, [comm, u64::MAX, 0]);
        let packet = script.packet_bytes.unwrap_or(u32::MAX);
        Self { shape, seed, packet, comm, starving, open: None }
    }

    /// Gives message `number` its pages, cut as the shape asks. It waits when there are not enough
    /// now, or when the shape pretends so. Trying again draws the same fragments.
    pub(crate) fn place(
        &mut self,
        pages: Pages,
        number: u64,
        total: u32,
        chunk_bytes: u32,
    ) -> Placement {
        if self.shape.starve && self.starving.one_in(2) {
            return Placement::NotNow;
        }
        if !self.shape.cuts() && self.packet >= UNPACK_PAGE_BYTES as u32 {
            return Placement::Usual;
        }
        let mut rng = Random::of(self.seed, [self.comm, number, 1]);
        let open = self.open.map_or(0, |(_, used)| used);
        let plan = FragmentPlan::draw(self.shape, &mut rng, total, chunk_bytes, open, self.packet);
        if plan.pages > pages.total() {
            // Whole pages are fewer, so the message may fit in them.
            return Placement::Usual;
        }
        let Some(mut own) = pages.take(plan.pages - u32::from(open > 0)) else {
            return Placement::NotNow;
        };
        if self.shape.shuffle {
            rng.shuffle(&mut own);
        }
        if let Some((page, _)) = self.open {
            pages.share(page);
            own.insert(0, page);
        }
        let fragments = plan.fragments.iter().map(|fragment| {
            let page = own[fragment.page as usize] as usize;
            (page * UNPACK_PAGE_BYTES + fragment.offset as usize, fragment.len as usize)
        });
        let fragments = fragments.collect();
        self.close(pages);
        if let (Some(used), Some(last)) = (plan.open_after(self.shape), plan.fragments.last()) {
            let page = own[last.page as usize];
            pages.share(page);
            self.open = Some((page, used));
        }
        Placement::At { pages: own, fragments }
    }

    /// Gives up the page that is kept for the next message.
    pub(crate) fn close(&mut self, pages: Pages) {
        if let Some((page, _)) = self.open.take() {
            pages.release(&[page]);
        }
    }
}
