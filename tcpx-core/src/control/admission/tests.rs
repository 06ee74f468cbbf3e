//! Tests of single decisions, and of floods at a distance, in virtual time.

use tcpx_testkit::Random;

use super::*;

fn of(host: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, host])
}

fn aged(host: u8, age_ms: u64) -> Occupant {
    Occupant { from: of(host), is_proven: false, age: Duration::from_millis(age_ms) }
}

#[test]
fn unauthenticated_connections_get_a_quarter_of_the_files_that_may_be_opened() {
    for (files, all) in [(1 << 20, 256), (1024, 256), (256, 64), (64, 16), (0, 8)] {
        assert_eq!(places(Some(files)), all, "{files}");
    }
    assert_eq!(places(None), MAX_HANDSHAKES);
}

#[test]
fn the_address_with_most_connections_gives_way_and_no_proven_peer() {
    let proven = |host| Occupant { is_proven: true, ..aged(host, 9_000) };
    for (from, table, expected) in [
        (1, vec![], Admission::Free),
        (1, vec![aged(1, 900), aged(1, 800), aged(1, 700)], Admission::Free),
        (1, vec![aged(1, 900), aged(1, 800), aged(2, 700), aged(2, 600)], Admission::Evict(0)),
        (2, vec![aged(1, 900), aged(1, 800), aged(2, 700), aged(2, 600)], Admission::Evict(2)),
        (3, vec![aged(1, 900), aged(2, 800), aged(2, 700), aged(3, 600)], Admission::Evict(1)),
        (3, vec![proven(1), aged(2, 800), aged(1, 700), aged(4, 600)], Admission::Evict(1)),
        (3, vec![proven(1), proven(1), proven(1), aged(2, 600)], Admission::Evict(3)),
        (3, vec![proven(1), proven(1), proven(1), proven(1)], Admission::Full),
        // All are young: the second candidate is drawn.
        (3, vec![aged(1, 90), aged(2, 80), aged(2, 70), aged(2, 60)], Admission::Evict(2)),
    ] {
        let draw = |count: usize| {
            assert_eq!(count, 3, "nothing else is drawn here");
            1
        };
        assert_eq!(admit(of(from), &table, 4, draw), expected, "{from} to {table:?}");
    }
}

/// Number of honest ends of a flood.
const ENDS: usize = 20;

/// Unauthenticated connections that fill the table and keep coming, and honest ends that need time
/// to prove themselves.
struct Flood {
    /// Number of addresses of unauthenticated connections, and whether the honest ends share the
    /// first address.
    addresses: u8,
    is_shared: bool,
    newcomers_a_second: u64,
    round_trip_ms: u64,
}

impl Flood {
    /// Returns how many of [`ENDS`] honest ends get in, within ten seconds each, and how many of
    /// them at once. One in 20 packets is lost, and sent again after 200 ms. An evicted end comes
    /// again after the pauses of the connector.
    fn let_in(&self, random: &mut Random) -> [usize; 2] {
        let outcomes = (0..ENDS).map(|_| self.tries_of_one(random));
        outcomes.fold([0; 2], |[all, first], tries| {
            [all + usize::from(tries.is_some()), first + usize::from(tries == Some(1))]
        })
    }

    fn tries_of_one(&self, random: &mut Random) -> Option<u32> {
        let mut pause_us = 20_000;
        let mut now_us = 0;
        for tries in 1.. {
            let lost = if random.one_in(20) { 200_000 } else { 0 };
            let needs_us = self.round_trip_ms * 1_000 + lost;
            match self.time_in_table(needs_us, random) {
                None => return Some(tries),
                Some(lasted_us) => now_us += lasted_us + self.round_trip_ms * 1_000 + pause_us,
            }
            pause_us = (pause_us * 2).min(640_000);
            if now_us > 10_000_000 {
                return None;
            }
        }
        None
    }

    /// Returns how long an honest end is in the table before it is evicted. `None`: it proves
    /// itself first.
    fn time_in_table(&self, needs_us: u64, random: &mut Random) -> Option<u64> {
        const HONEST: usize = usize::MAX;
        let honest = if self.is_shared { of(0) } else { of(255) };
        // Occupants of the table, and their times of arrival. The flood has lasted for a while.
        let gap_us = 1_000_000 / self.newcomers_a_second;
        let since = |back: u64| -(back as i64 * gap_us as i64);
        let mut table: Vec<(usize, IpAddr, i64)> = (0..MAX_HANDSHAKES as u64)
            .rev()
            .map(|back| (back as usize, of(back as u8 % self.addresses), since(back)))
            .collect();
        let mut join = |table: &mut Vec<(usize, IpAddr, i64)>, new: (usize, IpAddr, i64)| {
            let occupants: Vec<_> = table
                .iter()
                .map(|(_, from, since)| Occupant {
                    from: *from,
                    is_proven: false,
                    age: Duration::from_micros((new.2 - since) as u64),
                })
                .collect();
            match admit(new.1, &occupants, MAX_HANDSHAKES, |count| random.below(count)) {
                Admission::Evict(index) => drop(table.remove(index)),
                other => panic!("the table is full of unauthenticated connections: {other:?}"),
            }
            table.push(new);
        };
        join(&mut table, (HONEST, honest, 0));
        for number in 1..=needs_us / gap_us {
            let at = (number * gap_us) as i64;
            join(&mut table, (0, of((number % u64::from(self.addresses)) as u8), at));
            if !table.iter().any(|(who, ..)| *who == HONEST) {
                return Some(at as u64);
            }
        }
        None
    }
}

/// An honest end needs more round trips than an unauthenticated connection, which needs none.
#[test]
fn distant_unauthenticated_connections_keep_no_honest_end_out() {
    let random = &mut Random::new(20_261_124);
    for (newcomers_a_second, round_trip_ms) in [(60, 60), (200, 20), (1_000, 2), (1_000, 60)] {
        for addresses in [1, 8, 200] {
            for is_shared in [false, true] {
                let flood = Flood { addresses, is_shared, newcomers_a_second, round_trip_ms };
                let [all, first] = flood.let_in(random);
                let words = format!(
                    "{newcomers_a_second} a second, {round_trip_ms} ms, {addresses} addresses, {is_shared}"
                );
                assert_eq!(all, ENDS, "{words}");
                assert!(first >= ENDS * 3 / 4, "{words}: {first} of {ENDS} at once");
            }
        }
    }
}

/// The flood is faster than honest ends can prove themselves: the connection to evict is drawn, and
/// honest ends get in after a few tries.
#[test]
fn a_flood_that_is_faster_than_a_round_trip_is_got_through() {
    let random = &mut Random::new(7);
    let flood =
        Flood { addresses: 200, is_shared: true, newcomers_a_second: 5_000, round_trip_ms: 60 };
    let [all, first] = flood.let_in(random);
    assert!(all >= ENDS * 9 / 10 && first < ENDS * 3 / 4, "{all}, {first} of them at once");
}
