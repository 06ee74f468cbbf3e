//! Receive comms. They match control records with posted receives. Payload goes to bounce pages, or
//! to the host memory that was posted.

mod arrivals;
mod downloads;
mod feeding;
mod nic_trouble;
mod readiness;
mod records;
mod region_share;

use std::collections::VecDeque;
use std::time::Duration;

use tcpx_comm::wire::{RecordOrder, Side};
use tcpx_cuda::CudaGpu;
use tcpx_sys::{MAX_UNPACK_ENTRIES, UnpackNetDeviceHandle};

use self::downloads::Downloads;
use self::region_share::RegionShare;
use super::chunk::Chunk;
use super::control_socket::{ControlIn, ControlSocket};
use super::credit::CreditOut;
use super::lanes::Lanes;
use super::liveness::Liveness;
use super::needs_call::NeedsCall;
use super::options::CommOptions;
use super::recv_request::{Destination, RecvRequest};
use super::request_ring::{ConsumeError, Ring};
use super::requests::Requests;
use crate::connect::Sockets;
use crate::failure::Failure;
use crate::hooks::Pages;
use crate::log;
use crate::memory::{BounceBuffer, Piece, ReceivePages, UnpackQueue, Uploader, cuda_failure};

/// Content of what arrives in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceContent {
    /// The bytes that were sent.
    Bytes,
    /// Anything, because the bytes go to another GPU than the one that looks for them.
    Garbage,
}

/// Announced chunk that is not on its lane yet.
#[derive(Clone, Copy, Debug)]
struct AnnouncedChunk {
    number: u64,
    lane: usize,
    offset: u32,
    size: u32,
}

/// A receive comm.
#[derive(Debug)]
pub(crate) struct RecvComm {
    lanes: Lanes,
    control: ControlSocket,
    input: ControlIn,
    /// Present when the sender waits for receives.
    credit: Option<CreditOut>,
    order: RecordOrder,
    chunk_bytes: u32,
    chunks: VecDeque<AnnouncedChunk>,
    requests: Requests<RecvRequest>,
    liveness: Liveness,
    queue: UnpackQueue,
    bounce: &'static BounceBuffer,
    clears_counts: bool,
    /// Present when the bounce region is the GPU's own memory.
    uploader: Option<Uploader>,
    /// Present when a NIC puts what comes into a GPU's memory.
    downloads: Option<Downloads>,
    /// Present when a NIC puts what comes into the bounce region.
    nic: Option<RegionShare>,
    /// Empty between harvests.
    harvested: Vec<(usize, Chunk)>,
    spare_pieces: Vec<Vec<Piece>>,
    spare_pages: Vec<ReceivePages>,
    /// Whether another test may make progress although no descriptor becomes ready.
    needs_call: NeedsCall,
}

impl RecvComm {
    /// Creates a comm and starts helper threads, if the options ask for them. `bounce` is the
    /// region for memory of `gpu`, or for emulated memory without a GPU.
    pub(crate) fn new(
        sockets: Sockets,
        options: &CommOptions<'_>,
        bounce: &'static BounceBuffer,
        gpu: Option<&CudaGpu>,
        content: DeviceContent,
    ) -> Result<Self, Failure> {
        let CommOptions { number, hooks, .. } = *options;
        let base = bounce.region().consumer_base(gpu.is_some());
        let queue = match gpu {
            None => UnpackQueue::new(base),
            Some(gpu) => {
                UnpackQueue::on_gpu(gpu, base).map_err(|error| cuda_failure("accept", &error))?
            }
        };
        let uploads = gpu.filter(|_| bounce.region().is_on_gpu());
        let uploader = uploads
            .map(Uploader::new)
            .transpose()
            .map_err(|error| cuda_failure("accept", &error))?;
        let downloads = uploads
            .filter(|_| sockets.steering.is_some())
            .map(|gpu| Downloads::new(gpu, sockets.chunk_bytes))
            .transpose()
            .map_err(|error| cuda_failure("accept", &error))?;
        let lanes = match &sockets.steering {
            None => Lanes::new(sockets.data, Side::Recv, options),
            Some(steering) => Lanes::into_region(sockets.data, options, steering.region()),
        };
        let lanes = lanes.map_err(|error| {
            log::warn!("accept: cannot start helper threads: {error}");
            Failure::System
        })?;
        let watched = lanes.sockets().chain([&sockets.control.socket]);
        let mut hook = hooks.comm(number, Side::Recv);
        if let (DeviceContent::Garbage, Some(hook)) = (content, hook.get_mut()) {
            hook.misled();
        }
        Ok(Self {
            liveness: Liveness::new(watched, Side::Recv, options),
            nic: sockets.steering.map(|steering| RegionShare::new(steering, &lanes)),
            lanes,
            control: ControlSocket::new(sockets.control, hooks, number, Side::Recv),
            input: ControlIn::new(),
            credit: options.recv_sync.then(CreditOut::default),
            order: RecordOrder::new(sockets.chunk_bytes),
            chunk_bytes: sockets.chunk_bytes,
            chunks: VecDeque::new(),
            requests: Requests::new(hook),
            queue,
            bounce,
            clears_counts: options.clears_counts,
            uploader,
            downloads,
            harvested: Vec::new(),
            spare_pieces: Vec::new(),
            spare_pages: Vec::new(),
            needs_call: NeedsCall::AtOnce,
        })
    }

