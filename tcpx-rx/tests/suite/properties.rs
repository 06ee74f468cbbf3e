//! Property tests over generated values, and a replay of the inputs that fuzzing found worth
//! keeping.

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use tcpx_rx::{DeviceFragment, Dialect, Fragment, TokenRange, UnpackDescriptor, append_cmsg};

use crate::property::{cmsg, descriptors, tokens};

fn dialect() -> impl Strategy<Value = Dialect> {
    prop::sample::select(cmsg::DIALECTS.to_vec())
}

fn fragment(dialect: Dialect) -> impl Strategy<Value = Fragment> {
    let (last_offset, dmabuf_id) = match dialect {
        Dialect::Google => (u64::from(u32::MAX), Just(None).boxed()),
        Dialect::Mainline => (u64::MAX - u64::from(u32::MAX), any::<u32>().prop_map(Some).boxed()),
        _ => panic!("this test does not know {dialect:?}"),
    };
    let device = (0..=last_offset, 1..=u32::MAX, any::<u32>(), dmabuf_id).prop_map(
        |(offset, bytes, token, dmabuf_id)| {
            Fragment::Device(DeviceFragment::new(offset, bytes, token, dmabuf_id))
        },
    );
    let linear = (1..=u32::MAX).prop_map(|bytes| Fragment::Linear { bytes });
    prop_oneof![4 => device, 1 => linear]
}

fn fragments() -> impl Strategy<Value = (Dialect, Vec<Fragment>)> {
    dialect().prop_flat_map(|dialect| (Just(dialect), vec(fragment(dialect), 0..40)))
}

/// Control bytes that look right at first sight: messages with real types and sizes near the
/// right ones, cut off anywhere.
fn near_control() -> impl Strategy<Value = Vec<u8>> {
    let cmsg_type = prop::sample::select(vec![78, 79, 98, 99, 29]);
    let payload =
        prop_oneof![3 => vec(0..3_u8, 12), 3 => vec(0..3_u8, 24), 1 => vec(0..3_u8, 0..40)];
    let messages = vec((0..10_i32, cmsg_type, payload), 0..12);
    (messages, any::<prop::sample::Index>(), any::<bool>()).prop_map(|(messages, cut, whole)| {
        let mut control = Vec::new();
        for (level, cmsg_type, payload) in messages {
            append_cmsg(&mut control, level.min(1), cmsg_type, &payload);
        }
        if !whole {
            control.truncate(cut.index(control.len() + 1));
        }
        control
    })
}

/// Entries that cover `[0, expected)` in any order, over `(bounce bytes, expected)`.
fn right_list() -> impl Strategy<Value = (Vec<UnpackDescriptor>, u64, u64)> {
    vec((0_u32..1 << 30, 1..9000_u32, any::<bool>()), 0..120).prop_flat_map(|pieces| {
        let mut list: Vec<UnpackDescriptor> = Vec::new();
        let mut dst_off = 0;
        for (anywhere, len, continues) in pieces {
            let src_off = match list.last() {
                Some(last) if continues => last.src_off + last.len,
                _ => anywhere,
            };
            list.push(UnpackDescriptor { src_off, len, dst_off });
            dst_off += u64::from(len);
        }
        let order = prop_oneof![Just(list.clone()), Just(list).prop_shuffle()];
        (order, Just(1 << 31), Just(dst_off))
    })
}

/// A list that was right before one number of it was changed.
fn damaged_list() -> impl Strategy<Value = (Vec<UnpackDescriptor>, u64, u64)> {
    let change = prop_oneof![-3..=3_i64, any::<i64>()];
    (right_list(), any::<prop::sample::Index>(), 0..5, change).prop_map(
        |((mut list, mut bounce, mut expected), index, which, change)| {
            if !list.is_empty() {
                let entry = index.get_mut(&mut list);
                match which {
                    0 => entry.src_off = entry.src_off.wrapping_add(change as u32),
                    1 => entry.len = entry.len.wrapping_add(change as u32),
                    2 => entry.dst_off = entry.dst_off.wrapping_add_signed(change),
                    3 => bounce = bounce.wrapping_add_signed(change),
                    _ => expected = expected.wrapping_add_signed(change),
                }
            }
            (list, bounce, expected)
        },
    )
}

