//! Properties of control messages: a walk of any bytes ends, and encoded fragments are read back.

use tcpx_rx::{CmsgError, DeviceFragment, Dialect, Fragment, WalkTotals, encode, walk};

/// Both dialects.
pub(crate) const DIALECTS: [Dialect; 2] = [Dialect::Google, Dialect::Mainline];

/// Walks `control` and compares every answer with a naive reading of it. Returns the fragments.
pub(crate) fn check_walk(control: &[u8], dialect: Dialect) -> Vec<Fragment> {
    let mut walk = walk(control, dialect);
    let mut fragments = Vec::new();
    let mut error = None;
    for step in walk.by_ref() {
        assert!(error.is_none(), "the walk goes on after {error:?}");
        match step {
            Ok(fragment) => fragments.push(fragment),
            Err(found) => error = Some(found),
        }
    }
    assert_eq!(walk.next(), None, "the walk is not fused");
    for fragment in &fragments {
        assert_valid(fragment, dialect);
    }
    let (expected, readable, skipped) = read_naively(control, dialect);
    assert_eq!(fragments, expected);
    assert_eq!(error.is_none(), readable, "{error:?}");
    if let Some(error) = error {
        assert!(position(&error) < control.len());
    }
    let mut totals = totals_of(&fragments);
    totals.skipped = skipped;
    assert_eq!(walk.totals(), totals);
    fragments
}

/// Encodes `fragments`, walks the bytes, and expects the same fragments.
pub(crate) fn check_round_trip(fragments: &[Fragment], dialect: Dialect) {
    let mut control = Vec::new();
    for fragment in fragments {
        encode(fragment, dialect, &mut control).expect("a fragment of the dialect");
    }
    assert_eq!(control.len(), fragments.len() * dialect.cmsg_space());
    let read: Result<Vec<_>, _> = walk(&control, dialect).collect();
    assert_eq!(read.as_deref(), Ok(fragments));
}

/// All properties on any bytes.
pub(crate) fn run(data: &[u8]) {
    for dialect in DIALECTS {
        let fragments = check_walk(data, dialect);
        check_round_trip(&fragments, dialect);
    }
}

fn assert_valid(fragment: &Fragment, dialect: Dialect) {
    assert!(fragment.bytes() > 0);
    if let Fragment::Device(DeviceFragment { offset, bytes, dmabuf_id, .. }) = *fragment {
        assert!(offset.checked_add(u64::from(bytes)).is_some());
        match dialect {
            Dialect::Google => {
                assert!(dmabuf_id.is_none());
                assert!(u32::try_from(offset).is_ok());
            }
            Dialect::Mainline => assert!(dmabuf_id.is_some()),
            _ => panic!("this test does not know {dialect:?}"),
        }
    }
}

fn totals_of(fragments: &[Fragment]) -> WalkTotals {
    let mut totals = WalkTotals::default();
    for fragment in fragments {
        match fragment {
            Fragment::Device(device) => {
                totals.device_fragments += 1;
                totals.device_bytes += u64::from(device.bytes);
            }
            Fragment::Linear { bytes } => totals.linear_bytes += u64::from(*bytes),
            _ => panic!("this test does not know {fragment:?}"),
        }
    }
    totals
}

fn position(error: &CmsgError) -> usize {
    match *error {
        CmsgError::TruncatedHeader { at, .. }
        | CmsgError::LengthBelowHeader { at, .. }
        | CmsgError::LengthPastEnd { at, .. }
        | CmsgError::PayloadSize { at, .. }
        | CmsgError::EmptyFragment { at }
        | CmsgError::OffsetOverflow { at, .. } => at,
        _ => panic!("this test does not know {error}"),
    }
}

/// The number of `size` bytes at `at`, in the machine's order, in the widest type there is.
fn number(bytes: &[u8], at: usize, size: usize) -> u128 {
    let digits: Vec<u8> = bytes[at..at + size].to_vec();
    let by_weight: Vec<u8> =
        if cfg!(target_endian = "little") { digits.into_iter().rev().collect() } else { digits };
    by_weight.into_iter().fold(0, |sum, digit| sum * 256 + u128::from(digit))
}

/// The fragments up to the first fault, whether there was none, and the messages passed over.
fn read_naively(control: &[u8], dialect: Dialect) -> (Vec<Fragment>, bool, usize) {
    let (linear, device, payload, offset_size) = match dialect {
        Dialect::Google => (98, 99, 12, 4),
        Dialect::Mainline => (78, 79, 24, 8),
        _ => panic!("this test does not know {dialect:?}"),
    };
    let mut fragments = Vec::new();
    let mut skipped = 0;
    let mut rest = control;
    while !rest.is_empty() {
        if rest.len() < 16 {
            return (fragments, false, skipped);
        }
        let len = number(rest, 0, 8);
        if len < 16 || len > rest.len() as u128 {
            return (fragments, false, skipped);
        }
        let (level, kind) = (number(rest, 8, 4), number(rest, 12, 4));
        let body = &rest[16..len as usize];
        rest = &rest[(len as usize).next_multiple_of(8).min(rest.len())..];
        if level != 1 || (kind != linear && kind != device) {
            skipped += 1;
            continue;
        }
        if body.len() != payload {
            return (fragments, false, skipped);
        }
        let offset = number(body, 0, offset_size);
        let bytes = number(body, offset_size, 4) as u32;
        if kind == linear {
            if bytes == 0 {
                skipped += 1;
            } else {
                fragments.push(Fragment::Linear { bytes });
            }
            continue;
        }
        if bytes == 0 || offset + u128::from(bytes) > u128::from(u64::MAX) {
            return (fragments, false, skipped);
        }
        fragments.push(Fragment::Device(DeviceFragment::new(
            offset as u64,
            bytes,
            number(body, offset_size + 4, 4) as u32,
            (dialect == Dialect::Mainline).then(|| number(body, 16, 4) as u32),
        )));
    }
    (fragments, true, skipped)
}
