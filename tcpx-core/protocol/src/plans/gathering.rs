//! What is worth copying together. Pure.

/// What is gathered of one kind of memory. A *segment* is what lies one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathering {
    /// Longest segment that is copied; a longer one is sent from where it lies.
    pub segment_bytes: u64,
    /// Fewest segments that are worth it.
    pub segments: usize,
}
