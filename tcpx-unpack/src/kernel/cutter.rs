//! The CPU's part of a submit, without a GPU, which the bench times alone.

use super::reach::Reach;
use super::regular;
use super::ring::Ring;
use super::tile::{self, Tile, Tiles};
use crate::error::UnpackError;
use crate::job::{UnpackJob, check_all};

/// Cutter that checks jobs and cuts them into entries, as a submit to the kernel backend does. It
/// launches nothing. For the bench of this crate.
#[derive(Debug)]
pub struct Cutter {
    ring: Ring,
    places: Vec<Tile>,
}

impl Cutter {
    /// Creates a cutter with a ring of its own in ordinary memory, as large as that of the backend.
    #[must_use]
    pub fn new() -> Self {
        let places = super::launch_queue::RING_TILES;
        Self { ring: Ring::new(places), places: vec![Tile::default(); places] }
    }

    /// Cuts jobs, and returns the number of entries.
    ///
    /// # Errors
    /// Returns the errors of a submit, and [`UnpackError::Busy`] where the jobs have more entries
    /// than the ring.
    pub fn cut(&mut self, jobs: &[UnpackJob<'_>]) -> Result<usize, UnpackError> {
        if let Some(count) = regular::count(jobs)
            && self.fill(count, |places| regular::fill(jobs, places))?
        {
            return Ok(count);
        }
        let checked = check_all(jobs)?;
        tile::check_addresses(jobs)?;
        let count = tile::count(jobs, checked);
        let mut tiles = Tiles::new(jobs, Reach::of(checked));
        self.fill(count, |places| tiles.fill(places) == count)?;
        Ok(count)
    }

    fn fill(
        &mut self,
        count: usize,
        fill: impl FnOnce(&mut [Tile]) -> bool,
    ) -> Result<bool, UnpackError> {
        let reserved = self.ring.take(count).ok_or(UnpackError::Busy)?;
        self.ring.release(reserved.taken);
        Ok(fill(&mut self.places[reserved.start..][..count]))
    }
}

impl Default for Cutter {
    fn default() -> Self {
        Self::new()
    }
}
