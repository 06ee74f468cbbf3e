//! Table of the plugin's handles, by comm and segment of memory. Pure.
//!
//! Also the segments of one range of registered memory that the plugin can take.

use foldhash::{HashMap, HashMapExt};
use slotmap::new_key_type;
use tcpx_protocol::types::{MAX_CHUNK_BYTES, MemoryType};

use crate::plugin::comm::MemoryHandle;
use crate::types::CommId;

/// Segment of a region.
pub(super) type Segment = (RegionKey, u64);

/// Handle, and its index in the list of its region.
#[derive(Clone, Copy, Debug)]
struct HandleEntry {
    handle: MemoryHandle,
    position: usize,
}

/// Holder of a handle for a region: a comm, for one of its segments.
#[derive(Clone, Copy, Debug)]
struct Holder {
    comm: CommId,
    segment: u64,
}

/// Handles of one comm.
#[derive(Debug, Default)]
struct CommHandles {
    /// Handle that was returned last: chunk after chunk lies in the same segment.
    last: Option<(Segment, MemoryHandle)>,
    handles: HashMap<Segment, HandleEntry>,
}

impl CommHandles {
    fn find(&mut self, segment: Segment) -> Option<MemoryHandle> {
        let HandleEntry { handle, .. } = *self.handles.get(&segment)?;
        self.last = Some((segment, handle));
        Some(handle)
    }

    fn remove(&mut self, segment: Segment) -> Option<HandleEntry> {
        self.last = self.last.filter(|(last, _)| *last != segment);
        let held = self.handles.remove(&segment);
        if self.handles.is_empty() {
            self.handles = HashMap::new();
        }
        held
    }
}

/// Handles that were given out and not taken back. The table takes memory for those alone. The
/// handles of a comm, and the holders of a region, are removed without a look at the other entries.
#[derive(Debug, Default)]
pub(super) struct HandleTable {
    /// Handles by comm. The numbers of comms are small.
    comms: Vec<CommHandles>,
    regions: HashMap<RegionKey, Vec<Holder>>,
    /// Number of entries that were visited in order to remove handles.
    #[cfg(test)]
    pub(super) visits: usize,
}

impl HandleTable {
    /// Returns the handle of a segment on a comm.
    #[inline]
    pub(super) fn get(
        &mut self,
        comm: CommId,
        region: RegionKey,
        segment: u64,
    ) -> Option<MemoryHandle> {
        let known = self.comms.get_mut(comm.0 as usize)?;
        match known.last {
            Some((last, handle)) if last == (region, segment) => Some(handle),
            _ => known.find((region, segment)),
        }
    }

    /// Adds a handle, which the segment did not have on this comm.
    pub(super) fn insert(
        &mut self,
        comm: CommId,
        region: RegionKey,
        segment: u64,
        handle: MemoryHandle,
    ) {
        let index = comm.0 as usize;
        if self.comms.len() <= index {
            self.comms.resize_with(index + 1, CommHandles::default);
        }
        let holders = self.regions.entry(region).or_default();
        let held = HandleEntry { handle, position: holders.len() };
        if self.comms[index].handles.insert((region, segment), held).is_none() {
            holders.push(Holder { comm, segment });
        }
    }

    /// Removes the handles of a region, and passes each to `taken`.
    pub(super) fn take_region(
        &mut self,
        region: RegionKey,
        mut taken: impl FnMut(CommId, MemoryHandle),
    ) {
        for Holder { comm, segment } in self.regions.remove(&region).unwrap_or_default() {
            self.count_visit();
            let Some(known) = self.comms.get_mut(comm.0 as usize) else { continue };
            if let Some(HandleEntry { handle, .. }) = known.remove((region, segment)) {
                taken(comm, handle);
            }
        }
    }

    /// Removes the handles of a comm, and returns them.
    pub(super) fn take_comm(&mut self, comm: CommId) -> Vec<MemoryHandle> {
        let index = comm.0 as usize;
        let Some(known) = self.comms.get(index) else { return Vec::new() };
        let segments: Vec<Segment> = known.handles.keys().copied().collect();
        let mut handles = Vec::with_capacity(segments.len());
        for segment in segments {
            self.count_visit();
            // One by one, because the places of the remaining holders may change.
            if let Some(HandleEntry { handle, position }) = self.comms[index].remove(segment) {
                self.forget_holder(segment.0, position);
                handles.push(handle);
            }
        }
        handles
    }

