#![allow(unsafe_code)]
//! Plain sockets that move messages between two places in memory of GPUs, with the copies that a
//! program would make itself; and the gate at which both ends of a stream begin.
//!
//! Messages are cut into pieces of 128 KiB to 512 KiB, which go round over the sockets. Each socket
//! has a thread at each end. It copies a piece down to pinned memory while the one before is sent,
//! and copies one up while the next is received.

use std::hint::spin_loop;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;
use std::{slice, thread};

use tcpx_cuda::{CudaGpu, DeviceBuffer, MarkedStream, PinnedBuffer};

use super::gpu::Result;
use super::{SEVERAL, WARMUP};

/// Sockets of the plain way. Each is worth a thread for this many bytes.
const SOCKETS: usize = 8;
const WORTH_BYTES: usize = 1 << 20;
/// Pieces of one socket that are in pinned memory at once.
const SLOTS: usize = 4;

/// Where two threads meet: the receiver says "go" with the number of the sample.
#[derive(Default)]
pub(crate) struct StartGate {
    go: AtomicUsize,
    is_over: AtomicBool,
}

impl StartGate {
    /// False: there will be no such sample.
    pub(crate) fn wait(&self, sample: usize) -> bool {
        while self.go.load(Ordering::Acquire) < sample {
            if self.is_over() {
                return false;
            }
            spin_loop();
        }
        true
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn open(&self, sample: usize) -> Instant {
        let now = Instant::now();
        self.go.store(sample, Ordering::Release);
        now
    }
}

/// Microseconds since then.
pub(crate) fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// One end of a socket of the plain way.
struct PlainSocket {
    socket: TcpStream,
    stream: MarkedStream,
    /// Marks behind the copies of the slots.
    copied: [u64; SLOTS],
    pinned: PinnedBuffer,
    piece_bytes: usize,
}

/// Pieces of messages: where they are, and how long.
type Pieces<'a> = &'a [(usize, usize)];

impl PlainSocket {
    fn new(gpu: &CudaGpu, socket: TcpStream, piece_bytes: usize) -> Result<Self> {
        socket.set_nodelay(true)?;
        Ok(Self {
            socket,
            stream: MarkedStream::new(gpu)?,
            copied: [0; SLOTS],
            pinned: PinnedBuffer::new(gpu, (SLOTS * piece_bytes) as u64)?,
            piece_bytes,
        })
    }

    fn wait_for_slot(&mut self, slot: usize) -> Result<()> {
        while self.stream.reached()? < self.copied[slot] {
            spin_loop();
        }
        Ok(())
    }

    /// The bytes of a slot whose copy has ended.
    fn slot(&mut self, slot: usize, bytes: usize) -> &mut [u8] {
        // SAFETY: the slot has that many bytes, which the driver has made; the thread of this
        // socket is alone with them, and no copy to or from them is under way.
        unsafe {
            slice::from_raw_parts_mut(self.pinned.as_ptr().add(slot * self.piece_bytes), bytes)
        }
    }

    /// Queues the copy of a slot, between it and GPU memory.
    fn copy(&mut self, slot: usize, device: u64, bytes: usize, is_up: bool) -> Result<()> {
        let pinned = self.pinned.address() + (slot * self.piece_bytes) as u64;
        let (to, from) = if is_up { (device, pinned) } else { (pinned, device) };
        // SAFETY: both ranges are this end's, and nothing uses them until the mark is reached.
        unsafe { self.stream.copy(to, from, bytes as u64) }?;
        self.copied[slot] = self.stream.mark()?;
        Ok(())
    }

    fn copy_down(&mut self, index: usize, memory: u64, pieces: Pieces<'_>) -> Result<()> {
        let Some(&(offset, bytes)) = pieces.get(index) else { return Ok(()) };
        self.copy(index % SLOTS, memory + offset as u64, bytes, false)
    }

    fn send(&mut self, memory: u64, pieces: Pieces<'_>) -> Result<()> {
        (0..SLOTS - 1).try_for_each(|index| self.copy_down(index, memory, pieces))?;
        let mut socket = self.socket.try_clone()?;
        for (index, &(_, bytes)) in pieces.iter().enumerate() {
            // Its slot was written to the socket in the turn before.
            self.copy_down(index + SLOTS - 1, memory, pieces)?;
            self.wait_for_slot(index % SLOTS)?;
            socket.write_all(self.slot(index % SLOTS, bytes))?;
        }
        Ok(())
    }

