#![allow(unsafe_code)]
//! One table of cases and one naive oracle, for every backend and every memory it works on.
//!
//! GPU tests skip, and say why, where there is no GPU; with `gpu` among the comma-separated words
//! of `TCPX_TEST_REQUIRE` they fail instead.

mod any_memory;
mod cases;
mod setup;

use std::time::Instant;

use tcpx_cuda::{driver_calls, driver_calls_since, test_gpu};
use tcpx_rx::UnpackDescriptor;
use tcpx_testkit::{PATIENCE, in_own_process, report_skip};
use tcpx_unpack::{
    Backend, Choice, MemoryKind, Side, Ticket, Unpack, UnpackError, UnpackJob, open,
};

use self::any_memory::Memory;
use self::cases::{Case, cases};
use self::setup::{Setup, gpu_setups, ordinary_setups, two_gpus};

/// Two poisons: a byte that happens to be equal to one poison differs from the other.
const POISONS: [u8; 2] = [0xa5, 0x5a];
/// Bytes around every destination that must not change.
const GUARD: u64 = 64;

/// Positions of a case's jobs in one destination memory, guards included.
struct Layout {
    starts: Vec<u64>,
    bytes: u64,
}

impl Layout {
    fn of(case: &Case) -> Self {
        let mut next = GUARD;
        let starts = case
            .jobs
            .iter()
            .map(|job| {
                let start = next.next_multiple_of(16) + job.dst_shift;
                next = start + job.dst_bytes + GUARD;
                start
            })
            .collect();
        Self { starts, bytes: next }
    }
}

fn expected(case: &Case, layout: &Layout, content: &[u8], poison: u8) -> Vec<u8> {
    let mut bytes = vec![poison; layout.bytes as usize];
    for (job, start) in case.jobs.iter().zip(&layout.starts) {
        for descriptor in &job.descriptors {
            let (to, len) = ((start + descriptor.dst_off) as usize, descriptor.len as usize);
            let from = job.bounce_start as usize + descriptor.src_off as usize;
            bytes[to..to + len].copy_from_slice(&content[from..from + len]);
        }
    }
    bytes
}

fn jobs<'case>(
    case: &'case Case,
    layout: &Layout,
    bounce: &Memory,
    dst: &Memory,
) -> Vec<UnpackJob<'case>> {
    let pair = case.jobs.iter().zip(&layout.starts);
    pair.map(|(job, start)| {
        UnpackJob::new(&job.descriptors)
            .with_bounce(bounce.address() + job.bounce_start, job.bounce_bytes)
            .with_destination(dst.address() + start, job.dst_bytes)
    })
    .collect()
}

fn finish(unpack: &mut dyn Unpack, ticket: Ticket) {
    let start = Instant::now();
    let mut newest = Ticket::NONE;
    while newest < ticket {
        let polled = unpack.poll().unwrap();
        assert!(polled >= newest, "poll went from {newest} back to {polled}");
        newest = polled;
        assert!(start.elapsed() < PATIENCE, "ticket {ticket} never finished");
    }
}

fn run_case(setup: &Setup, unpack: &mut dyn Unpack, case: &Case) {
    let layout = Layout::of(case);
    let content = case.content();
    let bounce = setup.bounce(&content);
    for poison in POISONS {
        let dst = setup.destination(layout.bytes, poison);
        let jobs = jobs(case, &layout, &bounce, &dst);
        // SAFETY: both memories are this function's own, of the setup's kind, and outlive the wait.
        let ticket = unsafe { unpack.submit(&jobs) }.unwrap();
        finish(unpack, ticket);
        let arrived = dst.content(layout.bytes);
        let expected = expected(case, &layout, &content, poison);
        if arrived != expected {
            let at = (0..arrived.len()).find(|&at| arrived[at] != expected[at]).unwrap();
            panic!(
                "{setup}, {}: byte {at} is {:#04x}, not {:#04x}",
                case.name, arrived[at], expected[at]
            );
        }
    }
}

fn run_all(setup: &Setup) {
    let mut unpack = setup.open();
    for case in cases() {
        run_case(setup, &mut *unpack, &case);
    }
}

#[test]
fn every_case_matches_the_oracle_in_ordinary_memory() {
    ordinary_setups().iter().for_each(run_all);
}

#[test]
fn every_case_matches_the_oracle_on_the_gpu() {
    for setup in gpu_setups() {
        run_all(&setup);
    }
}

fn all_setups() -> Vec<Setup> {
    let mut setups = gpu_setups();
    setups.extend(ordinary_setups());
    setups
}

