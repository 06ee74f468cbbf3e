//! Memory that an end exports: areas that do not touch each other.

use super::driver::{Check, ensure};
use crate::exports::export_secret::ExportSecret;
use crate::exports::exported_range::ExportedRange;
use crate::exports::joint_uses::ExportKey;
use crate::exports::listed::ListedKey;
use crate::exports::stable_keys::StableKeys;
use crate::exports::table::Exports;
use crate::types::memory_id::MemoryId;
use crate::types::remote_access::RemoteAccess;
use crate::types::{MemoryType, RegistrationKey, Span};

/// Where the first area begins, far from what is posted.
const FIRST: u64 = 1 << 40;
/// From the start of an area to that of the next one.
const APART: u64 = 1 << 20;

/// A range that was exported.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) key: ExportKey,
    /// As its peer names it.
    pub(super) listed: ListedKey,
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) memory: MemoryType,
    pub(super) access: RemoteAccess,
    pub(super) is_revoked: bool,
}

/// What one end exports, and has exported.
#[derive(Debug)]
pub(super) struct Exporting {
    pub(super) exports: Exports,
    pub(super) areas: Vec<Area>,
}

/// The exports of an end that has none.
pub(super) fn no_exports() -> Exports {
    Exports::new(StableKeys::new([3; StableKeys::BYTES]))
}

impl Exporting {
    pub(super) fn new() -> Self {
        Self { exports: no_exports(), areas: Vec::new() }
    }

    /// Exports a new area. Returns its number.
    pub(super) fn export(&mut self, bytes: u64, memory: MemoryType, access: RemoteAccess) -> usize {
        let number = self.areas.len();
        let address = FIRST + APART * number as u64;
        let span = Span { registration: RegistrationKey::default(), address, memory };
        let memory_id = MemoryId::after(number as u64);
        let range = ExportedRange { memory_id, span, bytes, access };
        let secret = ExportSecret::new([number as u8; ExportSecret::BYTES]);
        let key = self.exports.add(range, secret).remote_key([0; 16]);
        let listed = ListedKey { export: key.export, secret: key.secret };
        let key = self.exports.open(key.export, &key.secret).expect("it is exported");
        let is_revoked = false;
        self.areas.push(Area { key, listed, address, bytes, memory, access, is_revoked });
        number
    }

    /// Whether nothing of the peer uses an area.
    /// Takes an area back, whatever uses it.
    pub(super) fn revoke(&mut self, number: usize) -> ExportKey {
        let area = &mut self.areas[number];
        area.is_revoked = true;
        self.exports.revoke(area.key);
        area.key
    }

    pub(super) fn check_idle(&self) {
        assert!(self.areas.iter().all(|area| self.is_idle(area)), "{self:?}");
    }

    pub(super) fn is_idle(&self, area: &Area) -> bool {
        self.exports.is_idle(area.key)
    }

    /// Nothing of the peer touches memory here that is not exported, and in use for it.
    pub(super) fn check_touched(&self, address: u64, bytes: u64) -> Check {
        let is_in =
            |area: &&Area| area.address <= address && address + bytes <= area.address + area.bytes;
        let Some(area) = self.areas.iter().find(is_in) else {
            return Err(format!("{bytes} bytes at {address:#x} are in no area"));
        };
        ensure!(!self.is_idle(area), "{bytes} bytes at {address:#x} of what nobody may use");
        Ok(())
    }
}
