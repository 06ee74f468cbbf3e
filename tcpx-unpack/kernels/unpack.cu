// Copies fragments from bounce buffers to their destinations.
//
// The host cuts every fragment into tiles of at most 4096 bytes; one warp copies one tile. A tile
// longer than one page would leave a small chunk to a handful of warps, a shorter one doubles the
// entries; with 8 x 16 bytes in flight per lane a warp has a whole tile on its way at once.
//
// An entry is one tile, or a span: whole tiles that follow each other at both ends. A launch gives
// each entry as many warps, a power of two that the host chooses by the lengths of the fragments:
// one where they are pages, and many where they are long, so that the host writes few entries. A
// warp finds its entry by a shift. (A search in prefix sums would let every entry have any length,
// but each of its steps is a read over PCIe.) It is at most 32: reads of one line of host memory
// come one after the other. 4 MiB in four entries of 256 warps took an H100 9.8 us, in tiles 5.3.
//
// Measured on an H200, driver 580, 128 submissions of 512 KiB back to back, 4 KiB pages in random
// order, where one contiguous copy takes 3.4 us (microseconds per submission):
// - all launches on one stream: 4.9 to 6.2, because each waits for the one before to drain;
//   on two streams 3.1 to 3.7, on four 3.0 to 3.4; eight gain nothing more at this size.
// - one warp for each tile; two or four warps for one are no faster here and slower at 32 MiB
//   (17.7, 19.3 and 24.6).
// - tiles by value, in the kernel's parameters: the driver copies the whole parameter block at
//   every launch, used or not. 4 KiB of parameters, the most that every driver takes, cost the CPU
//   0.3, 32 KiB 1.5 and more.
// - tiles in pinned host memory, read over PCIe: 0.4 more until the first byte is copied, and no
//   limit: 4 MiB 4.7 (contiguous 5.1) and 32 MiB 17.7 (contiguous 19.3), where 32 KiB of
//   parameters took 7.3 and 37.
// - completion by an event: +0.1 for recording it, but 1.2 for every look at it, where the word
//   below costs a load; a word written by the stream (cuStreamWriteValue): +2.3.
// - a system-wide fence in every block: +0.9 at 4 MiB; the last block's alone is enough.
// Hence: four streams; small submits by value while the GPU is idle or entries are spans, else from
// pinned memory; the last block reports completion.
//
// The file includes nothing, so that nvcc and NVRTC compile it alike. The layouts of Completion,
// Tile and ByValue are repeated in src/kernel/ and checked there.

typedef unsigned int u32;
typedef unsigned long long u64;

#define TILE_BYTES 4096
#define WARP 32
#define WARPS_PER_BLOCK 4
// 16-byte words of a full tile that one lane copies.
#define WORDS_PER_LANE (TILE_BYTES / 16 / WARP)
#define TILES_BY_VALUE 254
#define ADDRESS_BITS 57
// In the word of an entry: the other bits count tiles.
#define IS_SPAN (1u << 13)

// Where the launch reports that all its bytes are in place.
struct Completion {
    u32* arrived;       // device memory: blocks that are done; 0 between launches of a stream
    u64* finished;      // mapped host memory: sequence number of the stream's last finished launch
    u64 sequence;       // what this launch writes there
    u32 entries;        // number of entries
    u32 reach;          // log2 of the warps of each entry, and so of the tiles that it may have
};

// The upper 7 bits of either address hold half of a 14-bit word: 16 bytes, one load. Its highest
// bit says what the others are: the length of one tile in bytes, or the number of whole tiles.
struct __align__(16) Tile {
    u64 src_and_len;    // address | low 7 bits of the word
    u64 dst_and_len;    // address | high 7 bits of the word
};

struct __align__(16) ByValue {
    Completion completion;
    Tile tiles[TILES_BY_VALUE];
};

static_assert(sizeof(Completion) == 32, "layout is repeated on the host");
static_assert(sizeof(Tile) == 16, "layout is repeated on the host");
static_assert(sizeof(ByValue) == 4096, "more parameters than every driver takes");

// Volatile: the bytes were put there by a device the compiler knows nothing of, and are read once.
__device__ __forceinline__ uint4 load_word(const uint4* address)
{
    uint4 word;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "l"(address));
    return word;
}

// The 16 bytes that start 4 * SKIP + bits / 8 bytes into `low`.
template <int SKIP>
__device__ __forceinline__ uint4 funnel(uint4 low, uint4 high, u32 bits)
{
    const u32 w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    return make_uint4(__funnelshift_r(w[SKIP], w[SKIP + 1], bits),
                      __funnelshift_r(w[SKIP + 1], w[SKIP + 2], bits),
                      __funnelshift_r(w[SKIP + 2], w[SKIP + 3], bits),
                      __funnelshift_r(w[SKIP + 3], w[SKIP + 4], bits));
}

__device__ __forceinline__ void copy_aligned(const uint4* src, uint4* dst, u32 words, u32 lane)
{
    uint4 loaded[WORDS_PER_LANE];
#pragma unroll
    for (int k = 0; k < WORDS_PER_LANE; k++) {
        const u32 at = k * WARP + lane;
        if (at < words) loaded[k] = load_word(src + at);
    }
#pragma unroll
    for (int k = 0; k < WORDS_PER_LANE; k++) {
        const u32 at = k * WARP + lane;
        if (at < words) dst[at] = loaded[k];
    }
}

