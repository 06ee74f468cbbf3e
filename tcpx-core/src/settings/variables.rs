//! Settings from the environment.

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tcpx_protocol::types::DEFAULT_CHUNK_BYTES;

use super::SessionOptions;
use crate::error::{Error, Result, SettingProblem};

impl SessionOptions {
    pub(super) fn with_lookup(
        self,
        lookup: impl Fn(&'static str) -> Option<OsString>,
    ) -> Result<Self> {
        let env = Variables(&lookup);
        let mut options = self;
        env.read(&["TCPX_PLUGIN", "UCCL_TCPX_PLUGIN_PATH"], &mut options.plugin)?;
        let mut channels = 0;
        if env.read(&["TCPX_CHANNELS", "UCCL_TCPX_NUM_CHANNELS"], &mut channels)? {
            options.channels = Some(channels);
        }
        let mut chunk_bytes = DEFAULT_CHUNK_BYTES;
        if env.read(&["TCPX_CHUNK_BYTES", "UCCL_TCPX_CHUNK_BYTES"], &mut chunk_bytes)? {
            options.chunk_bytes = Some(chunk_bytes);
        }
        env.read(&["TCPX_UNPACK", "UCCL_TCPX_UNPACK_IMPL"], &mut options.unpack)?;
        env.read(&["TCPX_COPY_THREADS"], &mut options.copy_threads)?;
        env.read(&["TCPX_RECV_WINDOW", "UCCL_TCPX_MAX_RECV_INFLIGHT"], &mut options.recv_window)?;
        env.read(&["TCPX_SEND_WINDOW", "UCCL_TCPX_MAX_SEND_INFLIGHT"], &mut options.send_window)?;
        env.read(&["TCPX_STAGING_BYTES"], &mut options.staging_bytes)?;
        env.read(&["TCPX_EAGER_BYTES"], &mut options.eager_bytes)?;
        env.read(&["TCPX_LINK_BYTES"], &mut options.link_bytes)?;
        env.read(&["TCPX_EAGER_BUFFER_BYTES"], &mut options.eager_buffer_bytes)?;
        env.read(&["TCPX_NOTIFICATION_BYTES"], &mut options.notification_bytes)?;
        env.read(&["TCPX_KEPT_FOR_PEERS_BYTES"], &mut options.kept_for_peers_bytes)?;
        env.read(&["TCPX_BOUNCE_CREDIT"], &mut options.bounce_credit)?;
        env.read(&["TCPX_ENCRYPTION"], &mut options.encryption)?;
        for (name, path) in [
            ("TCPX_TLS_CERT", &mut options.tls_cert),
            ("TCPX_TLS_KEY", &mut options.tls_key),
            ("TCPX_TLS_CA", &mut options.tls_ca),
        ] {
            // A path need not be text.
            if let Some(value) = lookup(name).filter(|value| !value.is_empty()) {
                *path = Some(value.into());
            }
        }
        env.read(&["TCPX_LISTEN"], &mut options.listen)?;
        let mut gpu = 0;
        if env.read(&["TCPX_GPU"], &mut gpu)? {
            options.gpu = Some(gpu);
        }
        env.read(&["TCPX_EMULATED_GPUS"], &mut options.emulated_gpus)?;
        let mut nics = String::new();
        if env.read(&["TCPX_NIC"], &mut nics)? {
            options.nics =
                nics.split(',').filter(|nic| !nic.is_empty()).map(str::to_owned).collect();
        }
        let mut number = 1u64;
        if env.read(&["TCPX_CONNECT_TIMEOUT_MS"], &mut number)? {
            options.connect_timeout = Duration::from_millis(number);
        }
        if env.read(&["TCPX_CLOSE_TIMEOUT_MS"], &mut number)? {
            options.close_timeout = Duration::from_millis(number);
        }
        if env.read(&["TCPX_PEER_TIMEOUT_MS"], &mut number)? {
            options.peer_timeout = (number != 0).then(|| Duration::from_millis(number));
        }
        if env.read(&["TCPX_STALL_AFTER_MS"], &mut number)? {
            options.stall_after = (number != 0).then(|| Duration::from_millis(number));
        }
        if env.read(&["TCPX_SPIN_US"], &mut number)? {
            options.spin = Duration::from_micros(number);
        }
        if env.read(&["TCPX_PROGRESS_THREAD"], &mut number)? {
            options.progress_thread = number != 0;
        }
        if env.read(&["TCPX_ACCEPT_ALL"], &mut number)? {
            options.accept_all = number != 0;
        }
        if env.read(&["TCPX_PREFLIGHT"], &mut number)? {
            options.preflight = number != 0;
        }
        if env.read(&["TCPX_KEEP_SIGPIPE"], &mut number)? {
            options.keep_sigpipe = number != 0;
        }
        if env.read(&["TCPX_CONNECT_CHANNELS"], &mut number)? {
            options.connect_channels = number != 0;
        }
        if env.read(&["TCPX_GATHER"], &mut number)? {
            options.gather = number != 0;
        }
        Ok(options)
    }
}

struct Variables<'a>(&'a dyn Fn(&'static str) -> Option<OsString>);

impl Variables<'_> {
    /// Reads the first of `names` that is set and not empty. Returns whether one was.
    fn read<T: FromStr + fmt::Display>(
        &self,
        names: &[&'static str],
        target: &mut T,
    ) -> Result<bool>
    where
        T::Err: fmt::Display,
    {
        for name in names {
            let Some(value) = (self.0)(name).filter(|value| !value.is_empty()) else { continue };
            let text = value.to_string_lossy();
            let parsed = text.trim().parse().map_err(|error: T::Err| {
                let (error, example) = (error.to_string(), target.to_string());
                Error::setting(name, &*text, SettingProblem::Unreadable { error, example })
            });
            *target = parsed?;
            return Ok(true);
        }
        Ok(false)
    }
}
