//! Operations of programs on memory of the other end, in any order.

use std::sync::Arc;

use tcpx_testkit::Random;

use super::Story;
use crate::exports::capability::{ExportSecret, ListedKey, ListedRange};
use crate::exports::refusal::Refusal;
use crate::peer::one_sided::local_lists::PreparedList;
use crate::peer::tests::driver::Check;
use crate::peer::tests::exporting::Area;
use crate::peer::tests::pair::ENDS;
use crate::peer::tests::requests::{Note, Ranges, Request};
use crate::plans::pieces::{Piece, Pieces};
use crate::types::memory::{OperationKind, RemoteAccess};
use crate::types::{MemoryType, RegistrationKey, TransferKey};

/// Bytes of an area.
const AREA_BYTES: u64 = 6000;
/// Address of the first memory of requests, far from messages and from what is exported.
const FIRST: u64 = 1 << 50;
/// From the memory of one request to that of the next.
const APART: u64 = 1 << 16;

/// Flaw of the keys of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    Forged,
    PastEnd,
}

/// Ranges of a list as they are drawn.
#[derive(Default)]
struct Drawn {
    areas: Vec<usize>,
    keys: Vec<ListedKey>,
    ranges: Vec<ListedRange>,
    pieces: Vec<Piece>,
    pairs: Vec<Ranges>,
    memory: Option<MemoryType>,
    fault: Option<(Refusal, u32)>,
}

impl Drawn {
    /// Adds one more pair, in this area of the other end.
    fn add(&mut self, number: usize, area: &Area, flaw: Flaw, wanted: OperationKind, at: [u64; 3]) {
        let [here, offset, bytes] = at;
        let mut listed = area.listed.clone();
        if flaw == Flaw::Forged {
            listed.secret = ExportSecret::new([0xee; ExportSecret::BYTES]);
        }
        let key = self.keys.iter().position(|key| *key == listed).unwrap_or_else(|| {
            self.keys.push(listed);
            self.keys.len() - 1
        });
        let offset = if flaw == Flaw::PastEnd { area.bytes - bytes + 1 } else { offset };
        let index = self.ranges.len() as u32;
        let why = match flaw {
            Flaw::Forged => Some(Refusal::UnknownKey),
            _ if !area.access.allows(wanted) => Some(Refusal::Access),
            Flaw::PastEnd => Some(Refusal::OutOfRange),
            Flaw::None if *self.memory.get_or_insert(area.memory) != area.memory => {
                Some(Refusal::MixedMemory)
            }
            Flaw::None => None,
        };
        self.fault = self.fault.or(why.map(|why| (why, index)));
        self.ranges.push(ListedRange { key: key as u32, offset, bytes });
        self.pieces.push(Piece { owner: 0, address: here, bytes });
        self.pairs.push(Ranges { here, there: area.address + offset, bytes });
        self.areas.push(number);
    }
}

/// Offsets that do not overlap and have a gap between them now and then, in any order.
fn places(random: &mut Random, lengths: &[u64]) -> Vec<u64> {
    let mut at = random.below(20) as u64;
    let mut places: Vec<u64> = lengths
        .iter()
        .map(|bytes| {
            let place = at;
            at += bytes + random.pick(&[0, 0, 1, 100]);
            place
        })
        .collect();
    if lengths.iter().all(|bytes| *bytes == lengths[0]) && random.one_in(2) {
        places.rotate_left(random.below(lengths.len()));
    }
    places
}

impl Story {
    /// Makes one step at one end.
    pub(super) fn step_request(&mut self, end: usize) -> Check {
        match self.random.below(20) {
            0 | 1 => self.export(end),
            2 => self.unexport(end),
            3..=5 => self.prepare(end),
            6..=9 => self.post_request(end),
            10 | 11 => self.cancel_request(end),
            12 if self.random.one_in(2) => self.drop_request(end),
            13 => {
                let bytes = self.note_bytes();
                self.write_down(format!("{end} notifies of {bytes} bytes"));
                self.pair.ends[end].notify(bytes)
            }
            14 => {
                self.write_down(format!("{end} takes notes"));
                let most = self.random.pick(&[1, 2, usize::MAX]);
                self.pair.ends[end].take_notes(most).map(drop)
            }
            15..=18 => self.hurry(),
            _ => {
                let channel = self.random.below(self.pair.ends[end].sent.len());
                self.write_down(format!("{end} learns that a chunk of {channel} is sent"));
                self.pair.ends[end].end_send(channel)?;
                self.pair.check_requests()
            }
        }
    }

    /// Moves some of what is under way, at both ends.
    fn hurry(&mut self) -> Check {
        let times = self.random.below(8);
        self.write_down(format!("much moves, {times} times"));
        for _ in 0..times {
            for end in ENDS {
                self.pair.deliver(end)?;
                let channel = self.random.below(self.pair.ends[end].sent.len());
                self.pair.send_chunk(end, channel)?;
                self.pair.receive_chunk(end, channel)?;
                self.pair.consume_chunk(end, channel)?;
            }
        }
        Ok(())
    }

    fn note_bytes(&mut self) -> usize {
        self.random.pick(&[0, 0, 1, 8, 40, 100])
    }

