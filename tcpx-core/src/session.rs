//! The session: what a program holds, and the thread that makes progress whatever the program does.

mod closing;
mod connecting;
mod devices;
mod exporting;
mod lead;
mod notifying;
pub(crate) mod operation;
mod registering;
mod shared;
#[cfg(all(test, feature = "soft"))]
mod tests;
pub(crate) mod transfer;
mod wait;
mod waiting;

use std::borrow::Cow;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tcpx_protocol::exports::remote_key::RemoteKey;
use tcpx_protocol::types::MemoryType;
use tcpx_protocol::types::memory::{Device, MemoryId};
use tcpx_sys::is_forked;

use self::closing::LET_GO_TIMEOUT;
use self::devices::OtherDevices;
use self::shared::{EngineGuard, Shared};
use self::transfer::Transfer;
use self::wait::EventSet;
use crate::completions::TransferCompletion;
use crate::completions::peer_queue::PeerQueue;
use crate::completions::queue::CompletionQueue;
use crate::engine::meeting::device_context::DeviceContext;
#[cfg(doc)]
use crate::error::Phase;
use crate::error::{Error, RegistrationProblem, Result, SettingProblem};
use crate::memory::Placement;
use crate::plugin::Nic;
use crate::settings::SessionOptions;
use crate::stats::metrics::metrics_text;
use crate::stats::report::SessionReport;

/// One GPU (or host memory), its NICs, its peers and its registrations; or the host and all GPUs,
/// as [`SessionOptions::all_devices`] says:
///
/// ```
/// use tcpx_core::{
///     Access, Device, ExportOptions, MemoryRange, OperationKind, RemoteAccess, RemoteRange,
///     Session, SessionOptions,
/// };
/// # fn main() -> tcpx_core::Result<()> {
/// // Ordinary memory stands in for GPUs here.
/// let options = || SessionOptions::default().all_devices(true).emulated_gpus(2);
/// let prefill = Session::new(options().name("prefill"))?;
/// let decode = Session::new(options().name("decode"))?;
///
/// // Prefill has something in memory of its second GPU that others may read.
/// let cache = prefill.allocate(4096, Device::Gpu(1))?;
/// prefill.write_memory(cache, 0, &[7; 4096])?;
/// let key = prefill.export(cache, ExportOptions::new(RemoteAccess::Read))?;
///
/// // Decode has the connection info and the key, and reads it into memory of its host.
/// decode.load_remote_conn_info("prefill", &prefill.listen()?)?;
/// let here = decode.register_buffer(vec![0; 4096], Access::ReadWrite)?;
/// let local = [MemoryRange { memory: here, offset: 0, bytes: 4096 }];
/// let remote = [RemoteRange { key: &key, offset: 0, bytes: 4096 }];
/// let read = decode.prepare("prefill", OperationKind::Read, &local, &remote)?;
/// read.post(Some(b"done with it"))?;
/// read.wait(None)?;
/// assert_eq!(*decode.take_buffer(here)?, [7; 4096]);
/// # Ok(())
/// # }
/// ```
///
/// `Send + Sync`: any thread may call anything; calls are serialised inside. Progress is made
/// inside the calls of this library, or by a thread of the session
/// ([`SessionOptions::progress_thread`]).
///
/// Dropping it does what [`close`](Self::close) does; only the error goes to the log. So close it
/// first if memory was registered that is to be freed afterwards: a drop cannot say whether a GPU
/// that hangs, or a plugin that does not return, still writes it.
///
/// In a forked child every call answers [`Error::Forked`] or nothing, and dropping it does nothing;
/// see [Fork](crate#fork).
#[derive(Debug)]
pub struct Session {
    /// The engine of the session's own device: the host, and the GPU of its options.
    shared: Arc<Shared>,
    /// In a session of all devices.
    others: Option<Arc<OtherDevices>>,
    options: SessionOptions,
    completions: Arc<CompletionQueue>,
    event_set: EventSet,
    peers: Arc<PeerQueue>,
    /// Counts polls for notifications: devices come first by turns.
    notification_turns: AtomicUsize,
    /// [`LET_GO_TIMEOUT`] but for tests.
    let_go_timeout: Duration,
}

impl Session {
    /// Opens the plugin (once per process) and the unpack backend.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Load`], [`Error::Plugin`], [`Error::UnusablePlugin`],
    /// [`Error::NoNic`], [`Error::Unpack`], [`Error::MemoryUnavailable`]; [`Error::Forked`] in a
    /// child forked from a process that had made a session; [`Error::Io`].
    pub fn new(options: SessionOptions) -> Result<Self> {
        let context = DeviceContext::new()?;
        let (options, others, context) = match options.all_devices {
            false => (options, None, context),
            true => {
                let options = options.progress_thread(true).accept_all(true);
                let (others, context) = OtherDevices::new(options.clone(), context);
                (options, Some(others), context)
            }
        };
        Self::open(options, others, context)
    }

