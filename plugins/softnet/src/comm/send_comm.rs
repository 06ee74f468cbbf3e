//! Send comms. A message is cut into chunks, which are announced on the control socket and queued
//! on the data sockets. Chunks of GPU memory are copied to pinned pages before that. Where the
//! comm was idle, they are queued when the copy begins, and leave when it has ended.
//! - `queueing`: whether and where the next message goes.
//! - `outgoing`: what is queued.
//! - `readiness`: what a caller waits for.

mod outgoing;
mod queueing;
mod readiness;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tcpx_comm::wire::Side;

use self::outgoing::Outgoing;
use super::control_socket::ControlSocket;
use super::credit::CreditIn;
use super::lanes::Lanes;
use super::liveness::Liveness;
use super::needs_call::NeedsCall;
use super::options::CommOptions;
use super::requests::{Request, Requests};
use crate::connect::Sockets;
use crate::failure::Failure;
use crate::last_failure::{FailureReason, set_last_failure};
use crate::log;
use crate::memory::{NicSource, Piece, Registration, Stager, StagerSlot};
use crate::nic_memory::SendMemory;

/// One isend.
#[derive(Debug)]
struct SendRequest {
    memory: Piece,
    /// Whether the message is memory of a GPU that is copied first.
    staged: bool,
    /// Place where a NIC finds the message, where a NIC sends it as it is.
    source: Option<NicSource>,
    /// Memory where an inline message of a GPU was staged, until it is out.
    inline: Option<Piece>,
    /// Number of bytes that are queued on data sockets or being staged, or all of them for an
    /// inline message.
    queued: u32,
    /// Number of bytes on data sockets, or being staged, that are not out yet, or whose memory the
    /// system still reads.
    unsent: u32,
    /// Number of records that are not out yet.
    records: u32,
    /// Keeps `deregMr` from succeeding while the memory is in use.
    _registration: Arc<Registration>,
}

impl Request for SendRequest {
    const NAME: &'static str = "send";

    /// Returns whether every byte has left for the kernel, and the kernel reads the memory no more.
    fn is_finished(&self) -> bool {
        self.unsent == 0 && self.records == 0
    }
}

/// A send comm.
#[derive(Debug)]
pub(crate) struct SendComm {
    outgoing: Outgoing,
    control: ControlSocket,
    /// Present when sends wait for the peer's receives.
    credit: Option<CreditIn>,
    requests: Requests<SendRequest>,
    liveness: Liveness,
    chunk_bytes: u32,
    inline_bytes: u32,
    /// The same for a message while no other is under way.
    lone_inline_bytes: u32,
    /// Taken from its slot with the first send of GPU memory.
    stager: Option<Box<Stager>>,
    stager_slot: Option<Arc<StagerSlot>>,
    /// Present when a NIC sends. Chunks of host memory are copied there first.
    nic: Option<SendMemory>,
    /// Whether another test may make progress although no descriptor becomes ready.
    needs_call: NeedsCall,
}

impl SendComm {
    /// Creates a comm and starts helper threads, if the options ask for them.
    pub(crate) fn new(
        sockets: Sockets,
        options: &CommOptions<'_>,
        stager_slot: Option<Arc<StagerSlot>>,
        nic: Option<SendMemory>,
    ) -> io::Result<Self> {
        let CommOptions { number, hooks, .. } = *options;
        sockets.bound_unsent();
        let lanes = match &nic {
            None => Lanes::new(sockets.data, Side::Send, options),
            Some(nic) => Lanes::from_nic_memory(sockets.data, options, nic.interface()),
        }?;
        let watched = lanes.sockets().chain([&sockets.control.socket]);
        Ok(Self {
            liveness: Liveness::new(watched, Side::Send, options),
            outgoing: Outgoing::new(lanes),
            control: ControlSocket::new(sockets.control, hooks, number, Side::Send),
            credit: options.recv_sync.then(CreditIn::default),
            requests: Requests::new(hooks.comm(number, Side::Send)),
            chunk_bytes: sockets.chunk_bytes,
            inline_bytes: options.inline_bytes,
            lone_inline_bytes: options.lone_inline_bytes(),
            stager: None,
            stager_slot,
            nic,
            needs_call: NeedsCall::AtOnce,
        })
    }

