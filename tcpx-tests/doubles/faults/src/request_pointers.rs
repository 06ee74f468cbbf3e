//! Pointers to requests, as callers see them. The original uses sixteen pointers of a comm again
//! and again, and takes a send request for a receive that is consumed; the plugin's own pointers do
//! not come back.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::ptr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use tcpx_sys::{ForkGuard, MAX_REQUESTS};

/// What the pointers to slots begin with: nothing that the plugin calls anything.
const MARK: usize = 0x3c << 56;
/// Bits of a pointer that say which slot it is, and that it begins there.
const RING_BITS: u32 = 16;
/// What lies between two slots of the original's ring.
const STRIDE: usize = 128;
/// Sends of a comm that are remembered: more than there can be at once.
const SENDS: usize = 4 * MAX_REQUESTS;

/// The sixteen slots of one comm: the plugin's requests in them.
#[derive(Debug, Default)]
struct Slots {
    requests: [usize; MAX_REQUESTS],
    posted: usize,
}

/// The requests of all comms.
#[derive(Debug, Default)]
struct RequestPointers {
    /// By what their pointers say. Those of closed comms stay, for who calls them still.
    slots: Vec<Slots>,
    /// By comm: its place among them.
    rings: HashMap<usize, usize>,
    /// By comm: the sends that it had last, in the plugin's words.
    sends: HashMap<usize, VecDeque<usize>>,
}

fn request_pointers() -> MutexGuard<'static, RequestPointers> {
    static NAMES: LazyLock<Mutex<RequestPointers>> = LazyLock::new(Mutex::default);
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The slot in which a comm's new request is, for the caller.
pub(crate) fn slot_of(comm: *mut c_void, request: *mut c_void) -> *mut c_void {
    let request_pointers = &mut *request_pointers();
    let ring = *request_pointers.rings.entry(comm.addr()).or_insert_with(|| {
        request_pointers.slots.push(Slots::default());
        request_pointers.slots.len() - 1
    });
    let slots = &mut request_pointers.slots[ring];
    let slot = slots.posted % MAX_REQUESTS;
    slots.requests[slot] = request.addr();
    slots.posted += 1;
    ptr::without_provenance_mut(MARK | (ring << RING_BITS) | (slot * STRIDE))
}

/// The plugin's request behind what a caller calls it.
pub(crate) fn request_of(named: *mut c_void) -> *mut c_void {
    let word = named.addr();
    if word & (0xff << 56) != MARK {
        return named;
    }
    // In a forked child the lock may be another thread's, and the plugin knows no request.
    let Ok(_guard) = ForkGuard::begin() else { return named };
    let within = word & ((1 << RING_BITS) - 1);
    let request_pointers = request_pointers();
    let slots = request_pointers.slots.get((word & !MARK) >> RING_BITS);
    let request = slots.filter(|_| within.is_multiple_of(STRIDE));
    let request = request.and_then(|slots| slots.requests.get(within / STRIDE));
    request.map_or(named, |&request| ptr::without_provenance_mut(request))
}

/// A comm has a new send.
pub(crate) fn sent(comm: *mut c_void, request: *mut c_void) {
    let mut request_pointers = request_pointers();
    let sends = request_pointers.sends.entry(comm.addr()).or_default();
    sends.push_back(request.addr());
    if sends.len() > SENDS {
        sends.pop_front();
    }
}

/// Whether this request of the plugin's is a send of a comm that is open.
pub(crate) fn is_send(request: *mut c_void) -> bool {
    request_pointers().sends.values().any(|sends| sends.contains(&request.addr()))
}

/// A comm was closed.
pub(crate) fn closed(comm: *mut c_void) {
    let mut request_pointers = request_pointers();
    request_pointers.rings.remove(&comm.addr());
    request_pointers.sends.remove(&comm.addr());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(address: usize) -> *mut c_void {
        ptr::without_provenance_mut(address)
    }

    #[test]
    fn sixteen_pointers_come_back_and_mean_the_newest() {
        let (one, other) = (word(0x1001), word(0x1002));
        let first = slot_of(one, word(7));
        let second = slot_of(one, word(8));
        assert_eq!(second.addr() - first.addr(), STRIDE);
        for k in 2..16 {
            slot_of(one, word(7 + k));
        }
        assert_eq!((slot_of(one, word(100)), request_of(first)), (first, word(100)));
        assert_eq!(request_of(second), word(8));
        assert_ne!(slot_of(other, word(9)), first);
        assert_eq!(request_of(first.wrapping_byte_add(1)), first.wrapping_byte_add(1));
        assert_eq!(request_of(word(8)), word(8), "the plugin's own");
        closed(one);
        assert_eq!(request_of(second), word(8), "which the plugin refuses");
        assert_ne!(slot_of(one, word(1)), first, "another comm's");
    }

    #[test]
    fn sends_are_known_until_their_comm_is_closed() {
        let comm = word(0x2001);
        sent(comm, word(0x77));
        assert!(is_send(word(0x77)) && !is_send(word(0x78)));
        closed(comm);
        assert!(!is_send(word(0x77)));
    }
}
