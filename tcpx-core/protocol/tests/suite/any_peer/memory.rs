//! Memory of one end: its exports, forbidden memory between them, and the memory of its own
//! requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use slotmap::{Key, KeyData};
use tcpx_protocol::exports::capability::{
    ExportId, ExportSecret, ListedKey, ListedRange, StableKeys,
};
use tcpx_protocol::exports::exported_range::{ExportKey, ExportedRange};
use tcpx_protocol::exports::table::Exports;
use tcpx_protocol::peer::one_sided::local_lists::PreparedList;
use tcpx_protocol::plans::pieces::{Piece, Pieces};
use tcpx_protocol::types::memory::{MemoryId, OperationKind, RemoteAccess};
use tcpx_protocol::types::{
    Direction, MemoryType, PreparedKey, RegistrationKey, Span, TransferKey,
};

/// Address of the first area, and distance to the next one.
const FIRST: u64 = 1 << 20;
const APART: u64 = 1000;
/// Most areas, revoked ones included.
const MOST: usize = 8;
/// Address of the memory of the end's own requests.
const OWN: u64 = 1 << 30;
const OWN_APART: u64 = 1 << 12;

/// A range that is or was exported.
pub(super) struct Area {
    key: ExportKey,
    pub(super) listed: ListedKey,
    address: u64,
    pub(super) bytes: u64,
    access: RemoteAccess,
    is_revoked: bool,
}

pub(super) struct Memory {
    pub(super) exports: Exports,
    pub(super) areas: Vec<Area>,
    /// Requests of the end itself that are under way.
    pub(super) own: BTreeMap<TransferKey, Arc<PreparedList>>,
}

impl Memory {
    /// Makes three areas: to read, to write, and for both in memory of a GPU.
    pub(super) fn new() -> Self {
        let exports = Exports::new(StableKeys::new([3; StableKeys::BYTES]));
        let mut memory = Self { exports, areas: Vec::new(), own: BTreeMap::new() };
        (0..3).for_each(|_| memory.export());
        memory
    }

    pub(super) fn export(&mut self) {
        let number = self.areas.len();
        if number == MOST {
            return;
        }
        let address = FIRST + APART * number as u64;
        let (access, memory, bytes) = match number % 3 {
            0 => (RemoteAccess::Read, MemoryType::Host, 250),
            1 => (RemoteAccess::Write, MemoryType::Host, 250),
            _ => (RemoteAccess::ReadWrite, MemoryType::Device, 200),
        };
        let registration = KeyData::from_ffi(1 << 32 | (1 + number as u64)).into();
        let span = Span { registration, address, memory };
        let memory_id = MemoryId::after(number as u64);
        let secret = ExportSecret::new([number as u8; ExportSecret::BYTES]);
        let range = ExportedRange { memory_id, span, bytes, access };
        let key = self.exports.add(range, secret.clone()).remote_key([0; 16]);
        let listed = ListedKey { export: key.export, secret: secret.clone() };
        let key = self.exports.open(key.export, &secret).expect("it is exported");
        self.areas.push(Area { key, listed, address, bytes, access, is_revoked: false });
    }

    /// Takes an area back. Returns what is to end then.
    pub(super) fn revoke(&mut self, area: u8) -> Option<ExportKey> {
        let count = self.areas.len();
        let area = &mut self.areas[usize::from(area / 2) % count];
        area.is_revoked = true;
        self.exports.revoke(area.key);
        Some(area.key)
    }

    /// Returns a key as a peer names it, which may be one that opens nothing.
    pub(super) fn key(&self, number: u8) -> ListedKey {
        let area = self.areas.get(usize::from(number % 16));
        let unknown = ListedKey {
            export: ExportId::from_wire(number.into()),
            secret: ExportSecret::new([number; ExportSecret::BYTES]),
        };
        area.map_or(unknown, |area| area.listed.clone())
    }

    /// Checks that bytes that are read, or written, are where they may be. Bytes of the peer's
    /// requests must be in an export that is in use and allows the operation. Bytes of the end's
    /// own must be in a request that has not ended.
    pub(super) fn check(
        &self,
        transfer: TransferKey,
        address: u64,
        bytes: u64,
        direction: Direction,
        begins: bool,
    ) {
        if !transfer.is_null() {
            let list = self.own.get(&transfer).expect("a request under way");
            // An operation that was just delivered has ended by then, and its memory still belongs
            // to it.
            let lies_in = |piece: &Piece| {
                piece.address <= address && address + bytes <= piece.address + piece.bytes
            };
            let first = list.pieces.start().address;
            let is_inside = list.pieces.iter().any(lies_in)
                || (first <= address && address + bytes <= first + list.pieces.bytes);
            assert!(is_inside, "{bytes} bytes at {address:#x} of {list:?}");
            assert_eq!(list.direction(), direction);
            return;
        }
        let wanted = match direction {
            Direction::Send => OperationKind::Read,
            Direction::Receive => OperationKind::Write,
        };
        let is_in =
            |area: &&Area| area.address <= address && address + bytes <= area.address + area.bytes;
        let area = self.areas.iter().find(is_in);
        let area = area.unwrap_or_else(|| panic!("{bytes} bytes at {address:#x} are in no area"));
        assert!(area.access.allows(wanted), "{wanted:?} of {:?}", area.access);
        assert!(!self.exports.is_idle(area.key), "{bytes} bytes at {address:#x} are not in use");
        assert!(!begins || !area.is_revoked, "{bytes} bytes at {address:#x} were taken back");
    }

    /// Prepares a request of the end's own, of one piece or of two that lie apart.
    pub(super) fn prepare(&mut self, transfer: TransferKey, shape: u8) -> Arc<PreparedList> {
        let kind = if shape & 1 == 0 { OperationKind::Read } else { OperationKind::Write };
        let memory = if shape & 2 == 0 { MemoryType::Host } else { MemoryType::Device };
        let number = transfer.data().as_ffi() & 0xff;
        let (address, bytes) = (OWN + OWN_APART * number, 1 + 3 * u64::from(shape));
        let mut pieces = vec![Piece { owner: 0, address, bytes }];
        let mut ranges = vec![ListedRange { key: 0, offset: 0, bytes }];
        if shape & 4 != 0 {
            pieces.push(Piece { owner: 0, address: address + 2048, bytes });
            ranges.push(ListedRange { key: 0, offset: 1000, bytes });
        }
        let pieces = Pieces::new(memory, vec![RegistrationKey::default()], pieces);
        let list = PreparedList {
            key: PreparedKey::from(KeyData::from_ffi(1 << 32 | (1 + u64::from(shape % 16)))),
            kind,
            pieces: Arc::new(pieces.expect("they have bytes")),
            keys: [self.key(0)].into(),
            key_bytes: [2000].into(),
            ranges: ranges.into(),
            remote_memory: memory,
        };
        let list = Arc::new(list);
        self.own.insert(transfer, Arc::clone(&list));
        list
    }
}
