//! The session that a program holds, and the thread that makes progress whatever the program does.

mod closing;
mod connecting;
mod devices;
mod exporting;
mod leader;
mod notifying;
pub(crate) mod operation;
mod progress_thread;
mod progressing;
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

use self::closing::RELEASE_TIMEOUT;
use self::devices::OtherDevices;
use self::shared::{EngineGuard, SharedEngine};
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
/// The session is `Send + Sync`: any thread may call any method, and calls are serialised inside.
/// Calls of this library make progress, or a thread of the session does
/// ([`SessionOptions::progress_thread`]).
///
/// Dropping the session does what [`close`](Self::close) does, but only logs the error. Close the
/// session first if registered memory is to be freed afterwards: a drop cannot report that a hung
/// GPU, or a plugin call that does not return, still writes the memory.
///
/// In a forked child every call returns [`Error::Forked`] or nothing, and dropping the session does
/// nothing; see [Fork](crate#fork).
#[derive(Debug)]
pub struct Session {
    /// Engine of the session's own device: the host, and the GPU of its options.
    shared: Arc<SharedEngine>,
    /// Other devices, in a session of all devices.
    others: Option<Arc<OtherDevices>>,
    options: SessionOptions,
    completions: Arc<CompletionQueue>,
    event_set: EventSet,
    peers: Arc<PeerQueue>,
    /// Number of polls for notifications, by which the devices take turns to come first.
    notification_turns: AtomicUsize,
    /// Limit for releasing memory: [`RELEASE_TIMEOUT`] except in tests.
    release_timeout: Duration,
}

impl Session {
    /// Opens the plugin (once per process) and the unpack backend.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Load`], [`Error::Plugin`], [`Error::UnusablePlugin`],
    /// [`Error::NoNic`], [`Error::Unpack`], [`Error::MemoryUnavailable`]; [`Error::Forked`] in a
    /// child forked from a process that had made a session; [`Error::Io`].
    pub fn new(options: SessionOptions) -> Result<Self> {
        let context = DeviceContext::new(&options)?;
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
        let shared = match SharedEngine::open(options.clone(), context.clone()) {
            // Host memory is sent with the first GPU.
            Err(Error::Setting { problem: SettingProblem::GpuNeeded, .. }) if others.is_some() => {
                SharedEngine::open(options.clone().gpu(Some(0)), context)?
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
            release_timeout: RELEASE_TIMEOUT,
        })
    }

    /// Creates a transfer with a peer: a set of sends and receives that are waited for together.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`]; [`Error::PeerState`] or the peer's own error when the peer is not
    /// up.
    pub fn create_transfer(&self, peer: &str) -> Result<Transfer> {
        let transfer = self.shared.engine()?.create_transfer(&self.called(peer))?;
        let (shared, completions) = (Arc::clone(&self.shared), Arc::clone(&self.completions));
        Ok(Transfer::new(shared, transfer, completions))
    }

    /// Takes at most `most` completions of transfers out of the queue, oldest first, and appends
    /// them to `completions`. Returns their number. The queue holds the transfers that
    /// [report](Transfer::report_completions) their rounds. Makes no progress and does not block.
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

    /// Returns a descriptor for an event loop of the program. The descriptor becomes readable when
    /// a round of a transfer has ended, whether or not the transfer reports it. The same holds when
    /// an attempt that [`start_connect`](Self::start_connect) and its like began has ended, when a
    /// notification has come, and when a [reported](Self::report_peers) peer has come up or ended.
    /// The descriptor is readable at first. In a session without a progress thread it is also
    /// readable when a round of progress is due: after an event on a connection, after a post, or
    /// when a time has come.
    ///
    /// When the descriptor is readable, call [`progress`](Self::progress) first, if the session has
    /// no progress thread. Then call [`poll_completions`](Self::poll_completions) or
    /// [`poll_events`](Self::poll_events), and check transfers, peers and notifications last.
    /// Only these calls make the descriptor unreadable: later events make it readable again. The
    /// descriptor belongs to the session: do not read from it, and do not close it.
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
    /// for at most [`SessionOptions::close_timeout`]; then it closes everything. From then on other
    /// calls return [`Error::Closed`], and outstanding operations end with it. Closing a closed
    /// session does no harm. When `close` returns `Ok`, nothing touches registered memory any more.
    ///
    /// # Errors
    /// [`Error::Deadline`] names the peers that did not answer; everything is closed all the same.
    /// In phase [`Phase::Unpack`] the error says that remains of an ended peer still use registered
    /// memory: chunks are being unpacked or gathered, or comms closed. That memory must stay valid.
    /// Another call of `close` checks again. If several devices have an error, `close` returns the
    /// first.
    pub fn close(&self) -> Result<()> {
        if let Some(others) = &self.others {
            others.close();
        }
        let devices = self.devices();
        devices.iter().try_for_each(|device| device.start_close())?;
        let times = (self.options.close_timeout, self.release_timeout);
        let closed = devices.iter().map(|device| device.finish_close(times));
        let closed = closed.fold(Ok(()), Result::and);
        if devices.len() > 1 {
            // The last device to end may have left work for an engine that was closed before.
            for device in &devices {
                device.progress();
            }
        }
        closed
    }