#[test]
fn a_bad_descriptor_moves_nothing_and_spoils_nothing() {
    for setup in all_setups() {
        let mut unpack = setup.open();
        let content = vec![1; 8192];
        let bounce = setup.bounce(&content);
        let dst = setup.destination(8192, 0);
        let good = [UnpackDescriptor { src_off: 0, len: 4096, dst_off: 0 }];
        let bad = [UnpackDescriptor { src_off: 4097, len: 4096, dst_off: 4096 }];
        let job = |descriptors| {
            UnpackJob::new(descriptors)
                .with_bounce(bounce.address(), 8192)
                .with_destination(dst.address(), 8192)
        };
        // SAFETY: both memories outlive the unpacker's last ticket; the bad job is refused.
        let refused = unsafe { unpack.submit(&[job(&good), job(&bad)]) };
        assert!(
            matches!(
                refused,
                Err(UnpackError::OutOfBounds { job: 1, entry: 0, side: Side::Bounce, .. })
            ),
            "{setup}: {refused:?}"
        );
        // SAFETY: as above.
        let ticket = unsafe { unpack.submit(&[job(&good[..0])]) }.unwrap();
        finish(&mut *unpack, ticket);
        assert_eq!(dst.content(8192), vec![0; 8192], "{setup}: the good job has run as well");
        // SAFETY: as above.
        let ticket = unsafe { unpack.submit(&[job(&good)]) }.unwrap();
        finish(&mut *unpack, ticket);
        assert_eq!(dst.content(4096), vec![1; 4096], "{setup}");
    }
}

/// Submits as soon as there is room.
///
/// # Safety
/// As for [`Unpack::submit`].
unsafe fn submit(unpack: &mut dyn Unpack, jobs: &[UnpackJob<'_>]) -> Ticket {
    let give_up_at = Instant::now() + PATIENCE;
    loop {
        // SAFETY: passed on from the caller.
        match unsafe { unpack.submit(jobs) } {
            Err(UnpackError::Busy) => assert!(Instant::now() < give_up_at, "it stays busy"),
            outcome => return outcome.unwrap(),
        }
    }
}

/// Submits more than there are events, 325 and 256, and more tiles than the kernel's ring has room
/// for, 81,920 and 65,536.
#[test]
fn many_submits_finish_in_order() {
    submits_finish_in_order(&gpu_setups(), 5);
    submits_finish_in_order(&ordinary_setups(), 2);
}

#[test]
#[ignore = "deep: six times as many copies by the processor"]
fn many_more_submits_finish_in_order() {
    submits_finish_in_order(&ordinary_setups(), 12);
}

fn submits_finish_in_order(setups: &[Setup], rounds: usize) {
    for setup in setups {
        let mut unpack = setup.open();
        let case = cases().into_iter().find(|case| case.name == "many chunks").unwrap();
        let layout = Layout::of(&case);
        let content = case.content();
        let bounce = setup.bounce(&content);
        // Two destinations for each round: memory of a submit in flight must have no other user.
        let destinations: Vec<_> =
            (0..2 * rounds).map(|_| setup.destination(layout.bytes, 0)).collect();
        let mut last = Ticket::NONE;
        for (round, pair) in destinations.chunks(2).enumerate() {
            for job in &jobs(&case, &layout, &bounce, &pair[0]) {
                // SAFETY: the memories outlive the wait.
                let ticket = unsafe { submit(&mut *unpack, std::slice::from_ref(job)) };
                assert!(ticket > last, "{setup}: {ticket} after {last} in round {round}");
                last = ticket;
            }
            // SAFETY: as above.
            let ticket = unsafe { submit(&mut *unpack, &jobs(&case, &layout, &bounce, &pair[1])) };
            assert!(ticket > last);
            last = ticket;
        }
        finish(&mut *unpack, last);
        assert_eq!(unpack.poll(), Ok(last), "{setup}");
        let expected = expected(&case, &layout, &content, 0);
        for dst in &destinations {
            assert!(dst.content(layout.bytes) == expected, "{setup}");
        }
    }
}

#[test]
fn an_unpacker_that_has_shut_down_copies_nothing_more() {
    for setup in all_setups() {
        let case = cases().into_iter().find(|case| case.name == "many chunks").unwrap();
        let layout = Layout::of(&case);
        let content = case.content();
        let bounce = setup.bounce(&content);
        let dst = setup.destination(layout.bytes, 0);
        let mut unpack = setup.open();
        // SAFETY: the memories outlive the unpacker.
        unsafe { unpack.submit(&jobs(&case, &layout, &bounce, &dst)) }.unwrap();
        let give_up_at = Instant::now() + PATIENCE;
        while !unpack.shutdown() {
            assert!(Instant::now() < give_up_at, "{setup}: its copies never end");
        }
        assert!(dst.content(layout.bytes) == expected(&case, &layout, &content, 0), "{setup}");
        let other = setup.destination(layout.bytes, POISONS[0]);
        // SAFETY: as above.
        let refused = unsafe { unpack.submit(&jobs(&case, &layout, &bounce, &other)) };
        assert_eq!(refused, Err(UnpackError::ShutDown), "{setup}");
        assert!(unpack.shutdown(), "{setup}");
        assert!(other.content(layout.bytes).iter().all(|byte| *byte == POISONS[0]), "{setup}");
    }
}

#[test]
fn any_thread_may_submit_and_none_keeps_the_context() {
    let Some(_gpu) = test_gpu() else { return };
    for setup in gpu_setups() {
        let mut unpack = setup.open();
        let case = cases().into_iter().next().unwrap();
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                run_case(&setup, &mut *unpack, &case);
                cudarc::driver::result::ctx::get_current().unwrap().is_none()
            });
            assert!(worker.join().unwrap(), "{setup}: the thread has a current context");
        });
        run_case(&setup, &mut *unpack, &case);
    }
}

