//! Integers as the plugin reads them: C's `strtoll` with base 0.

/// A number and whether other characters follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) value: i64,
    pub(super) has_junk: bool,
}

/// Reads `text` like `strtoll(text, &end, 0)`: white space, sign, `0x` for base 16, a leading 0 for
/// base 8, clamped to 64 bits. A text without digits is 0 followed by junk.
pub(super) fn parse(text: &str) -> Number {
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let hexadecimal = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))
        .filter(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit()));
    let (radix, digits) = match hexadecimal {
        Some(rest) => (16, rest),
        None if digits.starts_with('0') => (8, digits),
        None => (10, digits),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let magnitude = digits[..end].bytes().fold(0i128, |sum, digit| {
        let digit = char::from(digit).to_digit(radix).unwrap_or(0);
        (sum * i128::from(radix) + i128::from(digit)).min(i128::from(i64::MAX) + 1)
    });
    let signed = if negative { -magnitude } else { magnitude };
    let value = i64::try_from(signed).unwrap_or(i64::MAX);
    Number { value, has_junk: end == 0 || end < digits.len() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_strtoll_reads() {
        for (text, value, has_junk) in [
            ("524288", 524_288, false),
            ("512K", 512, true),
            (" 42", 42, false),
            ("-1", -1, false),
            ("+7", 7, false),
            ("0x10", 16, false),
            ("0X1f", 31, false),
            ("010", 8, false),
            ("09", 0, true),
            ("0", 0, false),
            ("0x", 0, true),
            ("", 0, true),
            ("many", 0, true),
            ("-", 0, true),
            ("9223372036854775807", i64::MAX, false),
            ("9223372036854775808", i64::MAX, false),
            ("-9223372036854775808", i64::MIN, false),
            ("-99999999999999999999999999", i64::MIN, false),
            ("12\u{b5}s", 12, true),
        ] {
            assert_eq!(parse(text), Number { value, has_junk }, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn decimal_and_hexadecimal_numbers_are_read_back(value: i64, junk in "[g-z ]?") {
            let has_junk = !junk.is_empty();
            prop_assert_eq!(parse(&format!("{value}{junk}")), Number { value, has_junk });
            let magnitude = value.unsigned_abs() >> 1;
            let value = i64::try_from(magnitude).expect("63 bits");
            prop_assert_eq!(parse(&format!("{magnitude:#x}{junk}")), Number { value, has_junk });
            prop_assert_eq!(parse(&format!("0{magnitude:o}{junk}")), Number { value, has_junk });
        }

        #[test]
        fn any_text_is_read(text: String) {
            let _ = parse(&text);
        }
    }
}
