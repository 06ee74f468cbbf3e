#![allow(unsafe_code)]
//! Plugin of the process: this file opens and initialises it, once per process, and reads its NICs.
//!
//! - [`comm`]: owning types for the plugin's comms, which make its calls.
//! - [`comm_label`]: owner of a comm; reason why a call of the plugin may have failed, and name of
//!   the call.
//! - [`comm_secrets`]: secrets of the comms of a peer, where they are encrypted.
//! - [`calls`]: calls in progress that may block.
//! - `carrier`: carrier of the payload.
//! - [`chunk_size`]: limit of the chunk size.
//! - `encryption`: whether a transport can encrypt.
//! - `transport`: what moves the payload of a session, and how it is named.
//! - `environment`: variables of the process that a plugin reads.
//! - [`unpack_queue`]: queue in which the plugin reports the fragments of a chunk.
//! - [`registrations`]: memory that was registered with a session, and with the comms that need it.
//! - [`handle_table`]: the plugin's handles, by comm and segment, and the segments that the plugin
//!   can take.
//! - `nic`: a NIC as the plugin reports it. [`nics`]: choice of the NICs that a peer's channels run
//!   over.
//! - [`process`]: effects of a plugin on its process: SIGPIPE, log lines, and the daemon that the
//!   hardware plugin asks.
//! - `soft`: settings of the software plugin, if it is linked in.

pub(crate) mod calls;
mod carrier;
pub(crate) mod chunk_size;
pub(crate) mod comm;
pub(crate) mod comm_label;
pub(crate) mod comm_secrets;
mod encryption;
mod environment;
pub(crate) mod handle_table;
mod nic;
pub(crate) mod nics;
pub(crate) mod peer_handle;
pub(crate) mod process;
pub(crate) mod registrations;
#[cfg(feature = "soft")]
mod soft;
mod transport;
pub(crate) mod unpack_queue;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tcpx_diagnosis::Finding;
use tcpx_diagnosis::variables::process_env;
use tcpx_sys::{EncryptionEntries, Entries, HealthEntries, NcclResult, ReadinessEntries};

use self::calls::{Calls, LongCall};
use self::carrier::Carrier;
use self::comm_label::{BlockingCall, CommLabel};
use self::environment::{
    CHUNK_VARIABLE, check_host, check_inline_threshold, chunk_from_env, exports_itself,
    largest_chunk,
};
use self::nic::{NicError, read_nic};
use crate::error::{Error, Phase, PluginFailure, Result};
use crate::settings::{HARDWARE_PLUGIN_PATH, PluginChoice, SessionOptions};
use crate::stats::peer_transport::ZeroCopySends;
use crate::types::SessionNumber;

pub use self::nic::Nic;

/// Name member of the hardware plugin.
pub(crate) const HARDWARE_NAME: &str = "GPUDirectTCPX_v7";
/// Name member of the software plugin.
pub(crate) const SOFT_NAME: &str = "TCPXSoft_v7";

/// Opened and initialised plugin.
#[derive(Debug)]
pub(crate) struct Plugin {
    raw: tcpx_sys::Plugin,
    nics: Vec<Nic>,
    chunk_bytes: u32,
    /// Whether this is the hardware plugin, which asks the CUDA driver for a dma-buf of the device
    /// memory that it registers.
    takes_dma_bufs: bool,
    carrier: Carrier,
    /// Sends of the software plugin that are zero-copy.
    zero_copy_sends: ZeroCopySends,
    calls: Calls,
}

/// Outcome of each choice that was opened in this process. `init` works only once, so its failure
/// is final.
static OPENED: Mutex<Vec<(PluginChoice, Result<Arc<Plugin>>)>> = Mutex::new(Vec::new());

