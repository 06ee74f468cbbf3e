//! Connecting the comms of a peer, both ways at once, after its control link has proven itself.
//!
//! Each end listens on every channel and sends its handles; each end connects to the other's
//! handles and accepts on its own.

use std::net::IpAddr;
use std::sync::Arc;

use tcpx_sys::NetHandle;

use super::credit_terms::CreditTerms;
use crate::control::frame::ChunkCounts;
use crate::control::hello::Agreement;
use crate::error::Result;
use crate::peer::session_context::SessionContext;
use crate::plugin::Plugin;
use crate::plugin::comm::{CommLabel, ListenComm, PendingConnect, RecvComm, SendComm};
use crate::plugin::nics;
use crate::types::peer_name::PeerName;

/// The comms of one peer while they are being connected.
#[derive(Debug)]
pub(crate) struct CommSetup {
    nics: Vec<Arc<str>>,
    labels: Vec<CommLabel>,
    /// Those whose peer has not come.
    listens: Vec<Option<ListenComm>>,
    accepted: Vec<Option<RecvComm>>,
    /// Those without a final answer; empty until the peer's handles came.
    connects: Vec<Option<PendingConnect>>,
    connected: Vec<Option<SendComm>>,
    /// What each receive comm needs of the bounce buffer, if that counts.
    credit: Option<CreditTerms>,
}

impl CommSetup {
    /// Listens on every channel.
    pub(crate) fn start(
        peer: &PeerName,
        local: Option<IpAddr>,
        agreement: Agreement,
        session: &SessionContext,
    ) -> Result<Self> {
        let chosen =
            nics::choose(&session.plugin, &session.options.nics, session.gpu_path.as_ref(), local)?;
        let labels: Vec<CommLabel> = (0..agreement.channels)
            .zip(chosen.iter().cycle())
            .map(|(channel, nic)| CommLabel {
                peer: peer.clone(),
                channel,
                nic: nic.name.as_str().into(),
                nic_index: nic.index,
                memory: session.memory.clone(),
            })
            .collect();
        let listens = labels
            .iter()
            .map(|label| ListenComm::open(&session.plugin, label.clone()).map(Some))
            .collect::<Result<Vec<_>>>()?;
        let channels = usize::from(agreement.channels);
        Ok(Self {
            nics: labels.iter().map(|label| Arc::clone(&label.nic)).collect(),
            labels,
            listens,
            accepted: (0..channels).map(|_| None).collect(),
            connects: Vec::new(),
            connected: (0..channels).map(|_| None).collect(),
            credit: CreditTerms::new(agreement, session),
        })
    }

    /// The NIC of each channel.
    pub(crate) fn nics(&self) -> &[Arc<str>] {
        &self.nics
    }

    /// The handles to send to the peer.
    pub(crate) fn handles(&self) -> Vec<NetHandle> {
        self.listens.iter().flatten().map(ListenComm::handle).collect()
    }

    /// The peer's handles came, one for each channel.
    pub(crate) fn connect(&mut self, handles: &[NetHandle], plugin: &Arc<Plugin>) {
        let pending = |(label, handle): (&CommLabel, &NetHandle)| {
            Some(PendingConnect::new(plugin, label.clone(), *handle))
        };
        self.connects = self.labels.iter().zip(handles).map(pending).collect();
    }

    /// Polls every comm that is not there yet. Returns whether one came.
    pub(crate) fn poll(&mut self) -> Result<bool> {
        let mut moved = false;
        let admitted = self.accepted.iter().flatten().count();
        for (pending, accepted) in self.listens.iter_mut().zip(&mut self.accepted) {
            let Some(listen) = pending else { continue };
            if let Some(mut comm) = listen.poll_accept()? {
                if let Some(terms) = self.credit {
                    terms.admit(&mut comm, admitted)?;
                }
                *accepted = Some(comm);
                // One peer per listen comm: its work is done.
                *pending = None;
                moved = true;
                // The original may sleep for seconds when it accepts: other peers get their turn
                // between two.
                break;
            }
        }
        for (pending, connected) in self.connects.iter_mut().zip(&mut self.connected) {
            let Some(connect) = pending else { continue };
            if let Some(comm) = connect.poll()? {
                *connected = Some(comm);
                *pending = None;
                moved = true;
            }
        }
        Ok(moved)
    }

    /// Whether every receive comm is accepted.
    pub(crate) fn is_accepted(&self) -> bool {
        self.accepted.iter().all(Option::is_some)
    }

    /// How many chunks there is room for on each channel; empty: for any number.
    pub(crate) fn credit(&mut self) -> ChunkCounts {
        let accepted = self.accepted.iter_mut().flatten();
        accepted.filter_map(|comm| Some(comm.credit()?.limit())).collect()
    }

    /// Whether every send comm is connected.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected.iter().all(Option::is_some)
    }

    /// The comms by channel: sends, receives.
    pub(crate) fn finish(self) -> (Vec<SendComm>, Vec<(CommLabel, RecvComm)>) {
        let sends = self.connected.into_iter().flatten().collect();
        let receives = self
            .labels
            .into_iter()
            .zip(self.accepted)
            .filter_map(|(label, comm)| Some((label, comm?)))
            .collect();
        (sends, receives)
    }
}
