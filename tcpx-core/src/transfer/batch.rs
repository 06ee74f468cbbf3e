#![allow(unsafe_code)]
//! All chunks that arrived in one progress round, across channels and peers, unpacked by one
//! submit; and with them the scattered messages that are gathered to be sent.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tcpx_cuda::CudaError;
use tcpx_rx::UnpackDescriptor;
use tcpx_unpack::{Ticket, Unpack, UnpackError, UnpackJob};

use crate::stats::watch::pages::PageUse;
use crate::types::{Direction, PeerKey, RegistrationKey};

/// Jobs handed over in one call; more go in the next.
const JOBS_PER_SUBMIT: usize = 64;

/// A submit has no more pieces than a kernel takes in one launch: fragments, and 4 KiB of them.
const PIECES_PER_SUBMIT: u64 = 1 << 14;
const PIECE_BYTES: u64 = 4096;
/// How long an unpacker may have no room.
const STALL_LIMIT: Duration = Duration::from_secs(10);

/// Number of a batch. Batches finish in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BatchNumber(u64);

impl BatchNumber {
    /// Before the first: what needs no batch.
    pub(crate) const NONE: Self = Self(0);
    /// Of a chunk that has not arrived, or whose unpack will not be seen to finish.
    pub(crate) const NEVER: Self = Self(u64::MAX);
}

/// One chunk: where its fragments lie, where they belong, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) bounce: u64,
    pub(crate) dst: u64,
    pub(crate) dst_bytes: u64,
    pub(crate) label: JobLabel,
}

/// Whose chunk a job is, for errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobLabel {
    pub(crate) peer: PeerKey,
    /// Received and unpacked, or gathered to be sent.
    pub(crate) direction: Direction,
    pub(crate) channel: u16,
    /// Where it is copied to; of a chunk to be sent, where one of its messages is copied from.
    pub(crate) registration: RegistrationKey,
    pub(crate) tag: i32,
    /// Byte offset of the chunk in its message.
    pub(crate) offset: u64,
}

/// An unpack that failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BatchFailure {
    /// The chunk that failed, or the oldest of those that may have.
    pub(crate) suspect: Option<Job>,
    /// Other chunks that may be the one.
    pub(crate) others: usize,
    pub(crate) source: UnpackError,
}

/// Collects jobs during a round, submits them at its end, and knows which batches have finished.
#[derive(Debug)]
pub(crate) struct Batch {
    current: BatchNumber,
    finished: BatchNumber,
    /// Each with the end of its descriptors.
    jobs: Vec<(Job, usize)>,
    descriptors: Vec<UnpackDescriptor>,
    /// How many of the jobs were submitted; the others wait until the unpacker has room.
    submitted: usize,
    /// When the unpacker first had none.
    busy_since: Option<Instant>,
    in_flight: VecDeque<InFlight>,
    /// The unpacker has failed, and what was abandoned may still be under way: nothing counts as
    /// finished.
    is_frozen: bool,
    busy: Duration,
    /// Where fragments lay so far.
    pub(crate) pages: PageUse,
    submitting: Duration,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    number: BatchNumber,
    ticket: Ticket,
    submitted_at: Instant,
    /// Its oldest chunk.
    first: Job,
    jobs: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            current: BatchNumber(1),
            finished: BatchNumber::NONE,
            jobs: Vec::new(),
            descriptors: Vec::new(),
            submitted: 0,
            busy_since: None,
            in_flight: VecDeque::new(),
            is_frozen: false,
            busy: Duration::ZERO,
            pages: PageUse::default(),
            submitting: Duration::ZERO,
        }
    }
}

impl Batch {
    /// The batch that chunks arriving now belong to.
    pub(crate) fn number(&self) -> BatchNumber {
        self.current
    }

