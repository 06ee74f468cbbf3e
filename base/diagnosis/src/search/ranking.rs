//! Ranking of rows by how well they match a text.

use std::collections::BTreeSet;

use super::entry::Entry;
use super::known_line::LineMatch;
use super::words::{is_number, words};
use crate::diagnosis::Diagnosis;
use crate::table;

/// Least share of a text, weighted by the rarity of its words, that a row must have.
const LEAST_SHARE: f64 = 0.6;
/// Rows with less than this part of the best row's share are left out.
const NEARLY_BEST: f64 = 0.8;
/// Largest number of rows that merely have many of the words.
const MOST_GUESSES: usize = 5;

/// Returns the diagnoses that `text` is about, best first. These are the diagnoses with a known
/// line in the text. If there is none, they are the diagnoses that have all words of the text, in
/// any order; else those that have most of its rare words. Case is ignored, and a word also stands
/// for longer words that begin with it.
#[must_use]
pub fn search(text: &str) -> Vec<&'static Diagnosis> {
    let text = words(text);
    if text.is_empty() {
        return Vec::new();
    }
    let entries: Vec<Entry> = table::all().map(Entry::of).collect();
    let distinct: BTreeSet<&str> = text.iter().map(String::as_str).collect();
    let mut found = by_line(&entries, &text);
    if found.is_empty() {
        found = by_all_words(&entries, &distinct);
    }
    if found.is_empty() {
        found = by_rare_words(&entries, &distinct);
    }
    found
}

/// Returns the rows with a line in the text. Of lines at the same place, those with the most
/// literal words count.
fn by_line(entries: &[Entry], text: &[String]) -> Vec<&'static Diagnosis> {
    let mut found: Vec<(LineMatch, &Entry)> =
        entries.iter().filter_map(|entry| Some((entry.line_in(text)?, entry))).collect();
    let places: Vec<LineMatch> = found.iter().map(|(place, _)| place.clone()).collect();
    found.retain(|(place, _)| !places.iter().any(|other| covers(other, place)));
    found.sort_by_key(|(place, _)| std::cmp::Reverse(place.rank()));
    found.into_iter().map(|(_, entry)| entry.diagnosis).collect()
}

/// Returns whether `other` covers all that `place` covers, and more.
fn covers(other: &LineMatch, place: &LineMatch) -> bool {
    other.words.start <= place.words.start
        && other.words.end >= place.words.end
        && other.exact > place.exact
}

/// Returns the rows that have every word.
fn by_all_words(entries: &[Entry], text: &BTreeSet<&str>) -> Vec<&'static Diagnosis> {
    let weight = |entry: &Entry| {
        let weights = text.iter().map(|word| Some(entry.weight(word)).filter(|weight| *weight > 0));
        weights.sum::<Option<u32>>()
    };
    let mut found: Vec<(u32, &Entry)> =
        entries.iter().filter_map(|entry| Some((weight(entry)?, entry))).collect();
    found.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    found.into_iter().map(|(_, entry)| entry.diagnosis).collect()
}

/// Returns the rows that have most of the rare words of the text. Numbers are ignored, as they
/// belong to another machine.
fn by_rare_words(entries: &[Entry], text: &BTreeSet<&str>) -> Vec<&'static Diagnosis> {
    let all = entries.len() as f64;
    let rarity: Vec<(&str, f64)> = text
        .iter()
        .filter(|word| !is_number(word))
        .map(|word| {
            let rows = entries.iter().filter(|entry| entry.weight(word) > 0).count().max(1);
            (*word, (all / rows as f64).ln())
        })
        .collect();
    let whole: f64 = rarity.iter().map(|(_, rarity)| rarity).sum();
    let share = |entry: &Entry| {
        let known: Vec<f64> = rarity
            .iter()
            .filter(|(word, _)| entry.weight(word) > 0)
            .map(|(_, rarity)| *rarity)
            .collect();
        // A single word is chance.
        if known.len() < 2 { 0.0 } else { known.iter().sum::<f64>() / whole }
    };
    let mut found: Vec<(f64, &Entry)> = entries
        .iter()
        .map(|entry| (share(entry), entry))
        .filter(|(share, _)| *share >= LEAST_SHARE)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let least = found.first().map_or(0.0, |(best, _)| best * NEARLY_BEST);
    found.retain(|(share, _)| *share >= least);
    found.into_iter().take(MOST_GUESSES).map(|(_, entry)| entry.diagnosis).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(text: &str) -> Vec<u16> {
        search(text).iter().map(|diagnosis| diagnosis.code.number()).collect()
    }

    #[test]
    fn a_line_finds_the_row_that_it_titles_first() {
        let found = codes("rx no cmsg");
        assert_eq!(found[0], 903);
        assert!(found.contains(&708), "{found:?}");
    }

    #[test]
    fn numbers_match_any_number_and_words_match_whole() {
        let mut found = codes("WARN received 2048/2048 segs, failstop");
        found.sort_unstable();
        assert_eq!(found, [104, 814]);
    }

    #[test]
    fn the_more_exact_of_two_lines_at_one_place_counts() {
        assert_eq!(codes("test called with invalid request, send 1, r 2, ni 3"), [801]);
        assert!(codes("WARN invalid request 7 vs expected 3").contains(&807));
    }

    #[test]
    fn words_match_in_any_order_and_as_prefixes() {
        assert_eq!(codes("COUNTER devmem nic no"), codes("no nic devmem counter"));
        assert_eq!(codes("fragment order")[0], 816);
        assert!(codes("ragments").is_empty(), "not the middle of a word");
    }

    #[test]
    fn most_of_the_rare_words_are_enough() {
        assert_eq!(codes("zzz1 our GPU has no near data NIC under its PCIe switch, boss")[0], 306);
        for text in ["completely unheard of words", "", "返回", "TCPX_NO_SUCH_THING", "0x7f"] {
            assert!(codes(text).is_empty(), "{text}");
        }
    }
}
