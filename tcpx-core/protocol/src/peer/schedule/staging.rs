//! Staging buffers of the channels, as the driver answers for them: which channels have one, by
//! kind of memory. Pure.

use crate::types::MemoryType;

/// Knowledge about a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum ChannelStaging {
    /// The driver was not asked yet.
    #[default]
    NotRequested,
    /// The driver was asked, and has not answered: nothing is planned meanwhile, since chunks are
    /// scheduled in the order of their matches.
    Requested,
    /// The channel has a buffer, for as long as it is open.
    Ready,
    /// The channel gets none.
    Refused,
}

/// The answers of the driver so far.
#[derive(Debug)]
pub(in super::super) struct StagingChannels {
    host: Box<[ChannelStaging]>,
    device: Box<[ChannelStaging]>,
}

impl StagingChannels {
    pub(in super::super) fn new(channels: u16) -> Self {
        let not_requested =
            || vec![ChannelStaging::NotRequested; channels.into()].into_boxed_slice();
        Self { host: not_requested(), device: not_requested() }
    }

    /// Returns the knowledge about a channel. A channel that is not there gets nothing.
    pub(in super::super) fn of(&self, channel: u16, memory: MemoryType) -> ChannelStaging {
        let channels = match memory {
            MemoryType::Host => &self.host,
            MemoryType::Device => &self.device,
        };
        channels.get(usize::from(channel)).copied().unwrap_or(ChannelStaging::Refused)
    }

    /// Notes that the driver is asked.
    pub(in super::super) fn ask(&mut self, channel: u16, memory: MemoryType) {
        self.set(channel, memory, ChannelStaging::Requested);
    }

    /// Notes the driver's answer.
    pub(in super::super) fn note(&mut self, channel: u16, memory: MemoryType, is_there: bool) {
        let answer = if is_there { ChannelStaging::Ready } else { ChannelStaging::Refused };
        self.set(channel, memory, answer);
    }

    fn set(&mut self, channel: u16, memory: MemoryType, known: ChannelStaging) {
        let channels = match memory {
            MemoryType::Host => &mut self.host,
            MemoryType::Device => &mut self.device,
        };
        if let Some(staging) = channels.get_mut(usize::from(channel)) {
            *staging = known;
        }
    }
}
