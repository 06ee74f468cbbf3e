//! One measurement over the plugin that does nothing, for a tool that counts instructions:
//! `scripts/instructions.sh`.
//!
//! `instructions host|device chunks|messages N` moves N chunks of 4 KiB as one message, or N
//! messages of 4 KiB as one batch, once to let every table grow and once in `measured`.

use tcpx_core::MemoryType;
use tcpx_tests::null::NullPair;

/// What is counted. Not inlined, so that the tool finds it by its name.
#[inline(never)]
fn measured(pair: &NullPair, work: fn(&NullPair, u64), count: u64) {
    work(pair, count);
}

fn main() -> Result<(), &'static str> {
    let usage = "usage: instructions host|device chunks|messages N";
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [memory, kind, count] = words.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
        return Err(usage);
    };
    let count = count.parse::<u64>().map_err(|_| usage)?;
    let memory = match memory {
        "host" => MemoryType::Host,
        "device" => MemoryType::Device,
        _ => return Err(usage),
    };
    let (pair, work): (NullPair, fn(&NullPair, u64)) = match kind {
        "chunks" => (NullPair::new(count, memory), NullPair::transfer),
        "messages" => (NullPair::for_messages(count, memory), NullPair::batch),
        _ => return Err(usage),
    };
    work(&pair, count);
    measured(&pair, work, count);
    Ok(())
}
