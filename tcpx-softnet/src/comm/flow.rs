//! How a message is cut into chunks and which data socket each takes. Pure.

/// Bytes of the chunk at `offset` of a message of `total` bytes: the chunk size, or what is left.
pub(crate) fn chunk_at(offset: u32, total: u32, chunk_bytes: u32) -> u32 {
    chunk_bytes.min(total - offset)
}

/// Round robin over the data sockets: the next one after the last used that has room.
#[derive(Debug)]
pub(crate) struct RoundRobin {
    last: usize,
    sockets: usize,
}

impl RoundRobin {
    /// The first chunk goes to socket 1, if there is one, as in the original.
    pub(crate) fn new(sockets: usize) -> Self {
        Self { last: 0, sockets }
    }

    /// The socket for the next chunk, or `None` when none has room.
    pub(crate) fn pick(&mut self, has_room: impl Fn(usize) -> bool) -> Option<usize> {
        let socket = (1..=self.sockets)
            .map(|ahead| (self.last + ahead) % self.sockets)
            .find(|&s| has_room(s))?;
        self.last = socket;
        Some(socket)
    }
}

/// The order in which finished chunks are collected from the data sockets: 0, n−1, n−2, … 1.
pub(crate) fn harvest_order(sockets: usize) -> impl Iterator<Item = usize> {
    (0..sockets).map(move |step| (sockets - step) % sockets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sockets_take_turns_and_full_ones_are_passed_over() {
        let mut flow = RoundRobin::new(3);
        assert_eq!(flow.pick(|_| true), Some(1));
        assert_eq!(flow.pick(|_| true), Some(2));
        assert_eq!(flow.pick(|s| s != 0), Some(1));
        assert_eq!(flow.pick(|_| false), None);
        assert_eq!(flow.pick(|_| true), Some(2));
        assert_eq!(RoundRobin::new(1).pick(|_| true), Some(0));
    }

    #[test]
    fn harvest_goes_down_from_the_last() {
        assert_eq!(harvest_order(1).collect::<Vec<_>>(), [0]);
        assert_eq!(harvest_order(4).collect::<Vec<_>>(), [0, 3, 2, 1]);
    }

    proptest! {
        #[test]
        fn chunks_cover_the_message(total in 1u32..3_000_000, chunk_bytes in 1000u32..600_000) {
            let mut offset = 0;
            while offset < total {
                let size = chunk_at(offset, total, chunk_bytes);
                prop_assert!(size > 0 && size <= chunk_bytes);
                prop_assert!(size == chunk_bytes || offset + size == total);
                offset += size;
            }
            prop_assert_eq!(offset, total);
        }
    }
}
