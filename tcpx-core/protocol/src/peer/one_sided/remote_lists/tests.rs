//! Lists as correct and hostile peers tell them.

use proptest::prelude::*;

use super::*;
use crate::exports::capability::{ExportId, ExportSecret, StableKeys};
use crate::exports::exported_range::ExportedRange;
use crate::types::Span;
use crate::types::memory::{MemoryId, RemoteAccess};
use crate::types::peer_budget::PeerBudget;
use OperationKind::{Read, Write};

/// Returns the address of the memory of this number.
fn address(memory: u64) -> u64 {
    1 << 20 | memory << 12
}

/// Exports of 100 bytes each: 1 and 2 of host memory, 3 of a GPU's, 4 of host memory to be read.
fn exports() -> (Exports, [ListedKey; 4]) {
    let mut exports = Exports::new(StableKeys::new([3; StableKeys::BYTES]));
    let keys = [1u64, 2, 3, 4].map(|number| {
        let memory = if number == 3 { MemoryType::Device } else { MemoryType::Host };
        let access = if number == 4 { RemoteAccess::Read } else { RemoteAccess::ReadWrite };
        let registration = RegistrationKey::from(slotmap::KeyData::from_ffi(1 << 32 | number));
        let span = Span { registration, address: address(number), memory };
        let memory_id = MemoryId::after(number);
        let range = ExportedRange { memory_id, span, bytes: 100, access };
        let key = exports.add(range, ExportSecret::new([number as u8; 16])).remote_key([0; 16]);
        ListedKey { export: key.export, secret: key.secret }
    });
    (exports, keys)
}

fn range(key: u32, offset: u64, bytes: u64) -> ListedRange {
    ListedRange { key, offset, bytes }
}

fn lists() -> RemoteLists {
    lists_in(&PeerBudget::new(1 << 20))
}

fn lists_in(budget: &Arc<PeerBudget>) -> RemoteLists {
    RemoteLists::new(ListLimits { lists: 3, ranges: 10 }, BudgetShare::new(budget, 0))
}

/// A list for which there is no memory is refused, and takes none.
#[test]
fn lists_take_their_memory_of_the_sessions_budget() {
    let (mut exports, keys) = exports();
    // A key and a range fit, and the part that is left to others.
    let budget = PeerBudget::new((KEY_COST + RANGE_COST) * 4 / 3);
    let (mut first, mut second) = (lists_in(&budget), lists_in(&budget));
    let one = [range(0, 0, 1)];
    first.tell(1, Read, &keys[..1], &one, &exports).unwrap();
    assert!(first.get(1).is_some_and(|remote| remote.opened.is_ok()));
    assert_eq!(budget.used(), KEY_COST + RANGE_COST);
    let no_memory = |lists: &RemoteLists, list| {
        let refused = lists.get(list).and_then(|remote| remote.opened.as_ref().err().copied());
        refused.map(|refused| refused.why) == Some(Refusal::NoMemory)
    };
    second.tell(1, Read, &keys[..1], &one, &exports).unwrap();
    first.tell(2, Read, &keys[..1], &one, &exports).unwrap();
    assert!(no_memory(&second, 1) && no_memory(&first, 2));
    first.handle_forget(1, &mut exports).unwrap();
    assert_eq!(budget.used(), 0);
    // Its keys fit, and not its ranges.
    second.tell(2, Read, &keys[..1], &[range(0, 0, 1); 2], &exports).unwrap();
    assert!(no_memory(&second, 2) && budget.used() == 0);
    second.tell(3, Read, &keys[..1], &one, &exports).unwrap();
    assert!(second.get(3).is_some_and(|remote| remote.opened.is_ok()));
    drop(second);
    assert_eq!(budget.used(), 0);
}

impl RemoteLists {
    /// Tells a whole list.
    fn tell(
        &mut self,
        list: u32,
        kind: OperationKind,
        keys: &[ListedKey],
        ranges: &[ListedRange],
        exports: &Exports,
    ) -> Result<(), ListFault> {
        let bytes = ranges.iter().map(|range| range.bytes).sum();
        let (count, of_keys) = (ranges.len() as u32, keys.len() as u32);
        let head = Some(ListHead { kind, keys: of_keys, ranges: count, bytes });
        let part = ListPart { list, head, keys: keys.into(), ranges: ranges.into() };
        self.handle_part(&part, exports)
    }

