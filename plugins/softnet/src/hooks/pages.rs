//! Pages of the bounce region, as a double takes them.

use crate::memory::BounceBuffer;
#[cfg(feature = "hooks")]
use crate::memory::PageRange;

/// The pages of a bounce region, by number.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    #[cfg_attr(not(feature = "hooks"), allow(dead_code, reason = "only a double takes pages"))]
    bounce: &'static BounceBuffer,
}

/// Place of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In whole pages, one after the other.
    Usual,
    /// Nowhere yet.
    NotNow,
    /// Elsewhere.
    At {
        /// Pages of the message; it has one use of each.
        pages: Vec<u32>,
        /// Offsets in the region and lengths, in the order of the message. They cut it at every
        /// chunk.
        fragments: Vec<(usize, usize)>,
    },
}

impl Pages {
    #[inline]
    pub(crate) fn new(bounce: &'static BounceBuffer) -> Self {
        Self { bounce }
    }
}

#[cfg(feature = "hooks")]
impl Pages {
    /// Returns the number of pages.
    #[must_use]
    pub fn total(self) -> u32 {
        self.bounce.total_pages()
    }

    /// Takes this many pages, if they are free.
    #[must_use]
    pub fn take(self, pages: u32) -> Option<Vec<u32>> {
        let mut ranges = Vec::new();
        let is_taken = self.bounce.take(pages, &mut ranges);
        let numbers = |range: PageRange| range.first..range.first + range.count;
        is_taken.then(|| ranges.into_iter().flat_map(numbers).collect())
    }

    /// Adds a use to a page that is in use.
    pub fn share(self, page: u32) {
        self.bounce.share(page);
    }

    /// Gives up a use of each.
    pub fn release(self, pages: &[u32]) {
        let single = |&first| PageRange { first, count: 1 };
        self.bounce.release(&mut pages.iter().map(single).collect());
    }
}
