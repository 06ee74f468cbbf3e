//! Carrier of payload below the software plugin's comms. A process has one such plugin, and its
//! first session chooses the carrier.

/// Carrier of the software plugin's payload.
#[cfg_attr(not(feature = "soft"), allow(dead_code, reason = "no other plugin has a choice"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// Plain sockets, or the carrier of another plugin.
    Sockets,
    /// The kernel's device-memory TCP.
    DeviceMemory,
    /// The kernel's device-memory TCP for memory of GPUs, over NICs that reach it, and plain
    /// sockets for all other memory.
    DeviceMemoryOfGpus,
    /// Plain sockets, from which io_uring receives into host memory.
    IoUring,
}

/// Match between the carrier that a session asks for and that of a plugin which another session has
/// opened.
#[cfg_attr(not(feature = "soft"), allow(dead_code, reason = "no other plugin has a choice"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CarrierMatch {
    /// The carrier that the session asks for.
    Same,
    /// Another carrier, which the session takes because it has left the choice open.
    Other,
    /// Another carrier, which the session has not asked for.
    Refused,
}

#[cfg_attr(not(feature = "soft"), allow(dead_code, reason = "no other plugin has a choice"))]
impl Carrier {
    /// Returns the match for a session that asks for this carrier, where the plugin has `opened`.
    /// `has_gpu`: its device memory is a GPU's. `by_nic`: over that plugin its memory goes by
    /// device-memory TCP.
    pub(crate) fn match_opened(self, opened: Self, has_gpu: bool, by_nic: bool) -> CarrierMatch {
        match (self, opened) {
            _ if self == opened => CarrierMatch::Same,
            // The session would use plain sockets itself.
            (Self::DeviceMemoryOfGpus, Self::Sockets) if !has_gpu => CarrierMatch::Same,
            (Self::DeviceMemoryOfGpus, _) => CarrierMatch::Other,
            (Self::Sockets, Self::DeviceMemoryOfGpus) if !by_nic => CarrierMatch::Same,
            _ => CarrierMatch::Refused,
        }
    }

    /// Returns the words for the end of a sentence.
    pub(crate) fn description(self) -> &'static str {
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
    fn a_session_never_gets_another_carrier_without_a_word() {
        use Carrier::{DeviceMemory, DeviceMemoryOfGpus, IoUring, Sockets};
        let all = [Sockets, DeviceMemory, DeviceMemoryOfGpus, IoUring];
        let kinds = [(false, false), (true, false), (true, true)];
        for (wanted, opened) in all.iter().flat_map(|&it| all.map(|other| (it, other))) {
            let fits = kinds.map(|(has_gpu, by_nic)| wanted.match_opened(opened, has_gpu, by_nic));
            let expected = match (wanted, opened) {
                _ if wanted == opened => [CarrierMatch::Same; 3],
                (DeviceMemoryOfGpus, Sockets) => {
                    [CarrierMatch::Same, CarrierMatch::Other, CarrierMatch::Other]
                }
                (DeviceMemoryOfGpus, _) => [CarrierMatch::Other; 3],
                (Sockets, DeviceMemoryOfGpus) => {
                    [CarrierMatch::Same, CarrierMatch::Same, CarrierMatch::Refused]
                }
                _ => [CarrierMatch::Refused; 3],
            };
            assert_eq!(fits, expected, "{wanted:?} over {opened:?}");
        }
    }
}
