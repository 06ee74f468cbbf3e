//! Set of the channels of a peer that chunks are dealt to: all of them, but for those that were
//! lost. Pure.

use crate::types::MAX_CHANNELS;

/// See the top of the file. Channels have the numbers 0 to [`MAX_CHANNELS`] - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelSet(u64);

const _: () = assert!(MAX_CHANNELS as u32 <= u64::BITS);

impl ChannelSet {
    /// Returns the set of the first `channels` channels.
    pub fn first(channels: u16) -> Self {
        let missing = u64::BITS.saturating_sub(channels.into());
        Self(u64::MAX.checked_shr(missing).unwrap_or(0))
    }

    /// Returns the number of channels in it.
    pub fn count(self) -> u16 {
        self.0.count_ones() as u16
    }

    /// Returns whether a channel is in it.
    pub fn has(self, channel: u16) -> bool {
        self.0.checked_shr(channel.into()).unwrap_or(0) & 1 == 1
    }

    /// Returns the set without this channel.
    pub fn without(self, channel: u16) -> Self {
        Self(self.0 & !1u64.checked_shl(channel.into()).unwrap_or(0))
    }

    /// Returns the set with this channel.
    pub fn with(self, channel: u16) -> Self {
        Self(self.0 | 1u64.checked_shl(channel.into()).unwrap_or(0))
    }

    /// Returns the channels, in order.
    pub fn iter(self) -> impl Iterator<Item = u16> {
        (0..MAX_CHANNELS).filter(move |channel| self.has(*channel))
    }

    /// Returns the channel that is this many steps behind one of the set, round robin.
    #[inline]
    pub fn behind(self, first: u16, steps: u64) -> u16 {
        let count = u64::from(self.count().max(1));
        if self == Self::first(self.count()) {
            return ((u64::from(first) + steps) % count) as u16;
        }
        let before = (0..first).filter(|channel| self.has(*channel)).count() as u64;
        let place = (before + steps) % count;
        self.iter().nth(place as usize).unwrap_or(first)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Steps go through the channels that are left, in their order, and begin anew behind the
        /// last.
        #[test]
        fn steps_leave_out_what_was_lost(
            channels in 1u16..=64,
            lost in proptest::collection::vec(0u16..64, 0..20),
            first in 0usize..64,
            steps in 0usize..200,
        ) {
            let set = lost.iter().fold(ChannelSet::first(channels), |set, it| set.without(*it));
            let left: Vec<u16> = (0..channels).filter(|it| !lost.contains(it)).collect();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), left.clone());
            prop_assert_eq!(usize::from(set.count()), left.len());
            prop_assume!(!left.is_empty());
            let first = first % left.len();
            let expected = left[(first + steps) % left.len()];
            prop_assert_eq!(set.behind(left[first], steps as u64), expected);
        }
    }

    #[test]
    fn channels_that_there_are_not_are_in_no_set() {
        let all = ChannelSet::first(64);
        assert!(all.has(63) && !all.has(64) && !all.has(u16::MAX));
        assert_eq!(all.without(64), all);
        assert_eq!(ChannelSet::first(0).count(), 0);
        assert_eq!(ChannelSet::first(2).without(0).behind(1, 7), 1);
    }
}
