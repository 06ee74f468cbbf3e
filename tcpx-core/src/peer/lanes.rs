//! Lanes of one direction of a connection, by channel. Those of lost channels are gone.

use crate::error::{Error, Result};

/// See the top of the file.
#[derive(Debug)]
pub(crate) struct Lanes<T>(Vec<Option<T>>);

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Lanes<T> {
    /// Adds the lane of the next channel.
    pub(super) fn push(&mut self, lane: T) {
        self.0.push(Some(lane));
    }

    /// Returns the lane of a channel, unless it is lost.
    pub(super) fn get_mut(&mut self, channel: u16) -> Option<&mut T> {
        self.0.get_mut(usize::from(channel))?.as_mut()
    }

    /// Takes the lane of a channel that is lost.
    pub(super) fn take(&mut self, channel: u16) -> Option<T> {
        self.0.get_mut(usize::from(channel))?.take()
    }

    /// Takes all of them.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        std::mem::take(&mut self.0).into_iter().flatten()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten()
    }

    /// Returns each with the number of its channel.
    pub(crate) fn by_channel_mut(&mut self) -> impl Iterator<Item = (u16, &mut T)> {
        (0..).zip(&mut self.0).filter_map(|(channel, lane)| Some((channel, lane.as_mut()?)))
    }

    /// Takes a step of each, up to the first that fails: `failed` gets its channel and error. Takes
    /// none if one has failed before. Returns whether anything moved.
    pub(super) fn step(
        &mut self,
        failed: &mut Option<(u16, Error)>,
        mut step: impl FnMut(&mut T) -> Result<bool>,
    ) -> bool {
        let mut moved = false;
        for (channel, lane) in self.by_channel_mut() {
            if failed.is_some() {
                break;
            }
            match step(lane) {
                Ok(it) => moved |= it,
                Err(error) => *failed = Some((channel, error)),
            }
        }
        moved
    }

    /// Returns the lane of each channel, unless it is lost.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = (u16, Option<&mut T>)> {
        (0..).zip(self.0.iter_mut().map(Option::as_mut))
    }

    /// Returns something of each channel in order: of its lane, or else of what was lost with it.
    pub(super) fn map_all<R>(
        &self,
        of_lane: impl Fn(&T) -> R,
        of_lost: impl Fn(u16) -> R,
    ) -> impl Iterator<Item = R> {
        (0..).zip(&self.0).map(move |(channel, lane)| match lane {
            Some(lane) => of_lane(lane),
            None => of_lost(channel),
        })
    }
}
