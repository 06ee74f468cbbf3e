//! Keys and ranges as the lists of operations name them.

use super::export_id::ExportId;
use super::export_secret::ExportSecret;

/// A key, as a list names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedKey {
    pub(crate) export: ExportId,
    pub(crate) secret: ExportSecret,
}

/// A range of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedRange {
    /// Index of its key in the list.
    pub(crate) key: u32,
    /// From where on in what the key exports.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}
