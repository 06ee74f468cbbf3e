#![allow(unsafe_code)]
//! Batch of all chunks that arrived in one progress round, across channels and peers, unpacked by
//! one submit. The scattered messages that are gathered to be sent go with them.
//!
//! A GPU takes everything at once. Where the calling thread copies, a batch is closed when it has
//! as many bytes as one round should copy, and each round submits one.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tcpx_cuda::CudaError;
use tcpx_protocol::plans::plan::Member;
use tcpx_rx::UnpackDescriptor;
use tcpx_unpack::{Ticket, Unpack, UnpackError};

use super::descriptor_splitter::DescriptorSplitter;
use super::job::{EMPTY_JOB, JOBS_PER_SUBMIT, Job, JobLabel, JobList};
use crate::stats::watch::pages::PageUse;

/// Longest time for which an unpacker may have no room.
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
    pub(crate) suspect: Option<Box<Job>>,
    /// Other chunks that may be the one.
    pub(crate) others: usize,
    pub(crate) source: UnpackError,
}

/// Collects jobs during a round, submits them at its end, and knows which batches have finished.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Most bytes that one batch copies, unless a single chunk has more.
    limit_bytes: u64,
    /// The batch that chunks arriving now belong to.
    filling: JobList,
    filling_number: BatchNumber,
    /// Batches before it that were not submitted, oldest first. None is without jobs.
    closed: VecDeque<JobList>,
    /// Empty ones, whose room is used again.
    spare: Vec<JobList>,
    finished: BatchNumber,
    /// Time at which the unpacker first had no room.
    busy_since: Option<Instant>,
    in_flight: VecDeque<SubmittedBatch>,
    /// Whether the unpacker has failed, and what was abandoned may still be under way: nothing
    /// counts as finished.
    is_frozen: bool,
    busy: Duration,
    /// Pages in which fragments lay so far.
    pub(crate) pages: PageUse,
    submitting: Duration,
}

#[derive(Clone, Copy, Debug)]
struct SubmittedBatch {
    number: BatchNumber,
    ticket: Ticket,
    submitted_at: Instant,
    /// Its oldest chunk.
    first: Job,
    jobs: usize,
}

impl Batch {
    /// Makes batches of this many bytes, `u64::MAX` where the calling thread does not copy them.
    pub(crate) fn new(limit_bytes: u64) -> Self {
        Self {
            limit_bytes,
            filling: JobList::default(),
            filling_number: BatchNumber(1),
            closed: VecDeque::new(),
            spare: Vec::new(),
            finished: BatchNumber::NONE,
            busy_since: None,
            in_flight: VecDeque::new(),
            is_frozen: false,
            busy: Duration::ZERO,
            pages: PageUse::default(),
            submitting: Duration::ZERO,
        }
    }

    /// Returns the batch that everything which arrives now, and is not copied, has to wait for.
    pub(crate) fn number(&self) -> BatchNumber {
        self.filling_number
    }

    /// Returns the batch for a chunk of this many bytes. All of its jobs are pushed next.
    pub(crate) fn number_for(&mut self, chunk_bytes: u64) -> BatchNumber {
        let room = self.limit_bytes.saturating_sub(self.filling.bytes());
        if chunk_bytes > room && !self.filling.is_empty() {
            let next = self.spare.pop().unwrap_or_default();
            self.closed.push_back(std::mem::replace(&mut self.filling, next));
            self.filling_number.0 += 1;
        }
        self.filling_number
    }

    /// Adds a chunk, or one message of it, whose descriptors were checked against the bounce buffer
    /// and against `dst_bytes`.
    pub(crate) fn push(
        &mut self,
        job: Job,
        descriptors: impl IntoIterator<Item = UnpackDescriptor>,
    ) {
        let added = self.filling.push(job, descriptors);
        self.pages.note(added);
    }

    /// Adds the messages that share a chunk, those whose destinations are neighbours together.
    pub(crate) fn push_messages(
        &mut self,
        chunk: Job,
        members: &[Member],
        descriptors: &[UnpackDescriptor],
    ) {
        let mut splitter = DescriptorSplitter::new(descriptors);
        let follows =
            |left: &Member, right: &Member| right.span.address == left.span.address + left.bytes;
        for neighbours in members.chunk_by(follows) {
            let Some(first) = neighbours.first() else { continue };
            let dst_bytes = neighbours.iter().map(|member| member.bytes).sum();
            let registration = first.span.registration;
            let label = JobLabel { registration, tag: first.tag, ..chunk.label };
            let job = Job { dst: first.span.address, dst_bytes, label, ..chunk };
            self.push(job, splitter.next(dst_bytes));
        }
    }

    /// Adds segments that are copied together to be sent: `bounce` is where they lie, `dst` where
    /// the chunk is sent from.
    pub(crate) fn gather(
        &mut self,
        job: Job,
        descriptors: impl IntoIterator<Item = UnpackDescriptor>,
    ) {
        self.filling.push(job, descriptors);
    }

    /// Starts unpacking the oldest batch that was collected. If that is the one that is being
    /// filled, the next one begins, also if nothing was collected. As long as the unpacker has no
    /// room, what is left waits, and what arrives meanwhile joins it. Returns whether a batch was
    /// submitted to its end.
    ///
    /// # Safety
    /// Every job's memory stays as [`Unpack::submit`] demands until `finished` has reached its
    /// batch: its request is not consumed and its operation does not end before.
    pub(crate) unsafe fn submit(&mut self, unpack: &mut dyn Unpack) -> Result<bool, BatchFailure> {
        let oldest = self.closed.front().unwrap_or(&self.filling);
        let Some(first) = oldest.first() else {
            // A batch of chunks that needed no unpacking is finished with the one before it.
            match self.in_flight.back_mut() {
                Some(last) => last.number = self.filling_number,
                None if self.is_frozen => {}
                None => self.finished = self.filling_number,
            }
            self.filling_number.0 += 1;
            return Ok(false);
        };
        let jobs = oldest.jobs();
        let submitted_at = Instant::now();
        // SAFETY: passed on from the caller.
        let outcome = unsafe { self.submit_jobs(unpack) };
        self.submitting += submitted_at.elapsed();
        if let Ok(None) = outcome {
            return Ok(false);
        }
        // Also after an error: the peers that the jobs belong to fail with it.
        let number = self.take_oldest();
        let Some(ticket) = outcome? else { return Ok(false) };
        self.in_flight.push_back(SubmittedBatch { number, ticket, submitted_at, first, jobs });
        Ok(true)
    }

