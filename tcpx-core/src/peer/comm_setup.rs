//! Connecting the comms of a peer, both ways at once, after its control link has proven itself.
//!
//! Each end listens on every channel and sends its handles; each end connects to the other's handles and accepts on its
//! own. "Ready" on the link says that all receive comms here are accepted, which is the barrier before the first send.

use std::net::IpAddr;
use std::sync::Arc;

use tcpx_sys::NetHandle;

use crate::control::hello::Agreement;
use crate::error::Result;
use crate::peer::session_context::SessionContext;
use crate::plugin::comm::{CommLabel, ListenComm, PendingConnect, RecvComm, SendComm};
use crate::plugin::nics;
use crate::types::peer_name::PeerName;

/// The comms of one peer while they are being connected.
#[derive(Debug)]
pub(crate) struct CommSetup {
    nics: Vec<Arc<str>>,
    places: Vec<CommLabel>,
    /// Those whose peer has not come.
    listens: Vec<Option<ListenComm>>,
    accepted: Vec<Option<RecvComm>>,
    /// Those without a final answer; empty until the peer's handles came.
    connects: Vec<Option<PendingConnect>>,
    connected: Vec<Option<SendComm>>,
    said_ready: bool,
    peer_ready: bool,
    peer_left: bool,
}

impl CommSetup {
    /// Listens on every channel.
    pub(crate) fn start(
        peer: &PeerName,
        local: Option<IpAddr>,
        agreement: Agreement,
        env: &SessionContext,
    ) -> Result<Self> {
        let chosen = nics::choose(&env.plugin, &env.options.nics, env.gpu_path.as_ref(), local)?;
        let places: Vec<CommLabel> = (0..agreement.channels)
            .zip(chosen.iter().cycle())
            .map(|(channel, nic)| CommLabel {
                peer: peer.clone(),
                channel,
                nic: nic.name.as_str().into(),
                nic_index: nic.index,
                memory: env.memory.clone(),
            })
            .collect();
        let listens = places
            .iter()
            .map(|place| ListenComm::open(&env.plugin, place.clone()).map(Some))
            .collect::<Result<Vec<_>>>()?;
        let channels = usize::from(agreement.channels);
        Ok(Self {
            nics: places.iter().map(|place| Arc::clone(&place.nic)).collect(),
            places,
            listens,
            accepted: (0..channels).map(|_| None).collect(),
            connects: Vec::new(),
            connected: (0..channels).map(|_| None).collect(),
            said_ready: false,
            peer_ready: false,
            peer_left: false,
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

    pub(crate) fn state(&self) -> &'static str {
        match (self.connects.is_empty(), self.said_ready, self.peer_ready) {
            (true, ..) => "proven, but its connect handles have not come",
            (false, false, _) => "connecting comms; not all of its connections have come in",
            (false, true, false) => "connecting comms; it has not accepted all of ours",
            (false, true, true) => "connecting comms; ours are not all connected",
        }
    }

    /// The peer's handles came. False when they are not one for each channel, or came twice.
    pub(crate) fn take_handles(&mut self, handles: &[NetHandle], env: &SessionContext) -> bool {
        if handles.len() != self.places.len() || !self.connects.is_empty() {
            return false;
        }
        self.connects = self
            .places
            .iter()
            .zip(handles)
            .map(|(place, handle)| Some(PendingConnect::new(&env.plugin, place.clone(), *handle)))
            .collect();
        true
    }

    /// Polls every comm that is not there yet. Returns whether one came.
    pub(crate) fn poll(&mut self) -> Result<bool> {
        let mut moved = false;
        for (pending, accepted) in self.listens.iter_mut().zip(&mut self.accepted) {
            let Some(listen) = pending else { continue };
            if let Some(comm) = listen.poll_accept()? {
                *accepted = Some(comm);
                // One peer per listen comm: its work is done.
                *pending = None;
                moved = true;
                // The original may sleep for seconds when it accepts: other peers get their turn between two.
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

    /// True once: every receive comm is accepted and the peer should know.
    pub(crate) fn take_ready_to_announce(&mut self) -> bool {
        let is_due = !self.said_ready && self.accepted.iter().all(Option::is_some);
        self.said_ready |= is_due;
        is_due
    }

    /// Whether the peer may be up at its end: it was told that every receive comm here is accepted.
    pub(crate) fn has_said_ready(&self) -> bool {
        self.said_ready
    }

    pub(crate) fn peer_is_ready(&mut self) {
        self.peer_ready = true;
    }

    /// The peer was up and has said goodbye already.
    pub(crate) fn peer_said_goodbye(&mut self) {
        self.peer_left = true;
    }

    /// Whether its goodbye waits for an answer.
    pub(crate) fn has_peer_left(&self) -> bool {
        self.peer_left
    }

    /// Whether chunks may flow both ways.
    pub(crate) fn is_ready(&self) -> bool {
        self.said_ready && self.peer_ready && self.connected.iter().all(Option::is_some)
    }

    /// The comms by channel: sends, receives.
    pub(crate) fn finish(self) -> (Vec<SendComm>, Vec<(CommLabel, RecvComm)>) {
        let sends = self.connected.into_iter().flatten().collect();
        let receives = self
            .places
            .into_iter()
            .zip(self.accepted)
            .filter_map(|(place, comm)| Some((place, comm?)))
            .collect();
        (sends, receives)
    }
}
