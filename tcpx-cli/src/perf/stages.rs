//! What the time of a measurement went to, and so what bounds it.

use serde::{Deserialize, Serialize};
use tcpx_core::Session;

/// One end's times of one case by stage, in ns, idle time left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stages {
    /// Chunks were being sent, and nothing else.
    pub(super) sending_ns: u64,
    /// Receives waited for the network and the sender, nothing else.
    pub(super) receiving_ns: u64,
    /// The same while chunks were being unpacked.
    pub(super) receiving_and_unpacking_ns: u64,
    /// Chunks were being unpacked, nothing else.
    pub(super) unpacking_ns: u64,
    /// Chunks were handed to the unpacker; the host backend copies ordinary memory in this time.
    pub(super) submitting_ns: u64,
    /// A channel had copies from the GPU to pinned memory under way, before their bytes were sent;
    /// summed over channels.
    pub(super) copying_down_ns: u64,
    /// The same for copies to a bounce region in GPU memory.
    pub(super) copying_up_ns: u64,
}

impl Stages {
    /// Of a session, since it exists.
    pub(super) fn of(session: &Session) -> Self {
        let stats = session.stats();
        let (stages, staging) = (stats.stages, stats.staging.unwrap_or_default());
        Self {
            sending_ns: stages.sending_ns,
            receiving_ns: stages.receiving_ns,
            receiving_and_unpacking_ns: stages.receiving_and_unpacking_ns,
            unpacking_ns: stages.unpacking_ns,
            submitting_ns: stages.submitting_ns,
            copying_down_ns: staging.down_ns,
            copying_up_ns: staging.up_ns,
        }
    }

    /// What came since `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            sending_ns: self.sending_ns.saturating_sub(before.sending_ns),
            receiving_ns: self.receiving_ns.saturating_sub(before.receiving_ns),
            receiving_and_unpacking_ns: self
                .receiving_and_unpacking_ns
                .saturating_sub(before.receiving_and_unpacking_ns),
            unpacking_ns: self.unpacking_ns.saturating_sub(before.unpacking_ns),
            submitting_ns: self.submitting_ns.saturating_sub(before.submitting_ns),
            copying_down_ns: self.copying_down_ns.saturating_sub(before.copying_down_ns),
            copying_up_ns: self.copying_up_ns.saturating_sub(before.copying_up_ns),
        }
    }

    /// Time in which anything was under way.
    fn total_ns(&self) -> u64 {
        self.sending_ns
            + self.receiving_ns
            + self.receiving_and_unpacking_ns
            + self.unpacking_ns
            + self.submitting_ns
    }
}

/// Both ends of a case in shares of the time in which anything was under way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Shares {
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
    /// What bounds the run, in words.
    pub(super) bound_by: &'static str,
}

impl Shares {
    /// `None` where the receiver waited for nothing that it could name.
    pub(super) fn new(sender: &Stages, receiver: &Stages, channels: u16) -> Option<Self> {
        let (sent, received) = (sender.total_ns(), receiver.total_ns());
        if received == 0 {
            return None;
        }
        let of = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let channels = u64::from(channels.max(1));
        let mut shares = Self {
            receiver_network: of(receiver.receiving_ns, received),
            receiver_network_and_unpack: of(receiver.receiving_and_unpacking_ns, received),
            receiver_unpack: of(receiver.unpacking_ns, received),
            receiver_submit: of(receiver.submitting_ns, received),
            receiver_copies_up: of(receiver.copying_up_ns, received * channels),
            sender_copies_down: of(sender.copying_down_ns, sent * channels),
            bound_by: "",
        };
        shares.bound_by = shares.bound();
        Some(shares)
    }

    /// The one stage that was waited for most of the time while the others were not, if there is
    /// one.
    fn bound(&self) -> &'static str {
        const MOST: f64 = 0.5;
        /// A stage that is hardly ever idle holds up those behind it.
        const ALWAYS: f64 = 0.9;
        if self.receiver_submit > MOST {
            "the receiver's processor, which unpacks the chunks or hands them to the GPU"
        } else if self.receiver_unpack > MOST {
            "the unpack"
        } else if self.sender_copies_down > ALWAYS {
            "the sender's copies from its GPU"
        } else if self.receiver_copies_up > ALWAYS {
            "the receiver's copies to its GPU"
        } else if self.receiver_network + self.receiver_network_and_unpack > MOST {
            "the network: sockets, their threads and the sender"
        } else {
            "no single stage"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(receiving: u64, both: u64, unpacking: u64, submitting: u64) -> Stages {
        Stages {
            receiving_ns: receiving,
            receiving_and_unpacking_ns: both,
            unpacking_ns: unpacking,
            submitting_ns: submitting,
            ..Stages::default()
        }
    }

    #[test]
    fn shares_are_of_the_busy_time_and_name_what_bounds_it() {
        let sender = Stages { sending_ns: 100, copying_down_ns: 40, ..Stages::default() };
        let shares = Shares::new(&sender, &receiver(60, 20, 10, 10), 2).unwrap();
        assert_eq!((shares.receiver_network, shares.receiver_network_and_unpack), (0.6, 0.2));
        assert_eq!((shares.receiver_unpack, shares.receiver_submit), (0.1, 0.1));
        assert_eq!(shares.sender_copies_down, 0.2, "of two channels");
        assert!(shares.bound_by.starts_with("the network"), "{}", shares.bound_by);
        for (stages, words) in [
            (receiver(10, 20, 60, 10), "the unpack"),
            (receiver(10, 20, 10, 60), "the receiver's processor"),
            (receiver(10, 10, 40, 40), "no single stage"),
        ] {
            let bound = Shares::new(&sender, &stages, 2).unwrap().bound_by;
            assert!(bound.starts_with(words), "{bound}");
        }
        let busy = Stages { copying_down_ns: 190, ..sender };
        let bound = Shares::new(&busy, &receiver(60, 20, 10, 10), 2).unwrap().bound_by;
        assert_eq!(bound, "the sender's copies from its GPU");
        assert_eq!(Shares::new(&sender, &Stages::default(), 2), None);
    }

    #[test]
    fn only_what_came_since_counts() {
        let before = receiver(10, 1, 2, 3);
        let after = Stages { copying_up_ns: 7, ..receiver(15, 1, 5, 3) };
        let expected = Stages { copying_up_ns: 7, ..receiver(5, 0, 3, 0) };
        assert_eq!(after.since(&before), expected);
    }
}
