//! Last warning of the GPU's or a data NIC's driver in the kernel's log.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tcpx_diagnosis::Finding;
use tcpx_diagnosis::table::kernel as table;

use crate::kernel::LogLine;

/// Warnings and worse, as the kernel numbers levels.
const WARNING: u8 = 4;
/// Words in the lines of relevant drivers; names of data NICs are added.
const DRIVERS: &[&str] = &["NVRM", "nvidia", "gve ", "devmem", "dma-buf", "dma_buf"];

/// Returns the last warning of a driver that is relevant for `nics`, or that the log is denied.
pub(crate) fn check(log: io::Result<Vec<LogLine>>, nics: &[&str]) -> Option<Finding> {
    let lines = match log {
        Ok(lines) => lines,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Some(Finding::new(&table::KERNEL_LOG_DENIED, format!("/dev/kmsg: {error}")));
        }
        // A container may have no log.
        Err(_) => return None,
    };
    let names_nic = |text: &str| {
        nics.iter().any(|nic| {
            text.split(|c: char| !c.is_alphanumeric()).any(|word| word.eq_ignore_ascii_case(nic))
        })
    };
    let is_meant = |line: &&LogLine| {
        line.level <= WARNING
            && (DRIVERS.iter().any(|driver| line.text.contains(driver)) || names_nic(&line.text))
    };
    let last = lines.iter().filter(is_meant).min_by_key(|line| line.age)?;
    let count = lines.iter().filter(is_meant).count();
    let seen = format!("{} ago, the last of {count}: {}", format_age(last.age), last.text);
    Some(Finding::new(&table::DRIVER_COMPLAINED, seen))
}

/// Formats an age in one unit.
fn format_age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_formatted_in_one_unit() {
        for (seconds, expected) in
            [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 days")]
        {
            assert_eq!(format_age(Duration::from_secs(seconds)), expected);
        }
    }
}
