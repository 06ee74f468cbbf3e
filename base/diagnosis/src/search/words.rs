//! Splitting of a text into words.

/// Returns the words of `text` in lower case: letters, digits and `_`, and points between digits.
/// Any other character only separates words. This includes letters of other scripts, for the table
/// has none.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let Some(word) = words.last_mut() else { break };
        let is_point = character == '.'
            && word.ends_with(|last: char| last.is_ascii_digit())
            && characters.peek().is_some_and(char::is_ascii_digit);
        if character.is_ascii_alphanumeric() || character == '_' || is_point {
            word.push(character.to_ascii_lowercase());
        } else if !word.is_empty() {
            words.push(String::new());
        }
    }
    words.retain(|word| !word.is_empty());
    // An error writes "returned" where the table writes "returns".
    for word in words.iter_mut().filter(|word| *word == "returned") {
        *word = "returns".to_owned();
    }
    words
}

/// Returns whether a word is a number, `0x1f` and `64MiB` too.
pub(super) fn is_number(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_letters_digits_and_underscores_separates() {
        assert_eq!(
            words("[PERF] net->init rc=3, BW: 0.01 GB/s."),
            ["perf", "net", "init", "rc", "3", "bw", "0.01", "gb", "s"]
        );
        assert_eq!(words("`tcpx_reg_mr` 返回 3"), ["tcpx_reg_mr", "3"]);
        assert!(words(" --- \n").is_empty());
        assert_eq!(words("accept returned 3"), words("accept returns 3"));
    }

    #[test]
    fn a_word_that_begins_with_a_digit_is_a_number() {
        assert!(is_number("0x1f") && is_number("7040") && is_number("64mib"));
        assert!(!is_number("n") && !is_number("eth0"));
    }
}
