#![allow(unsafe_code)]
//! A link with a round trip, and perhaps a rate, made of two TUN devices: what is sent into one
//! comes out of the other a while later. The kernel's own (`netem`) is not on every machine.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use rustix::ioctl::{Setter, ioctl};

/// `TUNSETIFF`: makes a device, or finds it, and has the file be its other side.
const TUNSETIFF: u32 = 0x4004_54ca;
/// IP packets, with nothing before them.
const IFF_TUN_NO_PI: u16 = 0x0001 | 0x1000;
/// Bytes of the system's `struct ifreq`; the first 16 are a name.
const IFREQ_BYTES: usize = 40;
const NAME_BYTES: usize = 16;
/// Longest packet.
const MTU: usize = 1 << 16;
/// What a link with a rate keeps of packets that wait: of more, the newest are lost, as in any
/// router.
const QUEUE_BYTES: u64 = 64 << 10;

/// How long packets are under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkProfile {
    /// What each takes, however long it is.
    pub(crate) delay: Duration,
    /// How fast they follow each other; `None`: at once.
    pub(crate) bytes_per_second: Option<u64>,
}

impl LinkProfile {
    /// What this number of bytes takes beside the delay.
    fn time_of(self, bytes: u64) -> Duration {
        let rate = self.bytes_per_second.unwrap_or(u64::MAX);
        Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate)
    }
}

/// Makes a TUN device on the host that this thread is on.
///
/// # Errors
/// What the system said.
pub(crate) fn open_end(interface: &str) -> Result<File, String> {
    let told = |error: &dyn std::fmt::Display| format!("/dev/net/tun: {error}");
    let mut options = OpenOptions::new();
    let end = options.read(true).write(true).open("/dev/net/tun").map_err(|error| told(&error))?;
    let mut request = [0; IFREQ_BYTES];
    if interface.len() >= NAME_BYTES {
        return Err(format!("{interface} is no name of an interface"));
    }
    request[..interface.len()].copy_from_slice(interface.as_bytes());
    request[NAME_BYTES..NAME_BYTES + 2].copy_from_slice(&IFF_TUN_NO_PI.to_ne_bytes());
    // SAFETY: the call reads as many bytes as an `ifreq` has: a name that ends with NUL, and flags.
    let made = unsafe { ioctl(&end, Setter::<TUNSETIFF, [u8; IFREQ_BYTES]>::new(request)) };
    made.map_err(|error| told(&error))?;
    Ok(end)
}

/// Joins two ends: what comes out of one goes into the other with this profile. The threads that
/// pass it on end when the devices go, which go with their hosts.
///
/// # Errors
/// What the system said.
pub(crate) fn join([left, right]: [File; 2], profile: LinkProfile) -> Result<(), String> {
    let again = |end: &File| end.try_clone().map_err(|error| error.to_string());
    let (left_too, right_too) = (again(&left)?, again(&right)?);
    pass_on(left, right_too, profile);
    pass_on(right, left_too, profile);
    Ok(())
}

fn pass_on(mut from: File, mut to: File, profile: LinkProfile) {
    let (queue, queued) = channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (due, packet) in queued {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            // A device that is down takes nothing: the packet is lost, as on any link.
            let _ = to.write(&packet);
        }
    });
    thread::spawn(move || {
        let mut packet = vec![0; MTU];
        // When all that waits has left.
        let mut idle_at = Instant::now();
        // A device that is not up yet has nothing to read, which is no error of its end.
        while let Ok(bytes @ 1..) = from.read(&mut packet) {
            let now = Instant::now();
            if idle_at.saturating_duration_since(now) > profile.time_of(QUEUE_BYTES) {
                continue;
            }
            idle_at = idle_at.max(now) + profile.time_of(bytes as u64);
            if queue.send((idle_at + profile.delay, packet[..bytes].to_vec())).is_err() {
                return;
            }
        }
    });
}
