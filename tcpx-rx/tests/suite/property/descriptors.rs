//! Unpack descriptors: the check agrees with naive oracles, merging keeps every copy, and what is
//! built passes the check.

use tcpx_rx::{
    DescriptorBuilder, DescriptorError, DeviceFragment, Fragment, UnpackDescriptor, check,
    merge_neighbours, sources_disjoint,
};

/// Largest request for which the oracles keep a map of single bytes.
const MAP_BYTES: u64 = 1 << 16;

/// Asks `check` and compares the answer, the order and the error's numbers with naive oracles.
pub(crate) fn check_agrees_with_the_oracles(list: &[UnpackDescriptor], bounce: u64, expected: u64) {
    let mut checked = list.to_vec();
    let answer = check(&mut checked, bounce, expected);
    assert_eq!(answer.is_ok(), right_by_intervals(list, bounce, expected), "{answer:?}");
    if expected <= MAP_BYTES && list.len() <= 256 {
        assert_eq!(answer.is_ok(), right_by_byte_map(list, bounce, expected), "{answer:?}");
    }
    assert_eq!(in_one_order(&checked), in_one_order(list), "entries were changed");
    match answer {
        Ok(()) => {
            assert!(checked.is_sorted_by_key(|entry| entry.dst_off));
            let mut merged = checked;
            merge_neighbours(&mut merged);
            assert_eq!(check(&mut merged, bounce, expected), Ok(()), "after merging");
        }
        Err(error) => error_is_true(&error, &checked, bounce, expected),
    }
}

/// Merges `list` and expects the same bytes to be copied to the same places in the same order.
pub(crate) fn merging_keeps_every_copy(list: &[UnpackDescriptor]) {
    let mut merged = list.to_vec();
    let saved = merge_neighbours(&mut merged);
    assert_eq!(merged.len() + saved, list.len());

    let mut pieces = list.iter();
    for run in &merged {
        let mut done = 0;
        loop {
            let piece = pieces.next().expect("a merged entry has pieces");
            assert_eq!(u64::from(run.src_off) + done, u64::from(piece.src_off));
            assert_eq!(u128::from(run.dst_off) + u128::from(done), u128::from(piece.dst_off));
            done += u64::from(piece.len);
            assert!(done <= u64::from(run.len));
            let next_belongs = pieces.clone().next().is_some_and(|next| {
                next.len == 0
                    && u64::from(next.src_off) == u64::from(run.src_off) + done
                    && u128::from(next.dst_off) == u128::from(run.dst_off) + u128::from(done)
            });
            if done == u64::from(run.len) && !next_belongs {
                break;
            }
        }
    }
    assert!(pieces.next().is_none(), "an entry was lost");
    for pair in merged.windows(2) {
        assert!(!could_be_one(&pair[0], &pair[1]), "{pair:?} stayed apart");
    }
}

/// Asks `sources_disjoint` and compares the answer with all pairs.
pub(crate) fn disjoint_sources_agree_with_all_pairs(list: &[UnpackDescriptor]) {
    let answer = sources_disjoint(list, &mut Vec::new());
    let some_pair = list
        .iter()
        .enumerate()
        .any(|(index, first)| list[index + 1..].iter().any(|second| share_source(first, second)));
    assert_eq!(answer.is_err(), some_pair, "{answer:?}");
    if let Err(overlap) = answer {
        assert!(share_source(&overlap.first, &overlap.second));
        assert!(list.contains(&overlap.first) && list.contains(&overlap.second));
    }
}

