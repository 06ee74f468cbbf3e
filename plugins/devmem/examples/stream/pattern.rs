//! Test pattern: each byte depends on its stream and its position.

/// Returns byte `at` of connection `stream`.
pub(crate) fn byte(stream: usize, at: u64) -> u8 {
    let mixed = (at ^ (stream as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8
}

/// Fills `to` with the bytes from `at` on.
pub(crate) fn fill(stream: usize, at: u64, to: &mut [u8]) {
    for (offset, place) in (at..).zip(to) {
        *place = byte(stream, offset);
    }
}

/// Returns how many bytes of `found` differ from the pattern from `at` on.
pub(crate) fn wrong(stream: usize, at: u64, found: &[u8]) -> u64 {
    (at..).zip(found).filter(|&(offset, &found)| found != byte(stream, offset)).count() as u64
}
