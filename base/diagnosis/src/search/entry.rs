//! A row of the table as words and lines.

use super::known_line::{KnownLine, LineMatch};
use super::words::words;
use crate::diagnosis::Diagnosis;

/// Weights of a word: in the title, in the symptom, and so on.
const TITLE: u32 = 8;
const SYMPTOM: u32 = 6;
const CAUSE: u32 = 4;
const CURE: u32 = 2;
/// A longer word that merely begins with the one that is looked for counts one less.
const LONGER: u32 = 1;
/// Shorter words are not looked for at the beginning of longer ones.
const LEAST_BEGINNING: usize = 3;

/// A row of the table as words and lines.
pub(super) struct Entry {
    pub(super) diagnosis: &'static Diagnosis,
    lines: Vec<KnownLine>,
    words: Vec<(String, u32)>,
}

impl Entry {
    pub(super) fn of(diagnosis: &'static Diagnosis) -> Self {
        let titles = quotations(diagnosis.title).map(|line| (line, true));
        let others = quotations(diagnosis.symptom).chain(diagnosis.lines.iter().copied());
        let lines = titles.chain(others.map(|line| (line, false)));
        let mut weighed = Vec::new();
        let mut add = |text: &str, weight: u32| {
            weighed.extend(words(text).into_iter().map(|word| (word, weight)));
        };
        add(diagnosis.title, TITLE);
        add(diagnosis.symptom, SYMPTOM);
        diagnosis.lines.iter().for_each(|line| add(line, SYMPTOM));
        add(diagnosis.cause, CAUSE);
        diagnosis.cure.iter().for_each(|line| add(line, CURE));
        Self {
            diagnosis,
            lines: lines.filter_map(|(line, is_title)| KnownLine::parse(line, is_title)).collect(),
            words: weighed,
        }
    }

    /// Returns the place in a text of this row's line with the most literal words.
    pub(super) fn line_in(&self, text: &[String]) -> Option<LineMatch> {
        self.lines.iter().filter_map(|line| line.find_in(text)).max_by_key(LineMatch::rank)
    }

    /// Returns the weight of a word: most in the title, 0 if the row lacks the word.
    pub(super) fn weight(&self, word: &str) -> u32 {
        let weight = |(own, weight): &(String, u32)| match own.strip_prefix(word)? {
            "" => Some(*weight),
            _ => (word.len() >= LEAST_BEGINNING).then_some(*weight - LONGER),
        };
        self.words.iter().filter_map(weight).max().unwrap_or(0)
    }
}

/// Returns the texts between pairs of double quotes.
fn quotations(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split('"').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::transfer::RX_NO_CMSG;

    #[test]
    fn only_closed_quotations_count() {
        let quoted: Vec<_> = quotations(r#"say "one" and "two" and "three"#).take(2).collect();
        assert_eq!(quoted, ["one", "two"]);
        assert_eq!(quotations("none").count(), 0);
    }

    #[test]
    fn words_weigh_by_their_place() {
        let entry = Entry::of(&RX_NO_CMSG);
        let weights = ["cmsg", "exits", "devmem", "ethtool", "ether", "frag"];
        let weights = weights.map(|word| entry.weight(word));
        assert_eq!(weights, [TITLE, SYMPTOM, CAUSE, CURE, 0, 0]);
        assert_eq!(entry.weight("steer"), CAUSE - LONGER);
        assert_eq!(entry.weight("re"), 0);
        assert_eq!(entry.line_in(&words("[TCPX] rx no cmsg")).unwrap().exact, 3);
    }
}
