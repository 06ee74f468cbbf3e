//! Errors of device memory, each with its diagnosis.

use std::io;

use tcpx_diagnosis::Diagnosis;
use tcpx_diagnosis::table::{kernel as table, limits, requests};
use tcpx_rx::Fragment;

/// Direction of the data in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Packets come into the memory.
    Receive,
    /// Packets go out of the memory.
    Send,
}

/// Reason why device memory cannot be used, or is not used any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevmemError {
    /// The kernel has no device-memory TCP.
    #[error("the kernel has no device-memory TCP: {what}")]
    NoKernelSupport {
        /// Missing support.
        what: &'static str,
    },
    /// The NIC does not exist, or no longer exists.
    #[error("there is no NIC {nic} (any more)")]
    NoNic {
        /// Name in the request.
        nic: String,
    },
    /// The driver or the device cannot receive into device memory.
    #[error("{nic} cannot receive into device memory: {words}")]
    ReceiveUnsupported {
        /// Name of the NIC.
        nic: String,
        /// The kernel's words.
        words: String,
    },
    /// The driver or the device cannot send from device memory.
    #[error("{nic} cannot send from device memory: {words}")]
    SendUnsupported {
        /// Name of the NIC.
        nic: String,
        /// The kernel's words.
        words: String,
    },
    /// Headers are not split from payload.
    #[error("{nic}: tcp-data-split is off")]
    HeaderSplitOff {
        /// Name of the NIC.
        nic: String,
    },
    /// Small packets are not split.
    #[error("{nic}: hds-thresh is not 0")]
    HeaderSplitThreshold {
        /// Name of the NIC.
        nic: String,
    },
    /// The NIC cannot steer connections to a queue.
    #[error("{nic}: ntuple is off")]
    FlowSteeringOff {
        /// Name of the NIC.
        nic: String,
    },
    /// The process may not bind a receive queue, or make a rule.
    #[error("{nic}: {what} is not permitted: it takes CAP_NET_ADMIN")]
    NotPermitted {
        /// Name of the NIC.
        nic: String,
        /// Attempted operation.
        what: &'static str,
    },
    /// Every receive queue has ordinary packets, or another user.
    #[error(
        "{nic} has {free} of {wanted} receive queues free: of {queues}, {shared} have ordinary \
         packets, {taken} have another user"
    )]
    NoFreeQueue {
        /// Name of the NIC.
        nic: String,
        /// Number of requested queues.
        wanted: usize,
        /// Number of free queues.
        free: usize,
        /// Number of receive queues of the NIC.
        queues: usize,
        /// Number of queues over which the NIC spreads packets without a rule.
        shared: usize,
        /// Number of queues that device memory, AF_XDP or io_uring has.
        taken: usize,
    },
    /// Another process has bound the queue first.
    #[error("{nic}: receive queues {queues:?} cannot be bound: {words}")]
    QueueTaken {
        /// Name of the NIC.
        nic: String,
        /// Requested queues.
        queues: Vec<u32>,
        /// The kernel's words.
        words: String,
    },
    /// The NIC could not restart a queue.
    #[error("{nic}: receive queues {queues:?} cannot be reset: {words}")]
    ResetFailed {
        /// Name of the NIC.
        nic: String,
        /// Requested queues.
        queues: Vec<u32>,
        /// The kernel's words.
        words: String,
    },
    /// The NIC cannot use the memory.
    #[error("{nic} refuses the dma-buf: {words}")]
    MemoryRefused {
        /// Name of the NIC.
        nic: String,
        /// The kernel's words.
        words: String,
    },
    /// Host memory cannot stand in for a GPU's.
    #[error("host memory of {bytes} bytes cannot be made a dma-buf: {source}")]
    NoUdmabuf {
        /// Requested bytes.
        bytes: u64,
        /// The system's error.
        source: io::Error,
    },
    /// A flow rule was refused.
    #[error("{nic}: a flow rule is refused: {source}")]
    RuleRefused {
        /// Name of the NIC.
        nic: String,
        /// The system's error.
        source: io::Error,
    },
    /// The NIC no longer knows the binding.
    #[error("{nic}: queue {queue} has lost its device memory")]
    BindingLost {
        /// Name of the NIC.
        nic: String,
        /// Queue that is no longer bound.
        queue: u32,
    },
    /// The NIC that has the memory is down.
    #[error("{nic} is down")]
    NicDown {
        /// Name of the NIC.
        nic: String,
    },
    /// The memory belongs to a GPU and cannot be handed to a NIC.
    #[error("memory of GPU {gpu} cannot be handed to a NIC: {why}")]
    GpuMemory {
        /// The GPU's ordinal.
        gpu: u32,
        /// Missing support of the GPU or its driver, or what is wrong with the memory.
        why: String,
    },
    /// The region is too small for the request.
    #[error("{what} takes {pages} pages that {nic} receives into, and {free} are free for it")]
    PoolTooSmall {
        /// Name of the NIC.
        nic: String,
        /// Request.
        what: &'static str,
        /// Pages that the request takes.
        pages: u64,
        /// Pages that are free for the request.
        free: u64,
    },
    /// The kernel's description of the received bytes is inconsistent.
    #[error("recvmsg returned {bytes} bytes, and described {described}: {what}")]
    BadDescription {
        /// Bytes that `recvmsg` returned.
        bytes: u64,
        /// Bytes that its control messages add up to.
        described: u64,
        /// What is wrong.
        what: String,
    },
    /// One packet has both kinds of memory, or another user's memory.
    #[error("a packet holds memory of another owner")]
    ForeignPacket,
    /// A connection's packets would leave by another NIC than the NIC that its memory is bound to.
    #[error("the connection does not leave by the NIC that its memory is bound to")]
    WrongRoute,
    /// A socket's memory for notifications is used up although no send is in flight.
    #[error("there is no memory for the completion of a send")]
    NoNoticeMemory,
    /// The kernel would not take fragments back.
    #[error("fragments cannot be given back: {source}")]
    GiveBackRefused {
        /// The system's error.
        source: io::Error,
    },
    /// Nothing comes any more, because the program holds the received fragments.
    #[error("no bytes arrive: {held} of the NIC's {pages} pages are held")]
    PoolHeld {
        /// Fragments that were not given back. They hold at most this many pages.
        held: u64,
        /// Pages of the region.
        pages: u64,
    },
    /// A chunk came in more pieces than a request may have.
    #[error("a chunk came in more than {limit} fragments")]
    TooManyFragments {
        /// Largest number of pieces.
        limit: usize,
    },
    /// More bytes were received than there is room for.
    #[error("{bytes} bytes do not fit, there is room for {room}")]
    NoRoom {
        /// Received bytes.
        bytes: u64,
        /// Bytes of room.
        room: u64,
    },
    /// The kernel has no zero-copy receive of io_uring.
    #[error("the kernel has no zero-copy receive of io_uring: {what}")]
    NoRingReceive {
        /// Missing support.
        what: &'static str,
    },
    /// The process may not use io_uring.
    #[error("io_uring is not permitted: {source}")]
    RingDenied {
        /// The system's error.
        source: io::Error,
    },
    /// The driver or the device cannot receive by io_uring.
    #[error("{nic} cannot receive into memory of a process: {words}")]
    RingUnsupported {
        /// Name of the NIC.
        nic: String,
        /// The kernel's words.
        words: String,
    },
    /// The memory exceeds what the process may lock.
    #[error("{bytes} bytes for {nic} to receive into are more than may be locked: {limit}")]
    MemoryNotLocked {
        /// Name of the NIC.
        nic: String,
        /// Requested bytes.
        bytes: u64,
        /// Bytes that the user may lock, in all processes together.
        limit: u64,
    },
    /// The ring can no longer be used.
    #[error("io_uring reports no more events: {source}")]
    RingFailed {
        /// The system's error.
        source: io::Error,
    },
    /// The CUDA driver does not let a GPU read host memory that a NIC receives into.
    #[error("the receive memory of {nic} cannot be pinned for GPU {gpu}: {words}")]
    NotPinned {
        /// Name of the NIC.
        nic: String,
        /// The GPU's ordinal.
        gpu: u32,
        /// The driver's words.
        words: String,
    },
    /// Any other error of the system.
    #[error("{what}: {source}")]
    System {
        /// Attempted operation.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl DevmemError {
    /// Returns the error of a fragment of a kind that this crate does not know.
    pub(crate) fn unknown_fragment(fragment: &Fragment) -> Self {
        let (bytes, what) = (fragment.bytes().into(), format!("an unknown kind: {fragment:?}"));
        Self::BadDescription { bytes, described: 0, what }
    }

    /// Returns the diagnosis of this error. Returns `None` for errors of the system that explain
    /// themselves, and for calls that exceed the room.
    #[must_use]
    pub fn diagnosis(&self) -> Option<&'static Diagnosis> {
        Some(match self {
            Self::NoKernelSupport { .. } => &table::DEVMEM_KERNEL_TOO_OLD,
            Self::NoNic { .. } | Self::BindingLost { .. } | Self::RingFailed { .. } => {
                &table::DEVMEM_BINDING_LOST
            }
            Self::ReceiveUnsupported { .. } => &table::RX_DEVMEM_UNSUPPORTED,
            Self::SendUnsupported { .. } => &table::TX_DEVMEM_UNSUPPORTED,
            Self::HeaderSplitOff { .. } => &table::HEADER_SPLIT_OFF,
            Self::HeaderSplitThreshold { .. } => &table::HDS_THRESHOLD_NOT_ZERO,
            Self::FlowSteeringOff { .. } => &table::FLOW_STEERING_OFF,
            Self::NotPermitted { .. } => &table::DEVMEM_NOT_PERMITTED,
            Self::NoFreeQueue { .. } => &table::NO_FREE_QUEUE,
            Self::QueueTaken { .. } => &table::RX_DEVMEM_BLOCKED,
            Self::ResetFailed { .. } => &table::QUEUE_RESET_FAILED,
            Self::MemoryRefused { .. } => &table::DMABUF_REFUSED,
            Self::NoUdmabuf { .. } => &table::UDMABUF_ABSENT,
            Self::RuleRefused { .. } => &table::FLOW_RULE_REFUSED,
            Self::BadDescription { .. } | Self::ForeignPacket | Self::GiveBackRefused { .. } => {
                &table::DEVMEM_PACKET_MIXED
            }
            Self::WrongRoute => &table::DEVMEM_WRONG_ROUTE,
            Self::NoNoticeMemory => &limits::OPTMEM_SMALL,
            Self::PoolHeld { .. } | Self::PoolTooSmall { .. } => &table::DEVMEM_POOL_HELD,
            Self::NicDown { .. } => &table::DEVMEM_NIC_DOWN,
            Self::GpuMemory { .. } => &table::DEVMEM_GPU_MEMORY,
            Self::NotPinned { .. } => &table::ZERO_COPY_MEMORY_NOT_PINNED,
            Self::TooManyFragments { .. } => &requests::TOO_MANY_FRAGMENTS,
            Self::NoRingReceive { .. } => &table::ZERO_COPY_NOT_IN_KERNEL,
            Self::RingDenied { .. } => &table::IO_URING_DENIED,
            Self::RingUnsupported { .. } => &table::ZERO_COPY_UNSUPPORTED,
            Self::MemoryNotLocked { .. } => &table::ZERO_COPY_MEMORY_NOT_LOCKED,
            Self::NoRoom { .. } | Self::System { .. } => return None,
        })
    }
}
