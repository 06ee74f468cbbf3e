//! `init`: the settings that it takes, the interfaces that it finds, and what it refuses.

use std::sync::PoisonError;

use tcpx_sys::{ForkGuard, Logger};

use super::caller::{Caller, Table};
use super::mode;
use super::nic::{self, Nic};
use super::runtime::{RUNTIME, Runtime};
use super::settings::{Settings, environment};
use super::variables::SettingsError;
use crate::failure::Failure;
use crate::last_failure::log_and_set_last_failure;
use crate::log;
use crate::memory::DeviceMemory;
use crate::nic_memory::check_receiving;
use crate::sync::Mutex;
use crate::transport::Transport;

/// Chunk size for NCCL where none is set: the size of a slot of NCCL's buffers.
const NCCL_CHUNK_BYTES: u32 = 512 << 10;
/// Settings of [`configure`], until `init` takes them. Its lock also keeps two `init`s apart.
static CONFIGURED: Mutex<Option<Settings>> = Mutex::new(None);

/// Sets what `init` would otherwise read from the environment. The last call before `init` counts.
///
/// # Errors
/// A value out of its range, or a call after `init`, also after that of a process from which this
/// one was forked.
pub fn configure(settings: Settings) -> Result<(), SettingsError> {
    settings.check()?;
    let Ok(_guard) = ForkGuard::begin() else { return Err(SettingsError::TooLate) };
    let mut configured = CONFIGURED.lock().unwrap_or_else(PoisonError::into_inner);
    if RUNTIME.get().is_some() {
        return Err(SettingsError::TooLate);
    }
    *configured = Some(settings);
    Ok(())
}

/// Takes the settings and looks for interfaces; once per process, but for NCCL, which comes again
/// when all its communicators have ended and new ones begin.
pub(super) fn init(logger: Option<Logger>, table: Table) -> Result<(), Failure> {
    let logger = logger.ok_or(Failure::Internal)?;
    // Without the handler a forked child would not be recognised.
    let guard = ForkGuard::begin().map_err(|_| Failure::Internal)?;
    guard.claim().map_err(|_| Failure::System)?;
    let caller = Caller::of(logger, table);
    let is_nccl = caller != Caller::Program;
    let configured = CONFIGURED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = RUNTIME.get() {
        if is_nccl && runtime.mode.is_nccls() {
            return Ok(());
        }
        log::warn!("gpu lib init twice");
        return Err(Failure::Internal);
    }
    log::install(logger);
    let runtime = make(configured.as_ref(), caller).or_else(|failure| match is_nccl {
        true => refused(failure.text),
        false => Err(failure.code),
    })?;
    let _ = RUNTIME.set(runtime);
    Ok(())
}

/// Why the settings are no good, and what `init` answers to a program. It was logged.
struct Refusal {
    text: String,
    code: Failure,
}

impl Refusal {
    fn new(text: impl ToString, code: Failure) -> Self {
        let text = text.to_string();
        log::warn!("{text}");
        Self { text, code }
    }
}

/// What NCCL gets in place of what it was refused: devices on which nothing can be connected.
///
/// NCCL 2.28 calls a function that is not there when `init` fails, and may free memory twice when
/// `devices` or `getProperties` does. It would go on with a slower network, too, and say nothing.
fn refused(text: String) -> Result<Runtime, Failure> {
    let settings = Settings { memory: DeviceMemory::Emulated, ..Settings::default() };
    let nics = nic::discover(None).map_err(|_| Failure::System)?;
    Ok(Runtime::refusing(text, settings, nics))
}

fn make(configured: Option<&Settings>, caller: Caller) -> Result<Runtime, Refusal> {
    let read = || match caller {
        Caller::Program => Settings::from_env(),
        Caller::Nccl { .. } => Settings::from_env_or(NCCL_CHUNK_BYTES),
    };
    let invalid = |error: SettingsError| Refusal::new(error, Failure::Internal);
    let mut settings = configured.cloned().map_or_else(read, Ok).map_err(invalid)?;
    let mode = mode::choose(caller, &mut settings, &environment).map_err(invalid)?;
    let nics = nic::discover(settings.interfaces.as_deref()).map_err(|error| {
        Refusal::new(format_args!("cannot list network interfaces: {error}"), Failure::System)
    })?;
    if nics.is_empty() {
        let wanted = settings.interfaces.as_deref().unwrap_or("what is chosen by default");
        let text = format!("no network interface with an IPv4 address matches {wanted}");
        return Err(Refusal::new(text, Failure::Internal));
    }
    let nics = fit(nics, settings.transport)?;
    for nic in &nics {
        log::info!("software plugin: using {}: {}", nic.interface.name, nic.interface.address);
    }
    if let Caller::Nccl { version } = caller {
        log::info!("software plugin: {mode} for NCCL {version}");
    }
    Ok(Runtime::new(settings, mode, nics))
}

/// The NICs that can carry payload in this way.
fn fit(nics: Vec<Nic>, transport: Transport) -> Result<Vec<Nic>, Refusal> {
    if matches!(transport, Transport::Tcp | Transport::Auto) {
        return Ok(nics);
    }
    let mut first = None;
    let mut fit = Vec::new();
    for nic in nics {
        match check_receiving(&nic.interface.name, transport) {
            Ok(()) => fit.push(nic),
            Err(error) => {
                log::info!("{}: it cannot receive: {error}", nic.interface.name);
                // The loopback never can, so what it lacks is reported last.
                if first.is_none() || !nic.interface.loopback {
                    first = Some(error);
                }
            }
        }
    }
    match first {
        Some(error) if fit.is_empty() => {
            let text = error.to_string();
            log_and_set_last_failure("init", error);
            Err(Refusal { text, code: Failure::System })
        }
        _ => Ok(fit),
    }
}
