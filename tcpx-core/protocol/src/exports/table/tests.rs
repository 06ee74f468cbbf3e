//! Exports as their session and hostile peers use them.

use std::collections::HashSet as Set;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::types::memory::{OperationKind, RemoteAccess};
use crate::types::{MemoryType, RegistrationKey, Span};

const SECRET: [u8; 16] = [7; 16];

fn exports() -> Exports {
    Exports::new(StableKeys::new([3; StableKeys::BYTES]))
}

/// Returns a range of the memory of this number: 100 bytes at 1000 times the number.
fn range_of(memory: u64) -> ExportedRange {
    let span = Span {
        registration: RegistrationKey::default(),
        address: 1000 * memory,
        memory: MemoryType::Host,
    };
    let memory_id = MemoryId::new(memory).unwrap();
    ExportedRange { memory_id, span, bytes: 100, access: RemoteAccess::ReadWrite }
}

impl Exports {
    fn add_one(&mut self, memory: u64) -> (RemoteKey, ExportKey) {
        let key = self.add(range_of(memory), ExportSecret::new(SECRET)).remote_key([1; 16]);
        let opened = self.open(key.export, &key.secret).unwrap();
        (key, opened)
    }

    fn open_by(&self, key: &RemoteKey) -> Result<ExportKey, Refusal> {
        self.open(key.export, &key.secret)
    }
}

#[test]
fn a_key_says_what_it_leads_to() {
    let mut exports = exports();
    let (key, opened) = exports.add_one(4);
    assert_eq!((key.session, key.export.to_wire()), ([1; 16], 1));
    assert_eq!((key.address(), key.bytes(), key.memory()), (4000, 100, MemoryType::Host));
    assert_eq!((key.access(), key.memory_id), (RemoteAccess::ReadWrite, MemoryId::new(4)));
    assert_eq!(exports.get(opened).unwrap().range(), &range_of(4));
    assert_eq!(exports.add_one(4).0.export.to_wire(), 2, "the same range again is another export");
}

#[test]
fn only_the_whole_secret_of_its_own_export_opens() {
    let mut exports = exports();
    let (key, _) = exports.add_one(1);
    for bit in 0..128 {
        let mut forged = SECRET;
        forged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            exports.open(key.export, &ExportSecret::new(forged)),
            Err(Refusal::UnknownKey),
            "bit {bit}"
        );
    }
    for number in [0, 2, 1 << 63, 1 << 63 | 1, u64::MAX] {
        let id = ExportId::from_wire(number);
        assert_eq!(exports.open(id, &key.secret), Err(Refusal::UnknownKey), "{number}");
    }
    let other = exports.add(range_of(2), ExportSecret::new([8; 16])).remote_key([1; 16]);
    assert_eq!(exports.open(key.export, &other.secret), Err(Refusal::UnknownKey));
    assert_eq!(exports.open(other.export, &key.secret), Err(Refusal::UnknownKey));
}

#[test]
fn what_was_taken_back_is_not_begun_any_more_and_stays_until_it_has_ended() {
    let mut exports = exports();
    let (key, opened) = exports.add_one(1);
    let (other, other_opened) = exports.add_one(1);
    let (one, both) = (together([opened]), together([opened, other_opened]));
    exports.begin_all(&both).unwrap();
    exports.begin_all(&one).unwrap();
    exports.revoke(opened);
    assert_eq!(exports.open_by(&key), Err(Refusal::Revoked));
    assert_eq!(exports.begin_all(&both), Err(Refusal::Revoked));
    assert_eq!(exports.active_of(MemoryId::after(0)), 3, "all of them, or none");
    assert!(!exports.is_idle(opened));

    exports.end_all(&one);
    assert!(!exports.is_idle(opened), "one is left");
    let idle = exports.add_one(1).1;
    exports.end_all(&together([idle]));
    assert_eq!(exports.active_of(MemoryId::after(0)), 2, "it had not begun");
    exports.end_all(&both);
    assert!(exports.is_idle(opened) && exports.get(opened).is_none());
    assert_eq!(exports.open_by(&key), Err(Refusal::Revoked), "and not unknown");
    assert_eq!(exports.open_by(&other), Ok(other_opened), "it was not taken back");
    exports.revoke_all_of(MemoryId::after(0));
    assert_eq!(exports.open_by(&other), Err(Refusal::Revoked));
    assert!(exports.all.is_empty() && exports.by_id.is_empty() && exports.by_memory.is_empty());
}