/// Ranges that touch, overlap and repeat, at the beginning or the end of the numbers.
fn ranges() -> impl Strategy<Value = Vec<TokenRange>> {
    let range = (0..6000_u32, prop_oneof![9 => 1..4_u32, 1 => 1..2200_u32], any::<bool>());
    vec(range, 0..200).prop_map(|ranges| {
        let mut next = 0;
        let mut list = Vec::new();
        for (start, count, follows) in ranges {
            let start = if follows { next } else { start };
            list.extend(TokenRange::new(start, count));
            next = start + count;
        }
        list
    })
}

/// As [`ranges`], at the end of the numbers.
fn last_ranges() -> impl Strategy<Value = Vec<TokenRange>> {
    ranges().prop_map(|ranges| {
        let moved = ranges.iter().map(|r| TokenRange::new(u32::MAX - r.start(), r.count()));
        moved.flatten().collect()
    })
}

proptest! {
    #[test]
    fn encoded_fragments_are_read_back((dialect, fragments) in fragments()) {
        cmsg::check_round_trip(&fragments, dialect);
    }

    #[test]
    fn any_control_bytes_can_be_walked(control in vec(any::<u8>(), 0..200)) {
        cmsg::run(&control);
    }

    #[test]
    fn nearly_right_control_bytes_are_read_as_a_naive_reader_does(control in near_control()) {
        cmsg::run(&control);
    }

    #[test]
    fn right_lists_pass_in_any_order((mut list, bounce, expected) in right_list()) {
        descriptors::check_agrees_with_the_oracles(&list, bounce, expected);
        prop_assert_eq!(tcpx_rx::check(&mut list, bounce, expected), Ok(()));
    }

    #[test]
    fn damaged_lists_are_judged_as_the_oracles_do((list, bounce, expected) in damaged_list()) {
        descriptors::check_agrees_with_the_oracles(&list, bounce, expected);
        descriptors::merging_keeps_every_copy(&list);
        descriptors::disjoint_sources_agree_with_all_pairs(&list);
    }

    #[test]
    fn any_descriptor_list_can_be_checked(data in vec(any::<u8>(), 0..600)) {
        descriptors::run(&data);
    }

    #[test]
    fn built_chunks_read_the_stream(
        stream in vec((any::<u32>().prop_map(|offset| offset >> 1), 1..9000_u16), 0..60),
        chunk_bytes in 200..70_000_u64,
    ) {
        descriptors::chunks_read_the_stream_in_order(&stream, chunk_bytes);
    }

    #[test]
    fn tokens_survive_batching(ranges in prop_oneof![ranges(), last_ranges()]) {
        tokens::batches_hold_every_token_in_order(&ranges);
        tokens::coalescing_keeps_the_set(&ranges);
    }

    #[test]
    fn the_rest_of_a_batch_is_what_follows(ranges in ranges(), freed in 0..1100_u32) {
        tokens::the_rest_is_what_follows(&ranges, freed);
    }

    #[test]
    fn the_kernel_gets_every_token(
        ranges in ranges(),
        limit in prop_oneof![Just(1024_usize), 1..1024_usize],
        unknown in prop_oneof![Just(u32::MAX), 1..20_u32],
    ) {
        tokens::every_known_token_is_freed(&ranges, limit, |token| token % unknown != unknown - 1);
    }
}

/// Runs `property` on every file of `tests/corpus/<target>`.
fn replay(target: &str, property: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(target);
    let entries = fs::read_dir(&folder).expect("the corpus is part of the crate");
    let mut replayed = 0;
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        property(&fs::read(&path).expect("a readable file"));
        replayed += 1;
    }
    assert!(replayed > 0, "{} is empty", folder.display());
}

#[test]
fn saved_control_bytes_can_be_walked() {
    replay("cmsg_walk", cmsg::run);
}

#[test]
fn saved_descriptor_lists_can_be_checked() {
    replay("descriptors", descriptors::run);
}
