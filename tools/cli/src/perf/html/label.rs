//! Texts and numbers in a page.

/// Formats a number with few digits.
pub(super) fn label(number: f64) -> String {
    match number {
        number if number >= 100.0 || number.fract() == 0.0 => format!("{number:.0}"),
        number if number >= 10.0 => format!("{number:.1}"),
        // Two digits of what is far below 1.
        number => {
            let decimals = (1.0 - number.abs().log10().floor()).max(2.0) as usize;
            format!("{number:.decimals$}")
        }
    }
}

/// Escapes a text, which may be the other end's.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_numbers_are_short() {
        assert_eq!(escape("<b a=\"1\">&"), "&lt;b a=&quot;1&quot;&gt;&amp;");
        assert_eq!([1234.5, 12.34, 0.123, 3.0].map(label), ["1234", "12.3", "0.12", "3"]);
        assert_eq!([0.0, 0.001, 0.00567].map(label), ["0", "0.0010", "0.0057"]);
    }
}