    /// Returns the struct that describes the unpack queue to the consumer.
    pub(crate) fn device(&self) -> *mut UnpackNetDeviceHandle {
        self.queue.device()
    }

    /// Posts a receive of at most `posted` bytes and returns its number. Nothing moves before
    /// [`Self::test`]. Without a destination the receive never gets done.
    pub(crate) fn post(
        &mut self,
        destination: Option<Destination>,
        posted: u32,
    ) -> Result<u64, Failure> {
        self.needs_call = NeedsCall::AtOnce;
        let pages = self.spare_pages.pop().unwrap_or_default();
        let is_in_vain = destination.is_none();
        let destination = destination.unwrap_or(Destination::Device { posted: Piece::EMPTY });
        let number = self.requests.post(RecvRequest::new(destination, posted, pages))?;
        if is_in_vain {
            self.requests.stick(number);
        }
        Ok(number)
    }

    /// Returns whether no further receive can be posted now.
    pub(crate) fn is_full(&self) -> bool {
        self.requests.ring.is_full()
    }

    /// Drives the comm. Then returns the length of the message whose number ends in the bits `low`,
    /// if the message is done; its entries and their count are in the queue by then.
    pub(crate) fn test(&mut self, low: u32) -> Result<Option<u32>, Failure> {
        self.test_oldest(low).inspect_err(|_| self.record_reason())
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
        let Some(receive) = self.requests.ring.get(number) else { return Ok(Some(0)) };
        let bytes = receive.arrived;
        self.queue.publish(Ring::<RecvRequest>::slot(number), receive.entries as u64);
        self.requests.ring.report();
        Ok(Some(bytes))
    }

    /// Frees the oldest done request, if its number ends in the bits `low`, and recycles its pages.
    pub(crate) fn consume(&mut self, low: u32) -> Result<(), Failure> {
        self.needs_call = NeedsCall::AtOnce;
        let number = self.requests.ring.number_from_low_bits(low);
        match self.requests.ring.may_consume(number) {
            Ok(()) => {
                if let Some(mut receive) = self.requests.ring.free() {
                    let (pages, bytes) = (Pages::new(self.bounce), receive.total.unwrap_or(0));
                    let hook = self.requests.hook.get_mut();
                    if !hook.is_some_and(|hook| hook.consumed(pages, number, bytes)) {
                        self.bounce.release(receive.pages.ranges());
                    }
                    if let Some(nic) = &mut self.nic {
                        nic.consume(&mut receive, &self.lanes, self.requests.ring.is_empty());
                    }
                    receive.pages.reset();
                    self.spare_pages.push(receive.pages);
                }
                if self.clears_counts {
                    self.queue.publish(Ring::<RecvRequest>::slot(number), 0);
                }
                Ok(())
            }
            Err(_) if self.skips_order(number, low) && self.free_oldest() => Ok(()),
            Err(ConsumeError::NoneDone) => {
                log::warn!("no inactive request");
                Err(Failure::Internal)
            }
            Err(ConsumeError::OutOfOrder { expected }) => {
                log::warn!("invalid request {number} vs expected {expected}");
                Err(Failure::Internal)
            }
        }
    }

    /// Returns whether the oldest request is freed in place of request `number`, which ends in the
    /// bits `low`.
    fn skips_order(&self, number: u64, low: u32) -> bool {
        let receive = self.requests.ring.get(number);
        let bytes = receive.map(|receive| receive.total.unwrap_or(receive.posted));
        self.requests.hook.says(|hook| hook.frees_oldest(low, bytes))
    }

