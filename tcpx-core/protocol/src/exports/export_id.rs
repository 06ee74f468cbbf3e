//! The number of an export.

/// Numbers that are counted do not have this bit.
const STABLE_BIT: u64 = 1 << 63;

/// By which a peer names an export. Counted ones are never used twice, so an old key never opens
/// what was exported later. A stable one is the same each time that its range is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExportId(u64);

impl ExportId {
    /// Any number is an id; one that is not ours finds nothing.
    pub fn from_wire(number: u64) -> Self {
        Self(number)
    }

    /// Returns it as it travels.
    pub fn to_wire(self) -> u64 {
        self.0
    }

    /// The id of an export that so many counted ones came before.
    pub(super) fn after(others: u64) -> Self {
        // They do not reach the bit: 1 in each nanosecond does not in 292 years.
        Self((others + 1) & !STABLE_BIT)
    }

    /// A stable id.
    pub(super) fn stable(number: u64) -> Self {
        Self(number | STABLE_BIT)
    }

    /// Returns whether it is the same each time the range is exported.
    pub fn is_stable(self) -> bool {
        self.0 & STABLE_BIT != 0
    }

    /// Whether it was counted, and is one of the first so many.
    pub(super) fn was_counted(self, used: u64) -> bool {
        (1..=used & !STABLE_BIT).contains(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counted_and_stable_ids_never_meet(others in 0u64..1 << 62, number: u64) {
            let (counted, stable) = (ExportId::after(others), ExportId::stable(number));
            prop_assert!(stable.is_stable() && !counted.is_stable());
            prop_assert!(counted.was_counted(others + 1) && !counted.was_counted(others));
            prop_assert!(!stable.was_counted(u64::MAX));
            prop_assert!(!ExportId::from_wire(0).was_counted(others));
            prop_assert_eq!(ExportId::from_wire(stable.to_wire()), stable);
        }
    }
}
