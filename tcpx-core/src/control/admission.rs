//! Which connections have a place in the listener's table of handshakes. Pure.
//!
//! Nobody can fill it. An address has a share, and when there is no room, the oldest unproven
//! connection is evicted, a silent one first.

use std::net::IpAddr;

/// Most handshakes at once. More connections wait in the system's queue.
pub(super) const MAX_HANDSHAKES: usize = 256;
/// Most unproven connections of one address.
pub(super) const MAX_UNPROVEN_PER_ADDRESS: usize = 64;

/// Fewest of both, however few files the process may open.
const LEAST_PLACES: usize = 8;

/// How many places there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) all: usize,
    pub(super) per_address: usize,
}

impl Places {
    /// A process that may open so many files keeps three quarters of them from strangers: whoever
    /// has proven itself needs some for its channels. `None`: as many as it likes.
    pub(super) fn of_files(limit: Option<u64>) -> Self {
        let share = limit
            .map_or(MAX_HANDSHAKES, |files| usize::try_from(files / 4).unwrap_or(MAX_HANDSHAKES));
        let all = share.clamp(LEAST_PLACES, MAX_HANDSHAKES);
        Self { all, per_address: (all / 4).clamp(LEAST_PLACES, MAX_UNPROVEN_PER_ADDRESS) }
    }
}

/// What decides whether a handshake may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occupant {
    pub(super) from: IpAddr,
    pub(super) is_proven: bool,
    /// It has sent nothing at all.
    pub(super) is_silent: bool,
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
pub(super) fn admit(from: IpAddr, table: &[Occupant], places: Places) -> Admission {
    let unproven = |of: Option<IpAddr>| {
        move |occupant: &Occupant| !occupant.is_proven && of.is_none_or(|ip| ip == occupant.from)
    };
    let of_address = table.iter().filter(|occupant| unproven(Some(from))(occupant)).count();
    let whose = match (of_address >= places.per_address, table.len() >= places.all) {
        (true, _) => Some(from),
        (false, true) => None,
        (false, false) => return Admission::Free,
    };
    let may_go = unproven(whose);
    let silent = table.iter().position(|occupant| may_go(occupant) && occupant.is_silent);
    let oldest = silent.or_else(|| table.iter().position(&may_go));
    oldest.map_or(Admission::Full, Admission::Evict)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: Places = Places { all: MAX_HANDSHAKES, per_address: MAX_UNPROVEN_PER_ADDRESS };

    #[test]
    fn strangers_get_a_quarter_of_the_files_that_may_be_opened() {
        for (files, all, per_address) in
            [(1 << 20, 256, 64), (1024, 256, 64), (256, 64, 16), (64, 16, 8), (0, 8, 8)]
        {
            assert_eq!(Places::of_files(Some(files)), Places { all, per_address }, "{files}");
        }
        assert_eq!(Places::of_files(None), MANY);
    }

    fn of(host: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, host])
    }

    fn silent(host: u8) -> Occupant {
        Occupant { from: of(host), is_proven: false, is_silent: true }
    }

    #[test]
    fn the_oldest_silent_connection_is_evicted_and_never_a_proven_one() {
        let talking = |host| Occupant { is_silent: false, ..silent(host) };
        let proven = |host| Occupant { is_proven: true, is_silent: false, ..silent(host) };
        let table = |first: &[Occupant], rest: fn(u8) -> Occupant, total: usize| {
            let filler = (0..total - first.len()).map(|n| rest(100 + (n % 100) as u8));
            first.iter().copied().chain(filler).collect::<Vec<_>>()
        };
        for (from, occupants, expected) in [
            (1, vec![], Admission::Free),
            (1, table(&[], silent, MAX_HANDSHAKES - 1), Admission::Free),
            (1, table(&[], silent, MAX_HANDSHAKES), Admission::Evict(0)),
            (1, table(&[talking(2), proven(3)], silent, MAX_HANDSHAKES), Admission::Evict(2)),
            (1, table(&[proven(2), talking(3)], talking, MAX_HANDSHAKES), Admission::Evict(1)),
            (1, table(&[], proven, MAX_HANDSHAKES), Admission::Full),
            // An address that has its share only evicts its own.
            (1, vec![silent(1); MAX_UNPROVEN_PER_ADDRESS - 1], Admission::Free),
            (
                1,
                [vec![silent(2)], vec![silent(1); MAX_UNPROVEN_PER_ADDRESS]].concat(),
                Admission::Evict(1),
            ),
            (2, vec![silent(1); MAX_UNPROVEN_PER_ADDRESS], Admission::Free),
            // Proven ones do not count for the share.
            (1, vec![proven(1); MAX_UNPROVEN_PER_ADDRESS], Admission::Free),
        ] {
            assert_eq!(admit(of(from), &occupants, MANY), expected, "{from} to {occupants:?}");
        }
    }

    #[test]
    fn a_flood_of_many_addresses_never_keeps_a_newcomer_out() {
        let mut table = Vec::new();
        for step in 0..10 * MAX_HANDSHAKES {
            let host = (step % 200) as u8;
            match admit(of(host), &table, MANY) {
                Admission::Free => {}
                Admission::Evict(index) => drop(table.remove(index)),
                Admission::Full => panic!("nobody is proven"),
            }
            table.push(silent(host));
            assert!(table.len() <= MAX_HANDSHAKES);
        }
    }
}
