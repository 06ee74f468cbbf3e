//! Breakdown of the time of a measurement into stages, and the bound that follows.

use serde::{Deserialize, Serialize};
use tcpx_core::Session;

/// Stage of an end's time.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Chunks were being sent, and nothing else.
    Sending,
    /// Receives waited for the network and the sender, nothing else.
    Receiving,
    /// Receives waited for the network while chunks were being unpacked.
    ReceivingAndUnpacking,
    /// Chunks were being unpacked, nothing else.
    Unpacking,
    /// Chunks were handed to the unpacker; the host backend copies ordinary memory in this time.
    Submitting,
    /// A channel had copies from the GPU to pinned memory under way, before their bytes were sent;
    /// summed over channels.
    CopyingDown,
    /// The same for copies to a bounce region in GPU memory.
    CopyingUp,
}

/// One end's times of one case, in ns, idle time left out: a number for each [`Stage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StageTimes([u64; 7]);

impl StageTimes {
    /// Returns the times of a session since it was opened.
    pub(super) fn of(session: &Session) -> Self {
        let stats = session.stats();
        let (stages, staging) = (stats.stages, stats.staging.unwrap_or_default());
        Self([
            stages.sending_ns,
            stages.receiving_ns,
            stages.receiving_and_unpacking_ns,
            stages.unpacking_ns,
            stages.submitting_ns,
            staging.down_ns,
            staging.up_ns,
        ])
    }

    /// Returns the times since `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self(std::array::from_fn(|stage| self.0[stage].saturating_sub(before.0[stage])))
    }

    /// Adds the times of another part.
    pub(super) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, ns)| *sum += ns);
    }

    fn ns(&self, stage: Stage) -> u64 {
        self.0[stage as usize]
    }

    /// Returns the time in which anything was under way.
    fn total_ns(&self) -> u64 {
        self.0[Stage::Sending as usize..=Stage::Submitting as usize].iter().sum()
    }
}

/// Both ends of a case in shares of the time in which anything was under way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct StageShares {
    /// Receiver: only the network, or the sender behind it, was waited for.
    pub(super) receiver_network: f64,
    /// Receiver: the network was waited for while chunks were being unpacked.
    pub(super) receiver_network_and_unpack: f64,
    /// Receiver: only the unpack was waited for.
    pub(super) receiver_unpack: f64,
    /// Receiver: the processor was busy handing chunks to the unpacker, or copying them.
    pub(super) receiver_submit: f64,
    /// Receiver: a channel, on average, was copying pages up to the GPU.
    pub(super) receiver_copies_up: f64,
    /// Sender: a channel, on average, was copying chunks down from the GPU.
    pub(super) sender_copies_down: f64,
    pub(super) bound_by: Bound,
}

/// Stage that bounds a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// Sockets, their threads and the sender.
    Network,
    Unpack,
    /// It unpacks the chunks, or hands them to the GPU.
    ReceiverProcessor,
    /// Copies from the sender's GPU.
    SenderCopies,
    /// Copies to the receiver's GPU.
    ReceiverCopies,
    /// No single stage.
    None,
}

impl Serialize for Bound {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl Bound {
    /// Returns the name in JSON and CSV.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Unpack => "unpack",
            Self::ReceiverProcessor => "receiver_processor",
            Self::SenderCopies => "sender_copies",
            Self::ReceiverCopies => "receiver_copies",
            Self::None => "none",
        }
    }

    /// Returns the name in a column, at most nine characters.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Unpack => "unpack",
            Self::ReceiverProcessor => "recv CPU",
            Self::SenderCopies => "send copy",
            Self::ReceiverCopies => "recv copy",
            Self::None => "-",
        }
    }

    /// Returns what it means, and what to try; empty without a bound.
    pub(super) fn explanation(self) -> &'static str {
        match self {
            Self::Network => {
                "network: most of the time the receiver waited for bytes, so for the network, the \
                 threads of its sockets, or the sender; --baseline shows what plain sockets reach."
            }
            Self::Unpack => {
                "unpack: most of the time the receiver waited for copies out of the bounce buffer; \
                 --unpack chooses what makes them."
            }
            Self::ReceiverProcessor => {
                "recv CPU: most of the time the receiver's processor copied chunks, or handed them \
                 to the GPU; --unpack chooses how."
            }
            Self::SenderCopies => {
                "send copy: copies from the sender's GPU were nearly always under way."
            }
            Self::ReceiverCopies => {
                "recv copy: copies to the receiver's GPU were nearly always under way."
            }
            Self::None => "",
        }
    }
}

