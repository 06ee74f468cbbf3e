#![allow(unsafe_code)]
//! Batches over unpackers that finish, refuse and fail when told to.

use tcpx_protocol::types::{Direction, RegistrationKey};
use tcpx_unpack::{Backend, UnpackJob};

use super::*;
use crate::transfer::job::{JobLabel, PIECE_BYTES, PIECES_PER_SUBMIT};
use crate::types::PeerKey;

const DESCRIPTOR: [UnpackDescriptor; 1] = [UnpackDescriptor { src_off: 0, len: 16, dst_off: 0 }];

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

fn job_at(chunk: u64) -> Job {
    let (peer, registration) = (PeerKey::default(), RegistrationKey::default());
    let direction = Direction::Receive;
    let label = JobLabel { peer, direction, channel: 0, registration, tag: 0, chunk };
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
    let mut batch = Batch::new(u64::MAX);
    batch.push(job_at(0), DESCRIPTOR);
    // SAFETY: the double touches no memory.
    unsafe { batch.submit(&mut unpack) }.unwrap();
    // Two groups. The second one fails in its second job.
    (1..=JOBS_PER_SUBMIT as u64 + 2).for_each(|at| batch.push(job_at(at), DESCRIPTOR));
    // SAFETY: as above.
    let failure = unsafe { batch.submit(&mut unpack) }.unwrap_err();
    let suspect = Some(Box::new(job_at(JOBS_PER_SUBMIT as u64 + 2)));
    assert_eq!(failure, BatchFailure { suspect, others: 1 + JOBS_PER_SUBMIT, source: error });
}

#[test]
fn a_failure_without_a_name_is_that_of_the_oldest_under_way() {
    let error = UnpackError::Cuda(CudaError::Stalled { waited_ms: 1 });
    let mut unpack = Failing { submit: 2, submits: 0, error: error.clone() };
    let mut batch = Batch::new(u64::MAX);
    let first = batch.number();
    batch.push(job_at(7), DESCRIPTOR);
    batch.push(job_at(8), DESCRIPTOR);
    // SAFETY: the double touches no memory.
    unsafe { batch.submit(&mut unpack) }.unwrap();
    let failure = batch.finished(&mut unpack).unwrap_err();
    let expected =
        |others| BatchFailure { suspect: Some(Box::new(job_at(7))), others, source: error.clone() };
    assert_eq!(failure, expected(1));
    batch.push(job_at(9), DESCRIPTOR);
    // SAFETY: as above.
    assert_eq!(unsafe { batch.submit(&mut unpack) }.unwrap_err(), expected(2));

    let failed = batch.number();
    batch.abandon();
    assert!(batch.in_flight.is_empty() && batch.filling.is_empty());
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
    let (mut batch, mut unpack) = (Batch::new(u64::MAX), Slow::default());
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
    assert!(batch.finished(&mut unpack).unwrap() < first, "half of the first batch is not enough");
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
    let (mut batch, mut unpack) = (Batch::new(u64::MAX), Slow::default());
    let number = batch.number();
    // SAFETY: the double touches no memory.
    unsafe { batch.submit(&mut unpack) }.unwrap();
    assert_eq!(batch.finished(&mut unpack).unwrap(), number);
}

#[test]
fn what_an_unpacker_has_no_room_for_waits_and_nothing_is_submitted_twice() {
    let (mut batch, mut unpack) = (Batch::new(u64::MAX), Slow::default());
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
    let (mut batch, mut unpack) = (Batch::new(u64::MAX), Slow::default());
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

#[test]
fn where_the_cpu_copies_a_round_submits_no_more_than_it_should() {
    let (mut batch, mut unpack) = (Batch::new(100), Slow::default());
    let push = |batch: &mut Batch, bytes| {
        let number = batch.number_for(bytes);
        batch.push(Job { dst_bytes: bytes, ..job() }, DESCRIPTOR);
        number
    };
    let first = push(&mut batch, 60);
    assert_eq!(push(&mut batch, 40), first, "it fits");
    let second = push(&mut batch, 1);
    assert_ne!(second, first);
    let large = push(&mut batch, 300);
    assert!(large > second, "a chunk is never split");
    let in_place = batch.number();
    assert_eq!(in_place, large, "what came before it is finished with it");

    for (round, (number, jobs)) in [(first, 2), (second, 3), (large, 4)].into_iter().enumerate() {
        assert!(batch.has_more() && batch.is_unpacking());
        // SAFETY: the double touches no memory.
        assert!(unsafe { batch.submit(&mut unpack) }.unwrap());
        assert_eq!(unpack.jobs, jobs, "one batch a round, the oldest first");
        unpack.finished = round as u64 + 1;
        assert_eq!(batch.finished(&mut unpack).unwrap(), number);
        if round == 0 {
            assert_eq!(batch.number(), large, "what arrives now comes last");
        }
    }
    assert!(!batch.has_more() && !batch.is_unpacking());
    // The room of those that are submitted is used again.
    assert_eq!(batch.spare.len(), 2);
    assert!(push(&mut batch, 60) > large);
    push(&mut batch, 60);
    assert_eq!(batch.spare.len(), 1);
}

#[test]
fn what_waits_for_its_round_is_forgotten_with_the_rest() {
    let (mut batch, mut unpack) = (Batch::new(10), Slow::default());
    for _ in 0..3 {
        batch.number_for(16);
        batch.push(job(), DESCRIPTOR);
    }
    let last = batch.number();
    batch.abandon();
    assert!(!batch.has_more());
    // SAFETY: nothing is submitted.
    unsafe { batch.submit(&mut unpack) }.unwrap();
    assert_eq!(unpack.submitted, 0);
    assert_eq!(batch.reached(), BatchNumber::NONE, "it may be under way");
    batch.all_finished();
    assert!(batch.reached() >= last);
}
