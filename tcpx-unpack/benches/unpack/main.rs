#![allow(unsafe_code)]
//! Bench of unpacking, against one contiguous copy of the same bytes.
//!
//! Prints markdown tables; the figures are medians, all of one run, the compared ones taken in
//! turn. Runs from a single carried file: the kernel is inside, the CUDA driver is loaded when
//! there is one.
//!
//! - `--cutting`: only what the CPU does for the kernel, without a GPU
//! - `--gpu TEXT`: only GPU memory, and the rows whose submission and layout contain the text
//! - `--test`: each measurement once, which shows nothing about speed

mod cutting;
mod layout;
mod measure;
mod memory;
mod on_gpu;
mod ordinary;

use std::env;
use std::error::Error;
use std::io::{self, Write};

use tcpx_unpack::cuda::CudaGpu;

fn main() -> Result<(), Box<dyn Error>> {
    // cargo passes --bench. `cargo test --benches` passes no distinctive argument, hence the
    // bench's own `--test`.
    let words: Vec<String> = env::args().collect();
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    let repetitions = if has("--test") { measure::ONCE } else { measure::FULL };
    let out = &mut io::stdout().lock();
    if has("--cutting") {
        return cutting::run(repetitions, out);
    }
    let only = words.iter().skip_while(|word| *word != "--gpu").nth(1);
    match CudaGpu::open(0) {
        Ok(gpu) => on_gpu::run(&gpu, repetitions, only.map_or("", String::as_str), out)?,
        Err(error) if env::var("TCPX_TEST_REQUIRE").is_ok_and(|words| words.contains("gpu")) => {
            return Err(format!("a GPU is required, but {error}").into());
        }
        Err(error) => writeln!(out, "GPU memory was not measured: {error}\n")?,
    }
    if only.is_none() {
        cutting::run(repetitions, out)?;
        ordinary::run(repetitions, out)?;
    }
    Ok(())
}
