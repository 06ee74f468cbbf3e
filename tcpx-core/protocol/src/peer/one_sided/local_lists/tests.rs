//! Lists from the first frame of them to their last.

use slotmap::KeyData;

use super::*;
use crate::exports::capability::{ExportId, ExportSecret, ListedKey, ListedRange};
use crate::plans::pieces::{Piece, Pieces};
use crate::types::memory::OperationKind;
use crate::types::{MemoryType, RegistrationKey};

/// Returns a list of this number with `keys` keys, and ranges of one byte.
fn list(number: u64, keys: usize, ranges: usize) -> Arc<PreparedList> {
    let secret = ExportSecret::new([number as u8; 16]);
    let key = |at| ListedKey { export: ExportId::from_wire(at as u64), secret: secret.clone() };
    let range = |at: usize| ListedRange { key: (at % keys) as u32, offset: at as u64, bytes: 1 };
    let piece = |at: usize| Piece { owner: 0, address: 4096 + 2 * at as u64, bytes: 1 };
    let pieces = (0..ranges).map(piece).collect();
    let owners = vec![RegistrationKey::default()];
    let pieces = Pieces::new(MemoryType::Host, owners, pieces).expect("there are some");
    Arc::new(PreparedList {
        key: PreparedKey::from(KeyData::from_ffi(1 << 32 | number)),
        kind: OperationKind::Write,
        pieces: Arc::new(pieces),
        key_bytes: (0..keys).map(|_| 1 << 20).collect(),
        keys: (0..keys).map(key).collect(),
        ranges: (0..ranges).map(range).collect(),
        remote_memory: MemoryType::Host,
    })
}

fn op(number: u64) -> OpKey {
    OpKey::from_wire(1 << 32 | number)
}

fn local_lists(lists: usize, ranges: usize) -> LocalLists {
    LocalLists::new(ListLimits { lists, ranges })
}

/// Says everything that is due. Returns the frames, with the requests that are ready then.
fn flush_all(local_lists: &mut LocalLists) -> (Vec<Frame>, Vec<OpKey>) {
    let (mut frames, mut ready) = (Vec::new(), Vec::new());
    while let Some(said) = local_lists.next() {
        assert!(local_lists.known.len() <= local_lists.limits.lists);
        assert!(local_lists.ranges <= local_lists.limits.ranges);
        frames.push(said.frame);
        ready.extend(said.ready);
    }
    assert!(!local_lists.has_more());
    (frames, ready)
}

/// Uses a list once, for a request that is asked at once, and answered.
fn use_once(local_lists: &mut LocalLists, list: &Arc<PreparedList>) -> Vec<Frame> {
    assert_ne!(local_lists.begin_use(list, op(1)), ListUse::NoRoom);
    let (frames, _) = flush_all(local_lists);
    local_lists.end_use(list.key);
    frames
}

fn forgets(frames: &[Frame]) -> Vec<u32> {
    let forgotten = |frame: &Frame| match frame {
        Frame::Forget { list } => Some(*list),
        _ => None,
    };
    frames.iter().filter_map(forgotten).collect()
}

