//! What peers do with exports: what they ask for is checked, and counted while it is under way.

use super::exported_range::is_part;
use super::refusal::Refusal;
use super::table::{Export, ExportKey, Exports};
use crate::types::remote_access::OperationKind;

impl Export {
    /// Where a part of it lies that a peer names, if the peer may do this there.
    pub(crate) fn address_of(
        &self,
        offset: u64,
        bytes: u64,
        wanted: OperationKind,
    ) -> Result<u64, Refusal> {
        let range = self.range();
        if !range.access.allows(wanted) {
            return Err(Refusal::Access);
        }
        match is_part(offset, bytes, range.bytes) {
            // It lies in a registration, and no registration reaches past the end of memory.
            true => Ok(range.span.address + offset),
            false => Err(Refusal::OutOfRange),
        }
    }
}

impl Exports {
    /// A request begins to use these, all of them or none.
    ///
    /// # Errors
    /// [`Refusal::Revoked`].
    pub(crate) fn begin_all(&mut self, keys: &[ExportKey]) -> Result<(), Refusal> {
        let is_open = |key| self.get(key).is_some_and(|export| !export.is_revoked);
        if !keys.iter().copied().all(is_open) {
            return Err(Refusal::Revoked);
        }
        keys.iter().for_each(|key| self.begin(*key));
        Ok(())
    }

    /// A request that has begun uses these no more.
    pub(crate) fn end_all(&mut self, keys: &[ExportKey]) {
        keys.iter().for_each(|key| self.end(*key));
    }
}
