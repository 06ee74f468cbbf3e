//! Keys and ranges as the lists of operations name them.

use super::export_id::ExportId;
use super::export_secret::ExportSecret;

/// A key, as a list names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedKey {
    /// Names the export.
    pub export: ExportId,
    /// What opens it.
    pub secret: ExportSecret,
}

/// A range of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedRange {
    /// Index of its key in the list.
    pub key: u32,
    /// From where on in what the key exports.
    pub offset: u64,
    /// Bytes of the range.
    pub bytes: u64,
}