    /// Takes the oldest batch out, and returns its number.
    fn take_oldest(&mut self) -> BatchNumber {
        self.busy_since = None;
        let number = BatchNumber(self.filling_number.0 - self.closed.len() as u64);
        match self.closed.pop_front() {
            Some(mut taken) => {
                taken.clear();
                self.spare.push(taken);
            }
            None => {
                self.filling.clear();
                self.filling_number.0 += 1;
            }
        }
        number
    }

    /// Returns whether there is more to submit, and the unpacker had room for what came before.
    pub(crate) fn has_more(&self) -> bool {
        self.busy_since.is_none() && self.has_queued()
    }

    fn has_queued(&self) -> bool {
        !self.closed.is_empty() || !self.filling.is_empty()
    }

    /// Submits what was not yet of the oldest batch, in groups. The ticket of the last one; `None`:
    /// some are left.
    ///
    /// # Safety
    /// As for `submit`.
    unsafe fn submit_jobs(
        &mut self,
        unpack: &mut dyn Unpack,
    ) -> Result<Option<Ticket>, BatchFailure> {
        loop {
            let oldest = self.closed.front_mut().unwrap_or(&mut self.filling);
            let mut jobs = [EMPTY_JOB; JOBS_PER_SUBMIT];
            let count = oldest.next_group(&mut jobs);
            // SAFETY: passed on from the caller.
            match unsafe { unpack.submit(&jobs[..count]) } {
                Ok(ticket) if oldest.submitted(count) => return Ok(Some(ticket)),
                Ok(_) => self.busy_since = None,
                Err(UnpackError::Busy) => return self.note_busy(),
                Err(source) => return Err(self.submit_failed(source)),
            }
        }
    }

    /// Notes that the unpacker had no room. An unpacker that never has any means that the GPU
    /// hangs.
    fn note_busy(&mut self) -> Result<Option<Ticket>, BatchFailure> {
        let waited = self.busy_since.get_or_insert_with(Instant::now).elapsed();
        if waited < STALL_LIMIT {
            return Ok(None);
        }
        let source = CudaError::Stalled { waited_ms: waited.as_millis() as u64 };
        Err(self.submit_failed(source.into()))
    }

    /// Returns the failure of the submit of the oldest batch's next group, with what is known of
    /// it.
    fn submit_failed(&self, source: UnpackError) -> BatchFailure {
        let oldest = self.closed.front().unwrap_or(&self.filling);
        let named = source.job().and_then(|job| oldest.job_of_group(job));
        // A GPU reports with any call what went wrong before it.
        let before = self.in_flight.iter().map(|batch| batch.jobs).sum::<usize>();
        let before = before + oldest.submitted_jobs();
        match (named, self.in_flight.front()) {
            (Some(job), _) => BatchFailure { suspect: Some(Box::new(job)), others: before, source },
            (None, under_way) => {
                let suspect = under_way.map(|batch| batch.first).or(oldest.first());
                let others = (before + oldest.unsubmitted_group()).saturating_sub(1);
                BatchFailure { suspect: suspect.map(Box::new), others, source }
            }
        }
    }

    /// Returns the newest finished batch; everything up to it is finished.
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

    /// Returns the newest batch that was seen to be finished.
    pub(crate) fn reached(&self) -> BatchNumber {
        self.finished
    }

    /// Returns the failure of something under way, with what is known of it.
    fn under_way_failed(&self, source: UnpackError) -> BatchFailure {
        let jobs: usize = self.in_flight.iter().map(|batch| batch.jobs).sum();
        let suspect = self.in_flight.front().map(|batch| Box::new(batch.first));
        BatchFailure { suspect, others: jobs.saturating_sub(1), source }
    }

    /// Forgets what is collected and under way. It counts as finished once
    /// [`all_finished`](Self::all_finished) says so.
    pub(crate) fn abandon(&mut self) {
        self.closed.clear();
        self.filling.clear();
        self.busy_since = None;
        self.in_flight.clear();
        self.is_frozen = true;
        // Chunks that arrive from now on are not of the abandoned batch.
        self.filling_number.0 += 1;
    }

    /// Notes that nothing that was abandoned is under way any more.
    pub(crate) fn all_finished(&mut self) {
        self.is_frozen = false;
        self.finished = BatchNumber(self.filling_number.0 - 1);
    }

    /// Returns the time from submits until they were seen to be finished, summed.
    pub(crate) fn busy(&self) -> Duration {
        self.busy
    }

    /// Returns the time inside submits, summed.
    pub(crate) fn submitting(&self) -> Duration {
        self.submitting
    }

    /// Returns whether the unpacker had no room for what was to be submitted.
    pub(crate) fn is_refused(&self) -> bool {
        self.busy_since.is_some()
    }

    /// Returns whether unpacks are under way, or wait to be submitted.
    pub(crate) fn is_unpacking(&self) -> bool {
        !self.in_flight.is_empty() || self.has_queued()
    }
}

#[cfg(test)]
mod tests;