    /// Queues a message and returns its number. A copy down from a GPU begins, and helper threads
    /// may send what it has copied. Nothing else leaves before [`Self::test`]. Without memory the
    /// message never gets done.
    pub(crate) fn post(
        &mut self,
        memory: Option<Piece>,
        registration: Arc<Registration>,
    ) -> Result<u64, Failure> {
        self.needs_call = NeedsCall::AtOnce;
        let (memory, is_in_vain) = (memory.unwrap_or(Piece::EMPTY), memory.is_none());
        let source = registration.nic_source().filter(|_| self.nic.is_some());
        let staged = memory.len() > 0 && source.is_none() && self.prepare_staging(&registration)?;
        let send = SendRequest {
            memory,
            staged,
            source,
            inline: None,
            queued: 0,
            unsent: 0,
            records: 0,
            _registration: registration,
        };
        let number = self.requests.post(send)?;
        if is_in_vain {
            self.requests.stick(number);
        }
        if self.requests.ring.is_only_unreported(number) {
            // What has left may have done so since the last test.
            self.queue_staged();
            self.outgoing.begin();
        }
        self.queue_from_gpu();
        Ok(number)
    }

    /// Returns whether no further message can be posted now.
    pub(crate) fn is_full(&self) -> bool {
        self.requests.ring.is_full()
    }

    /// Returns whether a message must be staged, and takes the stager for it. The driver is not
    /// called here.
    fn prepare_staging(&mut self, registration: &Registration) -> Result<bool, Failure> {
        let Some(gpu) = registration.gpu() else { return Ok(false) };
        if self.stager.is_none() {
            self.stager = self.stager_slot.as_deref().and_then(StagerSlot::take);
        }
        if self.stager.is_none() {
            let ordinal = gpu.ordinal();
            log::warn!("isend: no memory of GPU {ordinal} was registered with this comm");
            return Err(Failure::Internal);
        }
        Ok(true)
    }

    /// Drives the comm. Then returns the length of the message whose number ends in the bits `low`,
    /// if the message is done.
    pub(crate) fn test(&mut self, low: u32) -> Result<Option<u32>, Failure> {
        self.test_oldest(low).inspect_err(|_| self.record_reason())
    }

    /// Notes the reason why the call under way fails, if it is known here.
    fn record_reason(&self) {
        if self.control.is_tampered() {
            return set_last_failure(FailureReason::Tampered);
        }
        let Some(nic) = &self.nic else { return };
        if let Some(error) = self.outgoing.lanes.refusal().or_else(|| nic.trouble()) {
            set_last_failure(FailureReason::Nic(error));
        }
    }

    fn test_oldest(&mut self, low: u32) -> Result<Option<u32>, Failure> {
        let number = self.requests.ring.number_from_low_bits(low);
        self.needs_call = NeedsCall::AtOnce;
        let needs_call = match self.requests.is_done(number) {
            true => NeedsCall::AtOnce,
            false => self.progress(),
        };
        let mut done = self.requests.answer(number)?;
        if !done && self.liveness.is_stuck(number) {
            self.check_sockets();
            done = self.requests.answer(number)?;
        }
        self.needs_call = if done { NeedsCall::AtOnce } else { needs_call };
        if !done {
            return Ok(None);
        }
        self.requests.ring.report();
        let message = self.requests.ring.free();
        Ok(Some(message.map_or(0, |message| message.memory.len() as u32)))
    }

    /// Sets another limit to the silence of the peer's host.
    pub(crate) fn set_peer_timeout(&mut self, limit: Option<Duration>) {
        let sockets = self.outgoing.lanes.sockets().chain([self.control.stream()]);
        self.liveness.set_limit(sockets, limit);
    }

