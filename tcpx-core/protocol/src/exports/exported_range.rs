//! A range of a registration that peers may reach, and its bounds.

use crate::types::memory_id::MemoryId;
use crate::types::remote_access::RemoteAccess;
use crate::types::{MemoryType, Span};

/// Where it lies, and what it is for. It is inside its registration, which does not reach past the
/// end of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedRange {
    /// Which registration it is a range of.
    pub memory_id: MemoryId,
    /// From where on.
    pub span: Span,
    /// Bytes of the range.
    pub bytes: u64,
    /// What may be done with it.
    pub access: RemoteAccess,
}

impl ExportedRange {
    /// What a stable key stands for: the same of whichever registration.
    pub(super) fn identity(&self) -> (u64, u64, MemoryType, RemoteAccess) {
        (self.span.address, self.bytes, self.span.memory, self.access)
    }
}

/// Whether a part of a range of `exported_bytes` lies in it. Both ends ask this of what a peer, or
/// a program, says.
pub fn is_part(offset: u64, bytes: u64, exported_bytes: u64) -> bool {
    offset.checked_add(bytes).is_some_and(|end| end <= exported_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers where sums and bounds meet.
    fn edges() -> impl Strategy<Value = u64> {
        let near =
            |center: u64| (0u64..6).prop_map(move |at| center.wrapping_add(at).wrapping_sub(3));
        prop_oneof![
            any::<u64>(),
            near(0),
            near(100),
            near(1 << 31),
            near(1 << 32),
            near(1 << 63),
            near(u64::MAX / 2),
        ]
    }

    proptest! {
        #[test]
        fn a_part_is_what_lies_inside_in_numbers_that_cannot_wrap(
            offset in edges(), bytes in edges(), exported_bytes in edges(),
        ) {
            let end = u128::from(offset) + u128::from(bytes);
            prop_assert_eq!(is_part(offset, bytes, exported_bytes), end <= exported_bytes.into());
        }
    }
}
