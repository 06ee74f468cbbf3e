//! Streams: work that a thread does later, in order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::{fmt, ptr, thread};

use cudarc::driver::sys::CUresult;

use crate::gpu::Gpu;
use crate::handles::Handles;
use crate::status::Result;

/// The streams of this process.
pub(crate) static STREAMS: Handles<Stream> = Handles::new();

/// Streams whose thread has not ended: one that was destroyed may have work left.
static RUNNING: Mutex<Vec<Arc<Stream>>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<Arc<Stream>>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for everything that was queued on any stream of these GPUs.
pub(crate) fn wait_for(is_meant: impl Fn(&Gpu) -> bool) {
    let mut streams = running().clone();
    streams.retain(|stream| is_meant(stream.gpu));
    for stream in streams {
        stream.wait();
    }
}

/// Stands for all default streams of a GPU, and is made when it is first asked for. Only events are
/// recorded in it, so it is always idle soon.
pub(crate) fn default_stream(gpu: &'static Gpu) -> Result<Arc<Stream>> {
    static KNOWN: Mutex<BTreeMap<u32, Arc<Stream>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(stream) = known.get(&gpu.ordinal) {
        return Ok(Arc::clone(stream));
    }
    let made = Stream::new(gpu)?;
    known.insert(gpu.ordinal, Arc::clone(&made));
    Ok(made)
}

/// What a stream does. An error breaks the context.
type StreamWork = Box<dyn FnOnce() -> Result<()> + Send>;

/// A queue with a thread of its own, which ends when the stream was destroyed and nothing is left.
pub(crate) struct Stream {
    pub(crate) gpu: &'static Gpu,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<StreamWork>,
    is_busy: bool,
    is_destroyed: bool,
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.is_busy
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("gpu", &self.gpu.ordinal).finish_non_exhaustive()
    }
}

impl Stream {
    pub(crate) fn new(gpu: &'static Gpu) -> Result<Arc<Self>> {
        let queue = Mutex::new(Queue::default());
        let stream = Arc::new(Self { gpu, queue, changed: Condvar::new() });
        let worker = Arc::clone(&stream);
        thread::Builder::new()
            .name("fake-cuda".to_owned())
            .spawn(move || worker.work())
            .map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        running().push(Arc::clone(&stream));
        Ok(stream)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues work. Of a broken context nothing is done any more.
    pub(crate) fn push(&self, work: impl FnOnce() -> Result<()> + Send + 'static) {
        self.lock().waiting.push_back(Box::new(work));
        self.changed.notify_all();
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.lock().is_idle()
    }

    /// Waits until nothing is queued.
    pub(crate) fn wait(&self) {
        let mut queue = self.lock();
        while !queue.is_idle() {
            queue = self.sleep(queue);
        }
    }

    /// Lets the thread end after what is queued.
    pub(crate) fn destroy(&self) {
        self.lock().is_destroyed = true;
        self.changed.notify_all();
    }

    fn work(&self) {
        while let Some(work) = self.next() {
            if self.gpu.check().is_ok() && work().is_err() {
                self.gpu.break_context();
            }
            self.lock().is_busy = false;
            self.changed.notify_all();
        }
        running().retain(|known| !ptr::eq(&raw const **known, self));
    }

    fn next(&self) -> Option<StreamWork> {
        let mut queue = self.lock();
        loop {
            if let Some(work) = queue.waiting.pop_front() {
                queue.is_busy = true;
                return Some(work);
            }
            if queue.is_destroyed {
                return None;
            }
            queue = self.sleep(queue);
        }
    }
}
