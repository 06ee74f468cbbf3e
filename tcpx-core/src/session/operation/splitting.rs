//! Parts of an operation, each between one device here and one at the peer. Pure.
//!
//! The end of the last range of one part, at most 4 KiB, is a part of its own. It is posted with
//! the notification, when all others have ended without error.

use std::collections::BTreeMap;

use tcpx_protocol::error::RemoteProblem;
use tcpx_protocol::exports::remote_key::RemoteRange;
use tcpx_protocol::types::memory::{Device, OperationKind};

use crate::error::Error;
use crate::transfer::MemoryRange;

/// Largest number of bytes of the last part. The part takes a round trip of its own when a
/// notification goes with it, and between memory of hosts its bytes travel with the request.
const LAST_BYTES: u64 = 4096;

/// Ranges between two devices, in the order in which the program names them.
#[derive(Debug)]
pub(super) struct DevicePair<'a> {
    pub(super) here: Device,
    pub(super) there: Device,
    pub(super) local: Vec<MemoryRange>,
    pub(super) remote: Vec<RemoteRange<'a>>,
    /// Index of each range in the list of the program.
    indices: Vec<usize>,
}

/// Returns the two devices of all ranges, if there are only two; hosts, if there are no ranges.
pub(super) fn only_pair(
    local: &[MemoryRange],
    remote: &[RemoteRange<'_>],
) -> Option<(Device, Device)> {
    let here = only(local.iter().map(device_here))?;
    Some((here, only(remote.iter().map(device_there))?))
}

fn only(mut devices: impl Iterator<Item = Device>) -> Option<Device> {
    let first = devices.next().unwrap_or_default();
    devices.all(|device| device == first).then_some(first)
}

fn device_here(range: &MemoryRange) -> Device {
    range.memory.device()
}

fn device_there(range: &RemoteRange<'_>) -> Device {
    Device::of_session(&range.key.session)
}

/// Returns one part for each two devices, and behind them the end of the first part with any bytes.
/// A notification goes with that end, when all other parts are over. Parts may have no bytes, but
/// their ranges are checked all the same.
///
/// # Errors
/// The two ends have different numbers of ranges.
pub(super) fn split<'a>(
    kind: OperationKind,
    local: &[MemoryRange],
    remote: &[RemoteRange<'a>],
) -> Result<Vec<DevicePair<'a>>, RemoteProblem> {
    if local.len() != remote.len() {
        let (local_bytes, remote_bytes) = (local.len() as u64, remote.len() as u64);
        let index = local.len().min(remote.len());
        return Err(RemoteProblem::LengthsDiffer { index, local_bytes, remote_bytes });
    }
    let mut pairs = BTreeMap::new();
    for (index, (own, theirs)) in local.iter().zip(remote).enumerate() {
        let (here, there) = (device_here(own), device_there(theirs));
        let pair = pairs.entry((here, there)).or_insert_with(|| DevicePair::new(here, there));
        pair.push(index, *own, *theirs);
    }
    let mut parts: Vec<_> = pairs.into_values().collect();
    // A part alone needs nothing behind it.
    if parts.iter().filter(|part| part.has_bytes()).count() > 1
        && let Some(first) = parts.iter_mut().find(|part| part.has_bytes())
        && let Some(last) = first.take_end(kind)
    {
        parts.push(last);
    }
    Ok(parts)
}

impl<'a> DevicePair<'a> {
    fn new(here: Device, there: Device) -> Self {
        let (local, remote, indices) = (Vec::new(), Vec::new(), Vec::new());
        Self { here, there, local, remote, indices }
    }

    fn push(&mut self, index: usize, local: MemoryRange, remote: RemoteRange<'a>) {
        self.local.push(local);
        self.remote.push(remote);
        self.indices.push(index);
    }

    fn has_bytes(&self) -> bool {
        self.local.iter().any(|range| range.bytes > 0)
    }

    /// Takes out the end of the last range that has any bytes. An invalid range is taken whole, so
    /// that the error has the program's numbers.
    fn take_end(&mut self, kind: OperationKind) -> Option<Self> {
        let at = self.local.iter().rposition(|range| range.bytes > 0)?;
        let (own, theirs, index) = (&mut self.local[at], &mut self.remote[at], self.indices[at]);
        let is_right = own.bytes == theirs.bytes
            && own.offset.checked_add(own.bytes).is_some()
            && theirs.check(index, kind).is_ok();
        let bytes = if is_right { own.bytes.min(LAST_BYTES) } else { own.bytes };
        let mut end = Self::new(self.here, self.there);
        if bytes == own.bytes {
            end.push(index, self.local.remove(at), self.remote.remove(at));
            self.indices.remove(at);
            return Some(end);
        }
        own.bytes -= bytes;
        theirs.bytes -= bytes;
        let (own_end, their_end) = (own.offset + own.bytes, theirs.offset + theirs.bytes);
        let own_end = MemoryRange { memory: own.memory, offset: own_end, bytes };
        end.push(index, own_end, RemoteRange { key: theirs.key, offset: their_end, bytes });
        Some(end)
    }