    /// Adds a chunk, or one message of it, whose descriptors were checked against the bounce buffer
    /// and against `dst_bytes`.
    pub(crate) fn push(
        &mut self,
        job: Job,
        descriptors: impl IntoIterator<Item = UnpackDescriptor>,
    ) {
        let start = self.descriptors.len();
        self.descriptors.extend(descriptors);
        self.pages.note(&self.descriptors[start..]);
        self.jobs.push((job, self.descriptors.len()));
    }

    /// Adds segments that are copied together to be sent: `bounce` is where they lie, `dst` where
    /// the chunk is sent from.
    pub(crate) fn gather(
        &mut self,
        job: Job,
        descriptors: impl IntoIterator<Item = UnpackDescriptor>,
    ) {
        self.descriptors.extend(descriptors);
        self.jobs.push((job, self.descriptors.len()));
    }

    /// Starts unpacking what was collected and begins the next batch, also if nothing was
    /// collected. As long as the unpacker has no room, what is left waits, and what arrives
    /// meanwhile joins it. Returns whether a batch was submitted to its end.
    ///
    /// # Safety
    /// Every job's memory stays as [`Unpack::submit`] demands until `finished` has reached this
    /// batch: its request is not consumed and its operation does not end before.
    pub(crate) unsafe fn submit(&mut self, unpack: &mut dyn Unpack) -> Result<bool, BatchFailure> {
        let Some(&(first, _)) = self.jobs.first() else {
            // A batch of chunks that needed no unpacking is finished with the one before it.
            match self.in_flight.back_mut() {
                Some(last) => last.number = self.current,
                None if self.is_frozen => {}
                None => self.finished = self.current,
            }
            self.current.0 += 1;
            return Ok(false);
        };
        let submitted_at = Instant::now();
        // SAFETY: passed on from the caller.
        let outcome = unsafe { self.submit_jobs(unpack) };
        self.submitting += submitted_at.elapsed();
        if let Ok(None) = outcome {
            return Ok(false);
        }
        let jobs = self.jobs.len();
        // Also after an error: the peers that the jobs belong to fail with it.
        self.clear();
        let Some(ticket) = outcome? else { return Ok(false) };
        let number = self.current;
        self.in_flight.push_back(InFlight { number, ticket, submitted_at, first, jobs });
        self.current.0 += 1;
        Ok(true)
    }

    fn clear(&mut self) {
        self.jobs.clear();
        self.descriptors.clear();
        self.submitted = 0;
        self.busy_since = None;
    }

