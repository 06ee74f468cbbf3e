#![allow(unsafe_code)]
//! Facts of this machine.

use std::error::Error;
use std::io;
use std::mem::ManuallyDrop;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;

use socket2::{Domain, Protocol, Socket, Type};

use super::facts::{Dialects, Facts};

/// Source of facts that asks this machine. Changes nothing on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveFacts;

impl Facts for LiveFacts {
    fn addresses(&self) -> io::Result<Vec<(String, Ipv4Addr)>> {
        let interfaces = if_addrs::get_if_addrs()?;
        let with_address = interfaces.into_iter().filter_map(|interface| {
            let IpAddr::V4(address) = interface.ip() else { return None };
            // The name may carry the label of an alias, `eth0:1`.
            let name = interface.name.split(':').next().unwrap_or_default().to_owned();
            Some((name, address))
        });
        Ok(with_address.collect())
    }

    fn dialects(&self) -> io::Result<Dialects> {
        const GOOGLE_DONTNEED: i32 = 97;
        const MAINLINE_DONTNEED: i32 = 80;
        Ok(Dialects {
            google: has_dontneed(GOOGLE_DONTNEED)?,
            mainline: has_dontneed(MAINLINE_DONTNEED)?,
        })
    }

    /// Looks for the library, and leaves it loaded.
    fn find_cuda(&self) -> Result<(), String> {
        // SAFETY: loading runs the library's constructors; those of NVIDIA's driver library only
        // prepare its own data. CUDA itself is initialised by cuInit, which is not called.
        let library = unsafe { libloading::Library::new("libcuda.so.1") };
        match library {
            Ok(library) => {
                // Unloading a driver library that other code is about to load is a known source of
                // crashes.
                let _ = ManuallyDrop::new(library);
                Ok(())
            }
            Err(error) => {
                Err(error.source().map_or_else(|| error.to_string(), ToString::to_string))
            }
        }
    }
}

/// Offers one token that was never handed out. A kernel with the option skips the token; a kernel
/// without it does not know the option.
fn has_dontneed(option: i32) -> io::Result<bool> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    // A range of tokens: its first number and its length.
    let range = [0u32, 1];
    let length = size_of_val(&range) as libc::socklen_t;
    // SAFETY: `socket` is open; the kernel reads at most `length` bytes from `range`, which has
    // exactly that many, and keeps no pointer.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            range.as_ptr().cast(),
            length,
        )
    };
    // The result of the option is the number of tokens that it took.
    if status >= 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOPROTOOPT) => Ok(false),
        // A sandbox forbids the call.
        Some(libc::EPERM) => Err(error),
        // Any other error is the option's own objection to the token.
        _ => Ok(true),
    }
}