    fn open(
        options: SessionOptions,
        others: Option<Arc<OtherDevices>>,
        context: DeviceContext,
    ) -> Result<Self> {
        let completions = Arc::clone(&context.completions);
        let peers = Arc::clone(&context.peers);
        let shared = match Shared::open(options.clone(), context.clone()) {
            // Memory of the host is sent with the first GPU.
            Err(Error::Setting { problem: SettingProblem::GpuNeeded, .. }) if others.is_some() => {
                Shared::open(options.clone().gpu(Some(0)), context)?
            }
            opened => opened?,
        };
        Ok(Self {
            shared,
            others,
            options,
            completions,
            event_set: EventSet::default(),
            peers,
            notification_turns: AtomicUsize::new(0),
            let_go_timeout: LET_GO_TIMEOUT,
        })
    }

    /// A transfer with a peer: a set of sends and receives that are waited for together.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`]; [`Error::PeerState`] or the peer's own error when it is not up.
    pub fn create_transfer(&self, peer: &str) -> Result<Transfer> {
        let transfer = self.shared.engine()?.create_transfer(&self.called(peer))?;
        let (shared, completions) = (Arc::clone(&self.shared), Arc::clone(&self.completions));
        Ok(Transfer::new(shared, transfer, completions))
    }

    /// Takes out of the queue at most `most` transfers of which rounds have ended, those first that
    /// ended first, and appends them to `completions`. Returns how many. Transfers are in the queue
    /// that [report](Transfer::report_completions) there. Makes no progress, and waits for nobody.
    ///
    /// The session's [descriptor](Self::event_fd) is not readable afterwards, unless the queue has
    /// more entries.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn poll_completions(
        &self,
        completions: &mut Vec<TransferCompletion>,
        most: usize,
    ) -> Result<usize> {
        if is_forked() {
            return Err(Error::Forked);
        }
        Ok(self.completions.take(completions, most))
    }

    /// A descriptor for an event loop of the program: readable when a round of a transfer has
    /// ended, whether or not the transfer reports it, or an attempt that
    /// [`start_connect`](Self::start_connect) and its like began, when a notification has come, and
    /// when a peer that is [reported](Self::report_peers) has come up or ended. It is readable at
    /// first. In a session without a progress thread it is also readable when a round of progress
    /// is due: because something has happened on a connection, because something was posted, or
    /// because a time has come.
    ///
    /// When it is readable, call [`progress`](Self::progress) first, if the session has no progress
    /// thread, then [`poll_completions`](Self::poll_completions) or
    /// [`poll_events`](Self::poll_events), and look at transfers, peers and notifications after
    /// that. Only these make it unreadable: whatever happens later makes it readable
    /// again. It belongs to the session: it is not read from, and not closed.
    ///
    /// # Errors
    /// [`Error::Io`] when the process has no descriptors left; [`Error::Forked`].
    pub fn event_fd(&self) -> Result<BorrowedFd<'_>> {
        if is_forked() {
            return Err(Error::Forked);
        }
        let completed = self.completions.event().open()?;
        match self.options.progress_thread {
            true => Ok(completed),
            false => self.event_set.open(completed, self.shared.poller()),
        }
    }

    /// Ends the session. It says goodbye to every peer, as [`disconnect`](Self::disconnect) does,
    /// for at most [`SessionOptions::close_timeout`]; then it closes everything. Other calls answer
    /// [`Error::Closed`] from then on, and operations that are left end with it. Closing a closed
    /// session does no harm. When it returns `Ok`, nothing touches registered memory any more.
    ///
    /// # Errors
    /// [`Error::Deadline`] names the peers that did not answer; everything is closed all the same.
    /// In phase [`Phase::Unpack`] it says that something of a peer that ended still uses registered
    /// memory: chunks are being unpacked or gathered, or comms being closed. That memory must stay.
    /// Closing again looks again. Of several devices with an error, the first is named.
    pub fn close(&self) -> Result<()> {
        if let Some(others) = &self.others {
            others.close();
        }
        let devices = self.devices();
        devices.iter().try_for_each(|device| device.start_close())?;
        let times = (self.options.close_timeout, self.let_go_timeout);
        let closed = devices.iter().map(|device| device.finish_close(times));
        let closed = closed.fold(Ok(()), Result::and);
        if devices.len() > 1 {
            // What ended last may have asked something of an engine that was closed before.
            self.progress();
        }
        closed
    }

    /// Whether nothing of peers that ended uses registered memory any more. True of a closed
    /// session: nothing touches memory that was registered with it, whether or not every peer
    /// answered.
    pub fn is_settled(&self) -> bool {
        let is_settled = |device: &Shared| device.engine().is_ok_and(|it| it.is_settled());
        is_settled(&self.shared) && self.others().iter().all(|device| is_settled(device))
    }

    /// One round of progress over everything, without waiting. Returns whether anything moved.
    pub fn progress(&self) -> bool {
        self.others().iter().fold(self.shared.progress(), |moved, it| it.progress() | moved)
    }

    /// The NICs that the plugin offers; none in a forked child.
    pub fn nics(&self) -> Vec<Nic> {
        let nics = |engine: EngineGuard<'_>| engine.commons.session.plugin.nics().to_vec();
        self.shared.engine().map(nics).unwrap_or_default()
    }

    /// The session as it is now; in a forked child an empty report. Of a session of all devices,
    /// it is the host's part: [`stats_by_device`](Self::stats_by_device) has the rest.
    pub fn stats(&self) -> SessionReport {
        self.report(self.own_device(), &self.shared)
    }

    /// The same of each device that is used.
    pub fn stats_by_device(&self) -> Vec<(Device, SessionReport)> {
        let others = self.others.iter().flat_map(|others| others.by_device());
        let others = others.map(|(device, shared)| (device, self.report(device, &shared)));
        std::iter::once((self.own_device(), self.stats())).chain(others).collect()
    }

    fn own_device(&self) -> Device {
        match (&self.others, self.options.gpu) {
            (None, Some(gpu)) => Device::Gpu(gpu),
            _ => Device::Host,
        }
    }

    fn report(&self, device: Device, shared: &Shared) -> SessionReport {
        let Ok(report) = shared.engine().map(|engine| engine.report()) else {
            return SessionReport::default();
        };
        SessionReport { name: self.options.name.clone(), device: device.to_string(), ..report }
    }

    /// The same as text that Prometheus reads, for a program to offer to it, of all devices. See
    /// [`metrics_text`](crate::metrics_text), which joins several sessions.
    pub fn metrics_text(&self) -> String {
        metrics_text(self.stats_by_device().iter().map(|(_, report)| report))
    }

    /// The settings it was made with.
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }
}

