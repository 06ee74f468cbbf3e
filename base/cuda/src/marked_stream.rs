#![allow(unsafe_code)]
//! Streams of copies with marks that the host reads without the driver.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::driver::CudaError;
use crate::gpu::CudaGpu;
use crate::pinned_buffer::PinnedBuffer;
use crate::stream::Stream;

/// Version of the first driver whose streams write words unasked: that of CUDA 12.0.
const WRITES_WORDS: u32 = 12_000;

/// Time without news after which the driver is asked, which takes 1 µs. A GPU that has failed
/// reports nothing.
const DOUBT_AFTER: Duration = Duration::from_millis(1);

/// Stream that writes the number of each mark to a word of pinned memory, once everything queued
/// before the mark is done.
///
/// The host sees a word 0.8 µs sooner than an event of the driver, and a look costs one load in
/// place of 1.2 µs. The memory of the word is a whole page of `W`. It is leaked, not freed, when
/// the stream does not end.
#[derive(Debug)]
pub struct MarkedStream<W: AsRef<PinnedBuffer> = PinnedBuffer> {
    stream: Stream,
    word: ManuallyDrop<Arc<W>>,
    made: u64,
    reached: u64,
    /// Whether a copy was queued behind the newest mark.
    is_unmarked: bool,
    doubt: Doubt,
}

impl MarkedStream {
    /// Makes a stream of this GPU, with a word of its own.
    ///
    /// # Errors
    /// Returns the errors of [`with_word`](Self::with_word), and those of [`PinnedBuffer::new`].
    pub fn new(gpu: &CudaGpu) -> Result<Self, CudaError> {
        Self::with_word(gpu, PinnedBuffer::new(gpu, size_of::<u32>() as u64)?)
    }
}

impl<W: AsRef<PinnedBuffer>> MarkedStream<W> {
    /// Makes a stream whose word is at the start of `word`, which nothing else uses.
    ///
    /// # Errors
    /// Returns [`CudaError::OldDriver`], or the driver's error.
    pub fn with_word(gpu: &CudaGpu, word: W) -> Result<Self, CudaError> {
        check_driver(CudaGpu::driver_version()?)?;
        let stream = Stream::new(gpu)?;
        let made = Self {
            stream,
            word: ManuallyDrop::new(Arc::new(word)),
            made: 0,
            reached: 0,
            is_unmarked: false,
            doubt: Doubt::default(),
        };
        made.word().store(0, Ordering::Relaxed);
        Ok(made)
    }

    /// Queues a copy as [`Stream::copy`] does, while the GPU is [entered](CudaGpu::enter).
    ///
    /// # Errors
    /// Returns the driver's error.
    ///
    /// # Safety
    /// As for [`Stream::copy`].
    pub unsafe fn copy(&mut self, dst: u64, src: u64, bytes: u64) -> Result<(), CudaError> {
        self.is_unmarked = true;
        // SAFETY: passed on from the caller.
        unsafe { self.stream.copy(dst, src, bytes) }
    }

    /// Queues a mark behind everything queued so far, while the GPU is [entered](CudaGpu::enter).
    /// Returns its number: marks are numbered from 1.
    ///
    /// # Errors
    /// Returns the driver's error. Nothing is marked then.
    pub fn mark(&mut self) -> Result<u64, CudaError> {
        let next = self.made + 1;
        // SAFETY: the word is at the start of pinned memory, which is leaked unless the stream has
        // ended. The host wrote it before the first mark, and reads it atomically since.
        unsafe { self.stream.write_word(self.buffer().device_address(), next as u32) }?;
        (self.made, self.is_unmarked) = (next, false);
        Ok(next)
    }

    /// Returns the newest mark that the stream has reached, 0 before the first. What was queued
    /// before the mark is visible to this thread.
    ///
    /// Costs one load. After a millisecond without news the driver is asked as well.
    ///
    /// # Errors
    /// Returns the driver's error when the GPU has failed.
    pub fn reached(&mut self) -> Result<u64, CudaError> {
        // Acquire: what was copied is used only after this load.
        let word = self.word().load(Ordering::Acquire);
        let before = self.reached;
        self.reached = newest(before, self.made, word);
        let is_quiet = self.reached == before && before < self.made;
        if self.doubt.is_due(is_quiet) && self.stream.is_idle_from_anywhere()? {
            self.reached = self.made;
            // For those who watch a mark. The stream writes nothing any more.
            self.word().store(self.made as u32, Ordering::Release);
        }
        Ok(self.reached)
    }

