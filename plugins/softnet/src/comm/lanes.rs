//! The data sockets of one comm, run by helper threads or by the caller.

use std::ffi::c_int;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tcpx_comm::poll::Interest;
use tcpx_comm::wire::{Side, SocketRole};
use tcpx_devmem::DevmemError;
use tcpx_sys::CommDescriptor;

use super::chunk::Chunk;
use super::helper_threads::HelperThreads;
use super::lane::{Lane, Progress};
use super::lane_order::harvest_order;
use super::needs_call::NeedsCall;
use super::options::CommOptions;
use super::socket_io::SocketIo;
use crate::bell::Bell;
use crate::connect::Connection;
use crate::last_failure::FailureReason;
use crate::nic_memory::{NicArrivals, NicDepartures, NicRegion};
use crate::sync::wait;

/// Most bytes that one call of `test` moves, on all lanes together, so that its caller gets to
/// other comms in time.
const STEP_BYTES: usize = 256 << 10;
/// Bytes queued on a lane that the caller runs itself: few, so that bounce pages are handed out
/// late and stay few and hot.
const INLINE_QUEUE_BYTES: usize = 1 << 20;
/// Bytes queued on a lane with a helper thread. The lane must not run dry between two calls of
/// `test`.
const HELPER_QUEUE_BYTES: usize = 4 << 20;
/// Most bytes on a lane with a helper thread that the caller moves itself, while the helper sleeps:
/// this takes less time than to wake the helper. With twice as much, messages of 512 KiB, which
/// come in chunks of 128, were a tenth slower: helpers of several comms work at the same time. Also
/// the most that it receives at once until a notified helper runs.
const CALLER_BYTES: usize = 64 << 10;
/// Most bytes of the chunks on a lane that the caller leaves to the helper, also while the helper
/// does not run yet. When it received them too, a message of 256 KiB, which comes in two chunks,
/// took 6 to 8 % longer (docs/benchmarks/2026-11-30-gpu-receiving.md).
const HELPER_BYTES: usize = 128 << 10;
/// Time for which the end of a comm waits for the peer's host to acknowledge bytes that are sent in
/// place, and then for the system to release them. Longer than a lost packet takes to be sent
/// again.
const LET_GO: Duration = Duration::from_millis(500);

/// The data sockets of one comm.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// Dropped before the lanes, so that the threads end first.
    helpers: Option<HelperThreads>,
    lanes: Vec<Arc<Lane>>,
    side: Side,
    /// Bell that helper threads ring, or the thread that reads a ring, if there are any.
    bell: Option<Arc<Bell>>,
    /// Lane that the next step begins with.
    first: usize,
    /// For each lane: whether its helper thread was notified of all chunks.
    notified: Vec<bool>,
}

impl Lanes {
    /// Takes the sockets of a comm, which move bytes by plain calls, encrypted or in clear.
    pub(crate) fn new(
        sockets: Vec<Connection>,
        side: Side,
        options: &CommOptions<'_>,
    ) -> io::Result<Self> {
        let with_io = |(index, Connection { socket, keys })| {
            let socket_io = match keys {
                None => SocketIo::plain(&socket, index, side, options.zerocopy),
                Some(keys) => SocketIo::encrypted(*keys, side),
            };
            (socket, socket_io)
        };
        Self::start(sockets.into_iter().enumerate().map(with_io).collect(), side, options, None)
    }

    /// Does the same for sockets whose bytes come to a NIC's region. Where a ring reports them,
    /// helper threads have no work.
    pub(crate) fn into_region(
        sockets: Vec<Connection>,
        options: &CommOptions<'_>,
        region: &'static NicRegion,
    ) -> io::Result<Self> {
        let bell = Arc::new(Bell::new());
        let arrive = |connection: Connection| {
            let socket = in_clear(connection)?;
            let socket_io = NicArrivals::new(region, &socket, &bell)?;
            Ok((socket, SocketIo::Arrive(socket_io)))
        };
        let sockets = sockets.into_iter().map(arrive).collect::<io::Result<_>>()?;
        let bell = region.has_ring().then_some(bell);
        Self::start(sockets, Side::Recv, options, bell)
    }

    /// Does the same for sockets whose bytes a NIC reads where they are.
    pub(crate) fn from_nic_memory(
        sockets: Vec<Connection>,
        options: &CommOptions<'_>,
        interface: &str,
    ) -> io::Result<Self> {
        let depart = |connection: Connection| {
            let socket = in_clear(connection)?;
            let socket_io = NicDepartures::new(&socket, interface).map_err(io::Error::other)?;
            Ok((socket, SocketIo::Depart(socket_io)))
        };
        let sockets = sockets.into_iter().map(depart).collect::<io::Result<_>>()?;
        Self::start(sockets, Side::Send, options, None)
    }

