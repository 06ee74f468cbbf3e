//! What carries payload below the software plugin's comms.

/// What carries the payload of the software plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// Plain sockets, or what another plugin has.
    Sockets,
    /// The kernel's device-memory TCP.
    DeviceMemory,
    /// That for memory of GPUs, over NICs that reach it; plain sockets for all else.
    DeviceMemoryOfGpus,
    /// Plain sockets, of which io_uring puts what comes into host memory.
    IoUring,
}