impl Plugin {
    /// Opens the plugin that a session asks for. The same choice gives the same plugin each time,
    /// and all sessions that ask for the software plugin get the same; see
    /// [`check_carrier`](Self::check_carrier).
    pub(crate) fn open(options: &SessionOptions) -> Result<Arc<Self>> {
        let choice = options.plugin.resolve();
        if (&options.plugin, &choice) == (&PluginChoice::Auto, &PluginChoice::Soft) {
            tracing::info!(
                missing = HARDWARE_PLUGIN_PATH,
                "no hardware plugin is installed: using the software plugin"
            );
        }
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |known: &PluginChoice, outcome: &Result<_>| {
            *known == choice || known.is_built_in() && choice.is_built_in() && outcome.is_ok()
        };
        if let Some((_, outcome)) = opened.iter().find(|(known, outcome)| is_it(known, outcome)) {
            if let Ok(plugin) = outcome {
                ignore_sigpipe(plugin.name(), options);
            }
            return outcome.clone();
        }
        let outcome = match &choice {
            PluginChoice::Path(path) => Self::open_path(path, options),
            PluginChoice::Auto | PluginChoice::Soft | PluginChoice::Devmem => {
                Self::open_soft(options)
            }
        };
        let is_final =
            !matches!(outcome, Err(Error::Setting { .. } | Error::Load(_) | Error::Preflight(_)));
        if is_final {
            opened.push((choice, outcome.clone()));
        }
        outcome
    }

    fn open_path(path: &Path, options: &SessionOptions) -> Result<Arc<Self>> {
        // A missing file has one cause and one cure; the checks would name many.
        if options.preflight && path.is_file() {
            check_host(path)?;
        }
        let chunk_bytes = chunk_from_env()?.unwrap_or_else(|| {
            let chunk_bytes = largest_chunk(options);
            tracing::info!(
                "{CHUNK_VARIABLE} is unset, which the plugin does not survive: set to {chunk_bytes}"
            );
            // SAFETY: the plugin that is loaded below reads the variable. Another thread that reads
            // the environment through libc at this moment could race. The standard library's
            // readers are locked against this call. A program that must rule out the other readers
            // sets the variable before it starts.
            unsafe { std::env::set_var(CHUNK_VARIABLE, chunk_bytes.to_string()) };
            chunk_bytes
        });
        tracing::info!(path = %path.display(), "loading plugin");
        // SAFETY: the user configured the path as the plugin. tcpx-sys checks symbol, members and
        // name.
        let raw = unsafe { tcpx_sys::Plugin::load(path, &[HARDWARE_NAME, SOFT_NAME]) }?;
        if raw.name() == HARDWARE_NAME {
            check_inline_threshold(&process_env())?;
        }
        ignore_sigpipe(raw.name(), options);
        Self::initialise(raw, chunk_bytes, Carrier::Sockets)
    }

    #[cfg(feature = "soft")]
    fn open_soft(options: &SessionOptions) -> Result<Arc<Self>> {
        let chunk_bytes = chunk_from_env()?.unwrap_or_else(|| largest_chunk(options));
        let carrier = self::soft::wanted(&options.plugin);
        let carrier = self::soft::configure(chunk_bytes, carrier)?;
        // SAFETY: the software plugin's table is a constant of this program, and its functions have
        // the v7 types.
        let raw = unsafe {
            tcpx_sys::Plugin::from_table(Path::new("built-in"), tcpx_softnet::table(), &[SOFT_NAME])
        }?;
        let (health, readiness) = (tcpx_softnet::comm_health(), tcpx_softnet::comm_poll());
        let encryption = tcpx_softnet::comm_encryption();
        // SAFETY: the additions are the same plugin's, and constants of this program as well.
        let raw = unsafe { raw.with_additions(health, readiness, encryption) };
        Self::initialise(raw, chunk_bytes, carrier)
    }

    #[cfg(not(feature = "soft"))]
    fn open_soft(_: &SessionOptions) -> Result<Arc<Self>> {
        Err(Error::NoSoftPlugin)
    }

