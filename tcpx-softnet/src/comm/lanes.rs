//! The data sockets of one comm, run by helper threads or by the caller.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use crate::comm::flow::harvest_order;
use crate::comm::helper_threads::Helpers;
use crate::comm::lane::{Direction, Lane, Task};
use crate::faults::{CutSocket, Disturbance, Side};
use crate::plugin::Settings;

/// Bytes queued on a lane that the caller runs itself: no more than one call moves, so that bounce pages are handed out
/// late and stay few and hot.
const INLINE_QUEUE_BYTES: usize = 1 << 20;
/// Bytes queued on a lane with a helper thread, which must not run dry between two calls of `test`.
const HELPER_QUEUE_BYTES: usize = 4 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// Before the lanes: the threads end first.
    helpers: Option<Helpers>,
    lanes: Vec<Arc<Lane>>,
}

impl Lanes {
    /// Takes the connected, non-blocking sockets of comm number `comm`; `threads` is 0 when the caller runs the lanes.
    pub(crate) fn new(
        sockets: Vec<TcpStream>,
        direction: Direction,
        threads: usize,
        settings: &Settings,
        comm: u64,
    ) -> io::Result<Self> {
        let side = match direction {
            Direction::Send => Side::Send,
            Direction::Receive => Side::Recv,
        };
        let lane = |(index, socket)| {
            // At most eight.
            let disturbance = Disturbance::new(settings, comm, side, CutSocket::Data(index as u16));
            Arc::new(Lane::new(socket, index, direction, disturbance))
        };
        let lanes: Vec<_> = sockets.into_iter().enumerate().map(lane).collect();
        let helpers = if threads == 0 { None } else { Some(Helpers::start(&lanes, threads)?) };
        Ok(Self { helpers, lanes })
    }

    pub(crate) fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether lane `index` takes another task.
    pub(crate) fn has_room(&self, index: usize) -> bool {
        let bytes = if self.helpers.is_some() { HELPER_QUEUE_BYTES } else { INLINE_QUEUE_BYTES };
        self.lanes[index].has_room(bytes)
    }

    pub(crate) fn push(&self, index: usize, task: Task) {
        self.lanes[index].push(task);
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

    /// Calls `collected` with every finished task, in harvest order.
    pub(crate) fn harvest(&self, mut collected: impl FnMut(Task)) {
        for index in harvest_order(self.lanes.len()) {
            while let Some(task) = self.lanes[index].collect() {
                collected(task);
            }
        }
    }

    /// Ends all connections as the death of the process would.
    pub(crate) fn reset(&self) {
        self.lanes.iter().for_each(|lane| lane.reset());
    }

    /// Ends the helper threads; nothing touches the tasks' memory after that.
    pub(crate) fn stop(&mut self) {
        self.helpers = None;
        self.lanes.clear();
    }
}
