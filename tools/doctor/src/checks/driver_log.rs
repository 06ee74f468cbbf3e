//! Last complaint of the GPU's or a data NIC's driver.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tcpx_diagnosis::Finding;
use tcpx_diagnosis::table::kernel as table;

use crate::kernel::LogLine;

/// Warnings and worse, as the kernel numbers levels.
const WARNING: u8 = 4;
/// Words of the drivers that matter here; names of data NICs come on top.
const DRIVERS: &[&str] = &["NVRM", "nvidia", "gve ", "devmem", "dma-buf", "dma_buf"];

/// The last complaint of a driver that matters for `nics`, if the log may be read.
pub(crate) fn check(log: io::Result<Vec<LogLine>>, nics: &[&str]) -> Option<Finding> {
    let lines = match log {
        Ok(lines) => lines,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Some(Finding::new(&table::KERNEL_LOG_DENIED, format!("/dev/kmsg: {error}")));
        }
        // A container without it: there is nothing to say.
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
    let seen = format!("{} ago, the last of {count}: {}", words(last.age), last.text);
    Some(Finding::new(&table::DRIVER_COMPLAINED, seen))
}

fn words(age: Duration) -> String {
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
    fn ages_are_told_in_one_unit() {
        for (seconds, expected) in
            [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 days")]
        {
            assert_eq!(words(Duration::from_secs(seconds)), expected);
        }
    }
}
