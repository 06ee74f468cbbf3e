//! The data sockets of one comm, run by helper threads or by the caller.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use super::helper_threads::HelperThreads;
use super::lane::{Chunk, Lane};
use super::lane_order::harvest_order;
use super::options::CommOptions;
use crate::faults::SocketFaults;
use crate::wire::{Side, SocketRole};

/// Bytes queued on a lane that the caller runs itself: no more than one call moves, so that bounce
/// pages are handed out late and stay few and hot.
const INLINE_QUEUE_BYTES: usize = 1 << 20;
/// Bytes queued on a lane with a helper thread, which must not run dry between two calls of `test`.
const HELPER_QUEUE_BYTES: usize = 4 << 20;

/// The data sockets of one comm.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// Dropped before the lanes, so that the threads end first.
    helpers: Option<HelperThreads>,
    lanes: Vec<Arc<Lane>>,
}

impl Lanes {
    /// Takes the connected, non-blocking sockets of a comm.
    pub(crate) fn new(
        sockets: Vec<TcpStream>,
        side: Side,
        options: &CommOptions<'_>,
    ) -> io::Result<Self> {
        let CommOptions { number, threads, script, .. } = *options;
        let lane = |(index, socket)| {
            // At most eight.
            let role = SocketRole::Data(index as u16);
            let faults = SocketFaults::new(script, number, side, role);
            Arc::new(Lane::new(socket, index, side, faults))
        };
        let lanes: Vec<_> = sockets.into_iter().enumerate().map(lane).collect();
        let helpers =
            if threads == 0 { None } else { Some(HelperThreads::start(&lanes, threads)?) };
        Ok(Self { helpers, lanes })
    }

    pub(crate) fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether lane `index` takes another chunk.
    pub(crate) fn has_room(&self, index: usize) -> bool {
        let bytes = if self.helpers.is_some() { HELPER_QUEUE_BYTES } else { INLINE_QUEUE_BYTES };
        self.lanes[index].has_room(bytes)
    }

    pub(crate) fn push(&self, index: usize, chunk: Chunk) {
        self.lanes[index].push(chunk);
        if let Some(helpers) = &self.helpers {
            helpers.notify(index);
        }
    }

    /// Moves bytes, if there are no helper threads to do it.
    pub(crate) fn run(&self) {
        if self.helpers.is_none() {
            for lane in &self.lanes {
                lane.run_once();
            }
        }
    }

    /// Calls `collected` with every finished chunk and its lane, in harvest order.
    pub(crate) fn harvest(&self, mut collected: impl FnMut(usize, Chunk)) {
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

    pub(crate) fn sockets(&self) -> impl Iterator<Item = &TcpStream> + Clone {
        self.lanes.iter().map(|lane| lane.socket())
    }

    /// Ends the helper threads; nothing touches the chunks' memory after that.
    pub(crate) fn stop(&mut self) {
        self.helpers = None;
        self.lanes.clear();
    }
}
