#![allow(unsafe_code)]
//! Half a round trip of messages between two places in memory of GPU 0: two sessions of this
//! process, beside one plain socket and the copies that a program would make itself.
//!
//! `cargo bench -p tcpx-tests --bench gpu_round_trip [-- [--json] [--rest=MS] [BYTES]…]`
//!
//! Both ends are in one process, because two processes that share a GPU take turns on it. The plain
//! way copies a message down to pinned memory (cuMemcpyDtoH, which returns when the bytes are
//! there), writes it, reads it at the other end and copies it up; the sockets alone are measured
//! beside it, and the copies alone. "default" is a session with no setting but its GPU. The bar for
//! 4 KiB: at most twice the sockets, and the two copies. All of it in turns. With `--rest` each
//! trip begins after as many milliseconds of rest, which do not count.

#![allow(clippy::print_stdout, reason = "the figures are what the bench is for")]

mod gpu;
#[path = "gpu/pair.rs"]
mod pair;

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use std::{env, slice, thread};

use libloading::Library;
use serde_json::json;
use tcpx_core::{MemoryType, Post, Session, Transfer};
use tcpx_cuda::{CudaGpu, DeviceBuffer, PinnedBuffer};

use gpu::{Result, begin, is_wanted, median};
use pair::{PATIENCE, Pair, WAYS, Way};

/// With how many trips a round has.
const SIZES: [(usize, usize); 7] = [
    (64, 400),
    (4 << 10, 400),
    (64 << 10, 400),
    (1 << 20, 100),
    (4 << 20, 40),
    (16 << 20, 20),
    (64 << 20, 8),
];
const ROUNDS: usize = 7;
const WARMUP: usize = 4;
/// Divisor of the trips where each begins after a rest.
const RESTING_SHARE: usize = 8;

fn main() -> Result<()> {
    let Some((gpu, is_json)) = begin(&[])? else { return Ok(()) };
    let share = if rest()?.is_zero() { 1 } else { RESTING_SHARE };
    for (bytes, trips) in SIZES.into_iter().filter(|(bytes, _)| is_wanted(*bytes)) {
        let trips = trips / share;
        let ours = WAYS.map(|way| SessionRoundTrip::new(way, bytes));
        let ours = ours.into_iter().collect::<Result<Vec<_>>>()?;
        let mut plain = SocketRoundTrip::new(&gpu, bytes)?;
        let mut times = vec![Vec::new(); WAYS.len() + 3];
        for _ in 0..ROUNDS {
            for (ours, times) in ours.iter().zip(&mut times) {
                times.push(ours.half_trip(trips)?);
            }
            let rest = &mut times[WAYS.len()..];
            rest[0].push(plain.half_trip(trips, true)?);
            rest[1].push(plain.half_trip(trips, false)?);
            rest[2].push(plain.copies(trips)?);
        }
        let medians: Vec<_> = times.into_iter().map(median).collect();
        let [.., sockets, copies] = medians[..] else { continue };
        let bar = ("bar", 2.0 * sockets + copies);
        let names = WAYS.map(|way| way.name).into_iter().chain(["plain", "sockets", "copies"]);
        let columns = names.zip(medians).chain([bar]);
        if is_json {
            let columns = columns.map(|(name, time)| (format!("{name}_us"), json!(time)));
            let columns: serde_json::Map<_, _> = columns.collect();
            println!("{}", json!({ "bytes": bytes, "half_trips": columns }));
        } else {
            let columns = columns.map(|(name, time)| format!("{name} {time:.1}"));
            println!("{bytes:>8} B, us: {}", columns.collect::<Vec<_>>().join(", "));
        }
    }
    Ok(())
}

/// Microseconds of half a trip, where `trips` trips took this time.
fn half(time: Duration, trips: usize) -> f64 {
    time.as_secs_f64() * 1e6 / (2 * trips) as f64
}

/// Makes trips, and returns the time of half a trip. Those that warm up, and rests, do not count.
fn time_trips(trips: usize, mut make: impl FnMut() -> Result<()>) -> Result<f64> {
    let rest = rest()?;
    let mut time = Duration::ZERO;
    for trip in 0..WARMUP + trips {
        thread::sleep(rest);
        let since = Instant::now();
        make()?;
        if trip >= WARMUP {
            time += since.elapsed();
        }
    }
    Ok(half(time, trips))
}

/// Time before each trip in which nothing moves.
fn rest() -> Result<Duration> {
    let ms = env::args().find_map(|word| word.strip_prefix("--rest=")?.to_owned().into());
    let ms = ms.map_or(Ok(0), |ms: String| ms.parse())?;
    Ok(Duration::from_millis(ms))
}

/// Two sessions over GPU 0, and a message at each.
struct SessionRoundTrip {
    pair: Pair,
    posts: [Post; 2],
}

impl SessionRoundTrip {
    fn new(way: Way, bytes: usize) -> Result<Self> {
        let pair = Pair::new(way, [0, 0])?;
        let sessions = &pair.sessions;
        let post = |session: &Session| -> Result<Post> {
            let memory = session.allocate(bytes as u64, MemoryType::Device)?;
            Ok(Post { memory, offset: 0, bytes: bytes as u64, tag: 0 })
        };
        let posts = [post(&sessions[0])?, post(&sessions[1])?];
        sessions[0].write_memory(posts[0].memory, 0, &vec![7; bytes])?;
        Ok(Self { pair, posts })
    }