/// Builds chunks of `chunk_bytes` from a stream of device fragments of `(offset, bytes)` and
/// expects each to pass the check and all together to read the stream's bytes in order.
pub(crate) fn chunks_read_the_stream_in_order(stream: &[(u32, u16)], chunk_bytes: u64) {
    let fragment = |&(offset, bytes): &(u32, u16)| {
        let (offset, bytes) = (offset.into(), bytes.into());
        Fragment::Device(DeviceFragment::new(offset, bytes, 1, None))
    };
    let mut fragments: Vec<Fragment> = stream.iter().map(fragment).collect();
    let mut left = &mut fragments[..];
    let mut read = Vec::new();
    let mut builder = DescriptorBuilder::new(chunk_bytes);
    while !left.is_empty() {
        let used = builder.append(left).expect("few fragments below 4 GiB");
        left = &mut left[used..];
        assert!(left.is_empty() || builder.is_full());
        if builder.is_full() {
            read.extend(sources_of_checked(builder, chunk_bytes));
            builder = DescriptorBuilder::new(chunk_bytes);
        }
    }
    let filled = builder.filled_bytes();
    read.extend(sources_of_checked(builder, filled));

    let expected: Vec<(u64, u64)> =
        stream.iter().map(|&(offset, bytes)| (offset.into(), bytes.into())).collect();
    assert_eq!(runs_of(&read), runs_of(&expected));
}

/// All properties on any bytes.
///
/// The first byte chooses how the others are read: as a small well-formed request with a few
/// faults, which gets deep into the check, or as entries of any numbers.
pub(crate) fn run(data: &[u8]) {
    let Some((&mode, data)) = data.split_first() else { return };
    let (list, bounce, expected) =
        if mode & 1 == 0 { nearly_right(data) } else { any_numbers(data) };
    check_agrees_with_the_oracles(&list, bounce, expected);
    merging_keeps_every_copy(&list);
    disjoint_sources_agree_with_all_pairs(&list);

    let stream: Vec<(u32, u16)> = data
        .chunks_exact(4)
        .take(64)
        .map(|b| (u32::from(b[0]) << 8 | u32::from(b[1]), u16::from(b[2] % 32) + 1))
        .collect();
    chunks_read_the_stream_in_order(&stream, u64::from(mode >> 1) + 1);
}

/// A request cut into pieces, two bytes each: length and place in the bounce buffer. A piece with
/// an odd place swaps with the one before it. Every 255 is a fault: the next piece's numbers shift.
fn nearly_right(data: &[u8]) -> (Vec<UnpackDescriptor>, u64, u64) {
    let mut list: Vec<UnpackDescriptor> = Vec::new();
    let mut dst_off = 0_u64;
    let mut src_off = 0_u32;
    for pair in data.chunks_exact(2).take(256) {
        let [size, place] = [pair[0], pair[1]];
        if size == 255 {
            dst_off = (dst_off + u64::from(place % 8)).saturating_sub(3);
            continue;
        }
        let len = u32::from(size % 32) + u32::from(size < 250);
        // Half of the pieces continue in the bounce buffer, so that there is something to merge.
        if place >= 128 {
            src_off = u32::from(place) * 16;
        }
        list.push(UnpackDescriptor { src_off, len, dst_off });
        src_off += len;
        dst_off += u64::from(len);
        if place & 1 == 1 && list.len() > 1 {
            let last = list.len() - 1;
            list.swap(last, last - 1);
        }
    }
    (list, 4096, dst_off)
}

/// Sixteen bytes an entry, after 16 bytes for the two sizes.
fn any_numbers(data: &[u8]) -> (Vec<UnpackDescriptor>, u64, u64) {
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
    };
    let list = data
        .get(16..)
        .unwrap_or_default()
        .chunks_exact(16)
        .take(64)
        .map(|b| UnpackDescriptor {
            src_off: word(b, 0) as u32,
            len: (word(b, 0) >> 32) as u32,
            dst_off: word(b, 8),
        })
        .collect();
    (list, word(data, 0), word(data, 8))
}

/// In bounds, not empty, no two destinations share a byte, and as many bytes as expected: then
/// every expected byte is written once.
fn right_by_intervals(list: &[UnpackDescriptor], bounce: u64, expected: u64) -> bool {
    let end = |entry: &UnpackDescriptor| u128::from(entry.dst_off) + u128::from(entry.len);
    let in_bounds = list.iter().all(|entry| {
        entry.len > 0
            && u128::from(entry.src_off) + u128::from(entry.len) <= u128::from(bounce)
            && end(entry) <= u128::from(expected)
    });
    let disjoint = list.iter().enumerate().all(|(index, a)| {
        list[index + 1..]
            .iter()
            .all(|b| end(a) <= u128::from(b.dst_off) || end(b) <= u128::from(a.dst_off))
    });
    let total: u128 = list.iter().map(|entry| u128::from(entry.len)).sum();
    in_bounds && disjoint && total == u128::from(expected)
}

