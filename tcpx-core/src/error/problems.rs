//! Problems of memory and settings: why memory is not available, why it cannot be used as
//! requested, and what is wrong with a setting.

use tcpx_cuda::CudaError;
use tcpx_protocol::types::{DEFAULT_CHUNK_BYTES, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES};

use super::certificate_problem::CertificateFileProblem;
/// Memory that is not available here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryUnavailable {
    /// The plugin's bounce buffer, or the queue that describes its contents.
    #[error("bounce memory is not available: {0}")]
    BounceBuffer(BounceBufferProblem),
    /// Memory of a GPU.
    #[error("CUDA memory is not available: {0}")]
    Cuda(CudaError),
    /// The system's memory, for operations that were to be posted. No operation was posted.
    #[error(
        "the system has no memory for {count} more operations, and none was posted; post fewer at \
         a time, or wait until others have ended"
    )]
    Operations {
        /// Number of operations that were to be posted.
        count: usize,
    },
}

/// What is missing of a receive comm's bounce buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BounceBufferProblem {
    /// The plugin returned a comm without a device handle, which says where its data will be.
    #[error("accept returned a comm without a device handle")]
    NoDeviceHandle,
    /// The device handle names no unpack queue.
    #[error("the device handle has no unpack queue")]
    NoUnpackQueue,
    /// The device handle names no bounce buffer.
    #[error("the plugin has no bounce buffer for this GPU; is RxDM running?")]
    Missing,
    /// The bounce buffer lies where this process has no memory.
    #[error("the bounce buffer is not mapped here")]
    NotMapped,
    /// The bounce buffer has no room for a whole chunk on every channel, so parts of chunks could
    /// fill it up.
    #[error(
        "the bounce buffer of {pool_bytes} bytes is too small: {channels} channels with chunks of \
         {chunk_bytes} bytes may take {needed_bytes} bytes of it, and {other_channels} channels of \
         other peers {other_bytes}; use smaller chunks (TCPX_CHUNK_BYTES) or fewer channels \
         (TCPX_CHANNELS)"
    )]
    TooSmall {
        /// Number of bytes of the bounce buffer.
        pool_bytes: u64,
        /// Number of channels of this peer.
        channels: u16,
        /// Number of bytes of a chunk.
        chunk_bytes: u32,
        /// Number of bytes of the pages that one chunk on each of these channels takes at most.
        needed_bytes: u64,
        /// Number of channels that other peers have in this process.
        other_channels: usize,
        /// Number of bytes of the pages that one chunk on each of those channels takes at most.
        other_bytes: u64,
    },
    /// The unpack queue lies where this process has no memory.
    #[error("the unpack queue is not mapped here")]
    QueueNotMapped,
}

/// Why memory cannot be registered, or its registration cannot serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationProblem {
    /// There is no memory at address 0.
    #[error("the address is NULL")]
    NullAddress,
    /// No byte was to be registered.
    #[error("the size is 0")]
    Empty,
    /// Address and size together are beyond the memory of any machine.
    #[error("address and size reach past the end of memory")]
    PastEndOfMemory,
    /// More bytes than this machine can address.
    #[error("{bytes} bytes do not fit this machine")]
    TooLarge {
        /// Number of bytes requested.
        bytes: u64,
    },
    /// Host memory is only sent from where NICs put received bytes into a GPU's memory.
    #[error(
        "the plugin cannot receive into host memory: its data sockets are steered to the GPU; \
         register GPU memory, or register this for sending only"
    )]
    ReceiveIntoHostMemory,
    /// Memory of a GPU that is not the session's.
    #[error("GPU {gpu} is not the session's; a session of all devices has memory of several GPUs")]
    OtherGpu {
        /// CUDA ordinal of that GPU.
        gpu: u32,
    },
    /// Device memory, in a session of all devices.
    #[error("the session has several GPUs: say which the memory is of")]
    WhichGpu,
    /// Device memory of a session of all devices, in a send or receive by tag.
    #[error(
        "it is memory of GPU {gpu}, and in a session of all devices sends and receives by tag are \
         between memory of hosts; let one end read or write the other's memory, or make a session \
         with gpu = {gpu} alone at this end"
    )]
    GpuByTag {
        /// CUDA ordinal of that GPU.
        gpu: u32,
    },
    /// Device memory of another GPU, or of none.
    #[error(
        "the session's GPU does not reach {bytes} bytes at {address:#x}; register memory of that \
         GPU, or host memory as host memory"
    )]
    OutOfGpuReach {
        /// Address of the first byte.
        address: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Device memory that is mapped for reading only.
    #[error(
        "the session's GPU may only read {bytes} bytes at {address:#x}; map them with write access \
         to receive into them, or register them for sending only"
    )]
    ReadOnlyOnGpu {
        /// Address of the first byte.
        address: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Device memory that the driver does not export to the hardware plugin.
    #[error(
        "the CUDA driver exports no dma-buf of the {bytes} bytes at {address:#x}, whole pages \
         around the memory, as the hardware plugin needs them; register memory of cuMemAlloc or \
         cudaMalloc that begins on a page of 4096 bytes"
    )]
    NotExportable {
        /// Address of the first page.
        address: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// A post, a read or a write reaches past the end of the registration.
    #[error("offset {offset} and size {bytes} reach past its {registered_bytes} bytes")]
    OutOfBounds {
        /// Offset in the registration, in bytes.
        offset: u64,
        /// Number of bytes requested.
        bytes: u64,
        /// Number of bytes registered.
        registered_bytes: u64,
    },
    /// A receive into memory that is only sent from.
    #[error(
        "it was registered for sending; register it with Access::ReadWrite (is_recv in C) to \
         receive into it"
    )]
    ReadOnly,
    /// The session reads and writes only memory that it owns.
    #[error("the session did not allocate this memory, so it cannot know whether others use it")]
    NotOwned,
    /// Only a buffer that was lent can be given back.
    #[error("it is no buffer that the session was lent")]
    NotLent,
    /// The registration was taken back while an operation still needed it.
    #[error("it was taken back")]
    Deregistered,
}

