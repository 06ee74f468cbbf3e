//! The kernel's log, by /dev/kmsg: each read is one record.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::kernel_log::LogLine;

/// Longest record that the kernel gives out, in bytes.
const RECORD_BYTES: usize = 8192;

/// Everything that is in the log now, for at most `deadline`.
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
            // Records were overwritten meanwhile; the next read goes on behind the gap.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(lines)
}
