//! Two groups, memory of all their devices, and operations between them.

use tcpx_core::{
    Device, Error, ExportOptions, MemoryId, MemoryRange, Operation, OperationKind, RemoteAccess,
    RemoteKey, RemoteRange, Session, SessionOptions,
};
use tcpx_tests::sessions::{self, soft, take};

pub(crate) const DEVICES: [Device; 3] = [Device::Host, Device::Gpu(0), Device::Gpu(1)];
/// Memory of each device.
pub(crate) const BYTES: u64 = 1 << 20;

pub(crate) fn options() -> SessionOptions {
    soft().emulated_gpus(2)
}

pub(crate) fn group(name: &str) -> Session {
    Session::new(options().name(name).all_devices(true))
        .expect("the software plugin is always there")
}

/// Memory of each device of a group, and keys to it.
pub(crate) struct Memories {
    pub(crate) ids: [MemoryId; 3],
    pub(crate) keys: [RemoteKey; 3],
}

impl Memories {
    pub(crate) fn new(group: &Session) -> Self {
        let ids = DEVICES.map(|device| group.allocate(BYTES, device).expect("memory"));
        let access = RemoteAccess::ReadWrite;
        let keys = ids.map(|id| group.export(id, ExportOptions::new(access)).expect("it is there"));
        Self { ids, keys }
    }

    pub(crate) fn fill(&self, group: &Session, device: usize, contents: &[u8]) {
        group.write_memory(self.ids[device], 0, contents).expect("nothing uses it");
    }

    pub(crate) fn fill_all(&self, group: &Session, byte: u8) {
        (0..3).for_each(|device| self.fill(group, device, &vec![byte; BYTES as usize]));
    }

    /// What is there. It is refused while a peer still uses the memory.
    pub(crate) fn contents(&self, group: &Session, device: usize) -> Vec<u8> {
        let mut contents = vec![0; BYTES as usize];
        group.read_memory(self.ids[device], 0, &mut contents).expect("nothing uses it");
        contents
    }
}

/// Returns two groups and their memory. The first has the connection info of the second.
pub(crate) fn pair() -> ([Session; 2], [Memories; 2]) {
    let (left, right) = (group("left"), group("right"));
    left.load_remote_conn_info("right", &right.listen().expect("listen")).expect("own bytes load");
    let memories = [Memories::new(&left), Memories::new(&right)];
    ([left, right], memories)
}

/// As many bytes as a device has, of this pattern.
pub(crate) fn some_bytes(seed: u64) -> Vec<u8> {
    sessions::some_bytes(seed, BYTES as usize)
}

/// A range here and one at the peer, of the same length: device, and offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) here: (usize, u64),
    pub(crate) there: (usize, u64),
    pub(crate) bytes: u64,
}

pub(crate) fn prepare(
    group: &Session,
    peer: &str,
    kind: OperationKind,
    (ids, keys): (&[MemoryId; 3], &[RemoteKey; 3]),
    ranges: &[Range],
) -> Result<Operation, Error> {
    let local =
        |it: &Range| MemoryRange { memory: ids[it.here.0], offset: it.here.1, bytes: it.bytes };
    let remote =
        |it: &Range| RemoteRange { key: &keys[it.there.0], offset: it.there.1, bytes: it.bytes };
    let local: Vec<_> = ranges.iter().map(local).collect();
    let remote: Vec<_> = ranges.iter().map(remote).collect();
    group.prepare(peer, kind, &local, &remote)
}

/// All of the memory of each device here, to the next device there.
pub(crate) fn crosswise() -> [Range; 3] {
    [0, 1, 2].map(|device| Range { here: (device, 0), there: ((device + 1) % 3, 0), bytes: BYTES })
}

pub(crate) fn notes(group: &Session, count: usize) -> Vec<Vec<u8>> {
    let taken = take(count, |taken, room| group.poll_notifications(taken, room));
    taken.into_iter().map(|note| note.bytes).collect()
}
