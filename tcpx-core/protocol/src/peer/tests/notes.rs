//! Notifications at one end: those that its program sends, and those that come.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::driver::{Check, Driver, ensure};
use super::requests::Note;
use crate::peer::action::NoteUse;
use crate::peer::stage::PeerStage;
use crate::types::note_cost;

#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Those by themselves that the other end has not got, oldest first.
    pub(super) sent: VecDeque<Note>,
    /// Those that belong to writes under way, by number.
    pub(super) kept: BTreeMap<u64, Note>,
    /// Those that the program has not taken.
    inbox: VecDeque<Note>,
    /// Those that have come and were not looked at, and whether they came by themselves.
    pub(super) published: Vec<(Note, bool)>,
    /// What the program has taken, and what of that the protocol knows.
    taken: u64,
    told: u64,
}

impl Notes {
    /// A note came with a frame that was handled.
    pub(super) fn land(&mut self, note_use: NoteUse, note: Option<Note>, is_alone: bool) -> Check {
        match (note_use, note) {
            // Nobody wants it.
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

    /// A note that was kept is for the program, or for nobody.
    pub(super) fn take_kept(&mut self, number: u64, is_published: bool) -> Check {
        let Some(note) = self.kept.remove(&number) else {
            return Err(format!("no note is kept as {number}"));
        };
        if is_published {
            self.publish(note, false);
        }
        Ok(())
    }

    /// Whether what lies here has room.
    pub(super) fn check_room(&self, room: u64) -> Check {
        let notes = self.kept.values().chain(&self.inbox);
        let used: u64 = notes.map(|note| note_cost(note.len())).sum();
        ensure!(used <= room, "notes for {used} lie in {room}");
        Ok(())
    }
}

impl Driver {
    /// The program sends a note by itself, if its peer is up and there is room for it.
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

    /// The program takes so many notes. Whether there are any.
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
