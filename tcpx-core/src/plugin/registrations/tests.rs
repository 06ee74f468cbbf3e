#![allow(unsafe_code)]
//! Tests of registrations by id, range and comm.

use std::cell::Cell;

use tcpx_testkit::eventually;

use super::*;

fn add(registrations: &mut Registrations, bytes: u64, memory: MemoryType) -> MemoryId {
    registrations.add(0x7000_0000_1234, bytes, memory, Access::ReadWrite, None).unwrap()
}

#[test]
fn ids_start_at_one_and_are_never_used_twice() {
    let mut registrations = Registrations::default();
    let ids = [(); 2].map(|()| add(&mut registrations, 10, MemoryType::Host));
    assert_eq!(ids.map(MemoryId::get), [1, 2]);
    registrations.remove(ids[1]).unwrap();
    assert_eq!(add(&mut registrations, 10, MemoryType::Host).get(), 3);
}

#[test]
fn posts_are_checked_against_bounds_and_direction() {
    let mut registrations = Registrations::default();
    let id = add(&mut registrations, 100, MemoryType::Device);
    assert!(registrations.span(id, 0, 100, Access::ReadWrite).is_ok());
    assert!(registrations.span(id, 100, 0, Access::ReadWrite).is_ok());
    for (offset, bytes) in [(0, 101), (100, 1), (u64::MAX, 2), (1, u64::MAX)] {
        assert!(matches!(
            registrations.span(id, offset, bytes, Access::ReadWrite),
            Err(Error::Registration { .. })
        ));
    }
    let unknown = registrations.span(MemoryId::after(8), 0, 1, Access::ReadWrite);
    assert!(matches!(unknown, Err(Error::UnknownRegistration { id }) if id.get() == 9));
    let send_only = registrations.add(4096, 10, MemoryType::Host, Access::ReadOnly, None).unwrap();
    assert!(registrations.span(send_only, 0, 1, Access::ReadOnly).is_ok());
    assert!(registrations.span(send_only, 0, 1, Access::ReadWrite).is_err());
}

/// The error must not advise "register it for receiving", because that is refused as well.
#[test]
fn the_error_of_a_receive_into_host_memory_says_whether_the_plugin_has_any() {
    let mut registrations = Registrations::new(Workers::default(), false, 0);
    for (memory, expected) in [
        (MemoryType::Host, RegistrationProblem::ReceiveIntoHostMemory),
        (MemoryType::Device, RegistrationProblem::ReadOnly),
    ] {
        let id = registrations.add(0x7000_0000, 100, memory, Access::ReadOnly, None).unwrap();
        let usable = registrations.usable(id).unwrap();
        for refused in [
            registrations.span(id, 0, 1, Access::ReadWrite).map(drop),
            usable.span(0, 1, Access::ReadWrite).map(drop),
        ] {
            let Err(Error::Registration { problem, .. }) = &refused else { panic!("{refused:?}") };
            assert_eq!(*problem, expected);
        }
    }
}

#[test]
fn memory_that_cannot_be_is_refused() {
    let mut registrations = Registrations::default();
    for (address, bytes) in [(0, 10), (4096, 0), (u64::MAX, 10), (10, u64::MAX)] {
        assert!(
            registrations.add(address, bytes, MemoryType::Host, Access::ReadWrite, None).is_err()
        );
    }
}

#[test]
fn a_draining_registration_keeps_its_users_and_gets_no_others() {
    let mut registrations = Registrations::default();
    let id = add(&mut registrations, 100, MemoryType::Device);
    let key = registrations.span(id, 0, 1, Access::ReadWrite).unwrap().registration;
    registrations.begin(key);
    registrations.begin_copy(key);
    assert_eq!(registrations.begin_draining(id).unwrap(), key);
    for refused in [
        registrations.span(id, 0, 1, Access::ReadOnly).map(drop),
        registrations.usable(id).map(drop),
    ] {
        let problem = RegistrationProblem::Deregistered;
        assert!(
            matches!(&refused, Err(Error::Registration { problem: it, .. }) if *it == problem),
            "{refused:?}"
        );
    }
    registrations.end(key);
    assert!(registrations.is_used(key) && !registrations.take_has_drained());
    registrations.end_copy(key);
    assert!(!registrations.is_used(key) && registrations.take_has_drained());
    assert!(!registrations.take_has_drained(), "once");
    assert_eq!(registrations.info(id).unwrap().bytes, 100, "it is known until it is removed");
    registrations.remove(id).unwrap();
    assert!(matches!(registrations.begin_draining(id), Err(Error::UnknownRegistration { .. })));
    assert!(matches!(registrations.remove(id), Err(Error::UnknownRegistration { .. })));
}

/// Double of a comm that counts the plugin's calls.
#[derive(Default)]
struct CountingComm {
    registered: Cell<usize>,
}

impl Registrar for CountingComm {
    unsafe fn register(&self, range: RegisteredRange, workers: &Workers) -> PendingRegistration {
        self.registered.set(self.registered.get() + 1);
        workers.call(move || Ok(MemoryHandle::for_tests(range.address)))
    }
}

/// Registers a segment with a comm, if it is not registered, and waits for the handle.
fn handle(
    registrations: &mut Registrations,
    span: Span,
    comm_id: CommId,
    comm: &CountingComm,
) -> MemoryHandle {
    eventually(|| {
        // SAFETY: the double touches no memory.
        let known = unsafe { registrations.handle(span.registration, span.address, comm_id, comm) };
        known.unwrap()
    })
}