impl Session {
    /// The engines of all devices that are used, the session's own first.
    pub(super) fn devices(&self) -> Vec<Arc<Shared>> {
        let mut devices = vec![Arc::clone(&self.shared)];
        devices.extend(self.others());
        devices
    }

    /// The engines of all devices that are used, but for the session's own.
    pub(super) fn others(&self) -> Vec<Arc<Shared>> {
        self.others.as_ref().map_or_else(Vec::new, |others| others.all())
    }

    /// What the peer is called that has this name, too.
    pub(super) fn called<'a>(&self, peer: &'a str) -> Cow<'a, str> {
        match &self.others {
            // In a forked child another thread of the parent may have held the lock of the names.
            Some(others) if !is_forked() => Cow::Owned(others.names.called(peer)),
            _ => Cow::Borrowed(peer),
        }
    }

    /// The engine of a device, if the session has one.
    pub(super) fn used(&self, device: Device) -> Result<Option<Arc<Shared>>> {
        match (device, &self.others) {
            (Device::Host, _) => Ok(Some(Arc::clone(&self.shared))),
            (_, Some(others)) => others.get(device),
            (_, None) => Ok(None),
        }
    }

    /// The engine that has this memory.
    pub(super) fn holder_of(&self, id: MemoryId) -> Result<Arc<Shared>> {
        self.used(id.device())?.ok_or(Error::UnknownRegistration { id })
    }

    /// The engine that gave this key out, if the session did; otherwise one that refuses it.
    pub(super) fn exporter_of(&self, key: &RemoteKey) -> Result<Arc<Shared>> {
        let exporter = self.used(Device::of_session(&key.session))?;
        Ok(exporter.unwrap_or_else(|| Arc::clone(&self.shared)))
    }

    /// The engine that is to have memory there, and what the memory is to it.
    ///
    /// # Errors
    /// What is wrong with a device that cannot be used.
    pub(super) fn engine_for(&self, place: Placement) -> Result<(Arc<Shared>, MemoryType)> {
        let refuse = |problem| Err(Error::Registration { id: None, problem });
        let own = || Arc::clone(&self.shared);
        match (place, &self.others) {
            (Placement::Device(Device::Host), _) => Ok((own(), MemoryType::Host)),
            (Placement::Device(device), Some(others)) => {
                Ok((others.get_or_make(device)?, MemoryType::Device))
            }
            (Placement::Device(Device::Gpu(gpu)), None) if self.options.gpu != Some(gpu) => {
                refuse(RegistrationProblem::OtherGpu { gpu })
            }
            (Placement::Type(MemoryType::Device), Some(_)) => refuse(RegistrationProblem::WhichGpu),
            (Placement::Device(_), None) => Ok((own(), MemoryType::Device)),
            (Placement::Type(memory), _) => Ok((own(), memory)),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if is_forked() {
            // Another thread of the parent may have held the locks inside.
            self.shared.leave();
            std::mem::forget(self.others.take());
            return;
        }
        if let Err(error) = self.close() {
            tracing::warn!(%error, "the session did not end cleanly");
        }
    }
}
