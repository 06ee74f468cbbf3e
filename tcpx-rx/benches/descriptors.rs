//! Bench of a fragment's way from the control message to the unpack backend.
//!
//! The bar: building, checking and merging sorted entries take at most 3 ns per fragment together,
//! in the median. `cargo bench -p tcpx-rx [-- --json]` prints a table of each step in nanoseconds
//! per fragment. Run as a test it times nothing.

#![allow(clippy::print_stdout, reason = "the table is what the bench is for")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use tcpx_rx::{
    DescriptorBuilder, DeviceFragment, Fragment, MAX_DESCRIPTORS, UnpackDescriptor, check,
    merge_neighbours,
};
use tcpx_testkit::Random;

const BAR_NS: f64 = 3.0;
const COUNTS: [usize; 3] = [128, 512, 2047];
const PAGE: u64 = 4096;
/// Pages of the bounce buffer the fragments come from: 512 MiB.
const PAGES: u64 = 1 << 17;
const BOUNCE_BYTES: u64 = PAGES * PAGE;

/// Layout of a chunk's fragments in the bounce buffer.
#[derive(Clone, Copy)]
enum Pages {
    /// One after the other: all merge.
    Contiguous,
    /// Anywhere: none merges.
    Scattered,
    /// Runs of random length: no branch predictor knows what merges next.
    Runs,
}

/// Returns `count` fragments. The first and the last are shorter than a page, as in a cut stream.
fn fragments(count: usize, pages: Pages) -> Vec<Fragment> {
    let mut random = Random::new(count as u64);
    let mut page = 0;
    let mut next_page = || {
        let follow = match pages {
            Pages::Contiguous => true,
            Pages::Scattered => false,
            Pages::Runs => random.next().is_multiple_of(2),
        };
        page = if follow { (page + 1) % PAGES } else { random.next() % PAGES };
        page * PAGE
    };
    let mut list: Vec<_> = (0..count)
        .map(|index| DeviceFragment::new(next_page(), PAGE as u32, index as u32 + 1, None))
        .collect();
    if let [first, .., last] = &mut list[..] {
        first.offset += 1447;
        first.bytes -= 1447;
        last.bytes = 1;
    }
    list.into_iter().map(Fragment::Device).collect()
}

fn total_bytes(fragments: &[Fragment]) -> u64 {
    fragments.iter().map(|fragment| u64::from(fragment.bytes())).sum()
}

/// Runs all steps together, for which the bar is.
fn build_check_merge(
    fragments: &mut [Fragment],
    buffer: Vec<UnpackDescriptor>,
    expected: u64,
) -> Vec<UnpackDescriptor> {
    let mut list = build(fragments, buffer, expected);
    check(&mut list, BOUNCE_BYTES, expected).expect("a right list");
    merge_neighbours(&mut list);
    list
}

fn build(
    fragments: &mut [Fragment],
    buffer: Vec<UnpackDescriptor>,
    expected: u64,
) -> Vec<UnpackDescriptor> {
    let mut builder = DescriptorBuilder::with_buffer(buffer, expected, MAX_DESCRIPTORS);
    let used = builder.append(fragments).expect("fragments that fit");
    assert_eq!(used, fragments.len(), "the chunk is as long as its fragments");
    builder.finish().descriptors
}

/// Returns eight sockets' chunks in the order first, last, last but one, …, as the plugin harvests
/// them.
fn in_socket_order(sorted: &[UnpackDescriptor]) -> Vec<UnpackDescriptor> {
    let chunks: Vec<_> = sorted.chunks(sorted.len().div_ceil(8)).collect();
    let (first, others) = chunks.split_first().expect("a list that is not empty");
    let mut list = first.to_vec();
    list.extend(others.iter().rev().flat_map(|chunk| chunk.iter()));
    list
}

fn in_random_order(sorted: &[UnpackDescriptor]) -> Vec<UnpackDescriptor> {
    Random::new(7).shuffled(sorted)
}

type BenchStep = Box<dyn FnMut(&mut Vec<UnpackDescriptor>)>;

/// Line of the table: a step, the list it begins with, and whether the bar applies, as it does to
/// all steps together.
struct Case {
    name: &'static str,
    count: usize,
    input: Vec<UnpackDescriptor>,
    step: BenchStep,
    has_bar: bool,
}

