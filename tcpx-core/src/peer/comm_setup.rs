//! Set-up of the comms of a peer, both ways at once, after its control link has proven itself.
//!
//! Each end listens on every channel and sends its handles; each end connects to the other's
//! handles and accepts on its own. A worker makes these calls, because all of them may block. This
//! module is the peer's view of the set-up; [`CommOpening`] is the worker's part.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tcpx_protocol::frames::frame::ChunkCounts;
use tcpx_protocol::frames::hello::Agreement;
use tcpx_sys::NetHandle;

use super::comm_opening::{CommOpening, Comms, CreditTerms};
use super::dial_policy::{AddressTrust, DialPolicy};
use crate::error::{Departure, Error, Phase, PluginHang, Result};
use crate::peer::session_context::SessionContext;
use crate::plugin::calls::LongCall;
use crate::plugin::comm_label::{BlockingCall, CommLabel};
use crate::plugin::comm_secrets::CommSecrets;
use crate::plugin::peer_handle::PeerHandle;
use crate::types::{PeerKey, PeerName};
use crate::workers::{JobStep, Workers};

/// First and longest pause of the worker while no comm comes.
const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// Progress of the set-up since the last poll.
#[derive(Debug, Default)]
pub(crate) struct SetupProgress {
    /// Every channel listens: the handles to send to the peer.
    pub(crate) listening: Option<Vec<NetHandle>>,
    /// Chunks that there is room for on each channel, once every receive comm is accepted; empty:
    /// any number.
    pub(crate) accepted: Option<ChunkCounts>,
    /// Whether every send comm is connected by now.
    pub(crate) is_connected: bool,
}

/// State that the peer and the worker share. Locked for moments only, never during a call.
#[derive(Debug, Default)]
struct SetupState {
    /// Handles of the peer, once they came, and the trust in their addresses.
    peer_handles: Option<(Vec<NetHandle>, AddressTrust)>,
    progress: SetupProgress,
    /// Whether the progress has changed since the last poll.
    has_progress: bool,
    /// First channel on which the peer is not accepted.
    accepting: Option<CommLabel>,
    comms: Option<Comms>,
    error: Option<Error>,
    /// Whether the comms are not needed any more.
    is_over: bool,
}

/// Set-up of the comms of one peer.
#[derive(Debug)]
pub(crate) struct CommSetup {
    peer: PeerName,
    policy: DialPolicy,
    nics: Vec<Arc<str>>,
    began_at: Instant,
    shared: Arc<Mutex<SetupState>>,
}

impl CommSetup {
    /// Begins to listen on every channel, for a peer whose own channels are dialled only where the
    /// policy allows it. With secrets, what the comms carry is encrypted.
    pub(crate) fn start(
        key: PeerKey,
        peer: &PeerName,
        policy: DialPolicy,
        (agreement, secrets): (Agreement, Option<CommSecrets>),
        session: &SessionContext,
        workers: &Workers,
        now: Instant,
    ) -> Result<Self> {
        let chosen = session.identity.nics.choose(policy.local())?;
        let labels: Vec<CommLabel> = (0..agreement.channels)
            .zip(chosen.iter().cycle())
            .map(|(channel, nic)| CommLabel {
                session: session.number,
                peer_key: key,
                peer: peer.clone(),
                channel,
                nic: nic.name.as_str().into(),
                nic_index: nic.index,
                memory: session.memory.clone(),
            })
            .collect();
        let nics: Vec<_> = labels.iter().map(|label| Arc::clone(&label.nic)).collect();
        let policy = policy.with_nics(nics.clone());
        let shared = SetupState { accepting: labels.first().cloned(), ..SetupState::default() };
        let shared = Arc::new(Mutex::new(shared));
        let credit = CreditTerms::new(agreement, session);
        let mut opening = Some(CommOpening::new(&session.plugin, labels, credit, secrets));
        let (seen, mut pause) = (Arc::clone(&shared), FIRST_PAUSE);
        workers.for_peer(key).run(move || {
            let step = poll_opening(&mut opening, &seen);
            match step {
                JobStep::Later(_) => {
                    pause = (2 * pause).min(LONGEST_PAUSE);
                    JobStep::Later(pause)
                }
                _ => {
                    pause = FIRST_PAUSE;
                    step
                }
            }
        });
        Ok(Self { peer: peer.clone(), policy, nics, began_at: now, shared })
    }

    /// Returns the NIC of each channel.
    pub(crate) fn nics(&self) -> &[Arc<str>] {
        &self.nics
    }

    /// Takes the peer's handles, one for each channel.
    ///
    /// # Errors
    /// [`Error::Protocol`] for what is no handle; [`Departure::ForeignAddress`] for one that leads
    /// elsewhere than to the peer. None is dialled then.
    pub(crate) fn connect(&self, handles: Vec<NetHandle>) -> Result<()> {
        let mut checked = Vec::with_capacity(handles.len());
        let mut weakest = AddressTrust::Known;
        for (channel, handle) in (0..).zip(handles) {
            let handle = PeerHandle::read(handle).map_err(|problem| Error::Protocol {
                peer: self.peer.to_string(),
                detail: format!("its handle of channel {channel} has {problem}"),
            })?;
            for address in handle.addresses() {
                let foreign = || Error::PeerGone {
                    peer: self.peer.to_string(),
                    phase: Phase::Connect,
                    how: Departure::ForeignAddress { channel, address },
                };
                weakest = weakest.max(self.policy.trust(address).ok_or_else(foreign)?);
            }
            checked.push(handle.into_handle());
        }
        lock(&self.shared).peer_handles = Some((checked, weakest));
        Ok(())
    }