    /// Returns a mark for threads that do not have the stream. It is the mark of this number, which
    /// was made.
    #[must_use]
    pub fn watch(&self, mark: u64) -> Mark<W> {
        Mark { word: Arc::clone(&self.word), number: mark as u32 }
    }

    /// Returns the number of marks that [`reached`](Self::reached) has not returned.
    #[must_use]
    pub fn under_way(&self) -> u64 {
        self.made - self.reached
    }

    /// Returns whether no copy uses memory any more, nor the stream its word. Never blocks. A
    /// failed GPU uses none.
    ///
    /// The stream has reached a mark a moment before the driver calls it idle.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let word = self.word().load(Ordering::Acquire);
        let has_reached_all = newest(self.reached, self.made, word) == self.made;
        (has_reached_all && !self.is_unmarked) || self.stream.is_over()
    }

    fn buffer(&self) -> &PinnedBuffer {
        W::as_ref(&self.word)
    }

    fn word(&self) -> &AtomicU32 {
        word_of(self.buffer())
    }
}

/// One mark of a [`MarkedStream`], for any thread. It keeps the memory of the word.
#[derive(Debug)]
pub struct Mark<W: AsRef<PinnedBuffer> = PinnedBuffer> {
    word: Arc<W>,
    number: u32,
}

impl<W: AsRef<PinnedBuffer>> Mark<W> {
    /// Returns whether the stream has reached the mark. What was queued before it is visible to
    /// this thread then. Costs one load.
    ///
    /// A GPU that has failed reaches nothing, and only the stream finds that out.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        // Acquire: what was copied is used only after this load.
        let word = word_of(W::as_ref(&self.word)).load(Ordering::Acquire);
        // Fewer than half of all numbers are under way.
        word.wrapping_sub(self.number) <= u32::MAX / 2
    }
}

fn word_of(buffer: &PinnedBuffer) -> &AtomicU32 {
    // SAFETY: the start of pinned memory of whole pages, which is not freed while it is lent. The
    // host uses it through this function only, and the GPU writes it whole.
    unsafe { AtomicU32::from_ptr(buffer.as_ptr().cast()) }
}

impl<W: AsRef<PinnedBuffer>> Drop for MarkedStream<W> {
    fn drop(&mut self) {
        if self.is_over() {
            // SAFETY: the stream does not write the word any more, and it is dropped only here.
            unsafe { ManuallyDrop::drop(&mut self.word) };
        } else {
            tracing::error!("copies are still running: the word that reports their end is leaked");
        }
    }
}

fn check_driver(version: u32) -> Result<(), CudaError> {
    match version {
        WRITES_WORDS.. => Ok(()),
        _ => Err(CudaError::OldDriver { version, needed: WRITES_WORDS }),
    }
}

/// Returns the number of the newest reached mark, given the last 32 bits of it, and the last known
/// one.
fn newest(known: u64, made: u64, word: u32) -> u64 {
    let behind = u64::from((made as u32).wrapping_sub(word));
    made - behind.min(made - known)
}

/// Clock that says when to ask the driver about work that the GPU reports by itself. A failed GPU
/// reports nothing.
#[derive(Debug, Default)]
pub struct Doubt {
    quiet_since: Option<Instant>,
}