#[test]
fn a_stable_key_is_the_same_each_time_and_what_it_once_opened_is_not() {
    let mut exports = exports();
    let first = exports.add_stable(range_of(1)).remote_key([1; 16]);
    let opened = exports.open_by(&first).unwrap();
    assert_eq!(first.memory_id, None, "another registration may have the range next time");
    let uses = together([opened]);
    exports.begin_all(&uses).unwrap();
    exports.revoke(opened);
    assert_eq!(exports.open_by(&first), Err(Refusal::UnknownKey));

    // The memory is registered again, under another id.
    let again = ExportedRange { memory_id: MemoryId::after(8), ..range_of(1) };
    let second = exports.add_stable(again).remote_key([1; 16]);
    assert_eq!(second.serialize(), first.serialize());
    let reopened = exports.open_by(&first).unwrap();
    assert_ne!(reopened, opened);
    assert_eq!(exports.begin_all(&uses), Err(Refusal::Revoked));
    assert_eq!(exports.active_of(MemoryId::after(8)), 0, "the old use is not the new one's");
    exports.end_all(&uses);
    assert_eq!(exports.open_by(&first), Ok(reopened));
}

#[test]
fn a_stable_key_opens_until_it_was_taken_back_as_often_as_it_was_given() {
    let mut exports = exports();
    let again = ExportedRange { memory_id: MemoryId::after(8), ..range_of(1) };
    let key = exports.add_stable(range_of(1)).remote_key([1; 16]);
    let first = exports.open_by(&key).unwrap();
    assert_eq!(exports.add_stable(again).remote_key([1; 16]), key);
    let second = exports.open_by(&key).unwrap();
    assert_eq!(exports.get(second).unwrap().range().memory_id, again.memory_id);
    exports.revoke_all_of(again.memory_id);
    assert_eq!(exports.open_by(&key), Ok(first));
    exports.revoke(first);
    assert_eq!(exports.open_by(&key), Err(Refusal::UnknownKey));
}

#[test]
fn a_stable_id_that_is_taken_leads_nowhere_else() {
    let mut exports = exports();
    let (id, _) = exports.stable_keys.of(&range_of(1), 0);
    // A stroke of luck of one in 2^63 would do this.
    exports.insert(id, ExportSecret::new(SECRET), range_of(2));
    let key = exports.add_stable(range_of(1)).remote_key([1; 16]);
    assert_ne!(key.export, id);
    let opened = exports.open_by(&key).unwrap();
    assert_eq!(exports.get(opened).unwrap().range(), &range_of(1));
    let opened = exports.open(id, &ExportSecret::new(SECRET)).unwrap();
    assert_eq!(exports.get(opened).unwrap().range(), &range_of(2));
}

/// Returns the keys as a list of them has them.
fn together<const N: usize>(mut keys: [ExportKey; N]) -> Arc<[ExportKey]> {
    keys.sort_unstable();
    Arc::new(keys)
}

/// A request costs the same, however many exports its list is of.
#[test]
fn only_the_first_request_of_a_list_looks_at_its_exports() {
    let mut exports = exports();
    let keys: Vec<_> = (0..1000).map(|number| exports.add_one(1 + number % 3).1).collect();
    let uses = together::<1000>(keys.clone().try_into().expect("as many"));
    for _ in 0..100 {
        exports.begin_all(&uses).unwrap();
        assert_eq!(exports.active_of(MemoryId::new(2).unwrap()), 333);
        exports.end_all(&uses);
        assert!(exports.is_idle(keys[7]) && exports.active_of(MemoryId::new(2).unwrap()) == 0);
    }
    assert_eq!(exports.take_lookups(), 2000, "whether they are open, and to count them");

    // An export that was taken back is found out once.
    exports.revoke(keys[999]);
    assert_eq!(exports.take_lookups(), 1000, "nothing of it counts as used");
    for _ in 0..100 {
        assert_eq!(exports.begin_all(&uses), Err(Refusal::Revoked));
    }
    assert_eq!(exports.take_lookups(), 1000);
}

/// A peer may let a list be forgotten while the last request of it is being answered.
#[test]
fn what_is_forgotten_in_use_counts_until_it_has_ended() {
    let mut exports = exports();
    let (_, opened) = exports.add_one(1);
    let uses = together([opened]);
    exports.begin_all(&uses).unwrap();
    exports.forget_uses(&uses);
    assert!(!exports.is_idle(opened));
    exports.end_all(&uses);
    assert!(exports.is_idle(opened) && exports.joint.take_resting().is_empty());
}

