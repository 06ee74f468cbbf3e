#![allow(unsafe_code)]
//! The script of the process: from [`configure`], or from the environment when `init` comes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use tcpx_softnet::{DeviceMemory, Entry, Settings, SettingsError};
use tcpx_sys::{ForkGuard, Logger, NcclResult};

use crate::calls::CallCounter;
use crate::log;
use crate::parse_error::ScriptError;
use crate::process::FaultyProcess;
use crate::quirk::Quirk;
use crate::script::FaultScript;
use crate::variables::{environment, read_all};

/// What `init` takes.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) script: FaultScript,
    pub(crate) memory: DeviceMemory,
}

/// That of [`configure`], until `init` takes it.
static CONFIGURED: Mutex<Option<Setup>> = Mutex::new(None);
static IS_CONFIGURED: AtomicBool = AtomicBool::new(false);
static TAKEN: OnceLock<Setup> = OnceLock::new();

/// Sets what `init` would otherwise read from the environment. The last call before `init` counts.
///
/// # Errors
/// Those of [`tcpx_softnet::configure`], and a script that makes no sense.
pub fn configure(mut settings: Settings, script: FaultScript) -> Result<(), SettingsError> {
    script.check().map_err(|(value, ScriptError { allowed })| SettingsError::Invalid {
        variable: "script",
        value,
        allowed,
    })?;
    settings.poison |= script.has(Quirk::Offsets);
    let memory = settings.memory;
    tcpx_softnet::configure(settings)?;
    let mut configured = CONFIGURED.lock().unwrap_or_else(PoisonError::into_inner);
    *configured = Some(Setup { script, memory });
    IS_CONFIGURED.store(true, Ordering::Release);
    Ok(())
}

/// What `init` has taken.
pub(crate) fn taken() -> Option<&'static Setup> {
    TAKEN.get()
}

/// What the script wants of this call of `entry` in place of it, if anything. In a forked child it
/// wants nothing.
pub(crate) fn scripted(entry: Entry) -> Option<NcclResult> {
    static CALLS: CallCounter = CallCounter::new();
    {
        let _guard = ForkGuard::begin().ok()?;
    }
    let scripted = match TAKEN.get() {
        Some(setup) => CALLS.count(entry, &setup.script),
        None => {
            let configured = CONFIGURED.lock().unwrap_or_else(PoisonError::into_inner);
            CALLS.count(entry, &configured.as_ref()?.script)
        }
    };
    let code = scripted?.play()?;
    log::warn!("{}: returns {} as scripted", entry.name(), code.0);
    Some(code)
}

/// Before the plugin's `init`: reads the environment, if nothing has been configured yet, with what
/// `read` makes of it. False when it is refused, with a WARN line.
fn read_environment(
    logger: Logger,
    read: impl FnOnce() -> Result<(Settings, FaultScript), SettingsError>,
) -> bool {
    log::install(logger);
    if IS_CONFIGURED.load(Ordering::Acquire) || TAKEN.get().is_some() {
        return true;
    }
    match read().and_then(|(settings, script)| configure(settings, script)) {
        // The plugin says that a second call is late.
        Ok(()) | Err(SettingsError::TooLate) => true,
        Err(error) => {
            log::warn!("{error}");
            false
        }
    }
}

/// `init` of a double that makes something of its own of the environment.
pub fn init_with(
    logger: Logger,
    read: impl FnOnce() -> Result<(Settings, FaultScript), SettingsError>,
) -> NcclResult {
    match read_environment(logger, read) {
        true => init_configured(Some(logger)),
        false => NcclResult::INTERNAL_ERROR,
    }
}

/// `init` of the table itself.
pub(crate) fn init(logger: Option<Logger>) -> NcclResult {
    match logger {
        Some(logger) => init_with(logger, || read_all(None, &environment)),
        None => init_configured(None),
    }
}

/// `init` once all that may be configured is.
fn init_configured(logger: Option<Logger>) -> NcclResult {
    if let Some(code) = scripted(Entry::Init) {
        return code;
    }
    take();
    match tcpx_softnet::table().init {
        // SAFETY: the logger is the caller's, for which the ABI's rules are the same.
        Some(init) => unsafe { init(logger) },
        None => NcclResult::INTERNAL_ERROR,
    }
}

/// `init` takes what was configured.
fn take() {
    let configured = CONFIGURED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(setup) = configured {
        let script = TAKEN.get_or_init(|| setup).script.clone();
        tcpx_softnet::hooks::install(Box::new(FaultyProcess::new(script)));
    }
}

/// Whether the original's behaviour is wanted.
pub(crate) fn has(quirk: Quirk) -> bool {
    taken().is_some_and(|setup| setup.script.has(quirk))
}
