//! Helpers of the benches over memory of GPU 0.

use std::env;
use std::error::Error;

use tcpx_core::gpu_count;
use tcpx_cuda::CudaGpu;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// GPU 0, and whether figures are wanted as JSON; nothing when there is nothing to measure. The
/// command line may have numbers of bytes, and these words and flags.
///
/// # Errors
/// Another word: what it was to choose would be measured with the rest.
pub(crate) fn begin(words: &[&str]) -> Result<Option<(CudaGpu, bool)>> {
    // As cargo's other benches: `cargo test` only asks whether it runs.
    if has_word("--test") {
        return Ok(None);
    }
    let flags = ["--json", "--bench"];
    let is_known = |word: &str| {
        flags.contains(&word) || words.contains(&word) || word.parse::<usize>().is_ok()
    };
    if let Some(word) = env::args().skip(1).find(|word| !is_known(word)) {
        let known = [&["BYTES", "--json"], words].concat().join(", ");
        return Err(format!("{word} is none of {known}").into());
    }
    if gpu_count() == 0 {
        println!("skipped: there is no GPU");
        return Ok(None);
    }
    Ok(Some((CudaGpu::open(0)?, has_word("--json"))))
}

/// Returns whether to measure messages of this many bytes: numbers on the command line name them.
pub(crate) fn is_wanted(bytes: usize) -> bool {
    let mut wanted = env::args().filter_map(|word| word.parse::<usize>().ok()).peekable();
    wanted.peek().is_none() || wanted.any(|wanted| wanted == bytes)
}

pub(crate) fn has_word(wanted: &str) -> bool {
    env::args().any(|word| word == wanted)
}

pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}