    fn export(&mut self, end: usize) -> Check {
        use RemoteAccess::{Read, ReadWrite, Write};
        let memory = self.random.pick(&[MemoryType::Host, MemoryType::Device]);
        let access = self.random.pick(&[Read, Write, ReadWrite, ReadWrite, ReadWrite, ReadWrite]);
        let number = self.pair.ends[end].exporting.export(AREA_BYTES, memory, access);
        self.write_down(format!("{end} exports area {number} of {memory} for {access:?}"));
        Ok(())
    }

    fn unexport(&mut self, end: usize) -> Check {
        let count = self.pair.ends[end].exporting.areas.len();
        if count == 0 {
            return Ok(());
        }
        let area = self.random.below(count);
        self.write_down(format!("{end} takes area {area} back"));
        self.pair.ends[end].unexport(area)
    }

    fn prepare_notification(&mut self, end: usize) -> Check {
        let requests = &mut self.pair.ends[end].requests;
        let (transfer, request) = (requests.next_transfer(), Request::of_none(requests));
        requests.all.insert(transfer, request);
        self.write_down(format!("{end} prepares {transfer:?} for notifications"));
        let note = self.note();
        self.pair.ends[end].post_request(transfer, note).map(drop)
    }

    fn prepare(&mut self, end: usize) -> Check {
        if self.random.one_in(8) {
            return self.prepare_notification(end);
        }
        let areas = self.pair.ends[1 - end].exporting.areas.clone();
        if areas.is_empty() {
            return self.export(1 - end);
        }
        let random = &mut self.random;
        let kind = random.pick(&[OperationKind::Read, OperationKind::Write]);
        let local = random.pick(&[MemoryType::Host, MemoryType::Device]);
        let remote = areas[random.below(areas.len())].memory;
        let is_mixed = random.one_in(20);
        let count = 1 + random.pick(&[0, 0, 0, 1, 2, 8]);
        let length = random.pick(&[0, 0, 1, 3, 8, 64, 65, 300]);
        let lengths: Vec<u64> = (0..count)
            .map(|_| if length > 0 { length } else { random.pick(&[1, 3, 8, 64, 65, 300]) })
            .collect();
        let (here, there) = (places(random, &lengths), places(random, &lengths));
        let mut drawn = Drawn::default();
        let requests = &mut self.pair.ends[end].requests;
        let base = FIRST + APART * requests.all.len() as u64;
        for (at, bytes) in lengths.iter().copied().enumerate() {
            let is_fit = |number: &usize| is_mixed || areas[*number].memory == remote;
            let fit: Vec<usize> = (0..areas.len()).filter(is_fit).collect();
            let number = random.pick(&fit);
            let flaw = match random.below(40) {
                0 => Flaw::Forged,
                1 => Flaw::PastEnd,
                _ => Flaw::None,
            };
            let places = [base + here[at], there[at], bytes];
            drawn.add(number, &areas[number], flaw, kind, places);
        }
        let Drawn { areas: meant, keys, ranges, pieces, pairs, memory, fault } = drawn;
        let (owners, key) = (vec![RegistrationKey::default()], requests.next_key());
        let pieces = Pieces::new(local, owners, pieces).expect("they have bytes");
        let list = Arc::new(PreparedList {
            key,
            kind,
            pieces: Arc::new(pieces),
            key_bytes: keys.iter().map(|_| AREA_BYTES).collect(),
            keys: keys.into(),
            ranges: ranges.into(),
            // Keys name the kind of their memory; those that are wrong may say anything.
            remote_memory: memory.unwrap_or(remote),
        });
        let transfer = requests.next_transfer();
        let told = format!("{end} prepares {transfer:?}: {kind} {pairs:?} {fault:?}");
        let (is_dropped, post) = (false, None);
        let request = Request { list, ranges: pairs, areas: meant, fault, is_dropped, post };
        requests.all.insert(transfer, request);
        self.write_down(told);
        let note = self.note();
        self.pair.ends[end].post_request(transfer, note).map(drop)
    }

    fn note(&mut self) -> Option<Note> {
        let bytes = self.note_bytes();
        self.random.one_in(3).then(|| vec![0; bytes].into())
    }

    fn any_request(&mut self, end: usize) -> Option<TransferKey> {
        let all: Vec<_> = self.pair.ends[end].requests.all.keys().copied().collect();
        (!all.is_empty()).then(|| self.random.pick(&all))
    }

    fn post_request(&mut self, end: usize) -> Check {
        let Some(transfer) = self.any_request(end) else { return self.prepare(end) };
        let note = self.note();
        self.write_down(format!("{end} posts {transfer:?} with {note:?}"));
        self.pair.ends[end].post_request(transfer, note).map(drop)
    }

    fn cancel_request(&mut self, end: usize) -> Check {
        let Some(transfer) = self.any_request(end) else { return Ok(()) };
        self.write_down(format!("{end} cancels {transfer:?}"));
        if self.random.one_in(3) {
            // What it still does to the other end is not taken for what a later post does.
            self.write_down(format!("{end} has no more time for it"));
            self.pair.ends[end].abandon_request(transfer)?;
            self.pair.ends[end].drop_request(transfer)?;
        } else {
            self.pair.ends[end].cancel_request(transfer)?;
        }
        self.pair.check_requests()
    }

    fn drop_request(&mut self, end: usize) -> Check {
        let Some(transfer) = self.any_request(end) else { return Ok(()) };
        self.write_down(format!("{end} drops {transfer:?}"));
        self.pair.ends[end].drop_request(transfer)?;
        self.pair.check_requests()
    }
}
