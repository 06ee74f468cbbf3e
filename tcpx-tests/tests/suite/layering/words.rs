//! Counts of phrases that this field does not use, in all sources and documents. They may only
//! fall.

use std::path::Path;

use super::comments::files_of;

/// Phrases, and how often each may occur: most of them in texts of errors and tests.
const PHRASES: [(&str, usize); 12] = [
    ("nobody", 5),
    ("somebody", 0),
    ("anybody", 0),
    ("everybody", 1),
    ("whoever", 2),
    ("so many", 0),
    ("of which", 1),
    ("is told", 1),
    ("are told", 0),
    ("as far as", 0),
    ("what is to be", 0),
    ("so long as", 0),
];
/// How many files of Rust may begin with a question word.
const QUESTIONS: usize = 0;
/// A count that has fallen by more than this lowers its limit.
const SLACK: usize = 2;

/// How often a phrase occurs in a text, as words of their own.
fn count(text: &str, phrase: &str) -> usize {
    let is_word = |letter: Option<char>| letter.is_some_and(|it| it.is_alphanumeric() || it == '_');
    let hits = text.match_indices(phrase);
    hits.filter(|(at, _)| {
        let (before, after) = (&text[..*at], &text[at + phrase.len()..]);
        !is_word(before.chars().next_back()) && !is_word(after.chars().next())
    })
    .count()
}

/// Whether the module doc of a source begins with a question word.
fn asks(text: &str) -> bool {
    let doc = text.lines().find_map(|line| line.strip_prefix("//! "));
    let first = doc.and_then(|doc| doc.split(' ').next());
    matches!(first, Some("What" | "Where" | "How" | "Who" | "Which" | "When" | "Whether"))
}

#[test]
fn phrases_of_no_other_house_become_fewer() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate lies in a folder");
    let endings = ["rs", "md", "h", "hpp", "c", "cpp", "py", "sh"];
    let files = endings.iter().flat_map(|ending| files_of(root, ending));
    let files: Vec<_> = files.filter(|file| !file.ends_with("layering/words.rs")).collect();
    let texts: Vec<_> = files.iter().map(std::fs::read_to_string).collect();
    let texts: Vec<_> = texts.into_iter().map(|text| text.expect("a text")).collect();
    let asking = texts.iter().filter(|text| asks(text)).count();
    let lower: Vec<String> = texts.iter().map(|text| text.to_lowercase()).collect();
    let counts = PHRASES.map(|(phrase, most)| {
        let found = lower.iter().map(|text| count(text, phrase)).sum::<usize>();
        (phrase, found, most)
    });
    let counts = counts.into_iter().chain([("a module doc that asks", asking, QUESTIONS)]);
    let wrong = counts.filter(|(_, found, most)| found > most || found + SLACK < *most);
    let wrong: Vec<String> =
        wrong.map(|(phrase, found, most)| format!("{phrase}: {found}, limit {most}")).collect();
    assert!(wrong.is_empty(), "say it otherwise, or lower the limit:\n{}", wrong.join("\n"));
}

#[test]
fn phrases_are_words_of_their_own() {
    assert_eq!(count("nobody, busynobody nobody_x nobody", "nobody"), 2);
    assert_eq!(count("is told; this told", "is told"), 1);
    assert!(
        asks("#![a]\n//! How it ends.\n//! More.") && !asks("//! End of it.\n//! How it ends.")
    );
}