/// Knowledge of a test about an export.
struct Known {
    key: RemoteKey,
    opened: ExportKey,
    uses: Arc<[ExportKey]>,
    memory: u64,
    active: usize,
    is_revoked: bool,
    /// Whether the requests that use it know that it was taken back.
    is_known: bool,
}

proptest! {
    #[test]
    fn a_part_lies_inside_and_is_for_what_was_allowed(
        offset in prop_oneof![0u64..200, any::<u64>()],
        bytes in prop_oneof![0u64..200, any::<u64>()],
        access in 1u8..4,
        is_write: bool,
    ) {
        let mut exports = exports();
        let access = RemoteAccess::from_wire(access).unwrap();
        let wanted = if is_write { OperationKind::Write } else { OperationKind::Read };
        let range = ExportedRange { access, ..range_of(5) };
        let export = exports.add(range, ExportSecret::new(SECRET));
        match export.address_of(offset, bytes, wanted) {
            Ok(address) => {
                prop_assert!(access.allows(wanted));
                prop_assert!(address >= 5000 && u128::from(address) + u128::from(bytes) <= 5100);
                prop_assert_eq!(address - 5000, offset);
            }
            Err(Refusal::Access) => prop_assert!(!access.allows(wanted)),
            Err(refusal) => {
                prop_assert_eq!(refusal, Refusal::OutOfRange);
                prop_assert!(u128::from(offset) + u128::from(bytes) > 100);
            }
        }
    }

    #[test]
    fn any_story_ends_with_nothing_left_and_no_number_used_twice(
        story in proptest::collection::vec((0u8..7, 0usize..12, 1u64..4), 0..80),
    ) {
        let mut exports = exports();
        let mut known: Vec<Known> = Vec::new();
        for (step, which, memory) in story {
            let at = which % known.len().max(1);
            match (step, known.get_mut(at)) {
                (0, _) | (_, None) => {
                    let (key, opened) = exports.add_one(memory);
                    let uses = together([opened]);
                    known.push(Known { key, opened, uses, memory, active: 0, is_revoked: false, is_known: false });
                }
                (1, Some(one)) => {
                    exports.revoke(one.opened);
                    one.is_revoked = true;
                }
                (2, Some(one)) => {
                    let begun = exports.begin_all(&one.uses);
                    prop_assert_eq!(begun.is_err(), one.is_revoked);
                    one.active += usize::from(begun.is_ok());
                }
                (3, Some(one)) if one.active > 0 => {
                    exports.end_all(&one.uses);
                    one.active -= 1;
                }
                (3, Some(_)) => {}
                (4, Some(_)) => exports.rest(),
                (5, Some(one)) => exports.forget_uses(&one.uses),
                (_, Some(_)) => {
                    exports.revoke_all_of(MemoryId::new(memory).unwrap());
                    let revoked = known.iter_mut().filter(|one| one.memory == memory);
                    revoked.for_each(|one| one.is_revoked = true);
                }
            }
            // The requests that use what was just taken back are notified, once.
            let using: Set<_> = exports.take_revoked().into_iter().collect();
            for one in &mut known {
                let is_told = using.contains(&one.opened);
                prop_assert_eq!(is_told, one.is_revoked && !one.is_known && one.active > 0);
                one.is_known = one.is_revoked;
            }
            for one in &known {
                let opened = exports.open_by(&one.key);
                prop_assert_eq!(opened, if one.is_revoked { Err(Refusal::Revoked) } else { Ok(one.opened) });
                prop_assert_eq!(exports.is_idle(one.opened), one.active == 0);
            }
            for memory in 1..4 {
                let of_memory = known.iter().filter(|one| one.memory == memory);
                let active = of_memory.map(|one| one.active).sum::<usize>();
                prop_assert_eq!(exports.active_of(MemoryId::new(memory).unwrap()), active);
            }
        }
        let numbers: Set<_> = known.iter().map(|one| one.key.export).collect();
        let keys: Set<_> = known.iter().map(|one| one.opened).collect();
        prop_assert_eq!((numbers.len(), keys.len()), (known.len(), known.len()));
        for one in &known {
            (0..one.active).for_each(|_| exports.end_all(&one.uses));
            exports.revoke(one.opened);
        }
        prop_assert!(exports.all.is_empty() && exports.by_id.is_empty());
        prop_assert!(exports.by_memory.is_empty());
    }
}