#[test]
fn a_list_is_told_once_and_its_requests_are_ready_with_its_last_range() {
    let mut local_lists = local_lists(10, 100);
    let list = list(1, 2, 3);
    assert_eq!(local_lists.begin_use(&list, op(1)), ListUse::Later);
    assert_eq!(local_lists.begin_use(&list, op(2)), ListUse::Later);
    assert_eq!(local_lists.number(list.key), None);
    let (frames, ready) = flush_all(&mut local_lists);
    let [Frame::List(part)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(
        (part.list, part.head, part.keys.len(), part.ranges.len()),
        (0, Some(list.head()), 2, 3)
    );
    assert_eq!(ready, [op(1), op(2)]);
    assert_eq!(local_lists.begin_use(&list, op(3)), ListUse::Known(0));
    assert_eq!((local_lists.number(list.key), local_lists.sizes()), (Some(0), (1, 3)));
    assert!(!local_lists.has_more(), "nothing is said a second time");
}

#[test]
fn a_long_list_is_cut_into_frames_that_hold_all_of_it_in_order() {
    let (most_keys, most_ranges) = (LIST_BYTES / KEY_BYTES, LIST_BYTES / RANGE_BYTES);
    for (keys, ranges, count) in [
        (1, 1, 1),
        (1, most_ranges - 2, 1),
        (1, most_ranges - 1, 2),
        (most_keys, most_keys, 2),
        (most_keys - 100, most_keys - 100, 2),
        (most_keys + 1, 2 * most_ranges, 4),
        (2 * most_keys + 7, 3 * most_ranges + 9, 6),
    ] {
        let list = list(1, keys, ranges);
        let limits = ListLimits { lists: 1, ranges: 1 << 20 };
        let mut local_lists = LocalLists::new(limits);
        local_lists.begin_use(&list, op(1));
        let (mut received_keys, mut received_ranges) = (Vec::new(), Vec::new());
        for number in 1..=count {
            let ListFrame { frame, ready } = local_lists.next().expect("there is more");
            let Frame::List(part) = frame else { panic!("{frame:?}") };
            assert_eq!((part.list, part.head), (0, (number == 1).then(|| list.head())));
            assert!(received_ranges.is_empty() || part.keys.is_empty(), "keys come first");
            received_keys.extend(part.keys.iter().cloned());
            received_ranges.extend(part.ranges.iter().copied());
            assert_eq!(!ready.is_empty(), number == count, "it is ready with its last range");
        }
        assert!(!local_lists.has_more());
        assert_eq!((&received_keys[..], &received_ranges[..]), (&list.keys[..], &list.ranges[..]));
    }
}

#[test]
fn the_list_that_was_used_longest_ago_makes_room() {
    let mut local_lists = local_lists(3, 100);
    let lists = [1, 2, 3, 4, 5].map(|number| list(number, 1, 1));
    for number in [0, 1, 2, 0] {
        use_once(&mut local_lists, &lists[number]);
    }
    let frames = use_once(&mut local_lists, &lists[3]);
    assert_eq!(forgets(&frames), [1], "0 was used again");
    assert_eq!(frames[0], Frame::Forget { list: 1 }, "before the next one is sent");
    assert_eq!(forgets(&use_once(&mut local_lists, &lists[4])), [2]);
    assert_eq!(forgets(&use_once(&mut local_lists, &lists[1])), [0]);
    assert_eq!(local_lists.sizes(), (3, 3));
}

#[test]
fn ranges_have_a_limit_too_and_as_many_lists_go_as_must() {
    let mut local_lists = local_lists(100, 10);
    let lists = [(1, 4), (2, 4), (3, 2), (4, 7)].map(|(number, ranges)| list(number, 1, ranges));
    for list in &lists[..3] {
        assert_eq!(forgets(&use_once(&mut local_lists, list)), []);
    }
    assert_eq!(forgets(&use_once(&mut local_lists, &lists[3])), [0, 1]);
    assert_eq!(local_lists.sizes(), (2, 9));
}

#[test]
fn a_list_that_is_in_use_stays_and_others_wait_for_it() {
    let mut local_lists = local_lists(1, 100);
    let (first, second) = (list(1, 1, 1), list(2, 1, 1));
    local_lists.begin_use(&first, op(1));
    assert_eq!(local_lists.begin_use(&second, op(2)), ListUse::NoRoom, "it is learning");
    flush_all(&mut local_lists);
    local_lists.begin_use(&first, op(3));
    local_lists.end_use(first.key);
    assert_eq!(local_lists.begin_use(&second, op(2)), ListUse::NoRoom, "one of two has ended");
    local_lists.end_use(first.key);
    assert_eq!(local_lists.begin_use(&second, op(2)), ListUse::Later);
    assert_eq!(forgets(&flush_all(&mut local_lists).0), [0]);
}

#[test]
fn a_list_whose_requests_are_gone_before_it_is_told_is_told_to_its_end() {
    let ranges = LIST_BYTES / RANGE_BYTES + 1;
    let mut local_lists = local_lists(1, ranges);
    let (first, second) = (list(1, 1, ranges), list(2, 1, 1));
    local_lists.begin_use(&first, op(1));
    local_lists.next();
    local_lists.end_use(first.key);
    assert_eq!(local_lists.begin_use(&second, op(2)), ListUse::NoRoom, "half of it is sent");
    let (frames, ready) = flush_all(&mut local_lists);
    assert_eq!((frames.len(), ready), (1, vec![op(1)]));
    assert_eq!(local_lists.begin_use(&second, op(2)), ListUse::Later, "it is idle now");
}

#[test]
fn a_dropped_list_is_forgotten_when_nothing_waits_for_it() {
    let mut local_lists = local_lists(10, 100);
    let lists = [1, 2, 3].map(|number| list(number, 1, 1));
    use_once(&mut local_lists, &lists[0]);
    local_lists.drop_list(lists[0].key);
    assert_eq!(forgets(&flush_all(&mut local_lists).0), [0], "an idle one at once");
    local_lists.begin_use(&lists[1], op(1));
    flush_all(&mut local_lists);
    local_lists.drop_list(lists[1].key);
    assert!(!local_lists.has_more(), "its request is not answered");
    local_lists.end_use(lists[1].key);
    assert_eq!(forgets(&flush_all(&mut local_lists).0), [1]);
    local_lists.begin_use(&lists[2], op(1));
    local_lists.next();
    local_lists.end_use(lists[2].key);
    local_lists.drop_list(lists[2].key);
    let (frames, _) = flush_all(&mut local_lists);
    assert_eq!(frames.last(), Some(&Frame::Forget { list: 2 }), "behind its last range");
    assert_eq!(local_lists.sizes(), (0, 0));
    assert!(local_lists.idle.is_empty() && local_lists.numbers.is_empty());
}

#[test]
fn a_number_that_the_peer_knows_is_not_given_again() {
    let mut local_lists = local_lists(10, 100);
    let lists = [1, 2, 3].map(|number| list(number, 1, 1));
    use_once(&mut local_lists, &lists[0]);
    local_lists.next_number = u32::MAX;
    use_once(&mut local_lists, &lists[1]);
    use_once(&mut local_lists, &lists[2]);
    let numbers = lists.map(|list| local_lists.number(list.key));
    assert_eq!(numbers, [Some(0), Some(u32::MAX), Some(1)]);
}
