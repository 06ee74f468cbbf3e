//! Reasons for the end of a receive. Pure.

use std::io;

/// Reason why the kernel brings no more bytes for a receive.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReceiveEnd {
    /// All requested bytes have come.
    Done,
    /// The peer has sent its last byte.
    Closed,
    /// The next bytes are in the kernel's own memory. The area had no page to copy them to, or the
    /// kernel no memory. The bytes can be received as from any socket, or be requested again.
    NoPage,
    /// The receive was cancelled.
    Cancelled,
    /// The rest must be requested again.
    Again,
    /// The next bytes are in memory of another user.
    Foreign,
    /// The connection is dead, or the system reports another error.
    Failed(io::Error),
}

impl ReceiveEnd {
    /// Decodes the end of a receive. `result` is the result of the last completion, `left` the
    /// requested bytes that have not come.
    pub(super) fn of(result: i32, left: u64) -> Self {
        match result {
            0 if left == 0 => Self::Done,
            0 => Self::Closed,
            1.. => Self::Again,
            _ => match result.wrapping_neg() {
                libc::ENOMEM => Self::NoPage,
                libc::ECANCELED => Self::Cancelled,
                // The completion queue was full, or a signal came.
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
    fn each_end_of_a_receive_is_distinguished() {
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
