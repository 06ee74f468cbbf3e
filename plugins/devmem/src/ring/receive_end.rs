//! Why a receive is over. Pure.

use std::io;

/// Why the kernel brings no more for a receive.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReceiveEnd {
    /// All bytes that were asked for have come.
    Done,
    /// The peer has sent its last byte.
    Closed,
    /// What comes next is in memory of the kernel's own, and the area had no page to copy it to, or
    /// the kernel no memory. It can be received as from any socket, or be asked for once more.
    NoPage,
    /// It was cancelled.
    Cancelled,
    /// The rest is to be asked for once more.
    Again,
    /// What comes next is in memory of somebody else.
    Foreign,
    /// The connection is dead, or the system says something else.
    Failed(io::Error),
}

impl ReceiveEnd {
    /// `result`: what the last completion says. `left`: bytes that were asked for and have not
    /// come.
    pub(super) fn of(result: i32, left: u64) -> Self {
        match result {
            0 if left == 0 => Self::Done,
            0 => Self::Closed,
            1.. => Self::Again,
            _ => match result.wrapping_neg() {
                libc::ENOMEM => Self::NoPage,
                libc::ECANCELED => Self::Cancelled,
                // The ring of completions was full, or a signal came.
                libc::ENOSPC | libc::EAGAIN | libc::EINTR => Self::Again,
                libc::EFAULT => Self::Foreign,
                error => Self::Failed(io::Error::from_raw_os_error(error)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_apart() {
        use ReceiveEnd::{Again, Cancelled, Closed, Done, Failed, Foreign, NoPage};
        assert!(matches!(ReceiveEnd::of(0, 0), Done));
        assert!(matches!(ReceiveEnd::of(0, 1), Closed));
        assert!(matches!(ReceiveEnd::of(9, 1), Again));
        assert!(matches!(ReceiveEnd::of(-libc::ENOMEM, 1), NoPage));
        assert!(matches!(ReceiveEnd::of(-libc::ECANCELED, 1), Cancelled));
        assert!(matches!(ReceiveEnd::of(-libc::ENOSPC, 1), Again));
        assert!(matches!(ReceiveEnd::of(-libc::EFAULT, 1), Foreign));
        let Failed(error) = ReceiveEnd::of(-libc::ECONNRESET, 1) else { panic!("it is dead") };
        assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET));
        assert!(matches!(ReceiveEnd::of(i32::MIN, 1), Failed(_)));
    }
}
