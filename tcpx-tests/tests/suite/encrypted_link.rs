#![allow(unsafe_code)]
//! Control links that their ends encrypt. All that travels on such a link arrives, and a listener
//! on the way sees none of it.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tcpx_core::Encryption::{Off, Require};
use tcpx_core::{
    Access, Device, ExportOptions, LinkBytes, MemoryAddress, MemoryRange, MemoryType,
    OperationKind, Post, RemoteAccess, RemoteRange, Session,
};
use tcpx_testkit::PATIENCE;
use tcpx_tests::proxy::LinkProxy;
use tcpx_tests::sessions::{self, export, join_by, open};

use crate::encrypted_ends::{
    LONG, SHORT, is_encrypted, is_full_of, memory, message, options, pair, write_and_read,
};

/// A program may write what it has exported at any time, also while it is sent: what is sent is
/// encrypted, and not what was there before.
#[test]
fn memory_written_during_a_send_is_no_tampering() {
    let exported: Vec<AtomicU64> = (0..LONG / 8).map(|_| AtomicU64::new(0)).collect();
    let [left, right] = pair(Require, Require);
    let address = MemoryAddress::from_ptr(exported.as_ptr().cast_mut());
    let bytes = (exported.len() * 8) as u64;
    // SAFETY: the sessions end before the memory does. Its bytes may have any value at any time.
    let lent =
        unsafe { right.register_memory(address, bytes, MemoryType::Host, Access::ReadWrite) };
    let key = export(&right, lent.expect("it is memory"));
    let range = MemoryRange { memory: memory(&left, 0, LONG), offset: 0, bytes };
    let remote = RemoteRange { key: &key, offset: 0, bytes };
    let read = left.prepare("right", OperationKind::Read, &[range], &[remote]).expect("it fits");
    let is_over = AtomicBool::new(false);
    let reads = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                exported.iter().for_each(|word| {
                    word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed)
                });
            }
        });
        let reads = (0..100).try_for_each(|_| {
            read.post(None)?;
            read.wait(Some(PATIENCE))
        });
        is_over.store(true, Ordering::Relaxed);
        reads
    });
    reads.expect("they are served");
}

/// Names, tags, payload, notes and keys cross in clear without encryption, and not with it.
#[test]
fn a_listener_on_the_way_sees_nothing_of_what_is_said() {
    for encryption in [Off, Require] {
        let everything_on_link = |name| {
            let options = options(encryption).link_bytes(LinkBytes::Most(u64::MAX));
            open(options.name(name).eager_bytes(65_536))
        };
        let [left, right] = ["left-says-this-name", "right-says-this-name"].map(everything_on_link);
        let info = right.listen().expect("listen");
        let proxy = LinkProxy::of_records(tcpx_tests::control_addresses(&info)[0]);
        let info = tcpx_tests::with_address(&info, Ipv4Addr::LOCALHOST, proxy.address().port());
        join_by((&left, "left-says-this-name"), (&right, "right-says-this-name"), &info);
        message((&left, "left-says-this-name"), (&right, "right-says-this-name"), SHORT, 0x5a);
        write_and_read((&left, ""), (&right, "right-says-this-name"), LONG);
        let passed = proxy.passed_bytes();
        let finds = |part: &[u8]| passed.windows(part.len()).any(|bytes| bytes == part);
        for part in
            [&b"says-this-name"[..], &[0x5a; 16][..], &[3; 16][..], b"note", &[7, 0, 0, 0, 0, 0, 0]]
        {
            assert_eq!(finds(part), encryption == Off, "{encryption}: {part:?}");
        }
    }
}

#[test]
fn reads_and_writes_travel_on_the_link_and_on_channels() {
    for way in [LinkBytes::Most(0), LinkBytes::Most(u64::MAX)] {
        let [left, right] = sessions::pair(options(Require).link_bytes(way));
        write_and_read((&left, "left"), (&right, "right"), 3_000_000);
        let on_link = right.stats().total.one_sided.link_bytes_received;
        assert_eq!(on_link > 0, way == LinkBytes::Most(u64::MAX));
    }
}

#[test]
fn many_messages_of_both_ends_pass_each_other() {
    const COUNT: usize = 3000;
    let [left, right] = pair(Require, Require);
    let ends = [(&left, "right"), (&right, "left")];
    let memories = ends.map(|(end, _)| [memory(end, 1, COUNT), memory(end, 2, COUNT)]);
    let transfers = ends.map(|(end, peer)| end.create_transfer(peer).expect("it is up"));
    for (transfer, [sent, received]) in transfers.iter().zip(memories) {
        for offset in 0..COUNT as u64 {
            let post = |memory| Post { memory, offset, bytes: 1, tag: offset as i64 };
            transfer.post_send(post(sent)).expect("it is up");
            transfer.post_recv(post(received)).expect("it is up");
        }
    }
    for transfer in &transfers {
        transfer.wait(Some(PATIENCE)).expect("all arrive");
    }
    for ((end, _), [_, received]) in ends.into_iter().zip(memories) {
        assert!(is_full_of(end, received, 1, COUNT));
    }
}

#[test]
fn a_session_reaches_itself() {
    let itself = open(options(Require).accept_all(true).name("itself"));
    let info = itself.listen().expect("listen");
    itself.load_remote_conn_info("mirror", &info).expect("own bytes load");
    itself.connect("mirror").expect("it accepts every peer");
    assert!(is_encrypted(&itself));
    write_and_read((&itself, "itself"), (&itself, "mirror"), LONG);
}

#[test]
fn groups_move_bytes_between_their_devices() {
    let group = |name| {
        Session::new(options(Require).emulated_gpus(2).name(name).all_devices(true))
            .expect("ordinary memory")
    };
    let (left, right) = (group("left"), group("right"));
    left.load_remote_conn_info("right", &right.listen().expect("listen")).expect("own bytes load");
    for (here, there) in [(Device::Host, Device::Host), (Device::Gpu(0), Device::Gpu(1))] {
        let memory = |group: &Session, device, byte| {
            let memory = group.allocate(LONG as u64, device).expect("memory");
            group.write_memory(memory, 0, &vec![byte; LONG]).expect("nothing uses it");
            memory
        };
        let [own, exported] = [memory(&left, here, 5), memory(&right, there, 6)];
        let key =
            right.export(exported, ExportOptions::new(RemoteAccess::ReadWrite)).expect("ours");
        let local = [MemoryRange { memory: own, offset: 0, bytes: LONG as u64 }];
        let remote = [RemoteRange { key: &key, offset: 0, bytes: LONG as u64 }];
        let write = left.prepare("right", OperationKind::Write, &local, &remote).expect("it fits");
        write.post(None).expect("it is not under way");
        write.wait(Some(PATIENCE)).expect("it is served");
        let mut contents = vec![0; LONG];
        right.read_memory(exported, 0, &mut contents).expect("nothing uses it");
        assert!(contents == vec![5; LONG], "{here:?} to {there:?}");
    }
}