    fn receive(&mut self, memory: u64, pieces: Pieces<'_>) -> Result<()> {
        let mut socket = self.socket.try_clone()?;
        for (index, &(offset, bytes)) in pieces.iter().enumerate() {
            let slot = index % SLOTS;
            self.wait_for_slot(slot)?;
            socket.read_exact(self.slot(slot, bytes))?;
            self.copy(slot, memory + offset as u64, bytes, true)?;
        }
        (0..SLOTS).try_for_each(|slot| self.wait_for_slot(slot))
    }
}

pub(crate) struct SocketStream {
    /// Of the sender, and of the receiver.
    gpus: [CudaGpu; 2],
    bytes: usize,
    piece_bytes: usize,
    memory: [DeviceBuffer; 2],
    sockets: Vec<[PlainSocket; 2]>,
}

impl SocketStream {
    pub(crate) fn new(gpus: &[CudaGpu; 2], bytes: usize) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let piece_bytes = (bytes / SOCKETS).clamp(128 << 10, 512 << 10).min(bytes);
        let sockets = (0..SOCKETS).map(|_| {
            let dialled = TcpStream::connect(listener.local_addr()?)?;
            let end = |gpu, socket| PlainSocket::new(gpu, socket, piece_bytes);
            Ok([end(&gpus[0], dialled)?, end(&gpus[1], listener.accept()?.0)?])
        });
        let sockets = sockets.collect::<Result<_>>()?;
        let memory = |gpu| DeviceBuffer::new(gpu, (SEVERAL * bytes) as u64);
        let memory = [memory(&gpus[0])?, memory(&gpus[1])?];
        Ok(Self { gpus: gpus.clone(), bytes, piece_bytes, memory, sockets })
    }

    /// The pieces of each socket that is used for this many messages.
    fn pieces(&self, messages: usize) -> Vec<Vec<(usize, usize)>> {
        let total = messages * self.bytes;
        let mut pieces = vec![Vec::new(); (total / WORTH_BYTES).clamp(1, SOCKETS)];
        let sockets = pieces.len();
        for (index, offset) in (0..total).step_by(self.piece_bytes).enumerate() {
            pieces[index % sockets].push((offset, self.piece_bytes.min(total - offset)));
        }
        pieces
    }

    pub(crate) fn samples(&mut self, messages: usize, samples: usize) -> Result<Vec<f64>> {
        let (gate, received) = (StartGate::default(), AtomicUsize::new(0));
        let pieces = self.pieces(messages);
        let last = WARMUP + samples;
        let [from, to] = [0, 1].map(|end| self.memory[end].address());
        let sockets = self.sockets.iter().map(|[end, _]| end.socket.try_clone());
        let sockets = sockets.collect::<std::io::Result<Vec<_>>>()?;
        let ([sending, receiving], pairs) = (&self.gpus, &mut self.sockets);
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for (pieces, [sender, receiver]) in pieces.iter().zip(pairs) {
                let (gate, received) = (&gate, &received);
                let mut send = move || -> Result<()> {
                    let _entered = sending.enter()?;
                    let mut samples = (1..=last).filter(|sample| gate.wait(*sample));
                    samples.try_for_each(|_| sender.send(from, pieces))
                };
                let mut receive = move || -> Result<()> {
                    let _entered = receiving.enter()?;
                    (1..=last).try_for_each(|_| {
                        receiver.receive(to, pieces)?;
                        received.fetch_add(1, Ordering::Release);
                        Ok(())
                    })
                };
                threads.push(scope.spawn(move || send().inspect_err(|_| gate.end())));
                threads.push(scope.spawn(move || receive().inspect_err(|_| gate.end())));
            }
            let mut times = Vec::with_capacity(samples);
            for sample in 1..=last {
                let since = gate.open(sample);
                let all = sample * pieces.len();
                while received.load(Ordering::Acquire) < all && !gate.is_over() {
                    spin_loop();
                }
                if sample > WARMUP {
                    times.push(micros(since));
                }
            }
            if gate.is_over() {
                // One end has failed; no thread is to wait in a read or a write for it.
                sockets.iter().try_for_each(|socket| socket.shutdown(Shutdown::Both))?;
            }
            for thread in threads {
                thread.join().map_err(|_| "a thread panicked")??;
            }
            Ok(times)
        })
    }
}