    fn start(
        sockets: Vec<(TcpStream, SocketIo)>,
        side: Side,
        options: &CommOptions<'_>,
        bell_of_ring: Option<Arc<Bell>>,
    ) -> io::Result<Self> {
        let CommOptions { number, threads, cpus, hooks, .. } = *options;
        let threads = if bell_of_ring.is_some() { 0 } else { threads };
        let bell = (threads > 0).then(|| Arc::new(Bell::new()));
        let lane = |(index, (socket, socket_io))| {
            // At most eight.
            let role = SocketRole::Data(index as u16);
            let hook = hooks.socket(number, side, role);
            Arc::new(Lane::new(socket, index, side, hook, socket_io, bell.clone()))
        };
        let lanes: Vec<_> = sockets.into_iter().enumerate().map(lane).collect();
        let helpers =
            if threads == 0 { None } else { Some(HelperThreads::start(&lanes, threads, cpus)?) };
        let notified = vec![false; lanes.len()];
        Ok(Self { helpers, lanes, side, bell: bell.or(bell_of_ring), first: 0, notified })
    }

    pub(crate) fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Returns whether lane `index` takes another chunk.
    pub(crate) fn has_room(&self, index: usize) -> bool {
        let bytes = if self.helpers.is_some() { HELPER_QUEUE_BYTES } else { INLINE_QUEUE_BYTES };
        self.lanes[index].has_room(bytes)
    }

    /// Queues a chunk. It moves with the next [`Self::run`].
    pub(crate) fn push(&mut self, index: usize, chunk: Chunk) {
        self.lanes[index].push(chunk);
        self.notified[index] = false;
    }

    /// Notifies the helper of lane `index` at once, where it moves what is queued there.
    pub(crate) fn notify(&mut self, index: usize) {
        if let Some(helpers) = &self.helpers
            && !self.notified[index]
            && !self.lanes[index].has_at_most(CALLER_BYTES)
        {
            helpers.notify(index);
            self.notified[index] = true;
        }
    }

    /// Notes that the bytes of a chunk of lane `index` are there now. The next [`Self::run`]
    /// notifies the helper that waits for them.
    pub(crate) fn note_copied(&mut self, index: usize) {
        if self.helpers.as_ref().is_some_and(|helpers| helpers.awaits_copy(index)) {
            self.notified[index] = false;
        }
    }

    /// Returns whether any lane takes another chunk.
    pub(crate) fn has_any_room(&self) -> bool {
        (0..self.lanes.len()).any(|index| self.has_room(index))
    }

    /// Moves bytes, up to the limit of a step, on lanes that are not left to helper threads. The
    /// finished chunks are harvested next. Returns whether more may happen although no descriptor
    /// becomes ready.
    pub(crate) fn run(&mut self) -> NeedsCall {
        match &self.bell {
            Some(bell) if self.helpers.is_some() => {
                let is_watched = bell.is_watched();
                let needs_call = self.run_or_notify(is_watched);
                needs_call.max(NeedsCall::Soon.when(!is_watched))
            }
            Some(bell) => {
                // Before the lanes are looked at: the bell rings again for chunks that finish from
                // now on.
                bell.silence();
                let is_watched = bell.is_watched();
                self.run_all().max(NeedsCall::Soon.when(!is_watched))
            }
            None => self.run_all(),
        }
    }

    /// Runs the lanes with little to move whose helper threads sleep, and notifies the helpers of
    /// the rest. Until such a helper runs, a caller that watches receives in its place. Returns
    /// whether more may happen although no descriptor becomes ready.
    fn run_or_notify(&mut self, is_watched: bool) -> NeedsCall {
        let Some(helpers) = &self.helpers else { return NeedsCall::No };
        let sees_bytes = is_watched && self.side == Side::Recv;
        let (mut left, mut needs_call) = (STEP_BYTES, NeedsCall::No);
        for (index, lane) in self.lanes.iter().enumerate() {
            if !lane.has_work() {
                continue;
            }
            if !self.notified[index] {
                let is_short = lane.has_at_most(CALLER_BYTES) && helpers.is_asleep(index);
                if is_short && lane.awaits_copy() {
                    needs_call = needs_call.max(NeedsCall::Soon);
                    continue;
                }
                let is_blocked = is_short && run_until_blocked(lane, &mut left);
                // A caller that watches the socket comes back when there is more to receive. No
                // other thread would, and bytes that wait to be sent wait for room.
                let comes_back = is_blocked && sees_bytes;
                if comes_back || !lane.has_work() {
                    continue;
                }
                helpers.notify(index);
                self.notified[index] = true;
            }
            let receives = sees_bytes && !lane.has_at_most(HELPER_BYTES) && left > 0;
            if receives
                && helpers.is_resting(index)
                && let Some(Progress::Moved(bytes)) = lane.try_run_once(left.min(CALLER_BYTES))
            {
                left -= bytes;
                needs_call = NeedsCall::AtOnce;
            }
        }
        needs_call
    }

    fn run_all(&mut self) -> NeedsCall {
        let (mut left, mut needs_call) = (STEP_BYTES, NeedsCall::No);
        for _ in 0..self.lanes.len() {
            let lane = &self.lanes[self.first];
            if left == 0 {
                // This lane begins the next step.
                return NeedsCall::AtOnce;
            }
            self.first = (self.first + 1) % self.lanes.len();
            match lane.run_once(left) {
                Progress::Moved(bytes) => {
                    left -= bytes;
                    needs_call = needs_call.max(NeedsCall::AtOnce.when(lane.has_chunks()));
                }
                Progress::Held => needs_call = needs_call.max(NeedsCall::Soon),
                Progress::Blocked | Progress::Idle => {}
            }
        }
        needs_call
    }