    /// Returns the error of a range of this part as an error of a range of the program's list.
    pub(super) fn place(&self, mut error: Error) -> Error {
        if let Error::Remote { problem, .. } = &mut error
            && let RemoteProblem::OutOfRange { index, .. }
            | RemoteProblem::LengthsDiffer { index, .. } = problem
            && let Some(place) = self.indices.get(*index)
        {
            *index = *place;
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tcpx_protocol::exports::capability::{ExportId, ExportSecret};
    use tcpx_protocol::exports::remote_key::RemoteKey;
    use tcpx_protocol::types::MemoryType;
    use tcpx_protocol::types::memory::{MemoryId, RemoteAccess};

    use super::*;

    const DEVICES: [Device; 3] = [Device::Host, Device::Gpu(0), Device::Gpu(1)];
    /// Longer than all ranges together.
    const EXPORTED: u64 = 1 << 20;

    fn keys() -> [RemoteKey; 3] {
        let access = RemoteAccess::ReadWrite;
        DEVICES.map(|device| RemoteKey {
            session: device.session_of(*b"session of a GPU"),
            export: ExportId::from_wire(5),
            secret: ExportSecret::new(*b"an export secret"),
            memory_id: MemoryId::new(3),
            address: 0x7f00_0000_1000,
            bytes: EXPORTED,
            memory: MemoryType::Device,
            access,
        })
    }

    fn memory(device: usize) -> MemoryId {
        MemoryId::new(DEVICES[device].ids_before() + 1).expect("it is not 0")
    }

    /// Returns ranges one behind the other: device here, device there, and bytes.
    fn ranges<'a>(
        keys: &'a [RemoteKey; 3],
        list: &[(usize, usize, u64)],
    ) -> (Vec<MemoryRange>, Vec<RemoteRange<'a>>) {
        let mut offset = 0;
        list.iter()
            .map(|&(here, there, bytes)| {
                let own = MemoryRange { memory: memory(here), offset, bytes };
                let theirs = RemoteRange { key: &keys[there], offset: offset + 5, bytes };
                offset += bytes;
                (own, theirs)
            })
            .unzip()
    }

    #[test]
    fn ranges_of_one_device_at_each_end_are_of_that_pair() {
        let keys = keys();
        let (local, remote) = ranges(&keys, &[(1, 2, 8), (1, 2, 0)]);
        assert_eq!(only_pair(&local, &remote), Some((DEVICES[1], DEVICES[2])));
        assert_eq!(only_pair(&[], &[]), Some((Device::Host, Device::Host)));
        for other in [(0, 2, 8), (1, 0, 8)] {
            let (local, remote) = ranges(&keys, &[(1, 2, 8), other]);
            assert_eq!(only_pair(&local, &remote), None);
        }
    }

    #[test]
    fn what_is_wrong_is_taken_as_the_program_names_it() {
        let keys = keys();
        let (mut local, mut remote) = ranges(&keys, &[(0, 0, 9000), (1, 1, 9000)]);
        let last = |local: &[MemoryRange], remote: &[RemoteRange<'_>]| {
            let mut parts = split(OperationKind::Write, local, remote).expect("as many");
            let last = parts.pop().expect("there is one");
            assert_eq!((last.here, last.there), (Device::Host, Device::Host));
            (last.local[0], last.remote[0].offset, last.remote[0].bytes)
        };
        let end = MemoryRange { memory: memory(0), offset: 9000 - LAST_BYTES, bytes: LAST_BYTES };
        assert_eq!(last(&local, &remote), (end, 5 + 9000 - LAST_BYTES, LAST_BYTES));
        for (offset, bytes) in [(EXPORTED, 9000), (u64::MAX, 9000), (5, 8999)] {
            (remote[0].offset, remote[0].bytes) = (offset, bytes);
            assert_eq!(last(&local, &remote), (local[0], offset, bytes));
        }
        (remote[0].offset, remote[0].bytes) = (0, 9000);
        local[0].offset = u64::MAX - 1;
        assert_eq!(last(&local, &remote), (local[0], 0, 9000));
        let refused = split(OperationKind::Write, &local, &remote[..1]).expect_err("one is alone");
        assert!(matches!(refused, RemoteProblem::LengthsDiffer { index: 1, .. }));
    }

    proptest! {
        /// The parts have each byte of the list once, in their own order, and with the program's
        /// indices.
        #[test]
        fn the_parts_are_the_whole(
            list in proptest::collection::vec((0usize..3, 0usize..3, 0u64..10_000), 1..20),
        ) {
            let keys = keys();
            let (local, remote) = ranges(&keys, &list);
            let parts = split(OperationKind::Read, &local, &remote).expect("as many");
            let mut bytes_of = vec![Vec::new(); list.len()];
            for part in &parts {
                let both = part.local.iter().zip(&part.remote).zip(&part.indices);
                for ((own, theirs), index) in both {
                    prop_assert_eq!(device_here(own), part.here);
                    prop_assert_eq!(device_there(theirs), part.there);
                    prop_assert_eq!(own.offset + 5, theirs.offset);
                    prop_assert_eq!(own.bytes, theirs.bytes);
                    bytes_of[*index].push((own.offset, own.bytes));
                }
            }
            for (range, pieces) in local.iter().zip(bytes_of) {
                let mut next = range.offset;
                for (offset, bytes) in pieces {
                    prop_assert_eq!(offset, next);
                    next += bytes;
                }
                prop_assert_eq!(next, range.offset + range.bytes);
            }
            let full = parts.iter().filter(|part| part.has_bytes());
            let full: Vec<_> = full.map(|part| (part.here, part.there)).collect();
            let mut pairs = full.clone();
            pairs.sort_unstable();
            pairs.dedup();
            if pairs.len() > 1 {
                let last = parts.last().expect("some");
                prop_assert_eq!(last.local.len(), 1);
                prop_assert!((1..=LAST_BYTES).contains(&last.local[0].bytes));
            } else {
                prop_assert_eq!(full.len(), pairs.len(), "alone it is not cut");
            }
        }
    }
}