// `src` is the aligned word that holds the first source byte; words + 1 of them are read, each
// once, and each holds at least one byte of the tile, so none lies in a page of its own. A lane
// gets the word after its own from the next lane, the last lane from the first lane's next word.
template <int SKIP>
__device__ __forceinline__ void copy_shifted(const uint4* src, uint4* dst, u32 words, u32 bits,
                                             u32 lane)
{
    uint4 loaded[WORDS_PER_LANE + 1];
#pragma unroll
    for (int k = 0; k <= WORDS_PER_LANE; k++) {
        const u32 at = k * WARP + lane;
        loaded[k] = make_uint4(0, 0, 0, 0);
        if (at <= words && (k < WORDS_PER_LANE || lane == 0)) loaded[k] = load_word(src + at);
    }
    const u32 next_lane = (lane + 1) % WARP;
#pragma unroll
    for (int k = 0; k < WORDS_PER_LANE; k++) {
        const uint4 offered = lane == 0 ? loaded[k + 1] : loaded[k];
        uint4 next;
        next.x = __shfl_sync(0xffffffffu, offered.x, next_lane);
        next.y = __shfl_sync(0xffffffffu, offered.y, next_lane);
        next.z = __shfl_sync(0xffffffffu, offered.z, next_lane);
        next.w = __shfl_sync(0xffffffffu, offered.w, next_lane);
        const u32 at = k * WARP + lane;
        if (at < words) dst[at] = funnel<SKIP>(loaded[k], next, bits);
    }
}

// Copies one tile with one warp: single bytes up to the first aligned destination word and after
// the last one, whole words between them.
__device__ __forceinline__ void copy_tile(u64 src, u64 dst, u32 len, u32 lane)
{
    const u32 head = min((u32)(0 - dst) & 15u, len);
    const u32 words = (len - head) / 16;
    const u32 tail = len - head - words * 16;

    // Half of the warp takes the head, the other half the tail, at most 15 bytes each. The byte
    // is loaded before the words and stored after them, so that it costs no round trip of its own.
    const u32 half = lane % 16;
    const bool has_byte = lane < 16 ? half < head : half < tail;
    const u64 byte_at = lane < 16 ? half : head + words * 16 + half;
    unsigned char byte = 0;
    if (has_byte) byte = *(const volatile unsigned char*)(src + byte_at);

    const u64 body = src + head;
    uint4* const to = (uint4*)(dst + head);
    const u32 shift = (u32)body & 15u;
    const uint4* const from = (const uint4*)(body - shift);
    if (words != 0) {
        if (shift == 0) {
            copy_aligned(from, to, words, lane);
        } else {
            const u32 bits = (shift % 4) * 8;
            switch (shift / 4) {
            case 0: copy_shifted<0>(from, to, words, bits, lane); break;
            case 1: copy_shifted<1>(from, to, words, bits, lane); break;
            case 2: copy_shifted<2>(from, to, words, bits, lane); break;
            default: copy_shifted<3>(from, to, words, bits, lane); break;
            }
        }
    }
    if (has_byte) *(unsigned char*)(dst + byte_at) = byte;
}

__device__ __forceinline__ void copy_own_tile(const Completion& completion, const Tile* entries)
{
    const u32 warp = blockIdx.x * WARPS_PER_BLOCK + threadIdx.x / WARP;
    const u32 index = warp >> completion.reach;
    if (index >= completion.entries) return;
    const u64 src = entries[index].src_and_len, dst = entries[index].dst_and_len;
    const u64 address = (1ull << ADDRESS_BITS) - 1;
    const u32 word = (u32)(src >> ADDRESS_BITS) | (u32)(dst >> ADDRESS_BITS) << 7;
    const u32 part = warp & ((1u << completion.reach) - 1);
    const u32 tiles = word & IS_SPAN ? word - IS_SPAN : 1;
    if (part >= tiles) return;
    const u32 len = word & IS_SPAN ? TILE_BYTES : word;
    const u64 offset = (u64)part * TILE_BYTES;
    copy_tile((src & address) + offset, (dst & address) + offset, len, threadIdx.x % WARP);
}

// The last block to get here writes the sequence number to the host. Each block makes its bytes
// visible to the GPU before it counts itself; the last one has seen all the others count, so its
// fence makes everybody's bytes visible to the whole system before the number is. It also sets the
// counter back for the stream's next launch, which starts after this one has ended.
__device__ __forceinline__ void report(const Completion& completion)
{
    __syncthreads();
    if (threadIdx.x != 0) return;
    __threadfence();
    if (atomicAdd(completion.arrived, 1u) != gridDim.x - 1) return;
    *completion.arrived = 0;
    __threadfence_system();
    *(volatile u64*)completion.finished = completion.sequence;
}

// At most TILES_BY_VALUE entries, in the parameters.
extern "C" __global__ void __launch_bounds__(WARPS_PER_BLOCK* WARP)
    tcpx_unpack_by_value(const __grid_constant__ ByValue work)
{
    copy_own_tile(work.completion, work.tiles);
    report(work.completion);
}

// Any number of entries, in mapped host memory.
extern "C" __global__ void __launch_bounds__(WARPS_PER_BLOCK* WARP)
    tcpx_unpack_from_memory(const __grid_constant__ Completion completion, const Tile* entries)
{
    copy_own_tile(completion, entries);
    report(completion);
}
