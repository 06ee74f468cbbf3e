//! Totals of bytes that have come to the memory of NICs.

/// Number of bytes that have come to memory that NICs receive into, and of those that were copied
/// there because they had come elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArrivalStats {
    /// Number of bytes that have come.
    pub bytes: u64,
    /// Number of those bytes that the plugin has copied.
    pub copied: u64,
    /// Number of those bytes that the kernel has copied, if it counts them. It does from Linux 7.3
    /// on, and only for packets in its own pages, not for bytes that lie beside headers. 0 where it
    /// does not.
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
