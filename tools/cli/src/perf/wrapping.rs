//! Text that fits a terminal.

/// Widest line.
pub(super) const COLUMNS: usize = 80;

/// Wraps a text at [`COLUMNS`]. Longer words and line breaks stay.
pub(super) fn wrap(text: &str) -> String {
    let lines = text.lines().map(wrap_line);
    lines.collect::<Vec<String>>().join("\n")
}

fn wrap_line(text: &str) -> String {
    let (mut wrapped, mut width) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > COLUMNS {
            wrapped.push('\n');
            width = 0;
        } else if width > 0 {
            wrapped.push(' ');
            width += 1;
        }
        wrapped.push_str(word);
        width += length;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_too_long_and_no_word_is_lost() {
        let text = "a few words, ".repeat(40) + "\nand more";
        let wrapped = wrap(&text);
        assert!(wrapped.lines().all(|line| line.chars().count() <= COLUMNS), "{wrapped}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&wrapped), words(&text));
        assert_eq!(wrapped.lines().last(), Some("and more"));
        assert_eq!(wrap(&"x".repeat(100)), "x".repeat(100));
    }
}