    /// Begins a list, and sends nothing else of it.
    fn begin_list(
        &mut self,
        list: u32,
        kind: OperationKind,
        (keys, ranges): (u32, u32),
        bytes: u64,
    ) -> Result<(), ListFault> {
        self.begin(list, ListHead { kind, keys, ranges, bytes })
    }
}

/// Returns the reason why the list of these is refused.
fn refused(
    kind: OperationKind,
    keys: &[ListedKey],
    ranges: &[ListedRange],
    exports: &Exports,
) -> Option<(Refusal, u32)> {
    let mut lists = lists();
    lists.tell(1, kind, keys, ranges, exports).expect("it is remote as it should be");
    let remote = lists.get(1).expect("it is known all the same");
    remote.opened.as_ref().err().map(|refused| (refused.why, refused.range))
}

#[test]
fn a_list_leads_to_what_is_exported() {
    let (exports, keys) = exports();
    let mut lists = lists();
    let ranges = [range(1, 10, 20), range(0, 0, 100), range(1, 90, 10)];
    lists.tell(7, Write, &keys[..2], &ranges, &exports).unwrap();
    let remote = lists.get(7).expect("it is whole");
    let opened = remote.opened.as_ref().expect("nothing is wrong with it");
    let places: Vec<_> = opened.pieces.iter().map(|piece| (piece.address, piece.bytes)).collect();
    assert_eq!(places, [(address(2) + 10, 20), (address(1), 100), (address(2) + 90, 10)]);
    assert_eq!((remote.bytes, remote.kind, opened.uses.len()), (130, Write, 2));
    assert_eq!(opened.pieces.owners().len(), 2);
}

#[test]
fn a_list_that_comes_in_parts_is_known_with_the_last() {
    let (exports, keys) = exports();
    let mut lists = lists();
    lists.begin_list(1, Write, (2, 3), 6).unwrap();
    for key in &keys[..2] {
        lists.handle_keys(1, std::slice::from_ref(key), &exports).unwrap();
    }
    for offset in 0..3 {
        assert!(lists.get(1).is_none());
        lists.handle_ranges(1, &[range(offset as u32 % 2, offset, 2)], &exports).unwrap();
    }
    assert!(lists.get(1).is_some_and(|remote| remote.opened.is_ok()));
    assert_eq!(lists.sizes(), (1, 3));
}

#[test]
fn each_thing_that_cannot_be_opened_is_refused_with_its_range() {
    let (mut exports, keys) = exports();
    let good = range(0, 0, 1);
    assert_eq!(refused(Read, &keys[3..], &[good], &exports), None);
    assert_eq!(refused(Write, &keys[3..], &[good], &exports), Some((Refusal::Access, 0)));
    let past = [range(0, 99, 1), range(0, 100, 1)];
    assert_eq!(refused(Read, &keys[..1], &past, &exports), Some((Refusal::OutOfRange, 1)));
    let wraps = [good, good, range(0, u64::MAX, 2)];
    assert_eq!(refused(Read, &keys[..1], &wraps, &exports), Some((Refusal::OutOfRange, 2)));
    let kinds = [good, range(1, 0, 1)];
    let of_both = [keys[0].clone(), keys[2].clone()];
    assert_eq!(refused(Read, &of_both, &kinds, &exports), Some((Refusal::MixedMemory, 1)));
    let forged = ListedKey { secret: ExportSecret::new([9; 16]), ..keys[1] };
    let unknown = ListedKey { export: ExportId::from_wire(77), ..keys[1].clone() };
    for bad in [forged, unknown] {
        let both = [keys[0].clone(), bad];
        assert_eq!(refused(Read, &both, &kinds, &exports), Some((Refusal::UnknownKey, 1)));
    }
    let opened = exports.open(keys[1].export, &keys[1].secret).unwrap();
    exports.revoke(opened);
    let both = [keys[0].clone(), keys[1].clone()];
    assert_eq!(refused(Read, &both, &kinds, &exports), Some((Refusal::Revoked, 1)));
}