#[test]
fn the_same_range_is_registered_once_on_each_comm() {
    let mut registrations = Registrations::default();
    let comm = CountingComm::default();
    let comms =
        [registrations.new_comm(PeerKey::default()), registrations.new_comm(PeerKey::default())];
    let ids = [(); 3].map(|()| add(&mut registrations, 3 << 30, MemoryType::Device));
    for id in ids {
        for offset in [0, 1 << 30, 2 << 30, (2 << 30) + 5] {
            let span = registrations.span(id, offset, 10, Access::ReadWrite).unwrap();
            for comm_id in comms {
                handle(&mut registrations, span, comm_id, &comm);
            }
        }
    }
    assert_eq!(comm.registered.get(), 2 * 3, "two comms, three segments");
    assert_eq!(registrations.forget_comm(comms[1]).handles.len(), 3);
    let [first, second, third] = ids.map(|id| registrations.begin_draining(id).unwrap());
    for (key, id) in [(first, ids[0]), (second, ids[1])] {
        assert!(registrations.take_handles(key).is_empty(), "the third still needs them");
        registrations.remove(id).unwrap();
    }
    let returned = registrations.take_handles(third);
    assert_eq!(returned.counts(), [(comms[0], 3)]);
    assert!(registrations.take_handles(third).is_empty(), "once");
    registrations.remove(ids[2]).unwrap();
    assert_eq!(registrations.new_comm(PeerKey::default()), comms[1], "places are used again");
}

#[test]
fn a_closing_comm_takes_its_pending_registrations_along() {
    let mut registrations = Registrations::default();
    let comm = CountingComm::default();
    let comms =
        [registrations.new_comm(PeerKey::default()), registrations.new_comm(PeerKey::default())];
    let id = add(&mut registrations, 100, MemoryType::Device);
    let span = registrations.span(id, 0, 10, Access::ReadWrite).unwrap();
    for comm_id in comms {
        // SAFETY: the double touches no memory.
        let known =
            unsafe { registrations.handle(span.registration, span.address, comm_id, &comm) };
        assert_eq!(known.unwrap(), None, "the worker has not finished");
    }
    let left = registrations.forget_comm(comms[0]);
    assert_eq!((left.handles.len(), left.pending.len()), (0, 1));
    handle(&mut registrations, span, comms[1], &comm);
    assert_eq!(comm.registered.get(), 2, "the other comm's registration goes on");
}

/// Each peer's buffer is known to its own comms, so no other peer is concerned when the buffer
/// goes.
#[test]
fn removing_memory_concerns_only_peers_whose_comms_know_it() {
    const PEERS: usize = 1_000;
    let mut registrations = Registrations::default();
    let (comm, mut peers) = (CountingComm::default(), SlotMap::<PeerKey, ()>::with_key());
    let mut of_peers = Vec::new();
    for number in 0..PEERS as u64 {
        let address = 0x7000_0000_0000 + (number << 20);
        let access = Access::ReadWrite;
        let id = registrations.add(address, 100, MemoryType::Device, access, None).unwrap();
        let span = registrations.span(id, 0, 10, access).unwrap();
        let peer = peers.insert(());
        let comms = [(); 2].map(|()| registrations.new_comm(peer));
        for comm_id in comms {
            handle(&mut registrations, span, comm_id, &comm);
        }
        of_peers.push((peer, comms, span.registration));
    }
    for (peer, comms, key) in &of_peers[..PEERS / 2] {
        let returned = registrations.take_handles(*key);
        assert_eq!(returned.owners(), [*peer]);
        assert_eq!(returned.counts().len(), comms.len());
    }
    // A comm's number passes on to the next peer.
    let (_, [first, _], _) = of_peers[PEERS - 1];
    assert_eq!(registrations.forget_comm(first).handles.len(), 1);
    let newcomer = peers.insert(());
    assert_eq!(registrations.new_comm(newcomer), first);
    let id = add(&mut registrations, 10, MemoryType::Host);
    let span = registrations.span(id, 0, 10, Access::ReadWrite).unwrap();
    handle(&mut registrations, span, first, &comm);
    assert_eq!(registrations.take_handles(span.registration).owners(), [newcomer]);
}

fn register_and_remove(times: u64) {
    let mut registrations = Registrations::default();
    for round in 0..times {
        let id = registrations
            .add(4096 * (1 + round % 1000), 4096, MemoryType::Device, Access::ReadWrite, None)
            .unwrap();
        let key = registrations.begin_draining(id).unwrap();
        registrations.take_handles(key);
        registrations.remove(id).unwrap();
    }
    assert!(registrations.ids.is_empty() && registrations.ranges.is_empty());
    assert!(registrations.registrations.capacity() <= 4 && registrations.regions.capacity() <= 4);
}

#[test]
fn many_pairs_leave_nothing_behind() {
    register_and_remove(50_000);
}

#[test]
#[ignore = "deep: a million pairs"]
fn a_million_pairs_leave_nothing_behind() {
    register_and_remove(1_000_000);
}

/// There is one page, however often it is asked for, and no program knows of it.
#[test]
fn there_is_one_placeholder_page() {
    let mut registrations = Registrations::default();
    let placeholder = registrations.placeholder(&DeviceMemory::Emulated).unwrap().expect("a page");
    assert_eq!((placeholder.memory, placeholder.address % 4096), (MemoryType::Device, 0));
    assert_eq!(registrations.placeholder(&DeviceMemory::Emulated).unwrap(), Some(placeholder));
    assert_eq!(registrations.id_of(placeholder.registration), None);
    let comm = CountingComm::default();
    let id = registrations.new_comm(PeerKey::default());
    let first = handle(&mut registrations, placeholder, id, &comm);
    assert_eq!(handle(&mut registrations, placeholder, id, &comm), first);
    assert_eq!(comm.registered.get(), 1);
}