    /// Removes a holder from its region's list. Corrects the position of the holder that moves
    /// there.
    fn forget_holder(&mut self, region: RegionKey, position: usize) {
        let Some(holders) = self.regions.get_mut(&region) else { return };
        holders.swap_remove(position);
        match holders.get(position).copied() {
            Some(Holder { comm, segment }) => {
                let known = &mut self.comms[comm.0 as usize].handles;
                if let Some(moved) = known.get_mut(&(region, segment)) {
                    moved.position = position;
                }
            }
            None if holders.is_empty() => {
                self.regions.remove(&region);
            }
            None => {}
        }
    }

    fn count_visit(&mut self) {
        #[cfg(test)]
        {
            self.visits += 1;
        }
    }
}

new_key_type! {
    /// Key of memory that has at least one registration.
    pub(super) struct RegionKey;
}

/// Distance between the starts of two segments.
const SEGMENT_BYTES: u64 = 1 << 30;
/// Page size. The plugin wants device memory on page boundaries, and CUDA wants whole pages.
const PAGE_BYTES: u64 = 4096;

/// Returns the segment of a range from `start` on that contains the whole chunk at `address`. Each
/// segment takes one registration of the plugin on each comm.
#[inline]
pub(super) fn segment_at(start: u64, address: u64) -> u64 {
    (address - start) / SEGMENT_BYTES
}

/// Returns the pages of a range of device memory that the plugin must register: start and size of
/// each segment.
pub(crate) fn device_segments(address: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let region = Region { address, bytes, memory: MemoryType::Device, registrations: 0 };
    (0..bytes.div_ceil(SEGMENT_BYTES)).map(move |segment| {
        let (start, bytes) = region.segment_range(segment);
        (start, u64::from(bytes))
    })
}

/// One range of memory. Registrations of the same range share it and the plugin's handles.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) memory: MemoryType,
    /// Number of registrations of this range.
    pub(super) registrations: usize,
}

