//! Ring of tiles, whose places are taken in order and given back in the same order.

/// Contiguous places of the ring that are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reservation {
    /// Index of the first place.
    pub(super) start: usize,
    /// Number of occupied places, including those skipped at the ring's end before the first place.
    pub(super) taken: usize,
}

/// Allocation state of a ring. The ring's contents lie elsewhere.
#[derive(Debug)]
pub(super) struct Ring {
    places: usize,
    next: usize,
    used: usize,
}

impl Ring {
    pub(super) const fn new(places: usize) -> Self {
        Self { places, next: 0, used: 0 }
    }

    /// Takes `wanted` contiguous places. Returns `None` while too few are free.
    ///
    /// Only half of the ring can be counted on, since the places before its end may have to be
    /// skipped.
    pub(super) fn take(&mut self, wanted: usize) -> Option<Reservation> {
        let Reservation { start, taken } = self.find(wanted)?;
        self.used += taken;
        self.next = (start + wanted) % self.places;
        Some(Reservation { start, taken })
    }

    /// Returns whether `wanted` contiguous places are free.
    pub(super) fn has_room(&self, wanted: usize) -> bool {
        self.find(wanted).is_some()
    }

    /// Returns what [`take`](Self::take) would take.
    pub(super) fn find(&self, wanted: usize) -> Option<Reservation> {
        let to_end = self.places - self.next;
        let (start, taken) =
            if wanted <= to_end { (self.next, wanted) } else { (0, to_end + wanted) };
        (taken <= self.places - self.used).then_some(Reservation { start, taken })
    }

    /// Gives back the oldest reservation, which has `taken` places.
    pub(super) fn release(&mut self, taken: usize) {
        debug_assert!(taken <= self.used);
        self.used -= taken;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_reservation_never_wraps() {
        let mut ring = Ring::new(10);
        assert_eq!(ring.take(6), Some(Reservation { start: 0, taken: 6 }));
        assert!(!ring.has_room(5) && ring.has_room(4));
        assert_eq!(ring.take(5), None);
        ring.release(6);
        assert_eq!(ring.take(5), Some(Reservation { start: 0, taken: 9 }));
        assert_eq!(ring.take(2), None);
        assert_eq!(ring.take(1), Some(Reservation { start: 5, taken: 1 }));
    }

    proptest! {
        #[test]
        fn no_place_is_in_use_twice(wanted in prop::collection::vec(1_usize..=16, 1..200)) {
            let mut ring = Ring::new(32);
            let mut in_use = [false; 32];
            let mut held = VecDeque::new();
            for wanted in wanted {
                let reserved = loop {
                    match ring.take(wanted) {
                        Some(reserved) => break reserved,
                        None => {
                            // Half of the ring always fits once everything is given back.
                            let (start, wanted, taken): (usize, usize, usize) =
                                held.pop_front().unwrap();
                            ring.release(taken);
                            in_use[start..start + wanted].fill(false);
                        }
                    }
                };
                let places = &mut in_use[reserved.start..reserved.start + wanted];
                prop_assert!(places.iter().all(|used| !used));
                places.fill(true);
                held.push_back((reserved.start, wanted, reserved.taken));
            }
        }
    }
}
