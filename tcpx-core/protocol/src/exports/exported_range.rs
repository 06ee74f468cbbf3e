//! A range of a registration that peers may reach, and its bounds.
//!
//! Exports that the requests of one list use together. Pure.
//!
//! A request of a list is a few bytes, and its list may be of any number of exports. So the uses
//! are counted for the first request of the list, and stay counted while nothing uses the exports,
//! until an exact count is needed. Each further request costs the same, however long its list is.

use std::sync::Arc;

use foldhash::HashMap;
use slotmap::new_key_type;

use crate::types::memory::{MemoryId, RemoteAccess};
use crate::types::{MemoryType, Span};

/// Place and purpose of exported memory. It is inside its registration, which does not reach past
/// the end of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedRange {
    /// Registration that it is a range of.
    pub memory_id: MemoryId,
    /// From where on.
    pub span: Span,
    /// Bytes of the range.
    pub bytes: u64,
    /// Operations that are allowed on it.
    pub access: RemoteAccess,
}

impl ExportedRange {
    /// Returns the identity for which a stable key stands: the same for whichever registration.
    pub(super) fn identity(&self) -> (u64, u64, MemoryType, RemoteAccess) {
        (self.span.address, self.bytes, self.span.memory, self.access)
    }
}

/// Returns whether a part of a range of `exported_bytes` lies in it. Both ends ask this of what a
/// peer, or a program, says.
pub fn is_part(offset: u64, bytes: u64, exported_bytes: u64) -> bool {
    offset.checked_add(bytes).is_some_and(|end| end <= exported_bytes)
}

new_key_type! {
    /// An export, for lookups that must be quick.
    pub struct ExportKey;
}

/// The exports of one list.
#[derive(Debug)]
pub(super) struct JointUse {
    /// In order, each once.
    pub(super) keys: Arc<[ExportKey]>,
    /// Requests that use them.
    pub(super) active: usize,
    /// Whether they count as used, each once, whether or not anything is active.
    pub(super) is_counted: bool,
    /// Whether none of these was revoked when `looked_at` had been revoked in all.
    pub(super) is_open: bool,
    pub(super) looked_at: u64,
    /// Whether no further request comes.
    pub(super) is_forgotten: bool,
}

/// Uses of all lists that requests use, or have used since an exact count was last needed.
#[derive(Debug, Default)]
pub(super) struct JointUses {
    /// By where the keys lie, which stay there.
    of_list: HashMap<usize, JointUse>,
    /// Number of exports that were looked at since the last question.
    looked: u64,
}

impl JointUses {
    /// Returns the uses of a list. The caller must look whether they are open.
    pub(super) fn entry(&mut self, keys: &Arc<[ExportKey]>) -> &mut JointUse {
        self.of_list.entry(place_of(keys)).or_insert_with(|| JointUse {
            keys: Arc::clone(keys),
            active: 0,
            is_counted: false,
            is_open: false,
            looked_at: u64::MAX,
            is_forgotten: false,
        })
    }

    pub(super) fn get_mut(&mut self, keys: &[ExportKey]) -> Option<&mut JointUse> {
        self.of_list.get_mut(&place_of(keys))
    }

    pub(super) fn remove(&mut self, keys: &[ExportKey]) -> Option<JointUse> {
        self.of_list.remove(&place_of(keys))
    }

    /// Takes out what no request uses.
    pub(super) fn take_resting(&mut self) -> Vec<JointUse> {
        self.of_list.extract_if(|_, joint| joint.active == 0).map(|(_, joint)| joint).collect()
    }

    /// Returns how often an export is counted that no request uses.
    pub(super) fn resting_on(&self, key: ExportKey) -> usize {
        let is_of = |joint: &&JointUse| joint.keys.binary_search(&key).is_ok();
        let resting = self.of_list.values().filter(|it| it.active == 0 && it.is_counted);
        resting.filter(is_of).count()
    }

    /// Returns how many requests use exports for which `is_meant` holds. Each request counts once
    /// for each of these exports.
    pub(super) fn active_on(&self, is_meant: impl Fn(&ExportKey) -> bool) -> usize {
        let active = self.of_list.values().filter(|joint| joint.active > 0);
        let uses = active.map(|it| it.active * it.keys.iter().filter(|key| is_meant(key)).count());
        uses.sum()
    }

    /// Counts `exports` exports that were looked at.
    pub(super) fn looked_at(&mut self, exports: usize) {
        self.looked += exports as u64;
    }

    /// Returns how many exports were looked at since this was asked last.
    pub(super) fn take_lookups(&mut self) -> u64 {
        std::mem::take(&mut self.looked)
    }
}

fn place_of(keys: &[ExportKey]) -> usize {
    keys.as_ptr().addr()
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
