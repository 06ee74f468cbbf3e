//! Line that a row of the table quotes, with places in it where anything may stand.

use std::ops::Range;

use super::words::{is_number, words};

/// Least number of own words of a line. A line with fewer words identifies nothing.
const LEAST_WORDS: usize = 2;
/// Largest number of words that a gap stands for.
const MOST_IN_GAP: usize = 8;

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Word(String),
    /// `n`.
    Number,
    /// `<WORDS>` or `...`.
    Gap,
}

/// Line as it would stand in a log.
#[derive(Debug)]
pub(super) struct KnownLine {
    pieces: Vec<Piece>,
    is_title: bool,
}

/// Place at which a line was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineMatch {
    /// Words that the line took.
    pub(super) words: Range<usize>,
    /// Number of those words that the line contains literally.
    pub(super) exact: usize,
    /// Whether it is the row's title.
    is_title: bool,
}

impl LineMatch {
    /// Returns the rank. The line with more literal words comes first, and the title of a row
    /// before another row's symptom.
    pub(super) fn rank(&self) -> (usize, bool) {
        (self.exact, self.is_title)
    }
}

impl KnownLine {
    /// Parses a line. Returns `None` when the line has too few words to identify a row.
    pub(super) fn parse(line: &str, is_title: bool) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut rest = line;
        while let Some((before, gap)) = first_gap(rest) {
            pieces.extend(pieces_of(&rest[..before]));
            pieces.push(Piece::Gap);
            rest = &rest[gap..];
        }
        pieces.extend(pieces_of(rest));
        // Gaps before and after a line are not part of it.
        while pieces.last() == Some(&Piece::Gap) {
            pieces.pop();
        }
        let start = pieces.iter().take_while(|piece| **piece == Piece::Gap).count();
        pieces.drain(..start);
        let line = Self { pieces, is_title };
        (line.exact() >= LEAST_WORDS).then_some(line)
    }

    fn exact(&self) -> usize {
        self.pieces.iter().filter(|piece| matches!(piece, Piece::Word(_))).count()
    }

    /// Returns the first place of the line in a text.
    pub(super) fn find_in(&self, text: &[String]) -> Option<LineMatch> {
        (0..text.len()).find_map(|start| {
            let length = length_at(&self.pieces, &text[start..])?;
            Some(LineMatch {
                words: start..start + length,
                exact: self.exact(),
                is_title: self.is_title,
            })
        })
    }
}

/// Returns begin and end of the first gap of `line`.
fn first_gap(line: &str) -> Option<(usize, usize)> {
    let dots = line.find("...").map(|at| (at, at + 3));
    let named = line.find('<').and_then(|at| Some((at, at + line[at..].find('>')? + 1)));
    dots.into_iter().chain(named).min()
}

fn pieces_of(text: &str) -> impl Iterator<Item = Piece> {
    words(text).into_iter().map(|word| match word.as_str() {
        "n" => Piece::Number,
        _ => Piece::Word(word),
    })
}

/// Returns how many words `pieces` take at the beginning of `text`, or `None` when they do not
/// match.
fn length_at(pieces: &[Piece], text: &[String]) -> Option<usize> {
    let Some((first, rest)) = pieces.split_first() else { return Some(0) };
    let fits = |word: &String| match first {
        Piece::Word(own) => own == word,
        // A search for the line as the table has it also matches.
        Piece::Number => is_number(word) || word == "n",
        Piece::Gap => true,
    };
    match first {
        Piece::Gap => (0..=MOST_IN_GAP.min(text.len()))
            .find_map(|taken| Some(taken + length_at(rest, &text[taken..])?)),
        _ => text
            .first()
            .filter(|word| fits(word))
            .and(Some(1))
            .and_then(|taken| Some(taken + length_at(rest, &text[taken..])?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: &str, text: &str) -> Option<(Range<usize>, usize)> {
        let found = KnownLine::parse(line, false)?.find_in(&words(text))?;
        Some((found.words, found.exact))
    }

    #[test]
    fn a_line_is_found_anywhere_in_a_text_whatever_its_numbers_are() {
        let line = "received n/2048 segs, failstop";
        assert_eq!(
            place(line, "h1 WARN received 2048/2048 segs, failstop (0x7f)"),
            Some((2..7, 4))
        );
        assert_eq!(place(line, line), Some((0..5, 4)));
        assert_eq!(place(line, "received 2048/4096 segs, failstop"), None);
        assert_eq!(place(line, "unreceived 1/2048 segs, failstop"), None);
    }

    #[test]
    fn a_gap_matches_a_few_words_or_none() {
        let line = "no NIC <NAME>; the plugin offers: ...";
        assert_eq!(place(line, "no NIC eth9; the plugin offers: eth1"), Some((0..6, 5)));
        assert_eq!(place(line, "no NIC; the plugin offers"), Some((0..5, 5)));
        let far = format!("no NIC {} the plugin offers", "x ".repeat(MOST_IN_GAP + 1));
        assert_eq!(place(line, &far), None);
        assert_eq!(place("<ANY> one two", "one two"), Some((0..2, 2)));
    }

    #[test]
    fn a_single_word_is_not_a_line() {
        for line in ["", "fails", "n segs", "... done"] {
            assert!(KnownLine::parse(line, false).is_none(), "{line}");
        }
    }
}
