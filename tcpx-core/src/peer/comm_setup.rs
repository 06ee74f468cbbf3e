//! Connecting the comms of a peer, both ways at once, after its control link has proven itself.
//!
//! Each end listens on every channel and sends its handles; each end connects to the other's
//! handles and accepts on its own. A worker does it, because all of these calls may block. This is
//! what the peer sees of it; [`CommOpening`] is what the worker does.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tcpx_sys::NetHandle;

use super::comm_opening::{CommOpening, Comms};
use super::credit_terms::CreditTerms;
use crate::control::frame::ChunkCounts;
use crate::control::hello::Agreement;
use crate::error::{Error, PluginHang, Result};
use crate::peer::session_context::SessionContext;
use crate::plugin::blocking_call::BlockingCall;
use crate::plugin::calls::LongCall;
use crate::plugin::comm_label::CommLabel;
use crate::plugin::nics;
use crate::types::PeerKey;
use crate::types::peer_name::PeerName;
use crate::workers::{Step, Workers};

/// First and longest pause of the worker while nobody comes.
const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// What has come of it since it was looked at last.
#[derive(Debug, Default)]
pub(crate) struct SetupNews {
    /// Every channel listens: the handles to send to the peer.
    pub(crate) listening: Option<Vec<NetHandle>>,
    /// Every receive comm is accepted by now, and there is room for so many chunks on each; empty:
    /// for any number.
    pub(crate) accepted: Option<ChunkCounts>,
    /// Every send comm is connected by now.
    pub(crate) is_connected: bool,
}

/// What the peer and the worker tell each other. Locked for moments only, never during a call.
#[derive(Debug, Default)]
struct Shared {
    /// The peer's handles, once they came.
    peer_handles: Option<Vec<NetHandle>>,
    news: SetupNews,
    /// Something in the news has not been looked at.
    has_news: bool,
    /// The first channel on which the peer is not accepted.
    accepting: Option<CommLabel>,
    comms: Option<Comms>,
    error: Option<Error>,
    /// Nobody wants the comms any more.
    is_over: bool,
}

/// The comms of one peer while they are being connected.
#[derive(Debug)]
pub(crate) struct CommSetup {
    nics: Vec<Arc<str>>,
    began_at: Instant,
    shared: Arc<Mutex<Shared>>,
}

impl CommSetup {
    /// Begins to listen on every channel.
    pub(crate) fn start(
        key: PeerKey,
        peer: &PeerName,
        local: Option<IpAddr>,
        agreement: Agreement,
        session: &SessionContext,
        workers: &Workers,
        now: Instant,
    ) -> Result<Self> {
        let chosen =
            nics::choose(&session.plugin, &session.options.nics, session.gpu_path.as_ref(), local)?;
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
        let nics = labels.iter().map(|label| Arc::clone(&label.nic)).collect();
        let shared = Shared { accepting: labels.first().cloned(), ..Shared::default() };
        let shared = Arc::new(Mutex::new(shared));
        let credit = CreditTerms::new(agreement, session);
        let mut opening = Some(CommOpening::new(&session.plugin, labels, credit));
        let (seen, mut pause) = (Arc::clone(&shared), FIRST_PAUSE);
        workers.for_peer(key).run(move || {
            let step = step(&mut opening, &seen);
            match step {
                Step::Later(_) => {
                    pause = (2 * pause).min(LONGEST_PAUSE);
                    Step::Later(pause)
                }
                _ => {
                    pause = FIRST_PAUSE;
                    step
                }
            }
        });
        Ok(Self { nics, began_at: now, shared })
    }

    /// The NIC of each channel.
    pub(crate) fn nics(&self) -> &[Arc<str>] {
        &self.nics
    }

    /// The peer's handles came, one for each channel.
    pub(crate) fn connect(&self, handles: Vec<NetHandle>) {
        lock(&self.shared).peer_handles = Some(handles);
    }

    /// The accept that has not been ready for at least this time.
    pub(crate) fn pending_accept(&self, time: Duration, now: Instant) -> Option<LongCall> {
        let waited = now.saturating_duration_since(self.began_at);
        let label = (waited >= time).then(|| lock(&self.shared).accepting.clone())??;
        let call = BlockingCall::Accept;
        let hang = PluginHang { returns: true, ..label.hang(call, waited) };
        Some(LongCall { peer: label.peer_key, call, hang })
    }

    /// What has come of it, if anything is new.
    pub(crate) fn poll(&self) -> Result<Option<SetupNews>> {
        let mut shared = lock(&self.shared);
        if let Some(error) = &shared.error {
            return Err(error.clone());
        }
        if !std::mem::take(&mut shared.has_news) {
            return Ok(None);
        }
        let accepted = shared.news.accepted.clone();
        let listening = shared.news.listening.take();
        Ok(Some(SetupNews { listening, accepted, is_connected: shared.news.is_connected }))
    }

    /// The comms by channel, when all are there.
    pub(crate) fn finish(&self) -> Comms {
        lock(&self.shared).comms.take().unwrap_or_default()
    }
}

impl Drop for CommSetup {
    fn drop(&mut self) {
        lock(&self.shared).is_over = true;
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the worker does next. All comms that are not wanted any more are closed by it.
fn step(opening: &mut Option<CommOpening>, shared: &Mutex<Shared>) -> Step {
    let peer_handles = {
        let mut shared = lock(shared);
        if shared.is_over {
            drop(shared);
            drop(opening.take());
            return Step::Done;
        }
        // The comms stay open until the peer ends: their end would look like a fault to the other
        // end, which would give up before it hears of the cause.
        if shared.error.is_some() {
            return Step::Later(LONGEST_PAUSE);
        }
        shared.peer_handles.take()
    };
    let Some(comms) = opening else { return Step::Done };
    if let Some(handles) = peer_handles {
        comms.connect(&handles);
    }
    let moved = match comms.step() {
        Ok(moved) => moved,
        Err(error) => {
            lock(shared).error = Some(error);
            return Step::Moved;
        }
    };
    if !moved {
        return Step::Later(Duration::ZERO);
    }
    let is_whole = comms.is_accepted() && comms.is_connected();
    let news = SetupNews {
        listening: comms.new_handles(),
        accepted: comms.is_accepted().then(|| comms.credit()),
        is_connected: comms.is_connected(),
    };
    let accepting = comms.first_accepting().cloned();
    let finished = if is_whole { opening.take().map(CommOpening::finish) } else { None };
    let mut shared = lock(shared);
    let listening = news.listening.or(shared.news.listening.take());
    shared.news = SetupNews { listening, ..news };
    shared.has_news = true;
    shared.accepting = accepting;
    shared.comms = finished;
    if is_whole { Step::Done } else { Step::Moved }
}
