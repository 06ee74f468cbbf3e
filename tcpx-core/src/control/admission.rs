//! Which connections have a place in the listener's table of handshakes. Pure.
//!
//! Nobody can fill it: when there is no room, an unproven connection of the address that has most
//! is evicted. What a connection has sent says nothing: an honest one is silent for a round trip,
//! and a stranger need not be. So the oldest goes first, which has had more time than an honest one
//! needs. Where even the oldest is young, because more strangers come than that, one is drawn: some
//! of the honest get in then, and those that do not come again.

use std::net::IpAddr;
use std::time::Duration;

use foldhash::HashMap;

/// Most handshakes at once. More connections wait in the system's queue.
pub(super) const MAX_HANDSHAKES: usize = 256;
/// Fewest, however few files the process may open.
const LEAST_PLACES: usize = 8;
/// After so much time an honest connection has mostly proven itself: a few round trips.
const ENOUGH: Duration = Duration::from_millis(250);

/// How many places there are. A process that may open so many files keeps three quarters of them
/// from strangers: who has proven itself needs some for its channels. `None`: as many as it likes.
pub(super) fn places(files: Option<u64>) -> usize {
    let share =
        files.map_or(MAX_HANDSHAKES, |files| usize::try_from(files / 4).unwrap_or(MAX_HANDSHAKES));
    share.clamp(LEAST_PLACES, MAX_HANDSHAKES)
}

/// What decides whether a handshake may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occupant {
    pub(super) from: IpAddr,
    pub(super) is_proven: bool,
    /// How long it has been here.
    pub(super) age: Duration,
}

/// Whether a new connection gets a place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// There is room.
    Free,
    /// The handshake at this index is evicted for it.
    Evict(usize),
    /// There is no room, and every handshake is proven.
    Full,
}

/// Decides on one more connection from `from`. `table` is in the order in which connections came.
/// `draw` returns a number below its argument.
pub(super) fn admit(
    from: IpAddr,
    table: &[Occupant],
    places: usize,
    draw: impl FnOnce(usize) -> usize,
) -> Admission {
    if table.len() < places {
        return Admission::Free;
    }
    let unproven = || table.iter().enumerate().filter(|(_, occupant)| !occupant.is_proven);
    // The new one counts for its own.
    let mut counts = HashMap::from_iter([(from, 1)]);
    for (_, occupant) in unproven() {
        *counts.entry(occupant.from).or_insert(0) += 1;
    }
    let most = unproven().map(|(_, occupant)| counts[&occupant.from]).max();
    let of_most = || unproven().filter(|(_, occupant)| Some(counts[&occupant.from]) == most);
    match of_most().next() {
        None => Admission::Full,
        Some((oldest, occupant)) if occupant.age >= ENOUGH => Admission::Evict(oldest),
        Some((oldest, _)) => {
            let drawn = of_most().nth(draw(of_most().count()));
            Admission::Evict(drawn.map_or(oldest, |(index, _)| index))
        }
    }
}

#[cfg(test)]
mod tests;
