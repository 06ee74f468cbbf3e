//! What can be wrong with a setting.

use tcpx_protocol::types::{DEFAULT_CHUNK_BYTES, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES};

/// What is wrong with a setting, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingProblem {
    /// The number is outside its range.
    #[error("must be {low} to {high}")]
    OutOfRange {
        /// The smallest number that is taken.
        low: u64,
        /// The largest.
        high: u64,
    },
    /// `NCCL_DYNAMIC_CHUNK_SIZE` is no size that a plugin may be started with.
    #[error(
        "must be a plain number of bytes, {MIN_CHUNK_BYTES} to {MAX_CHUNK_BYTES}; \
         {DEFAULT_CHUNK_BYTES} is usual"
    )]
    PluginChunk(PluginChunkProblem),
    /// The session's chunks are larger than those that the plugin was started with.
    #[error(
        "the plugin was opened for chunks of at most {plugin_chunk_bytes} bytes, by \
         NCCL_DYNAMIC_CHUNK_SIZE or by this process's first session; use a smaller chunk, ask the \
         first session for the larger one too (--chunk at both ends), or set \
         NCCL_DYNAMIC_CHUNK_SIZE={chunk_bytes} on both hosts"
    )]
    AbovePluginChunk {
        /// Bytes of a chunk of the session.
        chunk_bytes: u32,
        /// Bytes of the plugin's largest chunk.
        plugin_chunk_bytes: u32,
    },
    /// Chunks of the session would reach the hardware plugin's limit of fragments.
    #[error(
        "with the MTU of {nic}, {mtu}, such a chunk may come in 2048 fragments or more, at which \
         the plugin ends the process; use at most {largest} bytes, or raise the MTU"
    )]
    TooManyFragments {
        /// The NIC with the smallest packets.
        nic: String,
        /// Its MTU in bytes.
        mtu: u32,
        /// The largest chunk in bytes that it takes.
        largest: u32,
    },
    /// `NCCL_INLINE_THRESHOLD` is above 0, with the hardware plugin.
    #[error(
        "must be 0 or unset: a peer would copy messages up to this size to GPU memory with the \
         CPU, which ends its process"
    )]
    InlineThreshold,
    /// A variable of the environment does not read as what it should be.
    #[error("{error}; give a value like {example}, or unset it")]
    Unreadable {
        /// Why it cannot be read.
        error: String,
        /// What could be: the default.
        example: String,
    },
    /// The software plugin takes other values only.
    #[error("allowed: {allowed}")]
    NotAllowed {
        /// The values that it takes.
        allowed: &'static str,
    },
    /// The software plugin cannot be set up, in its own words.
    #[error("{0}")]
    SoftPlugin(String),
    /// The session asks for another transport than the software plugin of this process has, which
    /// its first session has chosen.
    #[error(
        "this session asks for {wanted}, and the software plugin of this process has {opened}, \
         which its first session has chosen; ask for one transport in all sessions of a process, \
         or use two processes"
    )]
    OtherTransport {
        /// What would carry the session's payload.
        wanted: &'static str,
        /// What carries it in this process.
        opened: &'static str,
    },
    /// A hardware plugin has its queues and its bounce buffer in GPU memory.
    #[error(
        "the hardware plugin only works with a GPU: name its CUDA ordinal (gpu, TCPX_GPU; with \
         tcpx --memory cuda), or use plugin = soft"
    )]
    GpuNeeded,
    /// A name has to have at least one letter.
    #[error("must not be empty")]
    Empty,
    /// The name of a group would be that of a device of another.
    #[error("ends as the names of devices do, with \"/gpu\" and a number")]
    NameOfDevice,
    /// A name is longer than a hello has room for.
    #[error("{bytes} bytes long, at most {limit} are possible")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The longest one.
        limit: usize,
    },
}

/// Why the plugin cannot work with a value of `NCCL_DYNAMIC_CHUNK_SIZE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PluginChunkProblem {
    /// No plain number: the plugin would read "512K" as 512.
    NotANumber,
    /// 0, which the plugin takes for unset, and does not survive.
    Zero,
    /// Smaller than the smallest chunk of this library.
    TooSmall,
    /// So large that a request could have more fragments than the plugin survives.
    TooLarge,
}

impl PluginChunkProblem {
    /// Reads the variable's value: a number of bytes that a plugin may be started with.
    pub(crate) fn check(value: &str) -> Result<u32, Self> {
        match value.parse::<u64>() {
            Err(_) => Err(Self::NotANumber),
            Ok(0) => Err(Self::Zero),
            Ok(bytes) if bytes < MIN_CHUNK_BYTES.into() => Err(Self::TooSmall),
            Ok(bytes) if bytes > MAX_CHUNK_BYTES.into() => Err(Self::TooLarge),
            // It fits, since the largest does.
            Ok(bytes) => Ok(bytes as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_number_in_the_range_starts_a_plugin() {
        for (value, expected) in [
            ("524288", Ok(524_288)),
            ("4096", Ok(4096)),
            ("4194304", Ok(4 << 20)),
            ("512K", Err(PluginChunkProblem::NotANumber)),
            ("-1", Err(PluginChunkProblem::NotANumber)),
            ("0", Err(PluginChunkProblem::Zero)),
            ("4095", Err(PluginChunkProblem::TooSmall)),
            ("4194305", Err(PluginChunkProblem::TooLarge)),
            ("4294971392", Err(PluginChunkProblem::TooLarge)),
        ] {
            assert_eq!(PluginChunkProblem::check(value), expected, "{value}");
        }
    }
}
