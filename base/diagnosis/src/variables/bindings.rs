//! CPU bindings: `eth1:8-21,112-125;eth2:8-21`.

use std::ops::RangeInclusive;

use super::number;

/// Largest number of ranges that the plugin keeps for an interface.
pub(super) const MAX_RANGES: usize = 8;

/// Part of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binding<'a> {
    pub(super) interface: &'a str,
    pub(super) ranges: Vec<RangeInclusive<i64>>,
    /// Pieces that are not `lo-hi` with lo ≤ hi and lo ≥ 0.
    pub(super) rejected: Vec<&'a str>,
}

/// Parses every interface's part; a part without a colon has an empty interface.
pub(super) fn parse(text: &str) -> Vec<Binding<'_>> {
    text.split(';').map(str::trim).filter(|part| !part.is_empty()).map(parse_part).collect()
}

fn parse_part(part: &str) -> Binding<'_> {
    let (interface, list) = part.split_once(':').unwrap_or(("", part));
    let mut binding =
        Binding { interface: interface.trim(), ranges: Vec::new(), rejected: Vec::new() };
    for piece in list.split(',').map(str::trim) {
        match parse_range(piece) {
            Some(range) => binding.ranges.push(range),
            None => binding.rejected.push(piece),
        }
    }
    binding
}

fn parse_range(piece: &str) -> Option<RangeInclusive<i64>> {
    let (low, high) = piece.split_once('-')?;
    let (low, high) = (number::parse(low), number::parse(high));
    let is_valid = !low.has_junk && !high.has_junk && 0 <= low.value && low.value <= high.value;
    is_valid.then_some(low.value..=high.value)
}

/// Returns the cores that two parts share, as ranges.
pub(super) fn overlap(a: &Binding<'_>, b: &Binding<'_>) -> Vec<RangeInclusive<i64>> {
    let pairs = a.ranges.iter().flat_map(|a| b.ranges.iter().map(move |b| (a, b)));
    pairs
        .map(|(a, b)| *a.start().max(b.start())..=*a.end().min(b.end()))
        .filter(|shared| !shared.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_interfaces_and_ranges() {
        let parts = parse("eth1:8-21,112-125; eth2:8,9-,x-3,5-4 ;");
        assert_eq!(parts.len(), 2);
        assert_eq!(
            parts[0],
            Binding { interface: "eth1", ranges: vec![8..=21, 112..=125], rejected: vec![] }
        );
        assert_eq!(parts[1].interface, "eth2");
        assert_eq!(parts[1].ranges, vec![]);
        assert_eq!(parts[1].rejected, ["8", "9-", "x-3", "5-4"]);
    }

    #[test]
    fn a_part_without_colon_has_no_interface() {
        assert_eq!(
            parse("8-21")[0],
            Binding { interface: "", ranges: vec![8..=21], rejected: vec![] }
        );
        assert_eq!(parse(" ; ;"), vec![]);
    }

    #[test]
    fn shared_cores_are_found() {
        let transmit = &parse("eth1:8-21,112-125")[0];
        assert_eq!(overlap(transmit, &parse("eth1:22-35,124-139")[0]), [124..=125]);
        assert_eq!(overlap(transmit, &parse("eth1:22-35,126-139")[0]), []);
    }

    proptest! {
        #[test]
        fn every_piece_is_kept_or_rejected(text in "[eth0-9:;,\\- ]{0,40}") {
            for part in parse(&text) {
                prop_assert!(!part.ranges.is_empty() || !part.rejected.is_empty());
                prop_assert!(part.ranges.iter().all(|range| 0 <= *range.start() && !range.is_empty()));
            }
        }

        #[test]
        fn shared_cores_lie_in_both(a in 0i64..64, b in 0i64..64, c in 0i64..64, d in 0i64..64) {
            let (first, second) = (format!("n:{a}-{b}"), format!("n:{c}-{d}"));
            let (first, second) = (&parse(&first)[0], &parse(&second)[0]);
            let shared = overlap(first, second);
            for core in 0..64 {
                let in_part = |part: &Binding<'_>| part.ranges.iter().any(|range| range.contains(&core));
                let is_shared = shared.iter().any(|range| range.contains(&core));
                prop_assert_eq!(is_shared, in_part(first) && in_part(second));
            }
        }
    }
}