impl Doubt {
    /// Returns whether to ask the driver: work has been under way without news for a millisecond.
    /// `is_quiet`: work is under way, and this look has found nothing new.
    pub fn is_due(&mut self, is_quiet: bool) -> bool {
        if !is_quiet {
            self.quiet_since = None;
            return false;
        }
        let is_due = self.quiet_since.get_or_insert_with(Instant::now).elapsed() > DOUBT_AFTER;
        if is_due {
            self.quiet_since = None;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceBuffer, test_gpu};

    #[test]
    fn a_driver_that_is_too_old_is_named() {
        assert_eq!([12_000, 12_020, 13_000].map(check_driver), [Ok(()), Ok(()), Ok(())]);
        let error = check_driver(11_080).unwrap_err().to_string();
        assert_eq!(error, "the driver is that of CUDA 11.8, and CUDA 12.0 is needed");
    }

    #[test]
    fn the_last_bits_of_a_mark_tell_which_it_is() {
        const WRAP: u64 = 1 << 32;
        for (known, made, word, expected) in [
            (0, 0, 0, 0),
            (0, 3, 0, 0),
            (0, 3, 2, 2),
            (2, 3, 3, 3),
            (WRAP - 2, WRAP + 1, u32::MAX - 1, WRAP - 2),
            (WRAP - 2, WRAP + 1, u32::MAX, WRAP - 1),
            (WRAP - 2, WRAP + 1, 0, WRAP),
            (WRAP - 2, WRAP + 1, 1, WRAP + 1),
            // What is no mark under way is nothing new.
            (2, 3, 1, 2),
            (2, 3, 4, 2),
        ] {
            assert_eq!(newest(known, made, word), expected, "{known}, {made}, {word}");
        }
    }

    #[test]
    fn a_mark_is_reached_after_the_copies_before_it() {
        let Some(gpu) = test_gpu() else { return };
        let device = DeviceBuffer::new(&gpu, 1 << 20).unwrap();
        let mut host = PinnedBuffer::new(&gpu, 1 << 20).unwrap();
        let mut stream = MarkedStream::new(&gpu).unwrap();
        assert_eq!(stream.reached(), Ok(0));
        for number in 1..=50 {
            device.fill(number as u8).unwrap();
            host.write(0, &vec![0; 1 << 20]).unwrap();
            let entered = gpu.enter().unwrap();
            // SAFETY: both memories are this test's, which does not use them before the mark.
            unsafe { stream.copy(host.address(), device.address(), 1 << 20) }.unwrap();
            assert_eq!(stream.mark(), Ok(number));
            drop(entered);
            let mark = stream.watch(number);
            let is_reached = |stream: &mut MarkedStream| match number % 2 {
                0 => mark.is_reached(),
                _ => stream.reached().unwrap() >= number,
            };
            while !is_reached(&mut stream) {
                std::hint::spin_loop();
            }
            let mut bytes = vec![0; 1 << 20];
            host.read(0, &mut bytes).unwrap();
            assert!(bytes.iter().all(|byte| *byte == number as u8), "mark {number}");
        }
        assert_eq!(stream.reached(), Ok(50));
        assert_eq!((stream.under_way(), stream.is_over()), (0, true));
        // A mark outlives its stream.
        let mark = stream.watch(50);
        drop(stream);
        assert!(mark.is_reached());
    }

    #[test]
    fn a_mark_is_reached_from_its_number_on() {
        let Some(gpu) = test_gpu() else { return };
        let stream = MarkedStream::new(&gpu).unwrap();
        for (word, number, expected) in [
            (0, 1, false),
            (1, 1, true),
            (7, 1, true),
            (u32::MAX, 0, false),
            (0, u32::MAX, true),
            (3, u32::MAX, true),
            (u32::MAX - 1, u32::MAX, false),
        ] {
            stream.word().store(word, Ordering::Relaxed);
            assert_eq!(stream.watch(number.into()).is_reached(), expected, "{word}, {number}");
        }
    }

    #[test]
    fn the_driver_is_asked_about_a_mark_that_never_comes() {
        let Some(gpu) = test_gpu() else { return };
        let mut stream = MarkedStream::new(&gpu).unwrap();
        // As if the GPU had failed, or its write were lost.
        stream.made = 1;
        let start = Instant::now();
        while stream.reached().unwrap() < 1 {
            std::hint::spin_loop();
        }
        assert!(start.elapsed() > DOUBT_AFTER);
        assert!(stream.watch(1).is_reached());
    }

    #[test]
    fn the_driver_is_asked_after_a_while_without_news() {
        let mut doubt = Doubt::default();
        assert!(!doubt.is_due(false) && !doubt.is_due(true));
        let since = doubt.quiet_since.expect("the first quiet look");
        while !doubt.is_due(true) {
            std::hint::spin_loop();
        }
        assert!(since.elapsed() > DOUBT_AFTER);
        assert!(!doubt.is_due(true), "anew");
        doubt.is_due(false);
        assert_eq!(doubt.quiet_since, None);
    }
}
