//! What has come to the memory of NICs.

/// What has come to memory that NICs receive into, and how much of it was copied there because it
/// had come elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArrivalStats {
    /// Bytes that have come.
    pub bytes: u64,
    /// Bytes of them that the plugin has copied.
    pub copied: u64,
    /// Bytes of them that the kernel has copied, as far as it counts: from Linux 7.3 on, and only
    /// those of packets in its own pages, not those that lie beside headers. 0 where it does not.
    pub copied_by_kernel: u64,
}

impl ArrivalStats {
    /// Adds up two regions.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            copied: self.copied + other.copied,
            copied_by_kernel: self.copied_by_kernel + other.copied_by_kernel,
        }
    }
}
