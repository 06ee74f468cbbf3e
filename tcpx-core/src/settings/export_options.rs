//! What a program exports, and how.

use tcpx_protocol::types::remote_access::RemoteAccess;

/// What [`Session::export`](crate::Session::export) lets peers reach of a registration.
///
/// ```
/// use tcpx_core::{ExportOptions, RemoteAccess};
///
/// // The second page, for reading.
/// let options = ExportOptions::new(RemoteAccess::Read).range(4096, 4096);
/// assert_eq!((options.offset, options.bytes, options.is_stable), (4096, Some(4096), false));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportOptions {
    /// What peers may do.
    pub access: RemoteAccess,
    /// Where in the registration the range begins, in bytes.
    pub offset: u64,
    /// How long it is; `None`: to the end of the registration.
    pub bytes: Option<u64>,
    /// Whether the key is the same each time that this range of addresses is exported with this
    /// access.
    pub is_stable: bool,
}

impl ExportOptions {
    /// The whole registration, by a key that is never used again.
    #[must_use]
    pub fn new(access: RemoteAccess) -> Self {
        Self { access, offset: 0, bytes: None, is_stable: false }
    }

    /// A range of the registration.
    #[must_use]
    pub fn range(self, offset: u64, bytes: u64) -> Self {
        Self { offset, bytes: Some(bytes), ..self }
    }

    /// Whether the session gives the same key, to the byte, each time that the same range of
    /// addresses is exported with the same access. A key that was handed out then opens the range
    /// whenever it is exported, also through another registration of it. Exported twice, it is to
    /// be taken back twice. Meant for whoever tells its peers only once what it has.
    #[must_use]
    pub fn stable(self, is_stable: bool) -> Self {
        Self { is_stable, ..self }
    }
}
