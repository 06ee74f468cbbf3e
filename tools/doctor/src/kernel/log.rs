//! Log of the kernel, by /dev/kmsg: each read is one record.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// One line of the kernel's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Level, from 0 emergency to 7 debug.
    pub level: u8,
    /// Time since it was written.
    pub age: Duration,
    /// Text of the line.
    pub text: String,
}

impl LogLine {
    /// Parses a record of /dev/kmsg, `6,339,5140900,-;text`; `None` if it is malformed. `uptime`:
    /// the kernel's clock now.
    pub(crate) fn parse(record: &str, uptime: Duration) -> Option<Self> {
        let (head, text) = record.split_once(';')?;
        let mut fields = head.split(',');
        // The facility stands above the level.
        let level = (fields.next()?.parse::<u32>().ok()? & 7) as u8;
        let written = Duration::from_micros(fields.nth(1)?.parse().ok()?);
        let text = text.lines().next().unwrap_or_default().to_owned();
        Some(Self { level, age: uptime.saturating_sub(written), text })
    }
}

/// Longest record that the kernel gives out, in bytes.
const RECORD_BYTES: usize = 8192;

/// Reads all lines that are in the log now, for at most `deadline`.
pub(super) fn read(deadline: Duration) -> io::Result<Vec<LogLine>> {
    let until = Instant::now() + deadline;
    let mut log = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg")?;
    let now = clock_gettime(ClockId::Monotonic);
    let uptime = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
    let mut record = [0; RECORD_BYTES];
    let mut lines = Vec::new();
    while Instant::now() < until {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(bytes) => {
                lines.extend(LogLine::parse(&String::from_utf8_lossy(&record[..bytes]), uptime));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // Records were overwritten meanwhile; the next read continues behind the gap.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_parsed_and_malformed_ones_are_left_out() {
        let uptime = Duration::from_secs(65);
        let record = "28,339,5000000,-;NVRM: Xid 79\n SUBSYSTEM=pci\n";
        let line = LogLine { level: 4, age: Duration::from_secs(60), text: "NVRM: Xid 79".into() };
        assert_eq!(LogLine::parse(record, uptime), Some(line));
        for record in ["", ";", "6;x", "6,1;x", "a,1,2,-;x", "6,1,b,-;x", "no semicolon"] {
            assert_eq!(LogLine::parse(record, uptime), None, "{record:?}");
        }
    }
}
