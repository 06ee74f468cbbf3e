//! Copy jobs of one chunk, and the jobs of a batch that are not submitted yet.

use tcpx_protocol::types::{Direction, RegistrationKey};
use tcpx_rx::UnpackDescriptor;
use tcpx_unpack::UnpackJob;

use crate::types::PeerKey;

/// Copy of one chunk: the place of its fragments, their destination, and its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) bounce: u64,
    pub(crate) dst: u64,
    pub(crate) dst_bytes: u64,
    pub(crate) label: JobLabel,
}

/// Label that says whose chunk a job is, for errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobLabel {
    pub(crate) peer: PeerKey,
    /// Received and unpacked, or gathered to be sent.
    pub(crate) direction: Direction,
    pub(crate) channel: u16,
    /// Registration to which it is copied; of a chunk to be sent, from which one of its messages is
    /// copied.
    pub(crate) registration: RegistrationKey,
    pub(crate) tag: i64,
    /// Number of the chunk in its message, from 0.
    pub(crate) chunk: u64,
}

/// Jobs handed over in one call; more go in the next.
pub(super) const JOBS_PER_SUBMIT: usize = 64;

/// A submit has no more pieces than a kernel takes in one launch: fragments, and 4 KiB of them.
pub(super) const PIECES_PER_SUBMIT: u64 = 1 << 14;
pub(super) const PIECE_BYTES: u64 = 4096;

pub(super) const EMPTY_JOB: UnpackJob<'static> = UnpackJob::new(&[]);

/// The jobs of one batch, which are submitted in groups.
#[derive(Debug, Default)]
pub(super) struct JobList {
    /// Each with the end of its descriptors.
    jobs: Vec<(Job, usize)>,
    descriptors: Vec<UnpackDescriptor>,
    /// Of all jobs.
    bytes: u64,
    /// Number of the jobs that were submitted; the others wait until the unpacker has room.
    submitted: usize,
}

impl JobList {
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(super) fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Returns the number of bytes that its jobs copy.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn first(&self) -> Option<Job> {
        self.jobs.first().map(|(job, _)| *job)
    }

    /// Adds a job. Returns its descriptors.
    pub(super) fn push(
        &mut self,
        job: Job,
        descriptors: impl IntoIterator<Item = UnpackDescriptor>,
    ) -> &[UnpackDescriptor] {
        let start = self.descriptors.len();
        self.descriptors.extend(descriptors);
        self.jobs.push((job, self.descriptors.len()));
        self.bytes = self.bytes.saturating_add(job.dst_bytes);
        &self.descriptors[start..]
    }

    /// Forgets everything but the room that it has.
    pub(super) fn clear(&mut self) {
        self.jobs.clear();
        self.descriptors.clear();
        (self.bytes, self.submitted) = (0, 0);
    }

    /// Jobs that were submitted.
    pub(super) fn submitted_jobs(&self) -> usize {
        self.submitted
    }

    /// Returns the most jobs that are in the group that is submitted next.
    pub(super) fn unsubmitted_group(&self) -> usize {
        self.jobs.len().saturating_sub(self.submitted).min(JOBS_PER_SUBMIT)
    }

    /// Returns the job of this number in the group that is submitted next.
    pub(super) fn job_of_group(&self, number: usize) -> Option<Job> {
        self.jobs.get(self.submitted + number).map(|(job, _)| *job)
    }

    /// Counts `jobs` jobs that were submitted now. Returns whether those were all.
    pub(super) fn submitted(&mut self, jobs: usize) -> bool {
        self.submitted += jobs;
        self.submitted == self.jobs.len()
    }

    /// Puts the group that is submitted next into `jobs`, and says how many jobs it has.
    pub(super) fn next_group<'a>(&'a self, jobs: &mut [UnpackJob<'a>; JOBS_PER_SUBMIT]) -> usize {
        let count = self.group();
        let mut from = self.start();
        for (slot, (job, to)) in jobs.iter_mut().zip(&self.jobs[self.submitted..][..count]) {
            let descriptors = &self.descriptors[from..*to];
            from = *to;
            // The plugin's bounce buffer may be mapped next to a destination; what counts is what
            // is read of it.
            let bounce_bytes = descriptors.iter().map(UnpackDescriptor::src_end).max().unwrap_or(0);
            *slot = UnpackJob::new(descriptors)
                .with_bounce(job.bounce, bounce_bytes)
                .with_destination(job.dst, job.dst_bytes);
        }
        count
    }

    /// Returns the index at which the descriptors of the next group begin.
    fn start(&self) -> usize {
        self.submitted.checked_sub(1).map_or(0, |before| self.jobs[before].1)
    }

    /// Returns how many jobs go together: few enough pieces for a kernel to take at once.
    fn group(&self) -> usize {
        let mut from = self.start();
        let mut pieces = 0;
        let fits = |(job, to): &&(Job, usize)| {
            pieces += (*to - from) as u64 + job.dst_bytes / PIECE_BYTES;
            from = *to;
            pieces <= PIECES_PER_SUBMIT
        };
        let left = self.jobs[self.submitted..].iter();
        left.take(JOBS_PER_SUBMIT).take_while(fits).count().max(1)
    }
}
