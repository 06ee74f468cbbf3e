//! Faults of a whole comm: connections that are reset, messages that are lost, pages that leak.

use std::net::TcpStream;

use crate::fault::Fault;
use crate::log;
use crate::script::FaultScript;
use tcpx_comm::reset;
use tcpx_softnet::hooks::Side;

/// What the script wants of one comm.
#[derive(Debug)]
pub(crate) struct CommFaults {
    /// How often the comm is driven before its sockets are reset.
    steps_left: Option<u64>,
    /// The message, from 0, that is reported done and never leaves.
    lost: Option<u64>,
    /// Every how many messages their pages are forgotten.
    leak: Option<u64>,
}

impl CommFaults {
    /// `side` says whether it is a send or a receive comm.
    pub(crate) fn new(script: &FaultScript, side: Side) -> Self {
        let mut faults = Self { steps_left: None, lost: None, leak: None };
        for fault in &script.faults {
            match *fault {
                Fault::Kill { side: of, step } if of == side => {
                    faults.steps_left = Some(faults.steps_left.map_or(step, |s| s.min(step)));
                }
                Fault::Lose { message } => faults.lost = faults.lost.or(message.checked_sub(1)),
                Fault::Leak { every } => faults.leak = faults.leak.or(Some(every)),
                _ => {}
            }
        }
        faults
    }

    /// Called whenever the comm is driven: resets its sockets, once, when their time has come.
    pub(crate) fn step(&mut self, sockets: &mut dyn Iterator<Item = &TcpStream>) {
        let Some(left) = self.steps_left else { return };
        self.steps_left = left.checked_sub(1);
        if left > 0 {
            return;
        }
        for socket in sockets {
            if let Err(error) = reset(socket) {
                log::warn!("cannot reset a socket as scripted: {error}");
            }
        }
    }

    /// Whether something is still to happen that comes with being driven often enough.
    pub(crate) fn counts_calls(&self) -> bool {
        self.steps_left.is_some()
    }

    /// Whether a send comm loses this message.
    pub(crate) fn loses(&self, number: u64) -> bool {
        self.lost == Some(number)
    }

    /// Whether a receive comm forgets this message's pages.
    pub(crate) fn leaks(&self, number: u64) -> bool {
        self.leak.is_some_and(|every| (number + 1).is_multiple_of(every))
    }
}