    /// Submits what was not yet, in groups. The ticket of the last one; `None`: some are left.
    ///
    /// # Safety
    /// As for `submit`.
    unsafe fn submit_jobs(
        &mut self,
        unpack: &mut dyn Unpack,
    ) -> Result<Option<Ticket>, BatchFailure> {
        loop {
            let start = self.submitted;
            let end = start + self.group(start);
            let mut jobs = [EMPTY_JOB; JOBS_PER_SUBMIT];
            let mut from = start.checked_sub(1).map_or(0, |before| self.jobs[before].1);
            for (slot, (job, to)) in jobs.iter_mut().zip(&self.jobs[start..end]) {
                let descriptors = &self.descriptors[from..*to];
                from = *to;
                // The plugin's bounce buffer may be mapped next to a destination; what counts is
                // what is read of it.
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
            match unsafe { unpack.submit(&jobs[..end - start]) } {
                Ok(ticket) if end == self.jobs.len() => return Ok(Some(ticket)),
                Ok(_) => (self.submitted, self.busy_since) = (end, None),
                Err(UnpackError::Busy) => return self.stay_busy(start),
                Err(source) => return Err(self.submit_failed(start, source)),
            }
        }
    }

    /// How many jobs from `start` on go together: few enough pieces for a kernel to take at once.
    fn group(&self, start: usize) -> usize {
        let mut from = start.checked_sub(1).map_or(0, |before| self.jobs[before].1);
        let mut pieces = 0;
        let fits = |(job, to): &&(Job, usize)| {
            pieces += (*to - from) as u64 + job.dst_bytes / PIECE_BYTES;
            from = *to;
            pieces <= PIECES_PER_SUBMIT
        };
        self.jobs[start..].iter().take(JOBS_PER_SUBMIT).take_while(fits).count().max(1)
    }

    /// The unpacker had no room. That it never has any means that the GPU hangs.
    fn stay_busy(&mut self, start: usize) -> Result<Option<Ticket>, BatchFailure> {
        let waited = self.busy_since.get_or_insert_with(Instant::now).elapsed();
        if waited < STALL_LIMIT {
            return Ok(None);
        }
        let source = CudaError::Stalled { waited_ms: waited.as_millis() as u64 };
        Err(self.submit_failed(start, source.into()))
    }

    /// What is known when the submit of the group that starts at job `start` has failed.
    fn submit_failed(&self, start: usize, source: UnpackError) -> BatchFailure {
        let named = source.job().and_then(|job| self.jobs.get(start + job));
        // A GPU reports with any call what went wrong before it.
        let before = self.in_flight.iter().map(|batch| batch.jobs).sum::<usize>() + start;
        let here = self.jobs.len().saturating_sub(start).min(JOBS_PER_SUBMIT);
        match (named, self.in_flight.front()) {
            (Some(&(job, _)), _) => BatchFailure { suspect: Some(job), others: before, source },
            (None, oldest) => {
                let first = self.jobs.first().map(|&(job, _)| job);
                let suspect = oldest.map(|batch| batch.first).or(first);
                BatchFailure { suspect, others: (before + here).saturating_sub(1), source }
            }
        }
    }

    /// The newest finished batch; everything up to it is finished.
    pub(crate) fn finished(
        &mut self,
        unpack: &mut dyn Unpack,
    ) -> Result<BatchNumber, BatchFailure> {
        if !self.in_flight.is_empty() {
            let reached = unpack.poll().map_err(|source| self.under_way_failed(source))?;
            while let Some(first) = self.in_flight.front().filter(|first| first.ticket <= reached) {
                self.finished = first.number;
                self.busy += first.submitted_at.elapsed();
                self.in_flight.pop_front();
            }
        }
        Ok(self.finished)
    }

    /// The newest batch that was seen to be finished.
    pub(crate) fn reached(&self) -> BatchNumber {
        self.finished
    }

    /// What is known when something under way has failed.
    fn under_way_failed(&self, source: UnpackError) -> BatchFailure {
        let jobs: usize = self.in_flight.iter().map(|batch| batch.jobs).sum();
        let suspect = self.in_flight.front().map(|batch| batch.first);
        BatchFailure { suspect, others: jobs.saturating_sub(1), source }
    }

    /// Forgets what is collected and under way. It counts as finished once
    /// [`all_finished`](Self::all_finished) says so.
    pub(crate) fn abandon(&mut self) {
        self.clear();
        self.in_flight.clear();
        self.is_frozen = true;
        // What arrives from now on is not of the abandoned batch.
        self.current.0 += 1;
    }

    /// Nothing that was abandoned is under way any more.
    pub(crate) fn all_finished(&mut self) {
        self.is_frozen = false;
        self.finished = BatchNumber(self.current.0 - 1);
    }

    /// Time from submits until they were seen to be finished, summed.
    pub(crate) fn busy(&self) -> Duration {
        self.busy
    }

    /// Time inside submits, summed.
    pub(crate) fn submitting(&self) -> Duration {
        self.submitting
    }

    /// Whether there is something to submit, for which the unpacker had room the last time.
    pub(crate) fn has_new_jobs(&self) -> bool {
        !self.jobs.is_empty() && !self.is_refused()
    }

    /// Whether the unpacker had no room for what was to be submitted.
    pub(crate) fn is_refused(&self) -> bool {
        self.busy_since.is_some()
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

    const DESCRIPTOR: [UnpackDescriptor; 1] =
        [UnpackDescriptor { src_off: 0, len: 16, dst_off: 0 }];

    /// Finishes tickets only when told to.
    #[derive(Default)]
    struct Slow {
        submitted: u64,
        finished: u64,
        jobs: usize,
        /// Submits that are refused before the next one that is not.
        refuses: u64,
    }

    impl Unpack for Slow {
        fn backend(&self) -> Backend {
            Backend::Host
        }

        unsafe fn submit(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
            if self.refuses > 0 {
                self.refuses -= 1;
                return Err(UnpackError::Busy);
            }
            self.submitted += 1;
            self.jobs += jobs.len();
            Ok(Ticket::new(self.submitted))
        }

        fn poll(&mut self) -> Result<Ticket, UnpackError> {
            Ok(Ticket::new(self.finished))
        }

        fn shutdown(&mut self) -> bool {
            self.finished == self.submitted
        }
    }

    fn job() -> Job {
        job_at(0)
    }

    fn job_at(offset: u64) -> Job {
        let (peer, registration) = (PeerKey::default(), RegistrationKey::default());
        let direction = Direction::Receive;
        let label = JobLabel { peer, direction, channel: 0, registration, tag: 0, offset };
        Job { bounce: 4096, dst: 8192, dst_bytes: 16, label }
    }

    /// Fails with the given error: the submit of that number, from 1, or every poll.
    struct Failing {
        submit: u64,
        submits: u64,
        error: UnpackError,
    }

    impl Unpack for Failing {
        fn backend(&self) -> Backend {
            Backend::Kernel
        }

        unsafe fn submit(&mut self, _: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
            self.submits += 1;
            if self.submits == self.submit {
                return Err(self.error.clone());
            }
            Ok(Ticket::new(self.submits))
        }

        fn poll(&mut self) -> Result<Ticket, UnpackError> {
            Err(self.error.clone())
        }

        fn shutdown(&mut self) -> bool {
            true
        }
    }

    #[test]
    fn a_failed_submit_names_the_job_that_the_backend_names() {
        let source = CudaError::Stalled { waited_ms: 1 };
        let error = UnpackError::Copy { job: 1, source };
        let mut unpack = Failing { submit: 3, submits: 0, error: error.clone() };
        let mut batch = Batch::default();
        batch.push(job_at(0), DESCRIPTOR);
        // SAFETY: the double touches no memory.
        unsafe { batch.submit(&mut unpack) }.unwrap();
        // Two groups, of which the second fails in its second job.
        (1..=JOBS_PER_SUBMIT as u64 + 2).for_each(|at| batch.push(job_at(at), DESCRIPTOR));
        // SAFETY: as above.
        let failure = unsafe { batch.submit(&mut unpack) }.unwrap_err();
        let suspect = Some(job_at(JOBS_PER_SUBMIT as u64 + 2));
        assert_eq!(failure, BatchFailure { suspect, others: 1 + JOBS_PER_SUBMIT, source: error });
    }

    #[test]
    fn a_failure_without_a_name_is_that_of_the_oldest_under_way() {
        let error = UnpackError::Cuda(CudaError::Stalled { waited_ms: 1 });
        let mut unpack = Failing { submit: 2, submits: 0, error: error.clone() };
        let mut batch = Batch::default();
        let first = batch.number();
        batch.push(job_at(7), DESCRIPTOR);
        batch.push(job_at(8), DESCRIPTOR);
        // SAFETY: the double touches no memory.
        unsafe { batch.submit(&mut unpack) }.unwrap();
        let failure = batch.finished(&mut unpack).unwrap_err();
        let expected =
            |others| BatchFailure { suspect: Some(job_at(7)), others, source: error.clone() };
        assert_eq!(failure, expected(1));
        batch.push(job_at(9), DESCRIPTOR);
        // SAFETY: as above.
        assert_eq!(unsafe { batch.submit(&mut unpack) }.unwrap_err(), expected(2));

        let failed = batch.number();
        batch.abandon();
        assert!(batch.in_flight.is_empty() && batch.jobs.is_empty());
        // Rounds in which nothing arrives.
        for _ in 0..3 {
            // SAFETY: nothing is submitted.
            unsafe { batch.submit(&mut unpack) }.unwrap();
            assert!(batch.finished(&mut unpack).unwrap() < first, "it may still be under way");
        }
        batch.all_finished();
        assert!(batch.reached() > failed && batch.reached() < batch.number());
    }

    #[test]
    fn batches_finish_with_their_last_submit_and_in_order() {
        let (mut batch, mut unpack) = (Batch::default(), Slow::default());
        let first = batch.number();
        for _ in 0..JOBS_PER_SUBMIT + 1 {
            batch.push(job(), DESCRIPTOR);
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
        assert!(batch.in_flight.is_empty());
    }

    #[test]
    fn a_batch_without_jobs_is_finished_at_once() {
        let (mut batch, mut unpack) = (Batch::default(), Slow::default());
        let number = batch.number();
        // SAFETY: the double touches no memory.
        unsafe { batch.submit(&mut unpack) }.unwrap();
        assert_eq!(batch.finished(&mut unpack).unwrap(), number);
    }

    #[test]
    fn what_an_unpacker_has_no_room_for_waits_and_nothing_is_submitted_twice() {
        let (mut batch, mut unpack) = (Batch::default(), Slow::default());
        let first = batch.number();
        (0..JOBS_PER_SUBMIT).for_each(|_| batch.push(job(), DESCRIPTOR));
        unpack.refuses = 2;
        for _ in 0..2 {
            // SAFETY: the double touches no memory.
            assert!(!unsafe { batch.submit(&mut unpack) }.unwrap());
            assert_eq!((batch.number(), unpack.jobs), (first, 0), "it is still the same batch");
            assert!(batch.finished(&mut unpack).unwrap() < first);
        }
        // What arrives meanwhile joins it, as a second group, for which there is no room yet.
        batch.push(job(), DESCRIPTOR);
        struct OneAtATime(Slow);
        impl Unpack for OneAtATime {
            fn backend(&self) -> Backend {
                self.0.backend()
            }

            unsafe fn submit(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
                // SAFETY: passed on from the caller.
                let outcome = unsafe { self.0.submit(jobs) };
                self.0.refuses = u64::from(outcome.is_ok());
                outcome
            }

            fn poll(&mut self) -> Result<Ticket, UnpackError> {
                self.0.poll()
            }

            fn shutdown(&mut self) -> bool {
                self.0.shutdown()
            }
        }
        let mut unpack = OneAtATime(unpack);
        // SAFETY: as above.
        assert!(!unsafe { batch.submit(&mut unpack) }.unwrap());
        unpack.0.finished = 1;
        assert!(batch.finished(&mut unpack).unwrap() < first, "one of its jobs waits");
        // SAFETY: as above.
        assert!(unsafe { batch.submit(&mut unpack) }.unwrap());
        assert_eq!((unpack.0.submitted, unpack.0.jobs), (2, JOBS_PER_SUBMIT + 1));
        assert!(batch.finished(&mut unpack).unwrap() < first);
        unpack.0.finished = 2;
        assert_eq!(batch.finished(&mut unpack).unwrap(), first);
    }

    #[test]
    fn groups_are_what_a_kernel_takes_in_one_launch() {
        let (mut batch, mut unpack) = (Batch::default(), Slow::default());
        let large = |bytes| Job { dst_bytes: bytes, ..job() };
        // 64 MiB are one group of 4 KiB pieces; their fragments make it two.
        let chunk = PIECES_PER_SUBMIT * PIECE_BYTES / 16;
        (0..16).for_each(|_| batch.push(large(chunk), DESCRIPTOR));
        // One that is too large by itself goes alone.
        batch.push(large(2 * PIECES_PER_SUBMIT * PIECE_BYTES), DESCRIPTOR);
        // SAFETY: the double touches no memory.
        assert!(unsafe { batch.submit(&mut unpack) }.unwrap());
        assert_eq!((unpack.submitted, unpack.jobs), (3, 17));
    }
}
