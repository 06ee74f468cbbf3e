#![allow(unsafe_code)]
//! All chunks that arrived in one progress round, across channels and peers, unpacked by one
//! submit; and with them the scattered messages that are gathered to be sent.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tcpx_cuda::CudaError;
use tcpx_rx::UnpackDescriptor;
use tcpx_unpack::{Ticket, Unpack, UnpackError, UnpackJob};

use super::job::Job;
use crate::stats::watch::pages::PageUse;

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

    /// Whether unpacks are under way.
    pub(crate) fn is_unpacking(&self) -> bool {
        !self.in_flight.is_empty()
    }
}

const EMPTY_JOB: UnpackJob<'static> =
    UnpackJob { bounce: 0, bounce_bytes: 0, dst: 0, dst_bytes: 0, descriptors: &[] };

#[cfg(test)]
mod tests;