    /// Returns whether nothing of ended peers uses registered memory any more. For a closed
    /// session, `true` means that nothing touches memory registered with it, whether or not every
    /// peer answered.
    pub fn is_settled(&self) -> bool {
        let is_settled = |device: &SharedEngine| device.engine().is_ok_and(|it| it.is_settled());
        is_settled(&self.shared) && self.others().iter().all(|device| is_settled(device))
    }

    /// Makes one round of progress over everything, without waiting. Returns whether anything
    /// moved. In a session of all devices a call in which something moves may leave out all devices
    /// but one; the next call asks every one.
    ///
    /// While a short message is copied from or to memory of a GPU, the call goes on for up to 20
    /// µs, or [`spin`](SessionOptions::spin) if that is less.
    pub fn progress(&self) -> bool {
        match &self.others {
            None => self.shared.progress(),
            Some(others) => others.progress(&self.shared),
        }
    }

    /// Prepares for a wait on [`event_fd`](Self::event_fd): the progress thread makes the rounds at
    /// once. It stands back for up to 1 ms after the program has waited in this library, or has
    /// polled often. A program that does so between waits on the descriptor calls this before each
    /// of those. It makes a system call only where the thread stands back.
    pub fn arm(&self) {
        self.shared.arm();
        self.others().iter().for_each(|device| device.arm());
    }

    /// Returns the NICs that the plugin offers; none in a forked child.
    pub fn nics(&self) -> Vec<Nic> {
        let nics = |engine: EngineGuard<'_>| engine.resources.session.plugin.nics().to_vec();
        self.shared.engine().map(nics).unwrap_or_default()
    }

    /// Returns the present state of the session; in a forked child an empty report. Of a session of
    /// all devices the report covers the host: [`stats_by_device`](Self::stats_by_device) has the
    /// rest.
    pub fn stats(&self) -> SessionReport {
        self.report(self.own_device(), &self.shared)
    }

    /// Returns the state of each device in use.
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

    fn report(&self, device: Device, shared: &SharedEngine) -> SessionReport {
        let Ok(report) = shared.engine().map(|engine| engine.report()) else {
            return SessionReport::default();
        };
        SessionReport { name: self.options.name.clone(), device: device.to_string(), ..report }
    }

    /// Returns the state of all devices as text in the format of Prometheus. See
    /// [`metrics_text`](crate::metrics_text), which joins several sessions.
    pub fn metrics_text(&self) -> String {
        metrics_text(self.stats_by_device().iter().map(|(_, report)| report))
    }

    /// Returns the settings that the session was made with.
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }
}

impl Session {
    /// Returns the engines of all devices in use, the session's own first.
    pub(super) fn devices(&self) -> Vec<Arc<SharedEngine>> {
        let mut devices = vec![Arc::clone(&self.shared)];
        devices.extend(self.others());
        devices
    }

    /// Returns the engines of all devices in use, except the session's own.
    pub(super) fn others(&self) -> Vec<Arc<SharedEngine>> {
        self.others.as_ref().map_or_else(Vec::new, |others| others.all())
    }

    /// Returns the first name of the peer that also has this name.
    pub(super) fn called<'a>(&self, peer: &'a str) -> Cow<'a, str> {
        match &self.others {
            // In a forked child another thread of the parent may have held the lock of the names.
            Some(others) if !is_forked() => Cow::Owned(others.names.called(peer)),
            _ => Cow::Borrowed(peer),
        }
    }

    /// Returns the engine of a device, if the session has one.
    pub(super) fn engine_of(&self, device: Device) -> Result<Option<Arc<SharedEngine>>> {
        match (device, &self.others) {
            (Device::Host, _) => Ok(Some(Arc::clone(&self.shared))),
            (_, Some(others)) => others.get(device),
            (_, None) => Ok(None),
        }
    }

    /// Returns the engine that holds this memory.
    pub(super) fn holder_of(&self, id: MemoryId) -> Result<Arc<SharedEngine>> {
        self.engine_of(id.device())?.ok_or(Error::UnknownRegistration { id })
    }

    /// Returns the engine that exported this key, if the session did; otherwise an engine that
    /// refuses the key.
    pub(super) fn exporter_of(&self, key: &RemoteKey) -> Result<Arc<SharedEngine>> {
        let exporter = self.engine_of(Device::of_session(&key.session))?;
        Ok(exporter.unwrap_or_else(|| Arc::clone(&self.shared)))
    }

    /// Returns the engine that registers memory at this place, and the memory's type there.
    ///
    /// # Errors
    /// The error of a device that cannot be used.
    pub(super) fn engine_for(&self, place: Placement) -> Result<(Arc<SharedEngine>, MemoryType)> {
        let refuse = |problem| Err(Error::Registration { id: None, problem });
        let own = || Arc::clone(&self.shared);
        match (place, &self.others) {
            (Placement::Device(Device::Host), _) => Ok((own(), MemoryType::Host)),
            (Placement::Device(device), Some(others)) => {
                Ok((others.get_or_create(device)?, MemoryType::Device))
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
            self.shared.leak();
            std::mem::forget(self.others.take());
            return;
        }
        if let Err(error) = self.close() {
            tracing::warn!(%error, "the session did not end cleanly");
        }
    }
}
