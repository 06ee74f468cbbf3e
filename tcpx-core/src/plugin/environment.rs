//! Environment variables that a plugin reads, and those that this library sets before it loads one.

use std::path::Path;
use std::sync::Arc;

use tcpx_diagnosis::table::environment::INLINE_WITH_CUDA;
use tcpx_diagnosis::variables::{Env, lint, process_env, value};
use tcpx_diagnosis::{Finding, Host};
use tcpx_protocol::types::{DEFAULT_CHUNK_BYTES, MAX_CHUNK_BYTES};

use crate::error::{Error, PluginChunkProblem, Result, SettingProblem};
use crate::settings::SessionOptions;
use crate::stats::peer_transport::ZeroCopySends;

pub(super) const CHUNK_VARIABLE: &str = "NCCL_DYNAMIC_CHUNK_SIZE";
const INLINE_VARIABLE: &str = "NCCL_INLINE_THRESHOLD";
/// Variable of the software plugin.
const ZERO_COPY_VARIABLE: &str = "TCPX_SOFT_ZEROCOPY";
/// Variable of the hardware plugin. Set to 1, the plugin asks `/proc/driver/nvp2p_dma_buf` instead
/// of the CUDA driver.
const OWN_EXPORT_VARIABLE: &str = "NCCL_GPUDIRECTTCPX_REG_DMABUF_USE_INTERNAL_API";

/// Checks the environment that the hardware plugin will see for anything that would make it end
/// this process.
pub(super) fn check_host(path: &Path) -> Result<()> {
    let env = as_the_plugin_sees(process_env());
    tcpx_diagnosis::preflight(path, None, &Host::this(&env))
        .map_err(|report| Error::Preflight(Arc::new(report)))
}

/// Returns the environment with the variables that are set before a plugin is loaded.
fn as_the_plugin_sees(mut env: Env) -> Env {
    if value(&env, CHUNK_VARIABLE).is_none() {
        env.insert(CHUNK_VARIABLE.to_owned(), DEFAULT_CHUNK_BYTES.to_string());
    }
    env
}

/// Refuses an inline threshold. With one, the hardware plugin of a peer would write small messages
/// to GPU memory with the CPU. The check is repeated here because the program may have disabled the
/// preflight checks, and because the peer is the process that dies.
pub(super) fn check_inline_threshold(env: &Env) -> Result<()> {
    let is_set = |finding: &Finding| finding.id == INLINE_WITH_CUDA.code;
    if !lint(env, &[], 0).iter().any(is_set) {
        return Ok(());
    }
    let text = value(env, INLINE_VARIABLE).unwrap_or_default();
    Err(Error::setting(INLINE_VARIABLE, text, SettingProblem::InlineThreshold))
}

/// Returns the largest chunk of a plugin for which the environment names none. This is the size
/// that the opening session asks for, and no less than the usual size.
pub(super) fn largest_chunk(options: &SessionOptions) -> u32 {
    options.chunk_bytes.unwrap_or_default().clamp(DEFAULT_CHUNK_BYTES, MAX_CHUNK_BYTES)
}

/// Returns which sends of the software plugin are zero-copy, as it reads the variable in `init`.
pub(super) fn zero_copy_sends(env: &Env) -> ZeroCopySends {
    match value(env, ZERO_COPY_VARIABLE) {
        Some("on") => ZeroCopySends::Yes,
        Some("auto") => ZeroCopySends::WherePossible,
        _ => ZeroCopySends::No,
    }
}

/// Returns whether the hardware plugin exports device memory by its own means, as it saw the
/// variable in `init`. Which memory those means refuse is not known.
pub(super) fn exports_itself() -> bool {
    let value = std::env::var(OWN_EXPORT_VARIABLE).unwrap_or_default();
    value.trim().parse::<i64>().is_ok_and(|value| value != 0)
}

/// Returns the variable as a number of bytes. The plugin would read "512K" as 512, and take another
/// default for a number that is out of range.
pub(super) fn chunk_from_env() -> Result<Option<u32>> {
    let Some(value) = std::env::var_os(CHUNK_VARIABLE).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let text = value.to_string_lossy();
    match PluginChunkProblem::check(&text) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(problem) => {
            Err(Error::setting(CHUNK_VARIABLE, text, SettingProblem::PluginChunk(problem)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str, value: &str) -> Env {
        Env::from([(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn a_chunk_size_that_is_unset_or_empty_is_set_before_the_checks() {
        for (before, after) in [
            (Env::new(), "524288"),
            (env(CHUNK_VARIABLE, ""), "524288"),
            (env(CHUNK_VARIABLE, "8K"), "8K"),
        ] {
            assert_eq!(as_the_plugin_sees(before)[CHUNK_VARIABLE], after);
        }
    }

    #[test]
    fn inline_messages_are_refused_where_the_plugin_would_send_them() {
        for harmless in [Env::new(), env(INLINE_VARIABLE, "0"), env(INLINE_VARIABLE, "")] {
            check_inline_threshold(&harmless).unwrap();
        }
        let error = check_inline_threshold(&env(INLINE_VARIABLE, "1024")).unwrap_err().to_string();
        assert!(error.starts_with("NCCL_INLINE_THRESHOLD = 1024: must be 0"), "{error}");
        assert!(error.ends_with("[TCPX-115]"), "{error}");
    }
}
