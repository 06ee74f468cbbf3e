#![allow(unsafe_code)]
//! Return of fragments to the kernel, which puts their memory into the NIC's pool again.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use tcpx_rx::dialect::SOL_SOCKET;
use tcpx_rx::{Dialect, TokenBatch, TokenBatches, TokenRanges};

use crate::error::DevmemError;

/// Returns fragments on the socket that they came from, and clears `tokens`. Returns how many
/// fragments the kernel took; the kernel passes over unknown fragments.
///
/// # Errors
/// Returns the system's error. `tokens` is cleared then as well, and closing the socket gives its
/// fragments back.
pub fn return_tokens(socket: BorrowedFd<'_>, tokens: &mut TokenRanges) -> Result<u64, DevmemError> {
    tokens.coalesce();
    let given = return_all(tokens, |batch| call(socket, batch));
    tokens.clear();
    given.map_err(|source| DevmemError::GiveBackRefused { source })
}

/// Limits of one call: this many tokens and fragments. The kernel may stop before.
fn return_all(
    tokens: &TokenRanges,
    mut call: impl FnMut(&TokenBatch) -> io::Result<u32>,
) -> io::Result<u64> {
    let mut given = 0;
    for batch in TokenBatches::new(tokens.as_slice()) {
        let mut rest = Some(batch);
        while let Some(batch) = rest {
            let freed = call(&batch)?;
            given += u64::from(freed);
            // The kernel knows none of the remaining fragments.
            if freed == 0 {
                break;
            }
            rest = batch.rest_after(freed).map_err(io::Error::other)?;
        }
    }
    Ok(given)
}

fn call(socket: BorrowedFd<'_>, batch: &TokenBatch) -> io::Result<u32> {
    let option = Dialect::Mainline.dontneed_option();
    let bytes = size_of_val::<[_]>(batch) as libc::socklen_t;
    // SAFETY: the descriptor is open; the kernel reads as many bytes as the batch has.
    let freed = unsafe {
        libc::setsockopt(socket.as_raw_fd(), SOL_SOCKET, option, batch.as_ptr().cast(), bytes)
    };
    u32::try_from(freed).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    use super::*;

    fn tokens(all: impl IntoIterator<Item = u32>) -> TokenRanges {
        let mut tokens = TokenRanges::new();
        all.into_iter().for_each(|token| tokens.push(token));
        tokens
    }

    #[test]
    fn long_lists_go_in_several_calls() {
        let mut calls = Vec::new();
        let given = return_all(&tokens((0..300).map(|at| at * 2)), |batch| {
            calls.push(batch.len());
            Ok(batch.fragments())
        });
        assert_eq!((given.expect("taken"), calls), (300, vec![128, 128, 44]));
    }

    #[test]
    fn tokens_that_the_kernel_left_are_returned_again() {
        let mut calls = Vec::new();
        let given = return_all(&tokens(0..100), |batch| {
            calls.push(batch.fragments());
            Ok(batch.fragments().min(40))
        });
        assert_eq!((given.expect("taken"), calls), (100, vec![100, 60, 20]));
    }

    #[test]
    fn tokens_that_it_does_not_know_are_no_reason_to_go_on() {
        let mut calls = 0;
        let given = return_all(&tokens(0..100), |_| {
            calls += 1;
            Ok(0)
        });
        assert_eq!((given.expect("an answer"), calls), (0, 1));
        assert!(return_all(&tokens(0..9), |_| Ok(10)).is_err(), "more than it was given");
    }

    #[test]
    fn the_running_kernel_takes_tokens_of_connections_only() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut some = tokens([1, 2, 3]);
        match return_tokens(listener.as_fd(), &mut some) {
            Ok(given) => assert_eq!(given, 0, "it knows none of them"),
            Err(error) => {
                assert!(matches!(error, DevmemError::GiveBackRefused { .. }), "{error}");
                let _ = writeln!(std::io::stderr(), "skipped: {error}");
            }
        }
        assert!(some.is_empty());
        let file = std::fs::File::open("/dev/null").expect("there is one");
        let error = return_tokens(file.as_fd(), &mut tokens([1])).expect_err("no socket");
        assert_eq!(error.diagnosis().map(|it| it.code.number()), Some(429));
    }
}