#[test]
fn a_key_that_is_taken_back_while_the_list_is_told_opens_nothing() {
    let (mut exports, keys) = exports();
    let mut lists = lists();
    lists.begin_list(1, Read, (1, 2), 2).unwrap();
    lists.handle_keys(1, &keys[..1], &exports).unwrap();
    lists.handle_ranges(1, &[range(0, 0, 1)], &exports).unwrap();
    let opened = exports.open(keys[0].export, &keys[0].secret).unwrap();
    exports.revoke(opened);
    lists.handle_ranges(1, &[range(0, 1, 1)], &exports).unwrap();
    let why = lists.get(1).and_then(|remote| remote.opened.as_ref().err().copied());
    assert_eq!(why, Some(Refused { why: Refusal::Revoked, range: 1 }));
}

#[test]
fn a_list_cannot_be_told_twice_or_within_another() {
    let (exports, keys) = exports();
    let mut lists = lists();
    lists.tell(1, Read, &keys[..1], &[range(0, 0, 1)], &exports).unwrap();
    assert_eq!(lists.begin_list(1, Read, (1, 1), 1), Err(ListFault::Known));
    lists.begin_list(2, Read, (1, 1), 1).unwrap();
    assert_eq!(lists.begin_list(3, Read, (1, 1), 1), Err(ListFault::NotWhole));
    assert_eq!(lists.handle_keys(1, &keys[..1], &exports), Err(ListFault::NotBegun));
    assert_eq!(lists.handle_ranges(3, &[range(0, 0, 1)], &exports), Err(ListFault::NotBegun));
}

#[test]
fn sizes_that_no_list_has_are_found_out_before_anything_is_kept() {
    for ((keys, ranges), bytes) in [
        ((0, 0), 0),
        ((0, 1), 1),
        ((1, 0), 1),
        ((2, 1), 9),
        ((1, 2), 1),
        ((1, 1), 0),
        ((1, 1), 1 << 63),
        ((1, u32::MAX), 7),
    ] {
        let fault = Err(ListFault::Sizes { keys, ranges, bytes });
        assert_eq!(lists().begin_list(1, Read, (keys, ranges), bytes), fault);
    }
    assert_eq!(lists().begin_list(1, Read, (1, 1), i64::MAX as u64), Ok(()));
}

#[test]
fn there_are_no_more_lists_and_ranges_than_agreed() {
    let (mut exports, keys) = exports();
    let one = [range(0, 0, 1)];
    let mut lists = lists();
    let most = u32::MAX;
    assert_eq!(lists.begin_list(1, Read, (1, most), most.into()), Err(ListFault::TooMany));
    assert_eq!(lists.begin_list(1, Read, (1, 11), 11), Err(ListFault::TooMany));
    for list in 1..=3 {
        lists.tell(list, Read, &keys[..1], &one, &exports).unwrap();
    }
    assert_eq!(lists.tell(4, Read, &keys[..1], &one, &exports), Err(ListFault::TooMany));
    lists.handle_forget(2, &mut exports).unwrap();
    assert_eq!(lists.begin_list(4, Read, (1, 9), 9), Err(ListFault::TooMany), "2 are left");
    lists.begin_list(4, Read, (1, 8), 8).unwrap();
    assert_eq!(lists.sizes(), (2, 10), "what is announced counts");
}

#[test]
fn what_was_announced_comes_in_order_and_no_more_of_it() {
    let (exports, keys) = exports();
    let begun = || {
        let mut lists = lists();
        lists.begin_list(1, Read, (2, 3), 3).unwrap();
        lists
    };
    let order = Err(ListFault::Order);
    let one = range(0, 0, 1);
    assert_eq!(begun().handle_ranges(1, &[one], &exports), order, "no key has come");
    assert_eq!(begun().handle_keys(1, &keys[..3], &exports), order);
    let mut half = begun();
    half.handle_keys(1, &keys[..1], &exports).unwrap();
    assert_eq!(half.handle_ranges(1, &[one], &exports), order, "one key is to come");
    half.handle_keys(1, &keys[1..2], &exports).unwrap();
    assert_eq!(half.handle_ranges(1, &[one; 4], &exports), order);
    half.handle_ranges(1, &[one], &exports).unwrap();
    assert_eq!(half.handle_keys(1, &keys[..1], &exports), order, "keys behind ranges");
}

