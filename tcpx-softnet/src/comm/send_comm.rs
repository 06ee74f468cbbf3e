//! Send comms: messages are cut into chunks, announced on the control socket and queued on the data sockets; those of GPU
//! memory are staged before that.

use std::io;
use std::sync::Arc;

use tcpx_sys::MAX_REQUESTS;

use super::control_socket::{ControlOut, ControlSocket};
use super::credit::CreditIn;
use super::lane::Chunk;
use super::lane_order::RoundRobin;
use super::lanes::Lanes;
use super::options::CommOptions;
use super::request_ring::{Ring, Turn};
use crate::connect::Sockets;
use crate::failure::{Failure, FirstFailure};
use crate::faults::CommFaults;
use crate::log;
use crate::memory::{Piece, Registration, Staged, Stager, cuda_failure};
use crate::wire::{Record, Side, chunk_at};

/// One isend.
#[derive(Debug)]
struct SendRequest {
    memory: Piece,
    /// Whether it is memory of a GPU.
    staged: bool,
    /// Where an inline message of such memory was staged, until it is out.
    inline: Option<Piece>,
    /// Bytes that are queued on data sockets or being staged, or all of them for an inline message.
    queued: u32,
    /// Bytes on data sockets, or being staged, that are not out yet.
    unsent: u32,
    /// Records that are not out yet.
    records: u32,
    /// Keeps `deregMr` from succeeding while the memory is in use.
    _registration: Arc<Registration>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SendComm {
    lanes: Lanes,
    control: ControlSocket,
    output: ControlOut,
    /// Present when sends wait for the peer's receives.
    credit: Option<CreditIn>,
    flow: RoundRobin,
    ring: Ring<SendRequest>,
    broken: FirstFailure,
    chunk_bytes: u32,
    inline_bytes: u32,
    faults: CommFaults,
    spare: Vec<Vec<Piece>>,
    /// Made with the first send of GPU memory.
    stager: Option<Stager>,
}

impl SendComm {
    /// Starts helper threads, if the options ask for them.
    pub(crate) fn new(sockets: Sockets, options: &CommOptions<'_>) -> io::Result<Self> {
        let CommOptions { number, script, .. } = *options;
        let lanes = Lanes::new(sockets.data, Side::Send, options)?;
        Ok(Self {
            flow: RoundRobin::new(lanes.len()),
            lanes,
            control: ControlSocket::new(sockets.control, script, number, Side::Send),
            output: ControlOut::default(),
            credit: options.recv_sync.then(CreditIn::default),
            ring: Ring::new(),
            broken: FirstFailure::default(),
            chunk_bytes: sockets.chunk_bytes,
            inline_bytes: options.inline_bytes,
            faults: CommFaults::new(script, Side::Send),
            spare: Vec::new(),
            stager: None,
        })
    }

    /// Queues a message and returns its number. Nothing moves before [`Self::test`].
    pub(crate) fn post(
        &mut self,
        memory: Piece,
        registration: Arc<Registration>,
    ) -> Result<u64, Failure> {
        let staged = self.prepare_staging(memory, &registration)?;
        let send = SendRequest {
            memory,
            staged,
            inline: None,
            queued: 0,
            unsent: 0,
            records: 0,
            _registration: registration,
        };
        self.ring.post(send).ok_or_else(|| {
            log::warn!("unable to allocate requests");
            Failure::Internal
        })
    }

    /// Whether a message must be staged, and the stager for it.
    fn prepare_staging(
        &mut self,
        memory: Piece,
        registration: &Registration,
    ) -> Result<bool, Failure> {
        let refused = |error| cuda_failure("isend", &error);
        let Some(gpu) = registration.gpu_of(memory).map_err(refused)? else { return Ok(false) };
        if self.stager.is_none() {
            self.stager = Some(Stager::new(gpu, self.chunk_bytes).map_err(refused)?);
        }
        Ok(true)
    }