/// What is wrong with a setting, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingProblem {
    /// The number is outside its range.
    #[error("must be {low} to {high}")]
    OutOfRange {
        /// Smallest number that is taken.
        low: u64,
        /// Largest number that is taken.
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
        /// Number of bytes of a chunk of the session.
        chunk_bytes: u32,
        /// Number of bytes of the plugin's largest chunk.
        plugin_chunk_bytes: u32,
    },
    /// Chunks of the session would reach the hardware plugin's limit of fragments.
    #[error(
        "with the MTU of {nic}, {mtu}, such a chunk may come in 2048 fragments or more, at which \
         the plugin ends the process; use at most {largest} bytes, or raise the MTU"
    )]
    TooManyFragments {
        /// NIC with the smallest packets.
        nic: String,
        /// MTU of that NIC in bytes.
        mtu: u32,
        /// Largest chunk that the NIC takes, in bytes.
        largest: u32,
    },
    /// `NCCL_INLINE_THRESHOLD` is above 0, with the hardware plugin.
    #[error(
        "must be 0 or unset: a peer would copy messages up to this size to GPU memory with the \
         CPU, which ends its process"
    )]
    InlineThreshold,
    /// A variable of the environment cannot be read as its type.
    #[error("{error}; give a value like {example}, or unset it")]
    Unreadable {
        /// Why the variable cannot be read.
        error: String,
        /// Example of a readable value: the default.
        example: String,
    },
    /// The software plugin takes other values only.
    #[error("allowed: {allowed}")]
    NotAllowed {
        /// Values that the plugin takes.
        allowed: &'static str,
    },
    /// The software plugin cannot be set up, in its own words.
    #[error("{0}")]
    SoftPlugin(String),
    /// The session asks for another transport than that of this process's software plugin, which
    /// the first session has chosen.
    #[error(
        "this session asks for {wanted}, and the software plugin of this process has {opened}, \
         which its first session has chosen; ask for one transport in all sessions of a process, \
         or use two processes"
    )]
    OtherTransport {
        /// Carrier that the session asks for.
        wanted: &'static str,
        /// Carrier of this process.
        opened: &'static str,
    },
    /// The session must encrypt, and its transport cannot.
    #[error(
        "the transport {transport} cannot encrypt: {reason}; use plugin = soft over plain sockets, \
         or encryption = prefer or off"
    )]
    CannotEncrypt {
        /// Name of the transport.
        transport: &'static str,
        /// Words that say what keeps it from that.
        reason: &'static str,
    },
    /// A file of certificates cannot be used, or the settings of certificates do not fit together.
    #[error(transparent)]
    Certificate(CertificateFileProblem),
    /// A hardware plugin has its queues and its bounce buffer in GPU memory.
    #[error(
        "the hardware plugin only works with a GPU: name its CUDA ordinal (gpu, TCPX_GPU; with \
         tcpx --memory cuda), or use plugin = soft"
    )]
    GpuNeeded,
    /// A name must have at least one letter.
    #[error("must not be empty")]
    Empty,
    /// The name of a peer would be that of a device of another peer.
    #[error("ends as the names of devices do, with \"/gpu\" and a number")]
    NameOfDevice,
    /// A name is longer than a hello has room for.
    #[error("{bytes} bytes long, at most {limit} are possible")]
    TooLong {
        /// Length of the name in bytes.
        bytes: usize,
        /// Largest length in bytes.
        limit: usize,
    },
}

/// Why the plugin cannot work with a value of `NCCL_DYNAMIC_CHUNK_SIZE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PluginChunkProblem {
    /// The value is no plain number: the plugin would read "512K" as 512.
    NotANumber,
    /// The value is 0, which the plugin takes for unset, and does not survive.
    Zero,
    /// The value is smaller than the smallest chunk of this library.
    TooSmall,
    /// The value is so large that a request could have more fragments than the plugin survives.
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
            // The number fits, because the largest one does.
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
