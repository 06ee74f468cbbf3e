//! Environment variables that stand in for flags: `TCPX_*`, and `UCCL_TCPX_*`, by which
//! UCCL's programs read the same settings.

use std::fmt;
use std::str::FromStr;

use crate::failure::Failure;

/// Returns the first of `names` that is set and not empty, read as a `T`.
pub(crate) fn read<T: FromStr>(names: &[&str]) -> Result<Option<T>, Failure>
where
    T::Err: fmt::Display,
{
    read_from(names, &|name| std::env::var_os(name).map(|value| value.to_string_lossy().into()))
}

/// Returns whether one of `names` is set to something other than `0`.
pub(crate) fn is_on(names: &[&str]) -> bool {
    names.iter().any(|name| {
        std::env::var_os(name).is_some_and(|value| !value.is_empty() && value.as_os_str() != "0")
    })
}

fn read_from<T: FromStr>(
    names: &[&str],
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<T>, Failure>
where
    T::Err: fmt::Display,
{
    let set = names
        .iter()
        .find_map(|name| lookup(name).filter(|value| !value.is_empty()).map(|value| (name, value)));
    let Some((name, value)) = set else { return Ok(None) };
    value
        .trim()
        .parse()
        .map(Some)
        .map_err(|error| Failure::Usage(format!("{name}={value}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::ByteSize;

    const NAMES: [&str; 2] = ["TCPX_PERF_SIZE", "UCCL_TCPX_PERF_SIZE"];

    fn read(pairs: &[(&str, &str)]) -> Result<Option<ByteSize>, Failure> {
        read_from(&NAMES, &|name| {
            pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned())
        })
    }

    #[test]
    fn the_first_name_wins_and_empty_is_unset() {
        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&[("UCCL_TCPX_PERF_SIZE", "64M")]).unwrap(), Some(ByteSize(64 << 20)));
        let both = [("UCCL_TCPX_PERF_SIZE", "64M"), ("TCPX_PERF_SIZE", "4K")];
        assert_eq!(read(&both).unwrap(), Some(ByteSize(4096)));
        let empty = [("UCCL_TCPX_PERF_SIZE", "64M"), ("TCPX_PERF_SIZE", "")];
        assert_eq!(read(&empty).unwrap(), Some(ByteSize(64 << 20)));
    }

    #[test]
    fn nonsense_names_the_variable() {
        let error = read(&[("UCCL_TCPX_PERF_SIZE", "much")]).unwrap_err().to_string();
        assert!(error.starts_with("UCCL_TCPX_PERF_SIZE=much: "), "{error}");
    }
}
