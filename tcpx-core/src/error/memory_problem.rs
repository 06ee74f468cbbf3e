//! Why memory cannot be had, or cannot be used for what was asked of it.

use tcpx_cuda::CudaError;

/// Memory that is not to be had here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryUnavailable {
    /// The plugin's bounce buffer, or the queue that says what lies in it.
    #[error("bounce memory is not available: {0}")]
    BounceBuffer(BounceBufferProblem),
    /// Memory of a GPU.
    #[error("CUDA memory is not available: {0}")]
    Cuda(CudaError),
    /// The system's memory, for operations that were to be posted. None of them was.
    #[error(
        "the system has no memory for {count} more operations, and none was posted; post fewer at \
         a time, or wait until others have ended"
    )]
    Operations {
        /// How many were to be posted.
        count: usize,
    },
}

/// What is missing of a receive comm's bounce buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BounceBufferProblem {
    /// The plugin gave a comm and nothing that says where its data will be.
    #[error("accept returned a comm without a device handle")]
    NoDeviceHandle,
    /// What it gave names no unpack queue.
    #[error("the device handle has no unpack queue")]
    NoUnpackQueue,
    /// What it gave names no bounce buffer.
    #[error("the plugin has no bounce buffer for this GPU; is RxDM running?")]
    Missing,
    /// The bounce buffer lies where this process has no memory.
    #[error("the bounce buffer is not mapped here")]
    NotMapped,
    /// It has no room for a whole chunk on every channel, so parts of chunks could fill it up.
    #[error(
        "the bounce buffer of {pool_bytes} bytes is too small: {channels} channels with chunks of \
         {chunk_bytes} bytes may take {needed_bytes} bytes of it, and {other_channels} channels of \
         other peers {other_bytes}; use smaller chunks (TCPX_CHUNK_BYTES) or fewer channels \
         (TCPX_CHANNELS)"
    )]
    TooSmall {
        /// Bytes of the bounce buffer.
        pool_bytes: u64,
        /// Channels of this peer.
        channels: u16,
        /// Bytes of a chunk.
        chunk_bytes: u32,
        /// Bytes of the pages that one chunk on each of them takes at most.
        needed_bytes: u64,
        /// Channels that other peers have in this process.
        other_channels: usize,
        /// Bytes of the pages that one chunk on each of those takes at most.
        other_bytes: u64,
    },
    /// The unpack queue lies where this process has no memory.
    #[error("the unpack queue is not mapped here")]
    QueueNotMapped,
}

/// Why memory cannot be registered, or its registration cannot serve what was asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationProblem {
    /// There is no memory at address 0.
    #[error("the address is NULL")]
    NullAddress,
    /// No byte was to be registered.
    #[error("the size is 0")]
    Empty,
    /// Address and size together are no memory of any machine.
    #[error("address and size reach past the end of memory")]
    PastEndOfMemory,
    /// More bytes than this machine can address.
    #[error("{bytes} bytes do not fit this machine")]
    TooLarge {
        /// What was asked for.
        bytes: u64,
    },
    /// Where NICs put what comes into a GPU's memory, host memory is only sent from.
    #[error(
        "the plugin cannot receive into host memory: its data sockets are steered to the GPU; \
         register GPU memory, or register this for sending only"
    )]
    ReceiveIntoHostMemory,
    /// Device memory of another GPU, or of none.
    #[error(
        "the session's GPU does not reach {bytes} bytes at {address:#x}; register memory of that \
         GPU, or host memory as host memory"
    )]
    OutOfGpuReach {
        /// Where they begin.
        address: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// Device memory that is mapped for reading only.
    #[error(
        "the session's GPU may only read {bytes} bytes at {address:#x}; map them with write access \
         to receive into them, or register them for sending only"
    )]
    ReadOnlyOnGpu {
        /// Where they begin.
        address: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// Device memory that the driver does not export to the hardware plugin.
    #[error(
        "the CUDA driver exports no dma-buf of the {bytes} bytes at {address:#x}, whole pages \
         around the memory, as the hardware plugin needs them; register memory of cuMemAlloc or \
         cudaMalloc that begins on a page of 4096 bytes"
    )]
    NotExportable {
        /// Where the pages begin.
        address: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// A post, a read or a write reaches past the end of the registration.
    #[error("offset {offset} and size {bytes} reach past its {registered_bytes} bytes")]
    OutOfBounds {
        /// Where in the registration it begins, in bytes.
        offset: u64,
        /// How many bytes it asks for.
        bytes: u64,
        /// How many bytes are registered.
        registered_bytes: u64,
    },
    /// A receive into memory that is only sent from.
    #[error(
        "it was registered for sending; register it with Access::ReadWrite (is_recv in C) to \
         receive into it"
    )]
    ReadOnly,
    /// The session reads and writes only memory of its own.
    #[error("the session did not allocate this memory, so it cannot know that nobody else uses it")]
    NotOwned,
    /// Only a buffer that was lent can be given back.
    #[error("it is no buffer that the session was lent")]
    NotLent,
    /// It was taken back while something still needed it.
    #[error("it was taken back")]
    Deregistered,
}