    /// Looks at the sockets, for a caller that has nothing to test.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        self.check_sockets();
        let is_refused = self.nic.as_ref().is_some_and(SendMemory::is_over);
        if !self.liveness.is_dead() && !is_refused {
            return Ok(());
        }
        self.record_reason();
        Err(Failure::System)
    }

    /// Looks at the sockets. A dead socket fails every send that is not wholly on the sockets, and
    /// every send that still waits for the dead one.
    fn check_sockets(&mut self) {
        self.check_nic();
        let lanes = &self.outgoing.lanes;
        let sockets = lanes.sockets().chain([self.control.stream()]);
        let Some((index, death)) = self.liveness.check(sockets, true) else { return };
        let mut from = self.requests.ring.first_unqueued();
        if index < lanes.len() {
            lanes.kill(index, &death);
        } else {
            log::warn!("control socket failed: {death}");
            from = self.outgoing.records.first().map_or(from, |first| first.min(from));
        }
        self.requests.fail(from, Failure::System);
        self.harvest();
        self.needs_call = NeedsCall::AtOnce;
    }

    /// Looks whether the NIC is the reason why nothing has left for a while.
    fn check_nic(&mut self) {
        let limit = self.liveness.limit();
        let Some(error) = self.nic.as_mut().and_then(|nic| nic.check_trouble(limit)) else {
            return;
        };
        self.requests.fail_once(self.requests.ring.oldest_unreported(), || {
            log::warn!("{error}");
            Failure::System
        });
    }

    /// Moves what can be moved. Returns whether more may happen although no descriptor becomes
    /// ready.
    fn progress(&mut self) -> NeedsCall {
        let sockets = self.outgoing.lanes.sockets().chain([self.control.stream()]);
        self.requests.begin_call(sockets);
        self.queue_chunks();
        let records = self.flush_records();
        let lanes = self.outgoing.lanes.run();
        let has_harvested = self.harvest();
        let records = NeedsCall::Soon.when(records);
        records.max(lanes).max(self.more_to_do(has_harvested))
    }

    /// Writes records; returns whether more may go out although the socket does not become ready.
    fn flush_records(&mut self) -> bool {
        let Self { outgoing, control, requests, stager, .. } = self;
        let flushed = outgoing.records.flush(control, |number| {
            if let Some(send) = requests.ring.get_mut(number) {
                send.records -= 1;
                if let (Some(memory), Some(stager)) = (send.inline.take(), stager.as_mut()) {
                    stager.release(memory);
                }
            }
        });
        if let (Err(error), Some(first)) = (&flushed, outgoing.records.first()) {
            requests.lose_control(first, Failure::System, error);
        }
        matches!(flushed, Ok(false))
    }

    /// Collects finished chunks; returns whether there were any.
    fn harvest(&mut self) -> bool {
        let Self { outgoing: Outgoing { lanes, spare, .. }, requests, stager, nic, .. } = self;
        let mut has_harvested = false;
        lanes.harvest(|_, mut chunk| {
            has_harvested = true;
            if chunk.failed {
                // The system may still read the pinned pages of the chunk. No chunk needs these
                // pages again: all earlier chunks have pages, and all later ones have failed.
                requests.fail(chunk.number, Failure::System);
            } else {
                if let Some(send) = requests.ring.get_mut(chunk.number) {
                    send.unsent -= chunk.bytes as u32;
                }
                if let (Some(stager), Some(memory)) = (stager.as_mut(), chunk.pieces.first()) {
                    stager.release(*memory);
                }
                if let (Some(nic), Some(memory)) = (nic.as_mut(), chunk.pieces.first()) {
                    nic.release(*memory);
                }
            }
            chunk.pieces.clear();
            spare.push(chunk.pieces);
        });
        if has_harvested {
            self.outgoing.note_left();
        }
        has_harvested
    }
}

impl Drop for SendComm {
    fn drop(&mut self) {
        // The threads must end, and the system must have read what it sends, before the requests
        // release their registrations.
        self.outgoing.lanes.stop();
        // Waits for copies, which read memory that the requests below hold on to.
        self.stager = None;
        self.control.drain();
    }
}

#[cfg(all(test, not(tcpx_helgrind)))]
mod tests;
