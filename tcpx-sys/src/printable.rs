//! Escaping of foreign text for a line of a log or of an error.

use std::borrow::Cow;

/// Returns `text` as one line without effect on a terminal. Control characters, and characters that
/// end a line or change the writing direction, become escapes such as `\n` and `\u{1b}`.
///
/// Names, reasons and log lines come from peers and plugins. They could otherwise forge lines that
/// look like another program's. Printable text stays unchanged, so a second pass changes nothing.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match is_harmful(character) {
            true => line.extend(character.escape_default()),
            false => line.push(character),
        }
    }
    Cow::Owned(line)
}

fn is_harmful(character: char) -> bool {
    let breaks_lines = matches!(character, '\u{2028}' | '\u{2029}');
    let turns_direction = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    character.is_control() || breaks_lines || turns_direction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_and_control_characters_are_escaped_once() {
        for (text, line) in [
            ("a name", "a name"),
            ("Grüße, 7 µs \\n", "Grüße, 7 µs \\n"),
            ("one\ntwo\r\ttab", "one\\ntwo\\r\\ttab"),
            ("\u{1b}[31mred\u{7}\0", "\\u{1b}[31mred\\u{7}\\u{0}"),
            ("\u{9b}2J\u{2028}\u{202e}", "\\u{9b}2J\\u{2028}\\u{202e}"),
        ] {
            assert_eq!(printable(text), line);
            assert_eq!(printable(line), line, "a second pass");
        }
    }
}
