#![allow(unsafe_code)]
//! Lists of memory that are registered as one.

use super::{connected, open, patient, soft};
use crate::error::RegistrationProblem;
use crate::{Access, Error, MemoryAddress, MemoryType, NewRegistration, Post, Session};

const RANGES: usize = 5;
const RANGE_BYTES: usize = 100;

/// The ranges of a buffer, one behind the other, and of each kind in turn.
fn ranges(buffer: *mut u8) -> [NewRegistration; RANGES] {
    std::array::from_fn(|index| NewRegistration {
        address: MemoryAddress::from_ptr(buffer.wrapping_add(index * RANGE_BYTES)),
        bytes: RANGE_BYTES as u64,
        memory: if index % 2 == 0 { MemoryType::Host } else { MemoryType::Device },
        access: Access::ReadWrite,
    })
}

#[test]
fn all_ranges_of_a_list_are_registered_and_serve() {
    let [left, right] = connected(patient().progress_thread(true));
    let mut from = [0; RANGES * RANGE_BYTES];
    from.iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8);
    let mut to = [0; RANGES * RANGE_BYTES];
    let (source, target) = (from.as_mut_ptr(), to.as_mut_ptr());
    let register = |session: &Session, buffer| {
        // SAFETY: the buffers live longer than the sessions are used, and nobody touches them while
        // operations are posted.
        unsafe { session.register_memory_list(&ranges(buffer)) }.expect("all are right")
    };
    let (sources, targets) = (register(&left, source), register(&right, target));
    assert_eq!(sources.iter().map(|id| id.get()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    for (index, (id, range)) in targets.iter().zip(ranges(target)).enumerate() {
        let info = right.memory_info(*id).expect("it is registered");
        assert_eq!((info.address, info.bytes), (range.address.get(), range.bytes), "{index}");
        assert_eq!((info.memory, info.access), (range.memory, range.access), "{index}");
    }
    let (send, receive) = (left.create_transfer("right"), right.create_transfer("left"));
    let (send, receive) = (send.expect("it is up"), receive.expect("it is up"));
    for (tag, (source, target)) in (0..).zip(sources.iter().zip(&targets)) {
        let post = |memory| Post { memory, offset: 0, bytes: RANGE_BYTES as u64, tag };
        receive.post_recv(post(*target)).expect("it fits");
        send.post_send(post(*source)).expect("it fits");
    }
    send.wait(None).expect("they leave");
    receive.wait(None).expect("they arrive");
    for id in targets {
        right.deregister_memory(id).expect("nothing uses it");
    }
    left.close().expect("nothing is posted");
    assert_eq!(to, from);
}

#[test]
fn one_wrong_range_leaves_none_of_a_list() {
    let session = open(soft());
    let mut buffer = [0; RANGES * RANGE_BYTES];
    let mut list = ranges(buffer.as_mut_ptr());
    let max = MemoryAddress::from_device(u64::MAX);
    let null = MemoryAddress::from_device(0);
    for (wrong, problem) in [
        (NewRegistration { bytes: 0, ..list[2] }, RegistrationProblem::Empty),
        (NewRegistration { address: null, ..list[2] }, RegistrationProblem::NullAddress),
        (NewRegistration { address: max, ..list[2] }, RegistrationProblem::PastEndOfMemory),
    ] {
        list[2] = wrong;
        // SAFETY: nothing is posted.
        let refused = unsafe { session.register_memory_list(&list) };
        assert!(
            matches!(refused, Err(Error::ListedRegistration { index: 2, problem: found })
                if found == problem),
            "{refused:?}"
        );
    }
    // SAFETY: nothing is posted.
    let none = unsafe { session.register_memory_list(&[]) }.expect("nothing is wrong");
    assert!(none.is_empty());
    // SAFETY: nothing is posted.
    let last = unsafe { session.register_memory_list(&list[..1]) };
    let last = last.expect("it is right")[0];
    let is_gone = |id| {
        let id = crate::MemoryId::new(id).expect("it is above 0");
        matches!(session.memory_info(id), Err(Error::UnknownRegistration { .. }))
    };
    assert!(last.get() > 1, "what was taken back had an id");
    assert!((1..last.get()).all(is_gone), "and has no registration");
}