#[test]
fn ranges_that_cannot_be_are_found_out() {
    let (exports, keys) = exports();
    for (bad, bytes) in [
        (range(1, 0, 1), 2),
        (range(u32::MAX, 0, 1), 2),
        (range(0, 0, 0), 2),
        (range(0, 0, 3), 2),
        (range(0, 0, u64::MAX), 2),
    ] {
        let mut lists = lists();
        lists.begin_list(1, Read, (1, 2), bytes).unwrap();
        lists.handle_keys(1, &keys[..1], &exports).unwrap();
        let fault = ListFault::Range { key: bad.key, bytes: bad.bytes };
        assert_eq!(lists.handle_ranges(1, &[bad], &exports), Err(fault));
    }
    let mut lists = lists();
    let fault = ListFault::Sizes { keys: 1, ranges: 1, bytes: 3 };
    lists.begin_list(1, Read, (1, 1), 3).unwrap();
    lists.handle_keys(1, &keys[..1], &exports).unwrap();
    assert_eq!(lists.handle_ranges(1, &[range(0, 0, 2)], &exports), Err(fault), "too few bytes");
}

#[test]
fn only_a_list_that_is_whole_is_forgotten_and_only_once() {
    let (mut exports, keys) = exports();
    let mut lists = lists();
    lists.begin_list(1, Read, (1, 1), 1).unwrap();
    assert_eq!(lists.handle_forget(1, &mut exports), Err(ListFault::NotBegun));
    lists.handle_keys(1, &keys[..1], &exports).unwrap();
    lists.handle_ranges(1, &[range(0, 0, 1)], &exports).unwrap();
    assert_eq!(lists.handle_forget(1, &mut exports), Ok(()));
    assert_eq!(lists.handle_forget(1, &mut exports), Err(ListFault::NotBegun));
    assert_eq!(lists.sizes(), (0, 0));
    lists.tell(1, Write, &keys[..1], &[range(0, 0, 1)], &exports).expect("the number is free");
}

proptest! {
    /// Whatever comes: a list that is opened has pieces inside what is exported, and together as
    /// many bytes as were announced.
    #[test]
    fn nothing_but_exports_is_ever_reached(
        announced in (0u32..4, 0u32..6, 0u64..300),
        frames in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(0usize..5, 1..3).prop_map(Ok),
                proptest::collection::vec((0u32..4, 0u64..120, 0u64..120), 1..4).prop_map(Err),
            ],
            1..8,
        ),
        is_write: bool,
    ) {
        let (exports, keys) = exports();
        let mut lists = lists();
        let kind = if is_write { Write } else { Read };
        let (key_count, range_count, bytes) = announced;
        let mut fault = lists.begin_list(1, kind, (key_count, range_count), bytes).err();
        let forged = ListedKey { secret: ExportSecret::new([9; 16]), ..keys[0] };
        for frame in frames {
            if fault.is_some() {
                break;
            }
            fault = match frame {
                Ok(numbers) => {
                    let of = |at: &usize| keys.get(*at).cloned().unwrap_or_else(|| forged.clone());
                    let remote: Vec<_> = numbers.iter().map(of).collect();
                    lists.handle_keys(1, &remote, &exports).err()
                }
                Err(ranges) => {
                    let remote = ranges.iter().map(|(key, at, bytes)| range(*key, *at, *bytes));
                    lists.handle_ranges(1, &remote.collect::<Vec<_>>(), &exports).err()
                }
            };
        }
        let Some(remote) = lists.get(1) else { return Ok(()) };
        prop_assert_eq!(remote.bytes, bytes);
        if let Ok(opened) = &remote.opened {
            prop_assert_eq!(opened.pieces.bytes, bytes);
            for piece in opened.pieces.iter() {
                let is_in = (1..=4).any(|number| {
                    address(number) <= piece.address
                        && piece.address + piece.bytes <= address(number) + 100
                });
                prop_assert!(is_in, "{:?}", piece);
            }
        }
    }
}
