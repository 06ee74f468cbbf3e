//! Numbers of seconds as people write them.

use std::str::FromStr;
use std::time::Duration;

/// A number of seconds, more than 0 and at most a day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seconds(pub(crate) Duration);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse::<f64>() {
            Ok(seconds) if (0.001..=86_400.0).contains(&seconds) => {
                Ok(Self(Duration::from_secs_f64(seconds)))
            }
            _ => Err("not a number of seconds from 0.001 to 86400".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_whole_or_not_and_never_none() {
        assert_eq!("30".parse(), Ok(Seconds(Duration::from_secs(30))));
        assert_eq!("0.5".parse(), Ok(Seconds(Duration::from_millis(500))));
        for text in ["0", "-1", "inf", "NaN", "1e9", "30s", ""] {
            assert!(text.parse::<Seconds>().is_err(), "{text}");
        }
    }
}
