//! Settings of a session, from the keywords of `tcpx.Agent`: the names that the C library and the
//! backend for NIXL have.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tcpx_core::{Result, SessionOptions};

use crate::errors::to_python;

/// Returns the settings of an agent: the defaults, overruled by the environment, and that by the
/// keywords.
///
/// # Errors
/// `ConfigError` for a variable of the environment that cannot be read; `TypeError` and
/// `ValueError` for a keyword.
pub(crate) fn read(name: &str, keywords: &Bound<'_, PyDict>) -> PyResult<SessionOptions> {
    let mut options = defaults().map_err(|error| to_python(&error))?.name(name);
    for (keyword, value) in keywords {
        let keyword: String = keyword.extract()?;
        if !value.is_none() {
            set(&mut options, &keyword, &value)?;
        }
    }
    // One GPU's session receives and sends by tag on that GPU; all others have every device.
    let has_all_devices = options.gpu.is_none();
    Ok(options.all_devices(has_all_devices).accept_all(true).progress_thread(true))
}

fn defaults() -> Result<SessionOptions> {
    let mut options = SessionOptions::default().with_env()?;
    if let Ok(advertised) = std::env::var("TCPX_ADVERTISE") {
        options.advertise =
            advertised.split(',').filter_map(|address| address.trim().parse().ok()).collect();
    }
    Ok(options)
}

fn set(options: &mut SessionOptions, keyword: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let time = || Ok::<_, PyErr>(Duration::from_millis(value.extract()?));
    let optional_time = || Ok::<_, PyErr>(Some(time()?).filter(|time| !time.is_zero()));
    match keyword {
        "plugin" => options.plugin = parse(keyword, value)?,
        "unpack" => options.unpack = parse(keyword, value)?,
        "nics" => options.nics = list(value)?,
        "listen" => options.listen = parse(keyword, value)?,
        "advertise" => {
            let addresses: Vec<String> = list(value)?;
            let addresses = addresses.iter().map(|address| parse_text(keyword, address));
            options.advertise = addresses.collect::<PyResult<_>>()?;
        }
        "gpu" => options.gpu = Some(value.extract()?),
        "emulated_gpus" => options.emulated_gpus = value.extract()?,
        "channels" => options.channels = Some(value.extract()?).filter(|count| *count != 0),
        "chunk_bytes" => options.chunk_bytes = Some(value.extract()?).filter(|bytes| *bytes != 0),
        "recv_window" => options.recv_window = value.extract()?,
        "send_window" => options.send_window = value.extract()?,
        "connect_timeout_ms" => options.connect_timeout = time()?,
        "close_timeout_ms" => options.close_timeout = time()?,
        "peer_timeout_ms" => options.peer_timeout = optional_time()?,
        "spin_us" => options.spin = Duration::from_micros(value.extract()?),
        "staging_bytes" => options.staging_bytes = value.extract()?,
        "eager_bytes" => options.eager_bytes = value.extract()?,
        "eager_buffer_bytes" => options.eager_buffer_bytes = value.extract()?,
        "link_bytes" => options.link_bytes = parse(keyword, value)?,
        "notification_bytes" => options.notification_bytes = value.extract()?,
        "kept_for_peers_bytes" => options.kept_for_peers_bytes = value.extract()?,
        "preflight" => options.preflight = value.is_truthy()?,
        "keep_sigpipe" => options.keep_sigpipe = value.is_truthy()?,
        "encryption" => options.encryption = parse(keyword, value)?,
        // A text or a `pathlib.Path`.
        "tls_cert" => options.tls_cert = Some(value.extract()?),
        "tls_key" => options.tls_key = Some(value.extract()?),
        "tls_ca" => options.tls_ca = Some(value.extract()?),
        _ => return Err(PyTypeError::new_err(format!("there is no option {keyword}"))),
    }
    Ok(())
}

/// Reads a value by its text, as the environment's are read.
fn parse<T: FromStr<Err: Display>>(keyword: &str, value: &Bound<'_, PyAny>) -> PyResult<T> {
    parse_text(keyword, value.str()?.to_str()?)
}

fn parse_text<T: FromStr<Err: Display>>(keyword: &str, text: &str) -> PyResult<T> {
    text.parse().map_err(|error| PyValueError::new_err(format!("{keyword} = {text}: {error}")))
}

/// Reads a list of names, or one text with commas between them.
fn list(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    match value.extract::<String>() {
        Ok(text) => Ok(text.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect()),
        Err(_) => value.extract(),
    }
}