    /// Returns the descriptors to watch: the data sockets, and the bell of the helper threads.
    pub(crate) fn descriptors(&self) -> io::Result<Vec<CommDescriptor>> {
        let events = match self.side {
            Side::Send => libc::EPOLLOUT,
            Side::Recv => libc::EPOLLIN,
        };
        // Where a ring reports what comes, the sockets show nothing.
        let has_ring = self.bell.is_some() && self.helpers.is_none();
        let sockets = self.sockets().filter(|_| !has_ring);
        let mut all: Vec<_> = sockets.map(|socket| descriptor(socket, events)).collect();
        if let Some(bell) = &self.bell {
            all.push(descriptor(&bell.watch()?, libc::EPOLLIN));
        }
        Ok(all)
    }

    /// Calls `collected` with every finished chunk and its lane, in harvest order.
    pub(crate) fn harvest(&self, mut collected: impl FnMut(usize, Chunk)) {
        if let Some(bell) = &self.bell {
            bell.silence();
        }
        for index in harvest_order(self.lanes.len()) {
            while let Some(chunk) = self.lanes[index].collect() {
                collected(index, chunk);
            }
        }
    }

    /// Fails every chunk of lane `index`, now and from now on.
    pub(crate) fn kill(&self, index: usize, reason: &dyn core::fmt::Display) {
        self.lanes[index].kill(reason);
    }

    /// Returns whether bytes came on a socket that were not those that the peer sent.
    pub(crate) fn are_tampered(&self) -> bool {
        let mut reasons = self.lanes.iter().filter_map(|lane| lane.reason());
        reasons.any(|reason| matches!(reason, FailureReason::Tampered))
    }

    /// Returns the reason why sockets have ended, where it is device memory or its NIC.
    pub(crate) fn refusal(&self) -> Option<Arc<DevmemError>> {
        self.lanes.iter().find_map(|lane| match lane.reason()? {
            FailureReason::Nic(error) => Some(error),
            FailureReason::Tampered => None,
        })
    }

    /// Returns whether bytes may come, or be here, although no socket shows them.
    pub(crate) fn expect(&self) -> bool {
        self.lanes.iter().any(|lane| lane.expects())
    }

    pub(crate) fn socket(&self, index: usize) -> &TcpStream {
        self.lanes[index].socket()
    }

    pub(crate) fn sockets(&self) -> impl Iterator<Item = &TcpStream> + Clone {
        self.lanes.iter().map(|lane| lane.socket())
    }

    /// Ends the helper threads. After that, neither they nor the system touch the chunks' memory.
    pub(crate) fn stop(&mut self) {
        self.helpers = None;
        wait_for_zerocopy(&self.lanes);
        self.lanes.clear();
    }
}

/// Returns a descriptor with the events to watch it for.
pub(crate) fn descriptor(fd: &impl AsRawFd, events: c_int) -> CommDescriptor {
    CommDescriptor { fd: fd.as_raw_fd(), events: events as u32 }
}

/// Runs a lane until the socket has no more for it. Returns false where another thread runs the
/// lane, where another cause holds it up, or where there was too much to move.
fn run_until_blocked(lane: &Lane, left: &mut usize) -> bool {
    while *left > 0 {
        match lane.try_run_once(*left) {
            Some(Progress::Moved(bytes)) => *left -= bytes,
            Some(Progress::Blocked) => return true,
            Some(Progress::Held | Progress::Idle) | None => return false,
        }
    }
    false
}

/// Waits until the system has read the bytes of zero-copy sends, because the memory may change
/// from now on. A peer's host that does not acknowledge them in time loses the connection instead
/// of getting other bytes.
fn wait_for_zerocopy(lanes: &[Arc<Lane>]) {
    for is_reset in [false, true] {
        let end = Instant::now() + LET_GO;
        let late = loop {
            let read: Vec<_> = lanes.iter().filter(|lane| lane.still_reads()).collect();
            let left = end.saturating_duration_since(Instant::now());
            if read.is_empty() {
                return;
            }
            let sockets: Vec<_> =
                read.iter().map(|lane| (lane.socket().as_fd(), Interest::Error)).collect();
            if left.is_zero() || wait(&sockets, Some(left)).is_err() {
                break read;
            }
        };
        if !is_reset {
            late.iter().for_each(|lane| lane.reset());
        }
    }
}

#[cfg(all(test, not(tcpx_helgrind)))]
mod interleavings;
#[cfg(test)]
mod tests;

/// Returns the socket of a connection in clear. A NIC neither encrypts nor decrypts.
fn in_clear(connection: Connection) -> io::Result<TcpStream> {
    match connection.keys {
        None => Ok(connection.socket),
        Some(_) => Err(io::Error::other("a NIC cannot move encrypted bytes")),
    }
}
