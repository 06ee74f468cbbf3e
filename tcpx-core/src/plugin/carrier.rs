//! What carries payload below the software plugin's comms. A process has one such plugin, and its
//! first session says what that is.

/// What carries the payload of the software plugin.
#[cfg_attr(not(feature = "soft"), allow(dead_code, reason = "no other plugin has a choice"))]
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

/// What a session gets of a plugin that another one has opened.
#[cfg_attr(not(feature = "soft"), allow(dead_code, reason = "no other plugin has a choice"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// What it asks for.
    Wanted,
    /// Something else, which it takes: it has left that open.
    Other,
    /// Something else, which it has not asked for.
    Refused,
}

#[cfg_attr(not(feature = "soft"), allow(dead_code, reason = "no other plugin has a choice"))]
impl Carrier {
    /// What a session that asks for this gets where the plugin has `opened`. `has_gpu`: its device
    /// memory is a GPU's. `by_nic`: over that plugin its memory goes by device memory.
    pub(crate) fn over(self, opened: Self, has_gpu: bool, by_nic: bool) -> Fit {
        match (self, opened) {
            _ if self == opened => Fit::Wanted,
            // Where it would use plain sockets itself.
            (Self::DeviceMemoryOfGpus, Self::Sockets) if !has_gpu => Fit::Wanted,
            (Self::DeviceMemoryOfGpus, _) => Fit::Other,
            (Self::Sockets, Self::DeviceMemoryOfGpus) if !by_nic => Fit::Wanted,
            _ => Fit::Refused,
        }
    }

    /// In words, which end a sentence.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Sockets => "plain sockets",
            Self::DeviceMemory => "device memory",
            Self::DeviceMemoryOfGpus => "device memory for GPUs that a NIC reaches",
            Self::IoUring => "io_uring",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_silently_what_was_not_asked_for() {
        use Carrier::{DeviceMemory, DeviceMemoryOfGpus, IoUring, Sockets};
        let all = [Sockets, DeviceMemory, DeviceMemoryOfGpus, IoUring];
        let kinds = [(false, false), (true, false), (true, true)];
        for (wanted, opened) in all.iter().flat_map(|&it| all.map(|other| (it, other))) {
            let fits = kinds.map(|(has_gpu, by_nic)| wanted.over(opened, has_gpu, by_nic));
            let expected = match (wanted, opened) {
                _ if wanted == opened => [Fit::Wanted; 3],
                (DeviceMemoryOfGpus, Sockets) => [Fit::Wanted, Fit::Other, Fit::Other],
                (DeviceMemoryOfGpus, _) => [Fit::Other; 3],
                (Sockets, DeviceMemoryOfGpus) => [Fit::Wanted, Fit::Wanted, Fit::Refused],
                _ => [Fit::Refused; 3],
            };
            assert_eq!(fits, expected, "{wanted:?} over {opened:?}");
        }
    }
}