    /// Drives the comm, then says whether request `low` (low bits of its number) is done.
    pub(crate) fn test(&mut self, low: u32, bits: u32) -> Result<bool, Failure> {
        let number = self.ring.number_from_low_bits(low, bits).unwrap_or(u64::MAX);
        // A request that is finished already is reported without a system call; the next unfinished one drives the comm
        // for all that were posted meanwhile. That is what makes many small messages cheap.
        if self.ring.turn(number) != Turn::Oldest || !self.is_finished(number) {
            self.progress();
        }
        let turn = self.ring.turn(number);
        if let Some(oldest) = self.ring.oldest_unreported()
            && turn != Turn::Stale
            && let Some(failure) = self.broken.of(oldest)
        {
            return Err(failure);
        }
        match turn {
            Turn::NothingMoves => Ok(false),
            Turn::Oldest => {
                let done =
                    self.ring.get(number).is_some_and(|send| send.unsent == 0 && send.records == 0);
                if done {
                    self.ring.report();
                    self.ring.free();
                }
                Ok(done)
            }
            Turn::OutOfOrder { expected } => {
                log::warn!(
                    "test called with invalid request, send {number}, {expected} comes first"
                );
                Err(Failure::Internal)
            }
            Turn::Stale => {
                log::warn!("test called with invalid request: it is done already");
                Err(Failure::Internal)
            }
        }
    }

    /// Whether every byte of a message that is on the sockets has left for the kernel.
    fn is_finished(&self, number: u64) -> bool {
        self.ring.get(number).is_some_and(|send| send.unsent == 0 && send.records == 0)
    }

    fn progress(&mut self) {
        self.faults.step(self.lanes.sockets().chain([self.control.stream()]));
        self.read_credit();
        self.queue_chunks();
        self.flush_records();
        self.lanes.run();
        self.harvest();
    }

    fn read_credit(&mut self) {
        let Some(credit) = &mut self.credit else { return };
        let Some(next) = self.ring.next_to_queue() else { return };
        if credit.covers(next) || self.broken.of(next).is_some() {
            return;
        }
        if let Err(error) = credit.read(&mut self.control, next, MAX_REQUESTS as u64) {
            log::warn!("control socket failed: {error}");
            let failure = match error.kind() {
                io::ErrorKind::InvalidData => Failure::Internal,
                _ => Failure::System,
            };
            self.broken.note(next, failure);
        }
    }

    /// Hands messages to the sockets, in order, as far as there is room.
    fn queue_chunks(&mut self) {
        self.queue_staged();
        while let Some(number) = self.ring.next_to_queue() {
            let granted = self.credit.as_ref().is_none_or(|credit| credit.covers(number));
            if !granted || self.broken.of(number).is_some() {
                break;
            }
            if self.faults.loses(number) {
                self.ring.mark_queued();
                continue;
            }
            let all = match self.ring.get(number).is_some_and(|send| send.staged) {
                true => self.stage_message(number),
                // Records are in the order of the messages, so nothing overtakes what is being staged.
                false => {
                    self.stager.as_ref().is_none_or(Stager::is_idle) && self.queue_message(number)
                }
            };
            if !all {
                break;
            }
            self.ring.mark_queued();
        }
        self.queue_staged();
    }