/// Uses two GPUs in turn, from one thread. Then copies from one GPU's memory to the other's, which
/// the kernel cannot read and the driver can copy.
#[test]
fn several_gpus_work_side_by_side() {
    let Some(gpus) = two_gpus() else { return };
    let cases: Vec<Case> = cases().into_iter().take(3).collect();
    let setups = gpus.each_ref().map(|gpu| Setup::kernel(gpu, gpu));
    let mut unpackers = setups.each_ref().map(Setup::open);
    for case in &cases {
        for (setup, unpack) in setups.iter().zip(&mut unpackers) {
            run_case(setup, &mut **unpack, case);
        }
    }
    let across = Setup::kernel(&gpus[1], &gpus[0]);
    let mut unpack = across.open();
    for case in &cases {
        run_case(&across, &mut *unpack, case);
    }
}

#[test]
fn auto_takes_the_kernel_where_there_is_a_gpu() {
    let Some(gpu) = test_gpu() else { return };
    let opened = open(Choice::Auto, MemoryKind::Cuda { gpu: gpu.ordinal() }).unwrap();
    assert_eq!(opened.unpack.backend(), Backend::Kernel, "{}", opened.why);
}

/// The counts are those of `tcpx-tests/doubles/fake-cuda`, so the test skips over a real driver.
#[test]
fn auto_launches_nothing_for_a_short_piece_of_pinned_memory() {
    in_own_process!();
    let Some(gpu) = test_gpu() else { return };
    if driver_calls().is_none() {
        return report_skip("this driver does not count calls");
    }
    let mut unpack = open(Choice::Auto, MemoryKind::Cuda { gpu: gpu.ordinal() }).unwrap().unpack;
    let bounces = [Memory::pinned(&gpu, &[7; 8192]), Memory::device(&gpu, &[7; 8192])];
    let dst = Memory::device(&gpu, &[0; 8192]);
    for (bounce, launches) in bounces.iter().zip([false, true]) {
        let whole = [UnpackDescriptor { src_off: 0, len: 8192, dst_off: 0 }];
        let job = UnpackJob::new(&whole)
            .with_bounce(bounce.address(), 8192)
            .with_destination(dst.address(), 8192);
        let before = driver_calls().unwrap();
        // SAFETY: both memories are this function's own, and outlive the wait.
        let ticket = unsafe { unpack.submit(&[job]) }.unwrap();
        let calls = driver_calls_since(&before);
        let [launched, copied] =
            ["cuLaunchKernel", "cuMemcpyAsync"].map(|call| calls.contains_key(call));
        assert_eq!((launched, copied), (launches, !launches), "{calls:?}");
        finish(&mut *unpack, ticket);
    }
    assert_eq!(dst.content(8192), [7; 8192]);
}

#[test]
fn a_gpu_that_is_not_there_is_unavailable_not_a_panic() {
    for choice in [Choice::Auto, Choice::Host, Choice::D2d, Choice::Kernel] {
        let error = open(choice, MemoryKind::Cuda { gpu: 1_000_000 }).unwrap_err();
        let UnpackError::Unavailable { backend, reason } = error else {
            panic!("{choice}: {error:?}")
        };
        assert_eq!(backend, choice.backend().unwrap_or(Backend::Kernel));
        assert!(!reason.is_empty());
    }
}
