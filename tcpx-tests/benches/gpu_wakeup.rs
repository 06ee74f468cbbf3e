#![allow(unsafe_code)]
//! Ways to learn that a copy from GPU 0 has ended: how long each takes, and how much of a
//! processor.
//!
//! `cargo bench -p tcpx-tests --bench gpu_wakeup [-- [--json] [BYTES]…]`
//!
//! One thread queues a copy to pinned memory and waits until it knows of the end. "query" asks for
//! an event in a loop, "word" looks at a word that the stream writes behind the copy. "pauses" asks
//! after pauses of 20, 40, 80 µs and so on, at most 500, and "short pauses" the same with a timer
//! slack of 1 ns, as a session does that spins no more. "block" waits in the driver for an event
//! that was made to block. "thread" has another thread wait so, which wakes the first by an
//! eventfd, and "callback" has the driver call a function that does.

#![allow(clippy::print_stdout, reason = "the figures are what the bench is for")]

mod gpu;

use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use std::{ptr, thread};

use libloading::{Library, Symbol};
use rustix::event::{EventfdFlags, eventfd};
use serde_json::json;
use tcpx_cuda::{CudaGpu, DeviceBuffer, PinnedBuffer};

use gpu::{Result, begin, is_wanted, median};

/// Sizes, and copies of a round.
const SIZES: [(usize, usize); 4] =
    [(4 << 10, 1_000), (64 << 10, 1_000), (1 << 20, 400), (16 << 20, 100)];
const ROUNDS: usize = 5;
const WAYS: [&str; 7] = ["query", "word", "pauses", "short pauses", "block", "thread", "callback"];
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_micros(500);
/// Flags of the driver's: an event without a time, and one whose waiters sleep.
const NO_TIME: u32 = 2;
const BLOCKING: u32 = 1;
const NOT_READY: i32 = 600;

type Handle = *mut c_void;

fn main() -> Result<()> {
    let Some((gpu, is_json)) = begin(&[])? else { return Ok(()) };
    let _entered = gpu.enter()?;
    for (bytes, copies) in SIZES.into_iter().filter(|(bytes, _)| is_wanted(*bytes)) {
        let mut bench = Bench::new(&gpu, bytes)?;
        let mut times = WAYS.map(|_| (Vec::new(), Vec::new()));
        for _ in 0..ROUNDS {
            for (way, (walls, cpus)) in times.iter_mut().enumerate() {
                let (wall, cpu) = bench.measure(way, copies)?;
                walls.push(wall);
                cpus.push(cpu);
            }
        }
        let rows = WAYS.into_iter().zip(times).map(|(n, (w, c))| (n, median(w), median(c)));
        if is_json {
            let rows: Vec<_> = rows
                .map(|(name, wall, cpu)| json!({ "way": name, "us": wall, "processor_us": cpu }))
                .collect();
            println!("{}", json!({ "bytes": bytes, "ways": rows }));
        } else {
            let rows: Vec<_> =
                rows.map(|(name, wall, cpu)| format!("{name} {wall:.1} ({cpu:.1})")).collect();
            println!("{bytes:>9} B, us (of a processor): {}", rows.join(", "));
        }
    }
    Ok(())
}

/// Functions of the driver's.
struct Driver(Library);

impl Driver {
    fn get<F>(&self, name: &str) -> Result<Symbol<'_, F>> {
        // SAFETY: each caller names a function of the driver's with its type.
        Ok(unsafe { self.0.get(name) }?)
    }
}

fn ok(call: &str, status: i32) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(format!("{call}: {status}").into()) }
}

type Make = unsafe extern "C" fn(*mut Handle, u32) -> i32;
type Copy = unsafe extern "C" fn(u64, u64, usize, Handle) -> i32;
type Record = unsafe extern "C" fn(Handle, Handle) -> i32;
type Ask = unsafe extern "C" fn(Handle) -> i32;
type Call = unsafe extern "C" fn(Handle, unsafe extern "C" fn(Handle), Handle) -> i32;
type WriteWord = unsafe extern "C" fn(Handle, u64, u32, u32) -> i32;

/// Wakes the thread that waits for the eventfd behind this pointer.
unsafe extern "C" fn wake(target: Handle) {
    // SAFETY: the bench's eventfd outlives its streams.
    let target = unsafe { &*target.cast::<OwnedFd>() };
    let _ = rustix::io::write(target, &1u64.to_ne_bytes());
}

struct Bench {
    driver: Driver,
    stream: Handle,
    event: Handle,
    blocking: Handle,
    device: DeviceBuffer,
    pinned: PinnedBuffer,
    word: PinnedBuffer,
    number: u32,
    woken: Box<OwnedFd>,
    asked: Sender<usize>,
}

/// Waits for events that the bench names, each until it has ended, and wakes the bench.
fn serve(gpu: &CudaGpu, events: &Receiver<usize>, woken: usize) -> Result<()> {
    let _entered = gpu.enter()?;
    // SAFETY: it is loaded already, so nothing is run by loading it.
    let driver = Driver(unsafe { Library::new("libcuda.so.1") }?);
    let wait = driver.get::<Ask>("cuEventSynchronize")?;
    for event in events {
        // SAFETY: the bench never destroys its events.
        ok("cuEventSynchronize", unsafe { wait(ptr::with_exposed_provenance_mut(event)) })?;
        // SAFETY: the bench leaks its eventfd's box to this thread's life.
        unsafe { wake(ptr::with_exposed_provenance_mut(woken)) };
    }
    Ok(())
}

