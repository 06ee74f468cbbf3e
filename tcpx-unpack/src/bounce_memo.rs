//! Cache of the driver's answers about bounce buffers, and about memory that is gathered from.
//! Pure.
//!
//! A bounce buffer lives as long as its channel. A later buffer at the same address comes from the
//! same allocator. Memory that is gathered from was checked when it was registered. The driver is
//! therefore asked once for each memory, and not for each chunk.

/// Largest number of cached answers. A process has fewer bounce buffers in use.
const MOST: usize = 64;

/// Answer for each bounce buffer, by its address.
#[derive(Debug)]
pub(crate) struct BounceMemo<T>(Vec<(u64, T)>);

impl<T: Copy> BounceMemo<T> {
    pub(crate) fn new() -> Self {
        // Nothing is allocated while chunks arrive.
        Self(Vec::with_capacity(MOST))
    }

    pub(crate) fn get(&self, bounce: u64) -> Option<T> {
        let answers = self.0.iter();
        answers.rev().find_map(|&(address, answer)| (address == bounce).then_some(answer))
    }

    /// Stores an answer, in place of the earlier one.
    pub(crate) fn set(&mut self, bounce: u64, answer: T) {
        self.0.retain(|&(address, _)| address != bounce);
        if self.0.len() == MOST {
            self.0.clear();
        }
        self.0.push((bounce, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_answer_for_each_address_counts() {
        let mut memo = BounceMemo::new();
        assert_eq!(memo.get(4096), None);
        memo.set(4096, 10);
        memo.set(8192, 20);
        memo.set(4096, 30);
        assert_eq!((memo.get(4096), memo.get(8192), memo.get(0)), (Some(30), Some(20), None));
    }

    #[test]
    fn it_never_grows() {
        let mut memo = BounceMemo::new();
        for bounce in 0..10 * MOST as u64 {
            memo.set(bounce, true);
            assert_eq!(memo.get(bounce), Some(true));
            assert_eq!((memo.0.capacity(), memo.0.len() <= MOST), (MOST, true));
        }
    }
}