/// Counts how often each destination byte is written.
fn right_by_byte_map(list: &[UnpackDescriptor], bounce: u64, expected: u64) -> bool {
    let mut writes = vec![0_u16; expected as usize];
    for entry in list {
        let fits = u64::from(entry.src_off) + u64::from(entry.len) <= bounce
            && entry.dst_off <= expected
            && u64::from(entry.len) <= expected - entry.dst_off;
        if entry.len == 0 || !fits {
            return false;
        }
        let start = entry.dst_off as usize;
        for count in &mut writes[start..start + entry.len as usize] {
            *count += 1;
        }
    }
    writes.iter().all(|&count| count == 1)
}

fn in_one_order(list: &[UnpackDescriptor]) -> Vec<(u64, u32, u32)> {
    let mut all: Vec<_> = list.iter().map(|e| (e.dst_off, e.src_off, e.len)).collect();
    all.sort_unstable();
    all
}

/// What an error says about the list must be so.
fn error_is_true(error: &DescriptorError, list: &[UnpackDescriptor], bounce: u64, expected: u64) {
    match *error {
        DescriptorError::ZeroLength { index } => assert_eq!(list[index].len, 0),
        DescriptorError::SourceOutOfBounds { index, src_off, len, bounce_bytes } => {
            assert_eq!((list[index].src_off, list[index].len), (src_off, len));
            assert_eq!(bounce_bytes, bounce);
            assert!(u64::from(src_off) + u64::from(len) > bounce);
        }
        DescriptorError::DestinationOutOfBounds { index, dst_off, len, expected_bytes } => {
            assert_eq!((list[index].dst_off, list[index].len), (dst_off, len));
            assert_eq!(expected_bytes, expected);
            assert!(u128::from(dst_off) + u128::from(len) > u128::from(expected));
        }
        DescriptorError::Overlap { index, dst_off, previous_end } => {
            let previous = &list[index - 1];
            assert_eq!(previous.dst_off + u64::from(previous.len), previous_end);
            assert_eq!(list[index].dst_off, dst_off);
            assert!(dst_off < previous_end);
        }
        DescriptorError::Hole { index, start, end } => {
            assert!(start < end && end <= expected);
            assert!(list.iter().all(|entry| {
                entry.dst_off + u64::from(entry.len) <= start || entry.dst_off >= end
            }));
            assert_eq!(list.get(index).map_or(expected, |entry| entry.dst_off), end);
        }
        _ => panic!("this test does not know {error}"),
    }
}

fn could_be_one(first: &UnpackDescriptor, second: &UnpackDescriptor) -> bool {
    u128::from(first.src_off) + u128::from(first.len) == u128::from(second.src_off)
        && u128::from(first.dst_off) + u128::from(first.len) == u128::from(second.dst_off)
        && u64::from(first.len) + u64::from(second.len) <= u64::from(u32::MAX)
}

fn share_source(first: &UnpackDescriptor, second: &UnpackDescriptor) -> bool {
    let start = u64::from(first.src_off.max(second.src_off));
    let end = |entry: &UnpackDescriptor| u64::from(entry.src_off) + u64::from(entry.len);
    start < end(first).min(end(second))
}

/// The `(offset, bytes)` read by one chunk, which must pass the check.
fn sources_of_checked(builder: DescriptorBuilder, expected: u64) -> Vec<(u64, u64)> {
    let mut list = builder.finish().descriptors;
    assert_eq!(check(&mut list, 1 << 33, expected), Ok(()));
    list.iter().map(|entry| (entry.src_off.into(), entry.len.into())).collect()
}

/// The start and the end of each run of bytes that follow each other. Two lists of spans are the
/// same bytes in the same order when these are equal.
fn runs_of(spans: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &(offset, bytes) in spans.iter().filter(|(_, bytes)| *bytes > 0) {
        match runs.last_mut() {
            Some((_, end)) if *end == offset => *end += bytes,
            _ => runs.push((offset, offset + bytes)),
        }
    }
    runs
}
