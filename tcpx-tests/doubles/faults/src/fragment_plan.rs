//! Fragments of a shaped message: lengths, places and pages, drawn by the seed. Pure.

use tcpx_softnet::hooks::chunk_at;
use tcpx_sys::{MAX_UNPACK_ENTRIES, UNPACK_PAGE_BYTES};
use tcpx_testkit::Random;

use crate::shape::Shape;

/// One fragment. No fragment crosses a page or a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// Page by its rank among the message's pages.
    pub(crate) page: u32,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

/// How a message will lie in its pages, before it is given any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FragmentPlan {
    /// In message order.
    pub(crate) fragments: Vec<Fragment>,
    /// Pages that it needs.
    pub(crate) pages: u32,
}

const PAGE: u32 = UNPACK_PAGE_BYTES as u32;

/// Pieces of at most `most` bytes that a message takes, cut anew at every chunk.
fn pieces_of(total: u32, chunk_bytes: u32, most: u32) -> u64 {
    let pieces = |bytes: u32| u64::from(bytes.div_ceil(most));
    u64::from(total / chunk_bytes) * pieces(chunk_bytes) + pieces(total % chunk_bytes)
}

impl FragmentPlan {
    /// Cuts a message of `total` bytes. `open` bytes of page 0 belong to the message before, which
    /// shares it (0: the page is the message's own). No fragment is longer than `packet`. A message
    /// that fits the unpack queue in whole pages, or packets where they are shorter, also fits when
    /// shaped.
    pub(crate) fn draw(
        shape: Shape,
        rng: &mut Random,
        total: u32,
        chunk_bytes: u32,
        open: u32,
        packet: u32,
    ) -> Self {
        let mut plan = Self { fragments: Vec::new(), pages: u32::from(open > 0) };
        let mut used = if open > 0 { open } else { PAGE };
        let mut offset = 0;
        while offset < total {
            let mut left = chunk_at(offset, total, chunk_bytes);
            offset += left;
            while left > 0 {
                // The rest in whole pages must still fit.
                let most = packet.min(PAGE);
                let rest =
                    pieces_of(total - offset, chunk_bytes, most) + u64::from(left.div_ceil(most));
                let tight = plan.fragments.len() as u64 + rest + 1 >= MAX_UNPACK_ENTRIES as u64;
                let fragment = if tight {
                    used = PAGE;
                    plan.next_page();
                    Fragment { page: plan.pages - 1, offset: 0, len: left.min(most) }
                } else {
                    plan.fragment(shape, rng, left.min(packet), &mut used)
                };
                left -= fragment.len;
                plan.fragments.push(fragment);
            }
        }
        plan
    }

    fn next_page(&mut self) {
        self.pages += 1;
    }

    fn fragment(&mut self, shape: Shape, rng: &mut Random, left: u32, used: &mut u32) -> Fragment {
        if !shape.share || *used >= PAGE || rng.one_in(3) {
            self.next_page();
            *used = 0;
        }
        let mut offset = *used;
        if shape.unaligned && rng.one_in(2) {
            offset += rng.up_to((PAGE - offset) as usize) as u32 - 1;
        }
        let room = PAGE - offset;
        let mut len = left.min(room);
        if shape.fragments {
            let most = if rng.one_in(4) { len.min(16) } else { len };
            len = rng.up_to(most as usize) as u32;
        }
        *used = offset + len;
        Fragment { page: self.pages - 1, offset, len }
    }

    /// Bytes of the last page that are taken, if others may use the rest.
    pub(crate) fn open_after(&self, shape: Shape) -> Option<u32> {
        let last = self.fragments.last().filter(|_| shape.share)?;
        let used = last.offset + last.len;
        (used < PAGE).then_some(used)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shapes() -> impl Strategy<Value = Shape> {
        any::<[bool; 3]>().prop_map(|[fragments, unaligned, share]| Shape {
            fragments,
            unaligned,
            share,
            ..Shape::default()
        })
    }

    proptest! {
        #[test]
        fn a_plan_covers_the_message_and_no_bytes_share_a_place(
            shape in shapes(), seed: u64, total in 0u32..6_000_000,
            chunk_bytes in 4000u32..600_000, open in 0u32..4096, packet in 2048u32..10_000,
        ) {
            prop_assume!(pieces_of(total, chunk_bytes, packet.min(PAGE)) <= 2046);
            let open = if shape.share { open } else { 0 };
            let mut rng = Random::of(seed, [0; 3]);
            let plan = FragmentPlan::draw(shape, &mut rng, total, chunk_bytes, open, packet);
            prop_assert!(plan.fragments.len() <= MAX_UNPACK_ENTRIES);
            let mut taken: Vec<(u32, u32, u32)> = vec![(0, 0, open)];
            let mut at = 0;
            for fragment in &plan.fragments {
                prop_assert!((1..=packet).contains(&fragment.len) && fragment.offset + fragment.len <= PAGE);
                prop_assert!(fragment.page < plan.pages);
                prop_assert_eq!(at / chunk_bytes, (at + fragment.len - 1) / chunk_bytes);
                at += fragment.len;
                taken.push((fragment.page, fragment.offset, fragment.offset + fragment.len));
            }
            prop_assert_eq!(at, total);
            taken.sort_unstable();
            for pair in taken.windows(2) {
                prop_assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "{pair:?}");
            }
        }
    }

    #[test]
    fn the_same_dice_give_the_same_plan() {
        let draw = || {
            FragmentPlan::draw(Shape::ALL, &mut Random::of(9, [1, 2, 3]), 100_000, 30_000, 17, PAGE)
        };
        assert_eq!(draw(), draw());
    }
}