    fn initialise(raw: tcpx_sys::Plugin, chunk_bytes: u32, carrier: Carrier) -> Result<Arc<Self>> {
        let entries = raw.entries();
        // SAFETY: the callback is thread-safe and lives for ever. This runs once per plugin, under
        // the lock of `OPENED`.
        let code = unsafe { (entries.init)(Some(tcpx_sys::log_callback())) };
        tracing::info!(plugin = raw.name(), path = %raw.path().display(), rc = code.0, "net->init");
        check("init", code, Phase::Load, || comm_label::of_init(raw.name() == SOFT_NAME))?;
        let mut count = 0;
        // SAFETY: `count` is a valid int for the duration of the call.
        let code = unsafe { (entries.devices)(&raw mut count) };
        tracing::info!(rc = code.0, ndev = count, "net->devices");
        check("devices", code, Phase::Load, || None)?;
        let unusable =
            |reason: String| Error::UnusablePlugin { path: raw.path().to_owned(), reason };
        if !(1..=256).contains(&count) {
            return Err(unusable(format!("it reports {count} NICs; check the interface settings")));
        }
        let mut nics = Vec::new();
        for index in 0..count {
            nics.push(read_nic(entries, index).map_err(|error| match error {
                NicError::Call(code) => failed("getProperties", code, Phase::Load, None),
                NicError::Unfit(reason) => unusable(reason),
            })?);
        }
        let takes_dma_bufs = raw.name() == HARDWARE_NAME && !exports_itself();
        let zero_copy_sends = environment::zero_copy_sends(&process_env());
        let calls = Calls::default();
        Ok(Arc::new(Self {
            raw,
            nics,
            chunk_bytes,
            takes_dma_bufs,
            carrier,
            zero_copy_sends,
            calls,
        }))
    }

    /// Returns the name member of the plugin's table.
    pub(crate) fn name(&self) -> &str {
        self.raw.name()
    }

    /// Returns the path that the plugin came from.
    pub(crate) fn path(&self) -> &Path {
        self.raw.path()
    }

    /// Returns the plugin's NICs, in the plugin's order.
    pub(crate) fn nics(&self) -> &[Nic] {
        &self.nics
    }

    /// Returns the plugin's functions.
    pub(crate) fn entries(&self) -> &Entries {
        self.raw.entries()
    }

    /// Returns the functions that report whether comms are alive, if the plugin has them.
    pub(crate) fn health(&self) -> Option<&HealthEntries> {
        self.raw.health()
    }

    /// Returns the functions that report what to wait for on a comm, if the plugin has them.
    pub(crate) fn readiness(&self) -> Option<&ReadinessEntries> {
        self.raw.readiness()
    }

    /// Returns the functions that have comms encrypted, if the plugin has them.
    pub(crate) fn encryption(&self) -> Option<&EncryptionEntries> {
        self.raw.encryption()
    }

    /// Returns the largest chunk: NCCL_DYNAMIC_CHUNK_SIZE as the plugin saw it.
    pub(crate) fn chunk_bytes(&self) -> u32 {
        self.chunk_bytes
    }

    /// Returns whether data sockets are steered to a GPU. Then host memory can be sent, but not
    /// received into.
    pub(crate) fn is_hardware(&self) -> bool {
        self.raw.name() == HARDWARE_NAME
    }

    /// Returns whether receives into host memory work. The software plugin copies to host memory
    /// what a NIC has put into a GPU's memory.
    pub(crate) fn receives_host(&self) -> bool {
        !self.is_hardware()
    }

    /// Makes a call that may block, for this comm. Waits for the turn of the call. The caller holds
    /// no lock.
    fn call<T>(
        &self,
        call: BlockingCall,
        label: &CommLabel,
        make: impl FnOnce(&Entries) -> T,
    ) -> T {
        self.calls.make(call, label, || make(self.entries()))
    }

    /// Returns the calls of a session that have been in progress for at least this time.
    pub(crate) fn calls_longer_than(
        &self,
        time: Duration,
        session: SessionNumber,
        now: Instant,
    ) -> SmallVec<[LongCall; 1]> {
        self.calls.longer_than(time, session, now)
    }
}

/// Ignores SIGPIPE for the hardware plugin, which writes to connections that may be gone; see
/// [`sigpipe`].
fn ignore_sigpipe(plugin: &str, options: &SessionOptions) {
    if plugin == HARDWARE_NAME && !options.keep_sigpipe {
        process::ignore_sigpipe_if_default();
    }
}

/// Turns the return code of a call into a result. `cause` explains a failure, if anything does.
fn check(
    call: &'static str,
    code: NcclResult,
    phase: Phase,
    cause: impl FnOnce() -> Option<Finding>,
) -> Result<()> {
    if code.is_success() {
        return Ok(());
    }
    Err(failed(call, code, phase, cause()))
}

fn failed(call: &'static str, code: NcclResult, phase: Phase, cause: Option<Finding>) -> Error {
    let (peer, channel, nic, cause) = (None, None, None, cause.map(Box::new));
    Error::Plugin(PluginFailure { call, code, phase, peer, channel, nic, cause })
}