impl Bench {
    fn new(gpu: &CudaGpu, bytes: usize) -> Result<Self> {
        // SAFETY: it is loaded already, so nothing is run by loading it.
        let driver = Driver(unsafe { Library::new("libcuda.so.1") }?);
        let make = |call: &str, flags: u32| -> Result<Handle> {
            let mut made = ptr::null_mut();
            let make = driver.get::<Make>(call)?;
            // SAFETY: a function that makes an object, for a place of its handle and flags.
            ok(call, unsafe { make(&raw mut made, flags) })?;
            Ok(made)
        };
        let (stream, event) = (make("cuStreamCreate", 1)?, make("cuEventCreate", NO_TIME)?);
        let blocking = make("cuEventCreate", NO_TIME | BLOCKING)?;
        let woken = Box::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let (asked, events) = channel();
        let (theirs, address) = (gpu.clone(), (&raw const *woken).expose_provenance());
        thread::spawn(move || serve(&theirs, &events, address).expect("the driver waits"));
        let whole = bytes as u64;
        let (device, pinned) = (DeviceBuffer::new(gpu, whole)?, PinnedBuffer::new(gpu, whole)?);
        let word = PinnedBuffer::new(gpu, 4096)?;
        Ok(Self { driver, stream, event, blocking, device, pinned, word, number: 0, woken, asked })
    }

    /// Microseconds of a copy, and of a processor.
    fn measure(&mut self, way: usize, copies: usize) -> Result<(f64, f64)> {
        if WAYS[way] == "short pauses" {
            set_timer_slack(1);
        }
        let (began, cpu) = (Instant::now(), processor_time()?);
        (0..copies).try_for_each(|_| self.copy(way))?;
        let (wall, cpu) = (began.elapsed(), processor_time()? - cpu);
        set_timer_slack(50_000);
        let each = |time: Duration| time.as_secs_f64() * 1e6 / copies as f64;
        Ok((each(wall), each(cpu)))
    }

    fn copy(&mut self, way: usize) -> Result<()> {
        let copy = self.driver.get::<Copy>("cuMemcpyDtoHAsync_v2")?;
        let (to, from) = (self.pinned.address(), self.device.address());
        // SAFETY: both buffers are of that length, and are used by nothing else.
        let copied = unsafe { copy(to, from, self.pinned.bytes() as usize, self.stream) };
        ok("cuMemcpyDtoHAsync", copied)?;
        match WAYS[way] {
            "query" => {
                self.record(self.event)?;
                while !self.has_ended(self.event)? {
                    std::hint::spin_loop();
                }
            }
            "word" => self.await_word()?,
            "pauses" | "short pauses" => {
                self.record(self.event)?;
                let mut pause = FIRST_PAUSE;
                while !self.has_ended(self.event)? {
                    thread::sleep(pause);
                    pause = (2 * pause).min(LONGEST_PAUSE);
                }
            }
            "block" => {
                self.record(self.blocking)?;
                let wait = self.driver.get::<Ask>("cuEventSynchronize")?;
                // SAFETY: an event of this bench.
                ok("cuEventSynchronize", unsafe { wait(self.blocking) })?;
            }
            "thread" => {
                self.record(self.blocking)?;
                self.asked.send(self.blocking.expose_provenance())?;
                self.sleep()?;
            }
            _ => {
                let call = self.driver.get::<Call>("cuLaunchHostFunc")?;
                let woken = (&raw const *self.woken).cast_mut().cast();
                // SAFETY: the function takes the address of the eventfd, which outlives the call.
                ok("cuLaunchHostFunc", unsafe { call(self.stream, wake, woken) })?;
                self.sleep()?;
            }
        }
        Ok(())
    }

    fn record(&self, event: Handle) -> Result<()> {
        let record = self.driver.get::<Record>("cuEventRecord")?;
        // SAFETY: an event and the stream of this bench.
        ok("cuEventRecord", unsafe { record(event, self.stream) })
    }

    fn has_ended(&self, event: Handle) -> Result<bool> {
        let query = self.driver.get::<Ask>("cuEventQuery")?;
        // SAFETY: an event of this bench.
        match unsafe { query(event) } {
            NOT_READY => Ok(false),
            status => ok("cuEventQuery", status).map(|()| true),
        }
    }

    fn await_word(&mut self) -> Result<()> {
        self.number += 1;
        let write = self.driver.get::<WriteWord>("cuStreamWriteValue32_v2")?;
        // SAFETY: the word is pinned memory of this bench.
        let status = unsafe { write(self.stream, self.word.device_address(), self.number, 0) };
        ok("cuStreamWriteValue32", status)?;
        // SAFETY: aligned memory of the bench, which the stream alone writes.
        let word = unsafe { AtomicU32::from_ptr(self.word.as_ptr().cast()) };
        while word.load(Ordering::Acquire) != self.number {
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Sleeps until the eventfd is written to.
    fn sleep(&self) -> Result<()> {
        rustix::io::read(&*self.woken, &mut [0; 8])?;
        Ok(())
    }
}

fn set_timer_slack(ns: u64) {
    // SAFETY: sets a number of this thread's.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns) };
}

/// Time that all threads of this process have had on processors.
fn processor_time() -> Result<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}