    fn half_trip(&self, trips: usize) -> Result<f64> {
        thread::scope(|scope| {
            let echo = scope.spawn(|| {
                (0..WARMUP + trips).try_for_each(|_| {
                    self.post(1, false)?.wait(PATIENCE)?;
                    Ok::<_, Box<dyn Error + Send + Sync>>(self.post(1, true)?.wait(PATIENCE)?)
                })
            });
            let time = time_trips(trips, || {
                let receive = self.post(0, false)?;
                self.post(0, true)?.wait(PATIENCE)?;
                Ok(receive.wait(PATIENCE)?)
            })?;
            echo.join().map_err(|_| "the other end panicked")??;
            Ok(time)
        })
    }

    /// Posts a send or a receive at one end.
    fn post(&self, end: usize, is_send: bool) -> Result<Transfer> {
        let transfer = self.pair.transfer(end)?;
        if is_send {
            transfer.post_send(self.posts[end])?
        } else {
            transfer.post_recv(self.posts[end])?
        }
        Ok(transfer)
    }
}

/// Copies that return when the bytes are there, as a program would call them.
struct Driver(Library);

impl Driver {
    /// # Safety
    /// A context is current, and both ranges are memory of the driver's that nothing else uses.
    unsafe fn copy(&self, name: &str, to: u64, from: u64, bytes: usize) -> Result<()> {
        type Copy = unsafe extern "C" fn(u64, u64, usize) -> i32;
        // SAFETY: a function of the driver's that has two addresses, each as wide as a pointer, and
        // a length, and gives a status.
        let copy = unsafe { self.0.get::<Copy>(name) }?;
        // SAFETY: the caller's promise.
        match unsafe { copy(to, from, bytes) } {
            0 => Ok(()),
            status => Err(format!("{name}: {status}").into()),
        }
    }
}

/// One end of the plain way.
struct PlainEnd {
    bytes: usize,
    socket: TcpStream,
    pinned: PinnedBuffer,
    device: DeviceBuffer,
}

struct SocketRoundTrip {
    driver: Driver,
    gpu: CudaGpu,
    ends: [PlainEnd; 2],
}

impl PlainEnd {
    fn message(&mut self) -> &mut [u8] {
        let bytes = self.bytes;
        // SAFETY: the buffer has as many bytes, pinned and made with zeroes by the driver, and the
        // borrow of this end keeps all other code from them. No copy is under way between two
        // calls.
        unsafe { slice::from_raw_parts_mut(self.pinned.as_ptr(), bytes) }
    }

    fn send(&mut self, driver: Option<&Driver>) -> Result<()> {
        if let Some(driver) = driver {
            self.copy_down(driver)?;
        }
        let mut socket = self.socket.try_clone()?;
        socket.write_all(self.message())?;
        Ok(())
    }

    fn receive(&mut self, driver: Option<&Driver>) -> Result<()> {
        let mut socket = self.socket.try_clone()?;
        socket.read_exact(self.message())?;
        if let Some(driver) = driver {
            self.copy_up(driver)?;
        }
        Ok(())
    }

    fn copy_down(&mut self, driver: &Driver) -> Result<()> {
        let (to, from) = (self.pinned.address(), self.device.address());
        // SAFETY: both buffers are this end's, have that many bytes, and their context is current.
        unsafe { driver.copy("cuMemcpyDtoH_v2", to, from, self.bytes) }
    }

    fn copy_up(&mut self, driver: &Driver) -> Result<()> {
        let (to, from) = (self.device.address(), self.pinned.address());
        // SAFETY: as above.
        unsafe { driver.copy("cuMemcpyHtoD_v2", to, from, self.bytes) }
    }
}

impl SocketRoundTrip {
    fn new(gpu: &CudaGpu, bytes: usize) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let dialled = TcpStream::connect(listener.local_addr()?)?;
        let end = |socket: TcpStream| -> Result<PlainEnd> {
            socket.set_nodelay(true)?;
            let pinned = PinnedBuffer::new(gpu, bytes as u64)?;
            Ok(PlainEnd { bytes, socket, pinned, device: DeviceBuffer::new(gpu, bytes as u64)? })
        };
        let ends = [end(dialled)?, end(listener.accept()?.0)?];
        // SAFETY: it is loaded already, so nothing is run by loading it.
        let driver = Driver(unsafe { Library::new("libcuda.so.1") }?);
        Ok(Self { driver, gpu: gpu.clone(), ends })
    }

    /// With the copies, or of what is in pinned memory already.
    fn half_trip(&mut self, trips: usize, is_copied: bool) -> Result<f64> {
        let (gpu, [left, right]) = (&self.gpu, &mut self.ends);
        let driver = is_copied.then_some(&self.driver);
        thread::scope(|scope| {
            let echo = scope.spawn(move || -> Result<()> {
                let _entered = gpu.enter()?;
                for _ in 0..WARMUP + trips {
                    right.receive(driver)?;
                    right.send(driver)?;
                }
                Ok(())
            });
            let _entered = gpu.enter()?;
            let time = time_trips(trips, || {
                left.send(driver)?;
                left.receive(driver)
            });
            if time.is_err() {
                // The other end would wait for more.
                left.socket.shutdown(Shutdown::Both)?;
            }
            let time = time?;
            echo.join().map_err(|_| "the other end panicked")??;
            Ok(time)
        })
    }

    /// One copy down and one up.
    fn copies(&mut self, trips: usize) -> Result<f64> {
        let _entered = self.gpu.enter()?;
        let end = &mut self.ends[0];
        let since = Instant::now();
        for _ in 0..trips {
            end.copy_down(&self.driver)?;
            end.copy_up(&self.driver)?;
        }
        Ok(2.0 * half(since.elapsed(), trips))
    }
}
