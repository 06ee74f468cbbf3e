#![allow(unsafe_code)]
//! All chunks that arrived in one progress round, across channels and peers, unpacked by one submit.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tcpx_rx::UnpackDescriptor;
use tcpx_unpack::{Ticket, Unpack, UnpackError, UnpackJob};

/// Jobs handed over in one call; more go in the next.
const JOBS_PER_SUBMIT: usize = 64;

/// Number of a batch. Batches finish in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BatchNumber(u64);

impl BatchNumber {
    /// Of a chunk that has not arrived.
    pub(crate) const NEVER: Self = Self(u64::MAX);
}

/// Where one chunk's fragments lie and where they belong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) bounce: u64,
    pub(crate) dst: u64,
    pub(crate) dst_bytes: u64,
}

/// Collects jobs during a round, submits them at its end, and knows which batches have finished.
#[derive(Debug)]
pub(crate) struct Batch {
    current: BatchNumber,
    finished: BatchNumber,
    jobs: Vec<(Job, usize)>,
    descriptors: Vec<UnpackDescriptor>,
    in_flight: VecDeque<InFlight>,
    busy: Duration,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    number: BatchNumber,
    ticket: Ticket,
    submitted_at: Instant,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            current: BatchNumber(1),
            finished: BatchNumber(0),
            jobs: Vec::new(),
            descriptors: Vec::new(),
            in_flight: VecDeque::new(),
            busy: Duration::ZERO,
        }
    }
}

impl Batch {
    /// The batch that chunks arriving now belong to.
    pub(crate) fn number(&self) -> BatchNumber {
        self.current
    }

    /// Adds a chunk whose descriptors were checked against the bounce buffer and against `dst_bytes`.
    pub(crate) fn push(&mut self, job: Job, descriptors: &[UnpackDescriptor]) {
        self.descriptors.extend_from_slice(descriptors);
        self.jobs.push((job, self.descriptors.len()));
    }

    /// Chunks collected in this round.
    pub(crate) fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Starts unpacking what was collected and begins the next batch.
    ///
    /// # Safety
    /// Every job's memory stays as [`Unpack::submit`] demands until `finished` has reached this batch: its request is
    /// not consumed and its operation does not end before.
    pub(crate) unsafe fn submit(&mut self, unpack: &mut dyn Unpack) -> Result<(), UnpackError> {
        if self.jobs.is_empty() {
            // A batch of chunks that needed no unpacking is finished with the one before it.
            match self.in_flight.back_mut() {
                Some(last) => last.number = self.current,
                None => self.finished = self.current,
            }
            self.current.0 += 1;
            return Ok(());
        }
        let submitted_at = Instant::now();
        // SAFETY: passed on from the caller.
        let outcome = unsafe { self.submit_jobs(unpack) };
        // Also after an error: the peers that the jobs belong to fail with it.
        self.jobs.clear();
        self.descriptors.clear();
        self.in_flight.push_back(InFlight { number: self.current, ticket: outcome?, submitted_at });
        self.current.0 += 1;
        Ok(())
    }

    /// # Safety
    /// As for `submit`.
    unsafe fn submit_jobs(&self, unpack: &mut dyn Unpack) -> Result<Ticket, UnpackError> {
        let mut ticket = Ticket::NONE;
        let mut start = 0;
        for group in self.jobs.chunks(JOBS_PER_SUBMIT) {
            let mut jobs = [EMPTY_JOB; JOBS_PER_SUBMIT];
            for (slot, (job, end)) in jobs.iter_mut().zip(group) {
                let descriptors = &self.descriptors[start..*end];
                start = *end;
                // The plugin's bounce buffer may be mapped next to a destination; what counts is what is read of it.
                let bounce_bytes =
                    descriptors.iter().map(UnpackDescriptor::src_end).max().unwrap_or(0);
                *slot = UnpackJob {
                    bounce: job.bounce,
                    bounce_bytes,
                    dst: job.dst,
                    dst_bytes: job.dst_bytes,
                    descriptors,
                };
            }
            // SAFETY: passed on from the caller.
            ticket = unsafe { unpack.submit(&jobs[..group.len()]) }?;
        }
        Ok(ticket)
    }

    /// The newest finished batch; everything up to it is finished.
    pub(crate) fn finished(&mut self, unpack: &mut dyn Unpack) -> Result<BatchNumber, UnpackError> {
        if !self.in_flight.is_empty() {
            let reached = unpack.poll()?;
            while let Some(first) = self.in_flight.front().filter(|first| first.ticket <= reached) {
                self.finished = first.number;
                self.busy += first.submitted_at.elapsed();
                self.in_flight.pop_front();
            }
        }
        Ok(self.finished)
    }

    /// Time from submits until they were seen to be finished, summed.
    pub(crate) fn busy(&self) -> Duration {
        self.busy
    }

    /// Whether unpacks are under way.
    pub(crate) fn is_unpacking(&self) -> bool {
        !self.in_flight.is_empty()
    }
}

const EMPTY_JOB: UnpackJob<'static> =
    UnpackJob { bounce: 0, bounce_bytes: 0, dst: 0, dst_bytes: 0, descriptors: &[] };

#[cfg(test)]
mod tests {
    use tcpx_unpack::Backend;

    use super::*;

    /// Finishes tickets only when told to.
    #[derive(Default)]
    struct Slow {
        submitted: u64,
        finished: u64,
        jobs: usize,
    }

    impl Unpack for Slow {
        fn backend(&self) -> Backend {
            Backend::Host
        }

        unsafe fn submit(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
            self.submitted += 1;
            self.jobs += jobs.len();
            Ok(Ticket::new(self.submitted))
        }

        fn poll(&mut self) -> Result<Ticket, UnpackError> {
            Ok(Ticket::new(self.finished))
        }
    }

    fn job() -> Job {
        Job { bounce: 4096, dst: 8192, dst_bytes: 16 }
    }

    #[test]
    fn batches_finish_with_their_last_submit_and_in_order() {
        let (mut batch, mut unpack) = (Batch::default(), Slow::default());
        let descriptor = [UnpackDescriptor { src_off: 0, len: 16, dst_off: 0 }];
        let first = batch.number();
        for _ in 0..JOBS_PER_SUBMIT + 1 {
            batch.push(job(), &descriptor);
        }
        // SAFETY: the double touches no memory.
        unsafe { batch.submit(&mut unpack) }.unwrap();
        assert_eq!((unpack.submitted, unpack.jobs), (2, JOBS_PER_SUBMIT + 1));
        let second = batch.number();
        // SAFETY: as above.
        unsafe { batch.submit(&mut unpack) }.unwrap();
        unpack.finished = 1;
        assert!(
            batch.finished(&mut unpack).unwrap() < first,
            "half of the first batch is not enough"
        );
        unpack.finished = 2;
        assert_eq!(
            batch.finished(&mut unpack).unwrap(),
            second,
            "a batch without jobs ends with the one before it"
        );
        assert!(!batch.is_unpacking());
    }

    #[test]
    fn a_batch_without_jobs_is_finished_at_once() {
        let (mut batch, mut unpack) = (Batch::default(), Slow::default());
        let number = batch.number();
        // SAFETY: the double touches no memory.
        unsafe { batch.submit(&mut unpack) }.unwrap();
        assert_eq!(batch.finished(&mut unpack).unwrap(), number);
    }
}