    /// Frees the oldest request, and loses its pages. Returns false where there is none, or where
    /// bytes of it are on their way: its memory must stay.
    fn free_oldest(&mut self) -> bool {
        let ring = &mut self.requests.ring;
        let freed = ring.free().or_else(|| ring.free_early(|receive| receive.total.is_none()));
        let (Some(mut receive), Some(hook)) = (freed, self.requests.hook.get_mut()) else {
            return false;
        };
        hook.forgot(receive.pages.take_numbers());
        true
    }

    /// Returns the number of bytes that the sender announced for a live request, once it has.
    pub(crate) fn received_bytes(&self, low: u32) -> Option<u32> {
        let ring = &self.requests.ring;
        ring.get(ring.number_from_low_bits(low))?.total
    }

    /// Sets another limit to the silence of the peer's host.
    pub(crate) fn set_peer_timeout(&mut self, limit: Option<Duration>) {
        self.liveness.set_limit(self.lanes.sockets().chain([self.control.stream()]), limit);
    }

    /// Looks at the sockets, for a caller that has nothing to test.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        self.check_sockets();
        let is_refused = self.nic.as_mut().is_some_and(|nic| nic.refusal(&self.lanes).is_some());
        if !self.liveness.is_dead() && !is_refused {
            return Ok(());
        }
        self.record_reason();
        Err(Failure::System)
    }

    /// Looks at the sockets. A dead socket fails every receive whose records have not all come.
    fn check_sockets(&mut self) {
        self.check_nic();
        // The bytes from before the end may be all that the receives need.
        let is_read = self.input.bytes().is_empty()
            && !self.control.has_bytes()
            && self.chunks.is_empty()
            && !self.lanes.expect();
        let sockets = self.lanes.sockets().chain([self.control.stream()]);
        let Some((index, death)) = self.liveness.check(sockets, is_read) else { return };
        if index < self.lanes.len() {
            self.lanes.kill(index, &death);
        } else {
            log::warn!("control socket failed: {death}");
        }
        self.requests.fail(self.requests.ring.first_unqueued(), Failure::System);
        self.harvest();
        self.needs_call = NeedsCall::AtOnce;
    }

    /// Moves what can be moved. Returns whether more may happen although no descriptor becomes
    /// ready.
    fn progress(&mut self) -> NeedsCall {
        self.requests.begin_call(self.lanes.sockets().chain([self.control.stream()]));
        self.find_refusal();
        if let Some(nic) = &mut self.nic {
            nic.return_fragments(&self.lanes, 1);
        }
        self.send_credit();
        let records = self.match_records();
        let chunks = self.feed_lanes();
        let lanes = self.lanes.run();
        self.harvest();
        self.take_uploads();
        self.take_downloads();
        lanes.max(self.more_to_do(records, chunks))
    }

    fn send_credit(&mut self) {
        let Some(credit) = &mut self.credit else { return };
        if let Err(error) = credit.send(&mut self.control, self.requests.ring.posted())
            && let Some(next) = self.requests.next()
        {
            self.requests.lose_control(next, Failure::System, &error);
        }
    }
}

fn too_many_fragments(fragments: u64) -> Failure {
    log::warn!(
        "too many pages: {fragments} fragments, the unpack queue holds {MAX_UNPACK_ENTRIES}"
    );
    Failure::Internal
}

impl Drop for RecvComm {
    fn drop(&mut self) {
        // The threads must end before the pages that they write to go back.
        self.lanes.stop();
        let is_down = self.downloads.take().is_none_or(Downloads::end);
        let is_up = self.uploader.as_mut().is_none_or(Uploader::drain);
        if let Some(nic) = self.nic.as_ref().filter(|_| !is_down || !is_up) {
            nic.leak_region();
        }
        if !is_up {
            while let Some(mut receive) = self.requests.ring.remove_oldest() {
                receive.held.drain(..).for_each(|(_, held)| held.leak());
            }
            return log::warn!("copies to the GPU do not end; their bounce pages are kept");
        }
        let mut unfreed = false;
        while let Some(mut receive) = self.requests.ring.remove_oldest() {
            unfreed |= !receive.pages.ranges().is_empty();
            self.bounce.release(receive.pages.ranges());
        }
        if let Some(hook) = self.requests.hook.get_mut() {
            hook.closed(Pages::new(self.bounce));
        }
        if unfreed {
            log::warn!("some pages not yet freed?");
        }
    }
}