impl StageShares {
    /// Returns `None` where the receiver waited for no known stage.
    pub(super) fn new(sender: &StageTimes, receiver: &StageTimes, channels: u16) -> Option<Self> {
        let (sent, received) = (sender.total_ns(), receiver.total_ns());
        if received == 0 {
            return None;
        }
        let of = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let channels = u64::from(channels.max(1));
        let mut shares = Self {
            receiver_network: of(receiver.ns(Stage::Receiving), received),
            receiver_network_and_unpack: of(receiver.ns(Stage::ReceivingAndUnpacking), received),
            receiver_unpack: of(receiver.ns(Stage::Unpacking), received),
            receiver_submit: of(receiver.ns(Stage::Submitting), received),
            receiver_copies_up: of(receiver.ns(Stage::CopyingUp), received * channels),
            sender_copies_down: of(sender.ns(Stage::CopyingDown), sent * channels),
            bound_by: Bound::None,
        };
        shares.bound_by = shares.bound();
        Some(shares)
    }

    /// Returns the stage that bounds the run, if there is a single one.
    fn bound(&self) -> Bound {
        const MOST: f64 = 0.5;
        /// A stage that is hardly ever idle bounds those behind it.
        const ALWAYS: f64 = 0.9;
        if self.receiver_submit > MOST {
            Bound::ReceiverProcessor
        } else if self.receiver_unpack > MOST {
            Bound::Unpack
        } else if self.sender_copies_down > ALWAYS {
            Bound::SenderCopies
        } else if self.receiver_copies_up > ALWAYS {
            Bound::ReceiverCopies
        } else if self.receiver_network + self.receiver_network_and_unpack > MOST {
            Bound::Network
        } else {
            Bound::None
        }
    }
}

/// Stages of an end, in the order of [`Stage`].
#[cfg(test)]
impl From<[u64; 7]> for StageTimes {
    fn from(ns: [u64; 7]) -> Self {
        Self(ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(receiving: u64, both: u64, unpacking: u64, submitting: u64) -> StageTimes {
        StageTimes([0, receiving, both, unpacking, submitting, 0, 0])
    }

    #[test]
    fn shares_are_of_the_busy_time_and_name_what_bounds_it() {
        let sender = |copying_down| StageTimes([100, 0, 0, 0, 0, copying_down, 0]);
        let shares = StageShares::new(&sender(40), &receiver(60, 20, 10, 10), 2).unwrap();
        assert_eq!((shares.receiver_network, shares.receiver_network_and_unpack), (0.6, 0.2));
        assert_eq!((shares.receiver_unpack, shares.receiver_submit), (0.1, 0.1));
        assert_eq!(shares.sender_copies_down, 0.2, "of two channels");
        assert_eq!(shares.bound_by, Bound::Network);
        for (stages, expected) in [
            (receiver(10, 20, 60, 10), Bound::Unpack),
            (receiver(10, 20, 10, 60), Bound::ReceiverProcessor),
            (receiver(10, 10, 40, 40), Bound::None),
        ] {
            let bound = StageShares::new(&sender(40), &stages, 2).unwrap().bound_by;
            assert_eq!(bound, expected);
            assert!(bound == Bound::None || bound.explanation().starts_with(bound.label()));
        }
        let bound = StageShares::new(&sender(190), &receiver(60, 20, 10, 10), 2).unwrap().bound_by;
        assert_eq!(bound, Bound::SenderCopies);
        assert_eq!(StageShares::new(&sender(40), &StageTimes::default(), 2), None);
    }

    #[test]
    fn only_what_came_since_counts() {
        let before = receiver(10, 1, 2, 3);
        let after = StageTimes([0, 15, 1, 5, 3, 0, 7]);
        let expected = StageTimes([0, 5, 0, 3, 0, 0, 7]);
        assert_eq!(after.since(&before), expected);
    }
}