    /// Begins to copy what is left of a message to pinned pages; false when not all of it has room there.
    fn stage_message(&mut self, number: u64) -> bool {
        let (Some(send), Some(stager)) = (self.ring.get_mut(number), &mut self.stager) else {
            return false;
        };
        let total = send.memory.len() as u32;
        while send.queued < total {
            let (offset, size) = (send.queued, chunk_at(send.queued, total, self.chunk_bytes));
            match stager.start(number, offset, send.memory.part(offset as usize, size as usize)) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) => {
                    self.broken.note(number, cuda_failure("test", &error));
                    return false;
                }
            }
            send.queued += size;
            send.unsent += size;
        }
        true
    }

    /// Queues the chunks whose bytes are in pinned pages, in order, as far as the sockets have room.
    fn queue_staged(&mut self) {
        loop {
            let Some(stager) = &mut self.stager else { return };
            let chunk = match stager.ready() {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return,
                Err(error) => {
                    if let Some(number) = stager.oldest()
                        && self.broken.of(number).is_none()
                    {
                        self.broken.note(number, cuda_failure("test", &error));
                    }
                    return;
                }
            };
            if !self.queue_copied(chunk) {
                return;
            }
            if let Some(stager) = &mut self.stager {
                stager.take();
            }
        }
    }

    /// Queues one chunk whose bytes are in pinned pages; false when the sockets have no room.
    fn queue_copied(&mut self, chunk: Staged) -> bool {
        let Staged { number, offset, memory, .. } = chunk;
        let Some(send) = self.ring.get_mut(number) else { return false };
        let (size, total) = (memory.len() as u32, send.memory.len() as u32);
        if total <= self.inline_bytes && size == total {
            send.unsent -= size;
            send.inline = Some(memory);
            self.output.push(number, Record::Inline { size: total }, memory);
        } else {
            let Some(lane) = self.flow.pick(|lane| self.lanes.has_room(lane)) else { return false };
            let mut pieces = self.spare.pop().unwrap_or_default();
            pieces.push(memory);
            // At most eight data sockets.
            let record = Record::Chunk { index: lane as u16, size, offset, total };
            self.output.push(number, record, Piece::EMPTY);
            self.lanes.push(lane, Chunk::new(number, offset, pieces));
        }
        send.records += 1;
        true
    }

    /// Queues what is left of a message; false when the sockets have no room for all of it.
    fn queue_message(&mut self, number: u64) -> bool {
        let Some(send) = self.ring.get_mut(number) else { return false };
        // `isend` took the length from a positive `int`.
        let total = send.memory.len() as u32;
        if total <= self.inline_bytes {
            send.records += 1;
            send.queued = total;
            self.output.push(number, Record::Inline { size: total }, send.memory);
            return true;
        }
        while send.queued < total {
            let Some(lane) = self.flow.pick(|lane| self.lanes.has_room(lane)) else { return false };
            let (offset, size) = (send.queued, chunk_at(send.queued, total, self.chunk_bytes));
            let mut pieces = self.spare.pop().unwrap_or_default();
            pieces.push(send.memory.part(offset as usize, size as usize));
            // At most eight data sockets.
            let record = Record::Chunk { index: lane as u16, size, offset, total };
            self.output.push(number, record, Piece::EMPTY);
            self.lanes.push(lane, Chunk::new(number, offset, pieces));
            send.records += 1;
            send.queued += size;
            send.unsent += size;
        }
        true
    }

    fn flush_records(&mut self) {
        let (ring, stager) = (&mut self.ring, &mut self.stager);
        let flushed = self.output.flush(&mut self.control, |number| {
            if let Some(send) = ring.get_mut(number) {
                send.records -= 1;
                if let (Some(memory), Some(stager)) = (send.inline.take(), stager.as_mut()) {
                    stager.release(memory);
                }
            }
        });
        if let (Err(error), Some(first)) = (flushed, self.output.first())
            && self.broken.of(first).is_none()
        {
            log::warn!("control socket failed: {error}");
            self.broken.note(first, Failure::System);
        }
    }

    fn harvest(&mut self) {
        let Self { lanes, ring, broken, spare, stager, .. } = self;
        lanes.harvest(|mut chunk| {
            if chunk.failed {
                broken.note(chunk.number, Failure::System);
            } else if let Some(send) = ring.get_mut(chunk.number) {
                send.unsent -= chunk.bytes as u32;
            }
            if let (Some(stager), Some(memory)) = (stager.as_mut(), chunk.pieces.first()) {
                stager.release(*memory);
            }
            chunk.pieces.clear();
            spare.push(chunk.pieces);
        });
    }
}

impl Drop for SendComm {
    fn drop(&mut self) {
        // The threads end before the requests let go of their registrations.
        self.lanes.stop();
        // Waits for copies, which read memory that the requests below hold on to.
        self.stager = None;
        self.control.drain();
    }
}
