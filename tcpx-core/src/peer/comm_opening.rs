//! What a worker does to connect the comms of a peer. Every step makes calls that may block.

use std::sync::Arc;
use std::time::Instant;

use tcpx_protocol::frames::frame::ChunkCounts;
use tcpx_sys::NetHandle;

use super::credit_terms::CreditTerms;
use super::dial_answer::DialAnswer;
use super::dial_places::Standing;
use crate::error::{Error, PluginFailure, Result};
use crate::plugin::Plugin;
use crate::plugin::comm::{ListenComm, PendingConnect, RecvComm, SendComm};
use crate::plugin::comm_label::CommLabel;
use crate::plugin::daemon;

/// The comms of a peer by channel, when all of them are there.
#[derive(Debug, Default)]
pub(crate) struct Comms {
    pub(crate) sends: Vec<SendComm>,
    pub(crate) receives: Vec<(CommLabel, RecvComm)>,
}

/// The comms of one peer on their way.
#[derive(Debug)]
pub(super) struct CommOpening {
    plugin: Arc<Plugin>,
    labels: Vec<CommLabel>,
    /// Whether the handles of the listen comms were given out.
    has_told: bool,
    /// Those whose peer has not come.
    listens: Vec<Option<ListenComm>>,
    accepted: Vec<Option<RecvComm>>,
    /// Those without a final answer; empty until the peer's handles came.
    connects: Vec<Option<PendingConnect>>,
    connected: Vec<Option<SendComm>>,
    /// When the peer hears of a dial that fails.
    answer: DialAnswer,
    /// What each receive comm needs of the bounce buffer, if that counts.
    credit: Option<CreditTerms>,
}

impl CommOpening {
    pub(super) fn new(
        plugin: &Arc<Plugin>,
        labels: Vec<CommLabel>,
        credit: Option<CreditTerms>,
    ) -> Self {
        let channels = labels.len();
        Self {
            plugin: Arc::clone(plugin),
            labels,
            has_told: false,
            listens: Vec::new(),
            accepted: (0..channels).map(|_| None).collect(),
            connects: Vec::new(),
            connected: (0..channels).map(|_| None).collect(),
            answer: DialAnswer::default(),
            credit,
        }
    }

    /// The handles to send to the peer, once, when every channel listens.
    pub(super) fn new_handles(&mut self) -> Option<Vec<NetHandle>> {
        if self.listens.is_empty() || std::mem::replace(&mut self.has_told, true) {
            return None;
        }
        Some(self.listens.iter().flatten().map(ListenComm::handle).collect())
    }

    /// The peer's handles came, one for each channel, and this speaks for their addresses.
    pub(super) fn connect(&mut self, handles: &[NetHandle], standing: Standing) {
        if standing == Standing::Claimed {
            self.answer = DialAnswer::claimed(Instant::now());
        }
        let pending = |(label, handle): (&CommLabel, &NetHandle)| {
            Some(PendingConnect::new(&self.plugin, label.clone(), *handle))
        };
        self.connects = self.labels.iter().zip(handles).map(pending).collect();
    }

    /// Listens on every channel; after that asks for every comm that is not there yet. Returns
    /// whether something came.
    ///
    /// # Errors
    /// Where the hardware plugin fails, with what is wrong with RxDM: its code does not say so.
    pub(super) fn step(&mut self) -> Result<bool> {
        self.ask().map_err(|error| match error {
            Error::Plugin(failure) if failure.cause.is_none() && self.plugin.is_hardware() => {
                let cause = daemon::what_is_wrong().map(Box::new);
                Error::Plugin(PluginFailure { cause, ..failure })
            }
            other => other,
        })
    }

    fn ask(&mut self) -> Result<bool> {
        if self.listens.is_empty() {
            let open = |label: &CommLabel| ListenComm::open(&self.plugin, label.clone()).map(Some);
            self.listens = self.labels.iter().map(open).collect::<Result<_>>()?;
            return Ok(true);
        }
        let mut moved = false;
        let mut admitted = self.accepted.iter().flatten().count();
        for (pending, accepted) in self.listens.iter_mut().zip(&mut self.accepted) {
            let Some(listen) = pending else { continue };
            if let Some(mut comm) = listen.poll_accept()? {
                if let Some(terms) = self.credit {
                    terms.admit(&mut comm, admitted)?;
                    admitted += 1;
                }
                *accepted = Some(comm);
                // One peer per listen comm: its work is done.
                *pending = None;
                moved = true;
            }
        }
        for (pending, connected) in self.connects.iter_mut().zip(&mut self.connected) {
            let Some(connect) = pending else { continue };
            match connect.poll() {
                Ok(None) => continue,
                Ok(comm) => *connected = comm,
                Err(error) => self.answer.failed(error)?,
            }
            *pending = None;
            moved = true;
        }
        if let Some(CommLabel { peer, .. }) = self.labels.first() {
            let is_connected = self.connected.iter().all(Option::is_some);
            self.answer.check(peer, is_connected, Instant::now())?;
        }
        Ok(moved)
    }

    /// The first channel on which the peer is not accepted.
    pub(super) fn first_accepting(&self) -> Option<&CommLabel> {
        self.labels.get(self.accepted.iter().position(Option::is_none)?)
    }

    /// Whether every receive comm is accepted.
    pub(super) fn is_accepted(&self) -> bool {
        self.accepted.iter().all(Option::is_some)
    }

    /// How many chunks there is room for on each channel; empty: for any number.
    pub(super) fn credit(&mut self) -> ChunkCounts {
        let accepted = self.accepted.iter_mut().flatten();
        accepted.filter_map(|comm| Some(comm.credit()?.limit())).collect()
    }

    /// Whether every send comm is connected.
    pub(super) fn is_connected(&self) -> bool {
        self.connected.iter().all(Option::is_some)
    }

    /// The comms, when all are there.
    pub(super) fn finish(self) -> Comms {
        let sends = self.connected.into_iter().flatten().collect();
        let receives = self.labels.into_iter().zip(self.accepted);
        let receives = receives.filter_map(|(label, comm)| Some((label, comm?))).collect();
        Comms { sends, receives }
    }
}
