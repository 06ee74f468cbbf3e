//! One measurement over the plugin that does nothing, for a tool that counts instructions:
//! `tools/scripts/instructions.sh`.
//!
//! `instructions host|device chunks|messages N` moves N chunks of 4 KiB as one message, or N
//! messages of 4 KiB as one batch, once to let every table grow and once in `measured`. A number
//! instead of `chunks` is the number of channels that these travel on; otherwise they travel on
//! two. `instructions link|encrypted BYTES N` moves N messages of BYTES bytes on the control
//! link, in clear or encrypted, one by one.

use tcpx_core::MemoryType;
use tcpx_tests::null::NullPair;

/// What is counted. Not inlined, so that the tool finds it by its name.
#[inline(never)]
fn measured(work: &dyn Fn()) {
    work();
}

fn main() -> Result<(), &'static str> {
    let usage =
        "usage: instructions host|device chunks|CHANNELS|messages N, or link|encrypted BYTES N";
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [way, kind, count] = words.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
        return Err(usage);
    };
    let count = count.parse::<u64>().map_err(|_| usage)?;
    let memory = if way == "device" { MemoryType::Device } else { MemoryType::Host };
    let (pair, work): (NullPair, &dyn Fn(&NullPair)) = match (way, kind) {
        ("host" | "device", "chunks") => {
            (NullPair::new(count, memory), &|pair| pair.transfer(count))
        }
        ("host" | "device", "messages") => {
            (NullPair::for_messages(count, memory), &|pair| pair.batch(count))
        }
        ("host" | "device", channels) => {
            let channels = channels.parse::<u16>().map_err(|_| usage)?;
            (NullPair::over_channels(channels, count, memory), &|pair| pair.transfer(count))
        }
        ("link" | "encrypted", bytes) => {
            let bytes = bytes.parse::<u64>().map_err(|_| usage)?;
            let pair = NullPair::on_link(bytes, way == "encrypted");
            return run(&|| pair.one_by_one(bytes, count));
        }
        _ => return Err(usage),
    };
    run(&|| work(&pair))
}

fn run(work: &dyn Fn()) -> Result<(), &'static str> {
    work();
    measured(work);
    Ok(())
}
