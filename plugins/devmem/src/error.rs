//! What goes wrong, each with its diagnosis.

use std::io;

use tcpx_diagnosis::Diagnosis;
use tcpx_diagnosis::table::{kernel as table, limits, requests};

/// Where device memory goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Packets come into it.
    Receive,
    /// Packets go out of it.
    Send,
}

/// Why device memory cannot be used, or is not used any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevmemError {
    /// The kernel has no device-memory TCP.
    #[error("the kernel has no device-memory TCP: {what}")]
    NoKernelSupport {
        /// What it lacks.
        what: &'static str,
    },
    /// There is no such NIC, or not any more.
    #[error("there is no NIC {nic} (any more)")]
    NoNic {
        /// The name that was asked for.
        nic: String,
    },
    /// The driver or the device cannot do it.
    #[error("{nic} cannot receive into device memory: {words}")]
    ReceiveUnsupported {
        /// Which NIC.
        nic: String,
        /// The kernel's words.
        words: String,
    },
    /// The driver or the device cannot do it.
    #[error("{nic} cannot send from device memory: {words}")]
    SendUnsupported {
        /// Which NIC.
        nic: String,
        /// The kernel's words.
        words: String,
    },
    /// Headers are not split from payload.
    #[error("{nic}: tcp-data-split is off")]
    HeaderSplitOff {
        /// Which NIC.
        nic: String,
    },
    /// Small packets are not split.
    #[error("{nic}: hds-thresh is not 0")]
    HeaderSplitThreshold {
        /// Which NIC.
        nic: String,
    },
    /// Connections cannot be sent to a queue.
    #[error("{nic}: ntuple is off")]
    FlowSteeringOff {
        /// Which NIC.
        nic: String,
    },
    /// The process may not bind a receive queue, or make a rule.
    #[error("{nic}: {what} is not permitted: it takes CAP_NET_ADMIN")]
    NotPermitted {
        /// Which NIC.
        nic: String,
        /// What was tried.
        what: &'static str,
    },
    /// Every receive queue has ordinary packets, or another user.
    #[error(
        "{nic} has {free} of {wanted} receive queues free: of {queues}, {shared} have ordinary \
         packets, {taken} have another user"
    )]
    NoFreeQueue {
        /// Which NIC.
        nic: String,
        /// Queues that were asked for.
        wanted: usize,
        /// Queues that could be had.
        free: usize,
        /// Receive queues of the NIC.
        queues: usize,
        /// Those over which it spreads what no rule is about.
        shared: usize,
        /// Those that device memory, AF_XDP or io_uring has.
        taken: usize,
    },
    /// Somebody was faster.
    #[error("{nic}: receive queues {queues:?} cannot be bound: {words}")]
    QueueTaken {
        /// Which NIC.
        nic: String,
        /// The queues that were asked for.
        queues: Vec<u32>,
        /// The kernel's words.
        words: String,
    },
    /// The NIC could not start a queue anew.
    #[error("{nic}: receive queues {queues:?} cannot be reset: {words}")]
    ResetFailed {
        /// Which NIC.
        nic: String,
        /// The queues that were asked for.
        queues: Vec<u32>,
        /// The kernel's words.
        words: String,
    },
    /// The memory is not what a NIC can use.
    #[error("{nic} refuses the dma-buf: {words}")]
    MemoryRefused {
        /// Which NIC.
        nic: String,
        /// The kernel's words.
        words: String,
    },
    /// Host memory cannot stand in for a GPU's.
    #[error("host memory of {bytes} bytes cannot be made a dma-buf: {source}")]
    NoUdmabuf {
        /// How much was asked for.
        bytes: u64,
        /// The system's error.
        source: io::Error,
    },
    /// A flow rule was refused.
    #[error("{nic}: a flow rule is refused: {source}")]
    RuleRefused {
        /// Which NIC.
        nic: String,
        /// The system's error.
        source: io::Error,
    },
    /// The NIC does not know the binding any more.
    #[error("{nic}: queue {queue} has lost its device memory")]
    BindingLost {
        /// Which NIC.
        nic: String,
        /// The queue that is not bound any more.
        queue: u32,
    },
    /// The NIC that has the memory is down.
    #[error("{nic} is down")]
    NicDown {
        /// Which NIC.
        nic: String,
    },
    /// The memory is that of a GPU, which cannot be handed to a NIC.
    #[error("memory of GPU {gpu} cannot be handed to a NIC: {why}")]
    GpuMemory {
        /// The GPU's ordinal.
        gpu: u32,
        /// What the GPU or its driver lacks, or what is wrong with the memory.
        why: String,
    },
    /// The region is too small for what is asked of it.
    #[error("{what} takes {pages} pages that {nic} receives into, and {free} are free for it")]
    PoolTooSmall {
        /// Which NIC.
        nic: String,
        /// What is asked of it.
        what: &'static str,
        /// Pages that it takes.
        pages: u64,
        /// Pages that there are for it.
        free: u64,
    },
    /// The kernel's description of what it received does not hold.
    #[error("recvmsg returned {bytes} bytes, and described {described}: {what}")]
    BadDescription {
        /// What `recvmsg` returned.
        bytes: u64,
        /// What its control messages add up to.
        described: u64,
        /// What is wrong.
        what: String,
    },
    /// One packet has both kinds of memory, or another user's.
    #[error("a packet has memory that is not ours in it")]
    ForeignPacket,
    /// A connection's packets would leave by another NIC than its memory is bound to.
    #[error("the connection does not leave by the NIC that its memory is bound to")]
    WrongRoute,
    /// A socket's memory for notifications is used up although nothing is under way.
    #[error("there is no memory for the notice that a send is over")]
    NoNoticeMemory,
    /// The kernel would not take fragments back.
    #[error("fragments cannot be given back: {source}")]
    GiveBackRefused {
        /// The system's error.
        source: io::Error,
    },
    /// Nothing comes any more, because the program holds what has come.
    #[error("nothing comes any more: {held} of {pages} pages that the NIC has are held")]
    PoolHeld {
        /// Fragments that were not given back, at most as many pages.
        held: u64,
        /// Pages of the region.
        pages: u64,
    },
    /// A chunk came in more pieces than a request may have.
    #[error("a chunk came in more than {limit} fragments")]
    TooManyFragments {
        /// How many it may have.
        limit: usize,
    },
    /// More bytes were received than there is a place for.
    #[error("{bytes} bytes have no place, there is room for {room}")]
    NoRoom {
        /// Bytes that came.
        bytes: u64,
        /// Bytes that there is room for.
        room: u64,
    },
    /// The kernel has no zero-copy receive of io_uring.
    #[error("the kernel has no zero-copy receive of io_uring: {what}")]
    NoRingReceive {
        /// What it lacks.
        what: &'static str,
    },
    /// The process may not use io_uring.
    #[error("io_uring is not permitted: {source}")]
    RingDenied {
        /// The system's error.
        source: io::Error,
    },
    /// The driver or the device cannot do it.
    #[error("{nic} cannot receive into memory of a process: {words}")]
    RingUnsupported {
        /// Which NIC.
        nic: String,
        /// What the kernel says.
        words: String,
    },
    /// More memory than the process may lock.
    #[error("{bytes} bytes for {nic} to receive into are more than may be locked: {limit}")]
    MemoryNotLocked {
        /// Which NIC.
        nic: String,
        /// How much was asked for.
        bytes: u64,
        /// Bytes that the user may lock, in all processes together.
        limit: u64,
    },
    /// The ring is of no use any more.
    #[error("io_uring tells of nothing any more: {source}")]
    RingFailed {
        /// The system's error.
        source: io::Error,
    },
    /// The CUDA driver does not let a GPU read memory of the host that a NIC receives into.
    #[error("what {nic} receives into cannot be pinned for GPU {gpu}: {words}")]
    NotPinned {
        /// Which NIC.
        nic: String,
        /// The GPU's ordinal.
        gpu: u32,
        /// What the driver says.
        words: String,
    },
    /// Anything else that the system says.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl DevmemError {
    /// What is known about it. None for errors of the system that say all there is, and for calls
    /// that take more than there is room for.
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
