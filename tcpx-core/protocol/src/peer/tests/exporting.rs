//! Memory that an end exports: areas that do not touch each other.
//!
//! Notifications at one end: those that its program sends, and those that come.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::driver::{Check, Driver, ensure};
use super::requests::Note;
use crate::exports::capability::{ExportSecret, ListedKey, StableKeys};
use crate::exports::exported_range::{ExportKey, ExportedRange};
use crate::exports::table::Exports;
use crate::peer::action::NoteUse;
use crate::peer::lifecycle::stage::PeerStage;
use crate::types::memory::{MemoryId, RemoteAccess};
use crate::types::{MemoryType, RegistrationKey, Span, note_cost};

/// Address of the first area, far from what is posted.
const FIRST: u64 = 1 << 40;
/// From the start of an area to that of the next one.
const APART: u64 = 1 << 20;

/// A range that was exported.
#[derive(Clone, Debug)]
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

/// Exports of one end, present and past.
#[derive(Debug)]
pub(super) struct Exporting {
    pub(super) exports: Exports,
    pub(super) areas: Vec<Area>,
}

/// Returns the exports of an end that has none.
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
        let listed = ListedKey { export: key.export, secret: key.secret.clone() };
        let key = self.exports.open(key.export, &key.secret).expect("it is exported");
        let is_revoked = false;
        self.areas.push(Area { key, listed, address, bytes, memory, access, is_revoked });
        number
    }

    /// Returns whether nothing of the peer uses an area. Takes an area back, whatever uses it.
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

    /// Checks that the peer touches no memory here but what is exported and in use for it.
    pub(super) fn check_touched(&self, address: u64, bytes: u64) -> Check {
        let is_in =
            |area: &&Area| area.address <= address && address + bytes <= area.address + area.bytes;
        let Some(area) = self.areas.iter().find(is_in) else {
            return Err(format!("{bytes} bytes at {address:#x} are in no area"));
        };
        ensure!(!self.is_idle(area), "{bytes} bytes at {address:#x} of what must not be used");
        Ok(())
    }
}

#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Notes by themselves that the other end has not got, oldest first.
    pub(super) sent: VecDeque<Note>,
    /// Notes that belong to writes under way, by number.
    pub(super) kept: BTreeMap<u64, Note>,
    /// Notes that the program has not taken.
    inbox: VecDeque<Note>,
    /// Notes that have come and were not looked at, and whether they came by themselves.
    pub(super) published: Vec<(Note, bool)>,
    /// Cost that the program has taken, and the part of it that the protocol knows.
    taken: u64,
    told: u64,
}

impl Notes {
    /// Lands a note that came with a frame that was handled.
    pub(super) fn land(&mut self, note_use: NoteUse, note: Option<Note>, is_alone: bool) -> Check {
        match (note_use, note) {
            // The note is unwanted.
            (NoteUse::None, _) => {}
            (NoteUse::Publish(bytes), Some(note)) => {
                ensure!(note.len() == bytes as usize, "{bytes} bytes of {note:?}");
                self.publish(note, is_alone);
            }
            (NoteUse::Keep { number, bytes }, Some(note)) => {
                ensure!(note.len() == bytes as usize, "{bytes} bytes of {note:?}");
                let before = self.kept.insert(number, note);
                ensure!(before.is_none(), "two notes have number {number}");
            }
            (note_use, None) => return Err(format!("nothing came for {note_use:?}")),
        }
        Ok(())
    }

    fn publish(&mut self, note: Note, is_alone: bool) {
        self.inbox.push_back(Arc::clone(&note));
        self.published.push((note, is_alone));
    }

    /// Takes a note that was kept, for the program or to drop it.
    pub(super) fn take_unexpected(&mut self, number: u64, is_published: bool) -> Check {
        let Some(note) = self.kept.remove(&number) else {
            return Err(format!("no note is kept as {number}"));
        };
        if is_published {
            self.publish(note, false);
        }
        Ok(())
    }

    /// Returns whether what lies here has room.
    pub(super) fn check_room(&self, room: u64) -> Check {
        let notes = self.kept.values().chain(&self.inbox);
        let used: u64 = notes.map(|note| note_cost(note.len())).sum();
        ensure!(used <= room, "notes for {used} lie in {room}");
        Ok(())
    }
}

impl Driver {
    /// Sends a note of the program by itself, if its peer is up and there is room for it.
    pub(super) fn notify(&mut self, bytes: usize) -> Check {
        let Some(protocol) = &mut self.protocol else { return Ok(()) };
        if protocol.stage() != PeerStage::Up {
            return Ok(());
        }
        let note: Note = vec![0; bytes].into();
        if protocol.handle_note(Arc::clone(&note)) {
            self.notes.sent.push_back(note);
        }
        self.act()
    }

    /// Takes up to `most` notes for the program. Returns whether there are any.
    pub(super) fn take_notes(&mut self, most: usize) -> Result<bool, String> {
        let count = most.min(self.notes.inbox.len());
        let taken = self.notes.inbox.drain(..count);
        self.notes.taken += taken.map(|note| note_cost(note.len())).sum::<u64>();
        if self.notes.taken - self.notes.told >= self.setting.one_sided.note_bytes / 4 {
            self.notes.told = self.notes.taken;
            let taken = self.notes.taken;
            self.input(|protocol| protocol.handle_notes_taken(taken))?;
        }
        Ok(count > 0)
    }
}
