//! Tests of the time at which chunks of GPU memory are queued, over both ends of a comm.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tcpx_cuda::{CudaGpu, DeviceBuffer};
use tcpx_sys::{PTR_CUDA, PTR_HOST};

use super::SendComm;
use crate::comm::interleavings::{Scenario, sockets};
use crate::comm::{Destination, DeviceContent, RecvComm};
use crate::memory::{BounceBuffer, Piece, Registration, StagerSlot};

/// Bytes of a message on the control socket, and of one that is five chunks.
const INLINE: usize = 16;
const LONG: usize = 300;
const CHUNKS: usize = 5;
const MEMORY: usize = 1 << 20;
const LIMIT: Duration = Duration::from_secs(60);

/// A send comm with memory of a GPU, and the receive comm at the other end.
struct Ends {
    sender: SendComm,
    receiver: RecvComm,
    /// Memory of the sends, whose registration each of them holds.
    memory: DeviceBuffer,
    registration: Arc<Registration>,
    /// What the memory contains.
    content: Vec<u8>,
    received: Piece,
    /// The receiver's data socket.
    data: TcpStream,
    /// Offset and number of bytes of each send, in order.
    posted: Vec<(usize, usize)>,
    /// Number of sends that are done, and of messages that were received and compared too.
    sent: u64,
    finished: u64,
}

impl Ends {
    fn new(gpu: &CudaGpu, threads: usize) -> Self {
        Self::with_chunks(gpu, threads, None)
    }

    /// Connects ends with chunks of this many bytes.
    fn with_chunks(gpu: &CudaGpu, threads: usize, chunk_bytes: Option<u32>) -> Self {
        let scenario = Scenario { lanes: 1, threads, recv_sync: false, encrypted: false };
        let (mut ours, mut theirs) = sockets(scenario.lanes, false);
        if let Some(bytes) = chunk_bytes {
            (ours.chunk_bytes, theirs.chunk_bytes) = (bytes, bytes);
        }
        let data = theirs.data[0].socket.try_clone().expect("a descriptor");
        let memory = DeviceBuffer::new(gpu, MEMORY as u64).expect("there is room");
        let content: Vec<u8> = (0..MEMORY).map(|at| (at % 251) as u8).collect();
        memory.copy_from_host(0, &content).expect("inside");
        let registration = Registration::new(memory.address() as usize, MEMORY as i64, PTR_CUDA);
        let registration = registration.expect("good arguments").on_gpu(Some(gpu.clone()));
        let slot = StagerSlot::new(ours.chunk_bytes);
        slot.fill(gpu).expect("there is room");
        let sender = SendComm::new(ours, &scenario.options(), Some(Arc::new(slot)), None);
        let bounce: &BounceBuffer =
            Box::leak(Box::new(BounceBuffer::new(MEMORY as u64, false).expect("mapping")));
        let content_kind = DeviceContent::Bytes;
        let receiver = RecvComm::new(theirs, &scenario.options(), bounce, None, content_kind);
        Self {
            sender: sender.expect("threads"),
            receiver: receiver.expect("threads"),
            memory,
            registration: Arc::new(registration.expect("the GPU's memory")),
            content,
            received: bounce.region().piece(0, MEMORY),
            data,
            posted: Vec::new(),
            sent: 0,
            finished: 0,
        }
    }

    /// Posts a send, and does not drive it.
    fn post(&mut self, bytes: usize) -> u64 {
        let at = self.posted.len() * 7;
        let piece = Piece::for_tests(self.memory.address() as usize + at, bytes);
        self.posted.push((at, bytes));
        let number = self.sender.post(Some(piece), Arc::clone(&self.registration));
        number.expect("there is room")
    }

    fn ahead(&self) -> usize {
        self.sender.outgoing.ahead()
    }

    /// Drives the oldest send until it is done.
    fn finish_one(&mut self) {
        let (number, start) = (self.sent, Instant::now());
        while self.sender.test(number as u32).expect("it goes").is_none() {
            assert!(start.elapsed() < LIMIT, "message {number} does not leave");
        }
        self.sent += 1;
    }

    /// Receives all that was posted, and compares it.
    fn finish(&mut self) {
        for number in self.finished..self.posted.len() as u64 {
            let (at, bytes) = self.posted[number as usize];
            let memory = self.received.slice(0, bytes);
            let registration = Registration::new(memory.address(), bytes as i64, PTR_HOST);
            let _registration = Arc::new(registration.expect("good arguments"));
            let destination = Destination::Host { memory, _registration };
            let receive = self.receiver.post(Some(destination), bytes as u32).expect("room");
            let (start, mut is_sent, mut is_received) = (Instant::now(), number < self.sent, false);
            while !is_sent || !is_received {
                is_sent = is_sent || self.sender.test(number as u32).expect("it goes").is_some();
                if !is_received && self.receiver.test(receive as u32).expect("it comes").is_some() {
                    self.receiver.consume(receive as u32).expect("it is the oldest");
                    is_received = true;
                }
                assert!(start.elapsed() < LIMIT, "message {number} does not come");
            }
            let mut bytes_received = vec![0; bytes];
            memory.read_for_tests(&mut bytes_received);
            assert_eq!(bytes_received, self.content[at..at + bytes], "message {number}");
            self.finished += 1;
        }
        self.sent = self.finished;
    }
}

#[test]
fn chunks_are_queued_while_the_gpu_copies_them() {
    let Some(gpu) = tcpx_cuda::test_gpu() else { return };
    for threads in [0, 1] {
        let mut ends = Ends::new(&gpu, threads);
        // No test has looked for the end of a copy yet.
        ends.post(LONG);
        assert_eq!(ends.ahead(), CHUNKS);
        ends.post(LONG);
        assert_eq!(ends.ahead(), 2 * CHUNKS);
        ends.finish();
        ends.post(LONG);
        assert_eq!(ends.ahead(), CHUNKS, "the others have left");
        ends.finish();
    }
}

#[test]
fn a_helper_sends_what_the_gpu_has_copied_before_the_first_test() {
    let Some(gpu) = tcpx_cuda::test_gpu() else { return };
    let mut ends = Ends::with_chunks(&gpu, 1, Some(256 << 10));
    for _ in 0..20 {
        ends.post(256 << 10);
        let start = Instant::now();
        while !matches!(ends.data.peek(&mut [0]), Ok(1)) {
            assert!(start.elapsed() < LIMIT, "nothing leaves");
        }
        ends.finish();
    }
}

#[test]
fn chunks_behind_an_inline_message_are_queued_after_it() {
    let Some(gpu) = tcpx_cuda::test_gpu() else { return };
    let mut ends = Ends::new(&gpu, 0);
    for bytes in [LONG, INLINE, LONG, INLINE] {
        ends.post(bytes);
    }
    assert_eq!(ends.ahead(), CHUNKS, "the inline message's bytes are not there");
    ends.finish();
}

#[test]
fn chunks_that_follow_others_are_queued_with_their_bytes() {
    let Some(gpu) = tcpx_cuda::test_gpu() else { return };
    let mut ends = Ends::new(&gpu, 0);
    ends.post(LONG);
    ends.post(LONG);
    ends.finish_one();
    // One is left, whose copies may be under way.
    let before = ends.ahead();
    ends.post(LONG);
    assert_eq!(ends.ahead(), before);
    ends.finish();
    // Idle again.
    ends.post(LONG);
    assert_eq!(ends.ahead(), CHUNKS);
    ends.finish();
}