fn cases(count: usize) -> Vec<Case> {
    let expected = total_bytes(&fragments(count, Pages::Scattered));
    let list_of = |pages| build(&mut fragments(count, pages), Vec::new(), expected);
    let scattered = list_of(Pages::Scattered);
    let built = |pages| -> BenchStep {
        let mut fragments = fragments(count, pages);
        Box::new(move |list| *list = build(&mut fragments, std::mem::take(list), expected))
    };
    let whole = |pages| -> BenchStep {
        let mut fragments = fragments(count, pages);
        Box::new(move |list| {
            *list = build_check_merge(&mut fragments, std::mem::take(list), expected);
        })
    };
    let checked = || -> BenchStep {
        Box::new(move |list| check(list, BOUNCE_BYTES, expected).expect("a right list"))
    };
    let merged = || -> BenchStep { Box::new(|list| _ = merge_neighbours(list)) };
    let case = |name, input: Vec<_>, step, has_bar| Case { name, count, input, step, has_bar };
    vec![
        case("build+check+merge, scattered pages", Vec::new(), whole(Pages::Scattered), true),
        case("build+check+merge, contiguous pages", Vec::new(), whole(Pages::Contiguous), true),
        case("build+check+merge, random runs", Vec::new(), whole(Pages::Runs), true),
        case("build, scattered pages", Vec::new(), built(Pages::Scattered), false),
        case("check, sorted", scattered.clone(), checked(), false),
        case("check, socket order", in_socket_order(&scattered), checked(), false),
        case("check, random order", in_random_order(&scattered), checked(), false),
        case("merge, scattered pages", scattered, merged(), false),
        case("merge, contiguous pages", list_of(Pages::Contiguous), merged(), false),
        case("merge, random runs", list_of(Pages::Runs), merged(), false),
    ]
}

/// Lists that are used over and over, as a receiver does. No page of them is touched for the first
/// time while the clock runs. Together they fit the second-level cache.
struct Lists(Vec<Vec<UnpackDescriptor>>);

impl Lists {
    fn of(case: &Case) -> Self {
        let list = || Vec::with_capacity(case.count);
        Self(std::iter::repeat_with(list).take(8192 / case.count).collect())
    }

    /// Returns the time that the step takes for all lists. Each list is filled anew before the
    /// clock starts.
    fn time(&mut self, case: &mut Case) -> Duration {
        for list in &mut self.0 {
            list.clear();
            list.extend_from_slice(&case.input);
        }
        let start = Instant::now();
        for list in &mut self.0 {
            (case.step)(black_box(list));
        }
        let elapsed = start.elapsed();
        black_box(&self.0);
        elapsed
    }
}

/// Returns nanoseconds per fragment of many rounds: the least and the median.
fn ns_per_fragment(case: &mut Case) -> (f64, f64) {
    const ROUNDS: usize = 4000;
    let mut lists = Lists::of(case);
    let mut times: Vec<Duration> = (0..ROUNDS).map(|_| lists.time(case)).collect();
    times.sort_unstable();
    let fragments = (lists.0.len() * case.count) as f64;
    let ns = |time: Duration| time.as_secs_f64() * 1e9 / fragments;
    (ns(times[0]), ns(times[ROUNDS / 2]))
}

fn main() {
    // Cargo passes this to `cargo bench` and not to `cargo test`.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let is_json = std::env::args().any(|argument| argument == "--json");
    if !is_json {
        println!("{:<38} {:>9} {:>8} {:>8} {:>6}", "step", "fragments", "least", "median", "bar");
    }
    for mut case in COUNTS.into_iter().flat_map(cases) {
        let (least, median) = ns_per_fragment(&mut case);
        let Case { name, count, has_bar, .. } = case;
        if is_json {
            println!(
                "{{\"step\": \"{name}\", \"fragments\": {count}, \"least_ns\": {least:.3}, \
                 \"median_ns\": {median:.3}, \"has_bar\": {has_bar}}}"
            );
            continue;
        }
        let bar = if has_bar { format!("{BAR_NS:.1}") } else { String::from("-") };
        let mark = if has_bar && median > BAR_NS { "  MISSED" } else { "" };
        println!("{name:<38} {count:>9} {least:>8.2} {median:>8.2} {bar:>6}{mark}");
    }
}