    /// Returns the accept that has not been ready for at least this time.
    pub(crate) fn pending_accept(&self, time: Duration, now: Instant) -> Option<LongCall> {
        let waited = now.saturating_duration_since(self.began_at);
        let label = (waited >= time).then(|| lock(&self.shared).accepting.clone())??;
        let call = BlockingCall::Accept;
        let hang = PluginHang { returns: true, ..label.hang(call, waited) };
        Some(LongCall { peer: label.peer_key, call, hang })
    }

    /// Returns the progress since the last poll, if there is any.
    pub(crate) fn poll(&self) -> Result<Option<SetupProgress>> {
        let mut shared = lock(&self.shared);
        if let Some(error) = &shared.error {
            return Err(error.clone());
        }
        if !std::mem::take(&mut shared.has_progress) {
            return Ok(None);
        }
        let accepted = shared.progress.accepted.clone();
        let listening = shared.progress.listening.take();
        Ok(Some(SetupProgress { listening, accepted, is_connected: shared.progress.is_connected }))
    }

    /// Returns the comms by channel, when all are there.
    pub(crate) fn finish(&self) -> Comms {
        lock(&self.shared).comms.take().unwrap_or_default()
    }
}

impl Drop for CommSetup {
    fn drop(&mut self) {
        lock(&self.shared).is_over = true;
    }
}

fn lock(shared: &Mutex<SetupState>) -> MutexGuard<'_, SetupState> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the worker's next step, and returns it. The worker closes all comms that are not wanted
/// any more.
fn poll_opening(opening: &mut Option<CommOpening>, shared: &Mutex<SetupState>) -> JobStep {
    let peer_handles = {
        let mut shared = lock(shared);
        if shared.is_over {
            drop(shared);
            drop(opening.take());
            return JobStep::Done;
        }
        // The comms stay open until the peer ends: their end would look like a fault to the other
        // end, which would give up before it learns the cause.
        if shared.error.is_some() {
            return JobStep::Later(LONGEST_PAUSE);
        }
        shared.peer_handles.take()
    };
    let Some(comms) = opening else { return JobStep::Done };
    if let Some((handles, trust)) = peer_handles {
        comms.connect(&handles, trust);
    }
    let moved = match comms.poll() {
        Ok(moved) => moved,
        Err(error) => {
            lock(shared).error = Some(error);
            return JobStep::Moved;
        }
    };
    if !moved {
        return JobStep::Later(Duration::ZERO);
    }
    let is_whole = comms.is_accepted() && comms.is_connected();
    let progress = SetupProgress {
        listening: comms.new_handles(),
        accepted: comms.is_accepted().then(|| comms.credit()),
        is_connected: comms.is_connected(),
    };
    let accepting = comms.first_accepting().cloned();
    let finished = if is_whole { opening.take().map(CommOpening::finish) } else { None };
    let mut shared = lock(shared);
    let listening = progress.listening.or(shared.progress.listening.take());
    shared.progress = SetupProgress { listening, ..progress };
    shared.has_progress = true;
    shared.accepting = accepting;
    shared.comms = finished;
    if is_whole { JobStep::Done } else { JobStep::Moved }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::plugin::peer_handle::tests::handle_to;

    const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 7);

    fn setup(uses_other_nics: bool) -> CommSetup {
        let ends = [None, Some(PEER.into())];
        let policy = DialPolicy::new(ends, Vec::new(), Vec::new, uses_other_nics);
        let (peer, nics, began_at) = (PeerName::bound("p"), Vec::new(), Instant::now());
        CommSetup { peer, policy, nics, began_at, shared: Arc::default() }
    }

    #[test]
    fn no_channel_is_dialled_where_one_of_them_leads_elsewhere() {
        let setup = setup(false);
        let elsewhere = Ipv4Addr::LOCALHOST;
        let handles = [PEER, elsewhere].map(|address| handle_to(address, 40_001));
        let error = setup.connect(handles.into()).unwrap_err();
        assert!(
            matches!(
                &error,
                Error::PeerGone { how: Departure::ForeignAddress { channel: 1, address }, .. }
                    if *address == (elsewhere, 40_001).into()
            ),
            "{error}"
        );
        let error = setup.connect(vec![handle_to(PEER, 22)]).unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{error}");
        assert!(lock(&setup.shared).peer_handles.is_none());
    }

    #[test]
    fn the_plugin_gets_what_was_checked_and_no_pointer_of_the_peers() {
        let clean = handle_to(PEER, 40_001);
        let mut with_pointer = clean;
        with_pointer.0[80..88].fill(0x41);
        let setup = setup(true);
        setup.connect(vec![with_pointer]).unwrap();
        assert_eq!(
            lock(&setup.shared).peer_handles.take(),
            Some((vec![clean], AddressTrust::Known))
        );
        let other_nic = handle_to(Ipv4Addr::new(10, 0, 1, 7), 40_001);
        setup.connect(vec![clean, other_nic]).unwrap();
        let (handles, trust) = lock(&setup.shared).peer_handles.take().unwrap();
        assert_eq!((handles.len(), trust), (2, AddressTrust::Claimed));
    }
}
