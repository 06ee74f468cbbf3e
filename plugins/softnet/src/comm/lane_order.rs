//! Choice of a data socket for each chunk, and order in which finished chunks are collected. Pure.

/// Round robin over the data sockets: the next socket after the last used one that has room.
#[derive(Debug)]
pub(crate) struct RoundRobin {
    last: usize,
    sockets: usize,
}

impl RoundRobin {
    /// Begins with socket 1 for the first chunk, if there is one, as the original does.
    pub(crate) fn new(sockets: usize) -> Self {
        Self { last: 0, sockets }
    }

    /// Returns the socket for the next chunk, or `None` when none has room.
    pub(crate) fn pick(&mut self, has_room: impl Fn(usize) -> bool) -> Option<usize> {
        let socket = (1..=self.sockets)
            .map(|ahead| (self.last + ahead) % self.sockets)
            .find(|&s| has_room(s))?;
        self.last = socket;
        Some(socket)
    }
}

/// Returns the order in which finished chunks are collected from the data sockets: 0, n−1, n−2, …
/// 1.
pub(crate) fn harvest_order(sockets: usize) -> impl Iterator<Item = usize> {
    (0..sockets).map(move |step| (sockets - step) % sockets)
}

#[cfg(test)]
mod tests {
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
}
