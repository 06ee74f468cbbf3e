#![allow(unsafe_code)]
//! Faults that a script has for one comm, as the plugin asks for them.

use std::fmt;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use tcpx_softnet::hooks::{ArrivalHooks, CommHooks, MAX_SOCKETS, Pages, Placement, Side};
use tcpx_sys::{MAX_REQUESTS, MAX_UNPACK_ENTRIES};

use crate::arrival::{ArrivalPages, ArrivalPlaces};
use crate::comm_faults::CommFaults;
use crate::log;
use crate::lost_pages::LostPages;
use crate::pace::Pace;
use crate::packet_cutter::PacketCutter;
use crate::process_end::failstop;
use crate::quirk::Quirk;
use crate::quirks::Quirks;
use crate::script::FaultScript;
use crate::shaper::Shaper;

/// What arrives for another GPU instead of the bytes that were sent.
const GARBAGE: u8 = 0x5a;

/// Which slots had a receive without bytes last. The original looks at what is left of it.
#[derive(Clone, Copy, Debug, Default)]
struct EmptySlots(u16);

impl EmptySlots {
    const fn bit(number: u64) -> u16 {
        1 << (number % MAX_REQUESTS as u64)
    }

    fn note(&mut self, number: u64, is_empty: bool) {
        let bit = Self::bit(number);
        self.0 = if is_empty { self.0 | bit } else { self.0 & !bit };
    }

    fn was(self, number: u64) -> bool {
        self.0 & Self::bit(number) != 0
    }
}

/// What a script does to one comm.
#[derive(Debug)]
pub(crate) struct FaultyComm {
    original: Quirks,
    faults: CommFaults,
    pace: Pace,
    shaper: Shaper,
    lost: LostPages,
    were_empty: EmptySlots,
    /// Where the bytes of each data socket go, one page at a time.
    places: Vec<Arc<Mutex<ArrivalPlaces>>>,
    /// The first request that never gets on the sockets: a thread of the original has ended over
    /// it.
    stuck_at: Option<u64>,
    has_told_of_control: bool,
    is_misled: bool,
}

impl FaultyComm {
    /// For comm number `number`.
    pub(crate) fn new(script: &FaultScript, number: u64, side: Side) -> Self {
        let is_placed = side == Side::Recv && script.has(Quirk::Piecemeal);
        let place = |_| {
            let cutter = PacketCutter::new(script.packet_bytes, script.has(Quirk::Offsets));
            Arc::new(Mutex::new(ArrivalPlaces::new(cutter)))
        };
        Self {
            original: script.original,
            faults: CommFaults::new(script, side),
            pace: Pace::new(script),
            shaper: Shaper::new(script, number),
            lost: LostPages::new(script),
            were_empty: EmptySlots::default(),
            places: (0..MAX_SOCKETS).filter(|_| is_placed).map(place).collect(),
            stuck_at: None,
            has_told_of_control: false,
            is_misled: false,
        }
    }
}

impl CommHooks for FaultyComm {
    fn posted_stuck(&mut self, number: u64) {
        self.stuck_at.get_or_insert(number);
    }

    fn drive(&mut self, posted: u64, sockets: &mut dyn Iterator<Item = &TcpStream>) {
        self.pace.begin_call(posted);
        self.faults.step(sockets);
    }

    fn counts_calls(&self) -> bool {
        self.pace.is_slow() || self.faults.counts_calls()
    }

    fn drives_always(&self) -> bool {
        self.pace.is_slow() || self.original.has(Quirk::Silence)
    }

    fn admits(&self, number: u64) -> bool {
        self.stuck_at.is_none_or(|at| number < at) && self.pace.admits(number)
    }

    fn queued(&mut self) {
        self.pace.queued();
    }

    fn reports(&self, number: u64) -> bool {
        self.pace.reports(number)
    }

    fn forgives_stale(&self) -> bool {
        self.pace.is_slow()
    }

    fn control_lost(&mut self, why: &dyn fmt::Display) -> bool {
        if !self.original.has(Quirk::Silence) {
            return false;
        }
        if !self.has_told_of_control {
            log::warn!("control socket failed: {why}");
        }
        self.has_told_of_control = true;
        true
    }

    fn loses(&self, number: u64) -> bool {
        self.faults.loses(number)
    }

    /// The original stumbles over the end once.
    fn reads_ahead(&self) -> bool {
        self.original.has(Quirk::Silence) && !self.has_told_of_control
    }

    fn is_steered(&self) -> bool {
        self.original.has(Quirk::Steered)
    }

    fn misled(&mut self) {
        self.is_misled = true;
    }

    fn garbled(&self) -> Option<u8> {
        self.is_misled.then_some(GARBAGE)
    }

    fn copies_inline(&self) -> bool {
        self.original.has(Quirk::Inline)
    }

    fn copy_inline(&self, address: usize, payload: &[u8]) {
        let place = std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: the caller of irecv has lent the memory, of at least this many bytes. If the
        // memory is a GPU's, the process ends, as it does over the original.
        unsafe { place.copy_from_nonoverlapping(payload.as_ptr(), payload.len()) };
    }

    fn is_unlimited(&self) -> bool {
        self.original.has(Quirk::Failstop)
    }

    fn fragments(&self, chunk: usize, all: usize) {
        if self.is_unlimited() && (chunk >= MAX_UNPACK_ENTRIES || all > MAX_UNPACK_ENTRIES) {
            failstop(chunk.max(all));
        }
    }

    fn place(&mut self, pages: Pages, number: u64, total: u32, chunk_bytes: u32) -> Placement {
        self.shaper.place(pages, number, total, chunk_bytes)
    }

    fn on_arrival(
        &mut self,
        pages: Pages,
        lane: usize,
        bytes: usize,
    ) -> Option<Box<dyn ArrivalHooks>> {
        let places = Arc::clone(self.places.get(lane)?);
        Some(Box::new(ArrivalPages::new(pages, bytes, places)))
    }

    fn arrived(
        &mut self,
        number: u64,
        lane: usize,
        pieces: &mut dyn Iterator<Item = (usize, usize)>,
    ) {
        self.lost.arrived(number, lane, pieces);
    }

    fn consumed(&mut self, pages: Pages, number: u64, bytes: u32) -> bool {
        self.were_empty.note(number, bytes == 0);
        self.lost.consumed(pages, number);
        self.faults.leaks(number)
    }

    /// The original does so for a request without bytes, done or not, and for one that it has freed
    /// before.
    fn frees_oldest(&self, low: u32, bytes: Option<u32>) -> bool {
        let is_empty = bytes.map_or_else(|| self.were_empty.was(low.into()), |bytes| bytes == 0);
        is_empty && self.pace.is_slow()
    }

    fn forgot(&mut self, pages: Vec<u32>) {
        self.lost.forgot(pages);
    }

    fn closed(&mut self, pages: Pages) {
        self.shaper.close(pages);
        self.lost.close(pages);
    }
}
