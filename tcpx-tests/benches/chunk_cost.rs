//! CPU cost of one chunk in `tcpx-core` over a plugin that does nothing: both ends, from post to
//! completion, on one thread. Half of each figure is one end. The bar is 1 µs for one end.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tcpx_core::MemoryType;
use tcpx_tests::null::NullPair;

const CHUNKS: u64 = 10_000;

fn chunk_cost(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("both ends of a chunk");
    group.throughput(Throughput::Elements(CHUNKS));
    for (name, memory) in
        [("host memory", MemoryType::Host), ("device memory, 4 KiB unpacked", MemoryType::Device)]
    {
        let pair = NullPair::new(CHUNKS, memory);
        pair.transfer(CHUNKS);
        group.bench_function(name, |bencher| bencher.iter(|| pair.transfer(CHUNKS)));
    }
    group.finish();
}

criterion_group!(benches, chunk_cost);
criterion_main!(benches);
