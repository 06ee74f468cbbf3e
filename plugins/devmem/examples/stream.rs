//! Example transport: sends bytes from one NIC's device memory to another's, and checks every byte.
//!
//! ```text
//! stream receive NIC ADDRESS:PORT TOTAL [option=value ...]
//! stream send    NIC ADDRESS:PORT TOTAL [option=value ...]
//! ```
//!
//! Options of both ends: `connections`, 1; `region`, bytes of the device memory, 8 MiB; `deadline`,
//! seconds without progress until the end gives up, 60. Options of the sender: `step`, bytes of a
//! call, 256 KiB; `from`, the address to send from; `memory`, `device` or `host`. Options of the
//! receiver: `hold`, chunks that are held after they were unpacked, 2; `queue`, the queue to bind
//! instead of a chosen queue; `way`, `devmem`, or `ring` for io_uring.
//!
//! Host memory stands in for a GPU's, so that the example runs on any machine with such NICs.

mod stream {
    pub(crate) mod options;
    pub(crate) mod pattern;
    pub(crate) mod receive;
    pub(crate) mod ring;
    pub(crate) mod send;
}

use std::process::ExitCode;

use stream::options::{End, Failure, Options};
use tcpx_devmem::DevmemError;

fn main() -> ExitCode {
    let run = || -> Result<String, Failure> {
        let options = Options::read(std::env::args().skip(1))?;
        match options.side {
            End::Receive if options.is_ring => stream::ring::run(&options),
            End::Receive => stream::receive::run(&options),
            End::Send => stream::send::run(&options),
        }
    };
    let (words, status) = match run() {
        Ok(words) => (words, ExitCode::SUCCESS),
        Err(error) => {
            let known = error.downcast_ref::<DevmemError>().and_then(DevmemError::diagnosis);
            let id = known.map(|diagnosis| format!(" [{}]", diagnosis.code)).unwrap_or_default();
            (format!("{error}{id}"), ExitCode::FAILURE)
        }
    };
    use std::io::Write;
    // A reader that has closed the output does not want the line.
    let _ = writeln!(std::io::stdout(), "{words}");
    status
}