impl Region {
    /// Returns start and size of a segment, rounded out to pages for device memory.
    pub(super) fn segment_range(&self, segment: u64) -> (u64, u32) {
        let offset = segment * SEGMENT_BYTES;
        let start = self.address + offset;
        let end = start + (self.bytes - offset).min(SEGMENT_BYTES + u64::from(MAX_CHUNK_BYTES));
        let (start, end) = match self.memory {
            MemoryType::Host => (start, end),
            // Memory of a device.
            _ => (start / PAGE_BYTES * PAGE_BYTES, end.next_multiple_of(PAGE_BYTES)),
        };
        // At most 1 GiB, a chunk and two pages.
        (start, (end - start) as u32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use slotmap::SlotMap;

    use super::*;

    impl HandleTable {
        /// Returns the number of entries, and the number that there is room for.
        fn entries_and_room(&self) -> (usize, usize) {
            let comms = self.comms.iter().map(|known| &known.handles);
            let entries = comms.clone().map(HashMap::len).sum();
            let holders = self.regions.values().map(Vec::len).sum::<usize>();
            assert_eq!(entries, holders, "both maps have the same entries");
            let lists = self.regions.values().map(Vec::capacity).sum::<usize>();
            (entries, comms.map(HashMap::capacity).sum::<usize>().max(lists))
        }
    }

    fn regions(count: usize) -> Vec<RegionKey> {
        let mut map = SlotMap::<RegionKey, ()>::with_key();
        (0..count).map(|_| map.insert(())).collect()
    }

    #[derive(Clone, Copy, Debug)]
    enum TableOp {
        Insert { comm: u32, region: usize, segment: u64 },
        TakeComm(u32),
        TakeRegion(usize),
    }

    fn actions() -> impl Strategy<Value = Vec<TableOp>> {
        let action = prop_oneof![
            8 => (0u32..5, 0usize..5, 0u64..3).prop_map(|(comm, region, segment)| TableOp::Insert {
                comm,
                region,
                segment
            }),
            1 => (0u32..5).prop_map(TableOp::TakeComm),
            1 => (0usize..5).prop_map(TableOp::TakeRegion),
        ];
        proptest::collection::vec(action, 0..120)
    }

    proptest! {
        /// Compares the table with the simplest model: one list.
        #[test]
        fn agrees_with_one_list(actions in actions()) {
            let regions = regions(5);
            let mut table = HandleTable::default();
            let mut model = BTreeMap::<(u32, usize, u64), u64>::new();
            for (name, action) in (1..).zip(actions) {
                match action {
                    TableOp::Insert { comm, region, segment } => {
                        let key = (comm, region, segment);
                        let found = table.get(CommId(comm), regions[region], segment);
                        let known = model.get(&key).copied().map(MemoryHandle::for_tests);
                        prop_assert_eq!(found, known);
                        if found.is_none() {
                            let handle = MemoryHandle::for_tests(name);
                            table.insert(CommId(comm), regions[region], segment, handle);
                            model.insert(key, name);
                        }
                    }
                    TableOp::TakeComm(comm) => {
                        let mut taken = table.take_comm(CommId(comm));
                        taken.sort_unstable();
                        let goes = |key: &(u32, usize, u64)| key.0 == comm;
                        let gone = model.iter().filter(|(key, _)| goes(key));
                        let mut gone: Vec<_> =
                            gone.map(|(_, name)| MemoryHandle::for_tests(*name)).collect();
                        model.retain(|key, _| !goes(key));
                        gone.sort_unstable();
                        prop_assert_eq!(taken, gone);
                    }
                    TableOp::TakeRegion(region) => {
                        let mut taken = Vec::new();
                        table.take_region(regions[region], |comm, handle| taken.push((comm.0, handle)));
                        taken.sort_unstable();
                        let goes = |key: &(u32, usize, u64)| key.1 == region;
                        let gone = model.iter().filter(|(key, _)| goes(key));
                        let mut gone: Vec<_> = gone
                            .map(|(key, name)| (key.0, MemoryHandle::for_tests(*name)))
                            .collect();
                        model.retain(|key, _| !goes(key));
                        gone.sort_unstable();
                        prop_assert_eq!(taken, gone);
                    }
                }
                prop_assert_eq!(table.entries_and_room().0, model.len());
            }
        }
    }

    /// The table has as many comms and registrations as a large session, each registration on one
    /// comm.
    #[test]
    fn many_comms_and_regions_take_memory_for_what_is_registered() {
        const COMMS: u32 = 16_000;
        const REGIONS: usize = 2_000;
        let regions = regions(REGIONS);
        let mut table = HandleTable::default();
        for (number, region) in regions.iter().enumerate() {
            let comm = CommId(COMMS - 1 - number as u32);
            table.insert(comm, *region, 0, MemoryHandle::for_tests(number as u64));
        }
        let (entries, room) = table.entries_and_room();
        assert_eq!(entries, REGIONS);
        assert!(room <= 8 * REGIONS, "room for {room}");
        table.visits = 0;
        assert_eq!(table.take_comm(CommId(COMMS - 1)).len(), 1);
        assert_eq!(table.visits, 1, "only entries of the comm");
        assert_eq!(table.take_comm(CommId(0)), []);
        assert_eq!(table.visits, 1);
        table.take_region(regions[1], |comm, _| assert_eq!(comm, CommId(COMMS - 2)));
        assert_eq!(table.visits, 2, "only holders of the region");
    }

    #[test]
    fn nothing_stays_of_what_was_taken_out() {
        let regions = regions(100);
        let mut table = HandleTable::default();
        for round in 0..1_000 {
            let comm = CommId(round % 3);
            for region in &regions {
                table.insert(comm, *region, 0, MemoryHandle::for_tests(7));
            }
            match round % 2 {
                0 => assert_eq!(table.take_comm(comm).len(), regions.len()),
                _ => regions.iter().for_each(|region| table.take_region(*region, |_, _| {})),
            }
            assert_eq!(table.entries_and_room(), (0, 0));
        }
        assert_eq!((table.comms.len(), table.regions.len()), (3, 0));
    }

    proptest! {
        #[test]
        fn every_chunk_lies_in_its_segment(
            address in 1u64..1 << 40,
            bytes in 1u64..5 << 30,
            offset in any::<u64>(),
            chunk in 1u64..=u64::from(MAX_CHUNK_BYTES),
            device in any::<bool>(),
        ) {
            let memory = if device { MemoryType::Device } else { MemoryType::Host };
            let region = Region { address, bytes, memory, registrations: 1 };
            let offset = offset % bytes;
            let chunk = chunk.min(bytes - offset);
            let (start, length) = region.segment_range(segment_at(address, address + offset));
            prop_assert!(start <= address + offset);
            prop_assert!(start + u64::from(length) >= address + offset + chunk);
            prop_assert!(length <= i32::MAX as u32);
            if device {
                let segments: Vec<_> = device_segments(address, bytes).collect();
                prop_assert!(segments.contains(&(start, u64::from(length))));
                prop_assert_eq!((start % PAGE_BYTES, u64::from(length) % PAGE_BYTES), (0, 0));
            } else {
                prop_assert!(start >= address && start + u64::from(length) <= address + bytes);
            }
        }
    }
}
