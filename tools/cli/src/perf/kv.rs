//! KV caches of models: the ranges of a request's blocks, and the speed of a network from which
//! moving them takes less time than computing them again. Pure.
//!
//! The shapes are those of the models' public `config.json`, in 16 bits an element. Blocks are laid
//! out as vLLM registers them: one region for each layer, or one for its keys and one for its
//! values. A block is 16 tokens, and 64 where a model caches latent vectors.
//!
//! Computing `n` tokens takes 2 x (parameters in use) x n operations for the products with weights,
//! and layers x heads x (dimensions of a key and of a value) x n^2 for attention to earlier tokens.

use serde::Serialize;

/// Bytes of an element.
const ELEMENT_BYTES: u64 = 2;
/// Tokens of a request, unless the command line says another number.
const TOKENS: u32 = 1024;
/// What an accelerator does of its 989 TFLOP/s of 16 bits in a prefill, about.
const TFLOPS: f64 = 400.0;

/// Model whose cache is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
pub(super) enum KvModel {
    /// Llama 3.1 with 8 billion parameters: 128 KiB a token
    #[value(name = "llama-3.1-8b")]
    #[serde(rename = "llama-3.1-8b")]
    Llama8b,
    /// Llama 3.1 with 70 billion parameters: 320 KiB a token
    #[value(name = "llama-3.1-70b")]
    #[serde(rename = "llama-3.1-70b")]
    Llama70b,
    /// DeepSeek R1, 37 of 671 billion parameters in use: 69 KiB a token, as latent vectors
    #[value(name = "deepseek-r1")]
    #[serde(rename = "deepseek-r1")]
    DeepSeekR1,
}

/// Shape of a model: what its cache and a prefill depend on.
#[derive(Clone, Copy, Debug)]
struct Shape {
    layers: u64,
    /// Elements of a layer that a token caches, in all parts.
    cached: u64,
    /// Parts that may lie apart: keys and values, or latent vectors alone.
    parts: u64,
    block_tokens: u64,
    heads: u64,
    /// Dimensions of a key, and of a value, while attention is computed.
    dimensions: u64,
    /// Parameters in use for a token.
    parameters: f64,
}

impl KvModel {
    fn shape(self) -> Shape {
        match self {
            Self::Llama8b => Shape {
                layers: 32,
                cached: 2 * 8 * 128,
                parts: 2,
                block_tokens: 16,
                heads: 32,
                dimensions: 128 + 128,
                parameters: 8.03e9,
            },
            Self::Llama70b => {
                Shape { layers: 80, heads: 64, parameters: 70.6e9, ..Self::Llama8b.shape() }
            }
            Self::DeepSeekR1 => Shape {
                layers: 61,
                cached: 512 + 64,
                parts: 1,
                block_tokens: 64,
                heads: 128,
                dimensions: 192 + 128,
                parameters: 37e9,
            },
        }
    }
}

/// Flags of a request.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct KvArgs {
    /// Move KV caches of requests to a model, block by block, as vLLM lays them out: --op read (the
    /// default) as a decoder pulls them, --op write as a prefill pushes them, with a notification
    /// behind each that the server's program answers. --depth is the requests under way. Says from
    /// which speed of the network this beats computing them again
    #[arg(long, value_enum, value_name = "MODEL")]
    #[arg(conflicts_with_all = ["size", "sweep", "descriptors", "messages", "scattered", "bidir", "baseline", "notify", "all_to_all"])]
    kv: Option<KvModel>,

    /// With --kv: tokens of a request [default: 1024]
    #[arg(long, value_name = "N", requires = "kv")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tokens: Option<u32>,

    /// With --kv: let keys and values of a block lie one behind the other, as in FlashInfer's
    /// caches, and not apart, as in FlashAttention's
    #[arg(long, requires = "kv")]
    kv_together: bool,

    /// With --kv: TFLOP/s that an accelerator does of a prefill [default: 400]
    #[arg(long, value_name = "N", requires = "kv", value_parser = positive)]
    tflops: Option<f64>,
}

/// Reads a number above 0.
fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if f64::is_normal(number) && number > 0.0 => Ok(number),
        _ => Err("it must be a number above 0".to_owned()),
    }
}

impl KvArgs {
    /// Returns the request, if one is asked for.
    pub(super) fn request(&self) -> Option<KvRequest> {
        let tokens = self.tokens.unwrap_or(TOKENS);
        Some(KvRequest::new(self.kv?, tokens, self.kv_together, self.tflops.unwrap_or(TFLOPS)))
    }
}

/// KV cache of one request, and what computing it again would take.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct KvRequest {
    model: KvModel,
    tokens: u32,
    block_tokens: u64,
    /// Whether keys and values of a block are one range.
    together: bool,
    /// Ranges of the request.
    pub(super) ranges: u32,
    /// Bytes of each.
    pub(super) range_bytes: u64,
    request_bytes: u64,
    tflops: f64,
    /// Time in which an accelerator computes it.
    prefill_ms: f64,
    /// Speed of the network from which moving it takes less time.
    break_even_gbit_per_s: f64,
}

impl KvRequest {
    fn new(model: KvModel, tokens: u32, together: bool, tflops: f64) -> Self {
        let Shape { layers, cached, parts, block_tokens, heads, dimensions, parameters } =
            model.shape();
        let parts = if together { 1 } else { parts };
        let blocks = u64::from(tokens).div_ceil(block_tokens);
        let ranges = layers * blocks * parts;
        let range_bytes = cached / parts * ELEMENT_BYTES * block_tokens;
        let request_bytes = ranges * range_bytes;
        let count = f64::from(tokens);
        let attention = (layers * heads * dimensions) as f64 * count * count;
        let seconds = (2.0 * parameters * count + attention) / (tflops * 1e12);
        Self {
            model,
            tokens,
            block_tokens,
            together: together || model.shape().parts == 1,
            ranges: u32::try_from(ranges).unwrap_or(u32::MAX),
            range_bytes,
            request_bytes,
            tflops,
            prefill_ms: seconds * 1e3,
            break_even_gbit_per_s: request_bytes as f64 * 8.0 / seconds / 1e9,
        }
    }

    /// Returns the model as the command line names it.
    pub(super) fn model_name(&self) -> String {
        let name = clap::ValueEnum::to_possible_value(&self.model);
        name.map_or_else(String::new, |name| name.get_name().to_owned())
    }

    /// Returns what the request is, and when moving it pays, in words.
    pub(super) fn note(&self) -> String {
        let Self { tokens, block_tokens, ranges, range_bytes, tflops, prefill_ms, .. } = self;
        let name = self.model_name();
        let [range, request] =
            [*range_bytes, self.request_bytes].map(|bytes| bytes as f64 / 1024.0);
        format!(
            "KV cache of {name}, {tokens} tokens in blocks of {block_tokens}: {ranges} ranges of \
             {range} KiB, {:.1} MiB a request. An accelerator of {tflops} TFLOP/s computes it in \
             {prefill_ms:.1} ms, so moving it takes less time from {:.1} Gbit/s on",
            request / 1024.0,
            self.break_even_gbit_per_s,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a token as the models' documents give them, and their blocks.
    #[test]
    fn shapes_are_those_of_the_models() {
        for (model, together, token_bytes, range_bytes, ranges) in [
            (KvModel::Llama8b, false, 131_072, 32 << 10, 2 * 32 * 64),
            (KvModel::Llama8b, true, 131_072, 64 << 10, 32 * 64),
            (KvModel::Llama70b, false, 327_680, 32 << 10, 2 * 80 * 64),
            (KvModel::DeepSeekR1, false, 70_272, 73_728, 61 * 16),
            (KvModel::DeepSeekR1, true, 70_272, 73_728, 61 * 16),
        ] {
            let request = KvRequest::new(model, 1024, together, 400.0);
            assert_eq!(request.request_bytes, 1024 * token_bytes, "{model:?}");
            assert_eq!((request.range_bytes, request.ranges), (range_bytes, ranges), "{model:?}");
        }
    }

    #[test]
    fn a_block_that_is_not_full_is_moved_whole() {
        let bytes = |tokens| KvRequest::new(KvModel::Llama8b, tokens, true, 1.0).request_bytes;
        assert_eq!([1, 16, 17].map(bytes), [2 << 20, 2 << 20, 4 << 20]);
    }

    /// 2 x 8.03e9 x 1000 operations for the weights and 32 x 32 x 256 x 1000^2 for attention, at
    /// 1 TFLOP/s: 16.06 s and 0.262 s, for 63 blocks of 2 MiB.
    #[test]
    fn moving_pays_from_the_speed_at_which_both_take_as_long() {
        let request = KvRequest::new(KvModel::Llama8b, 1000, false, 1.0);
        assert!((request.prefill_ms - 16_322.1).abs() < 0.1, "{request:?}");
        let expected = 63.0 * 2.0 * 1_048_576.0 * 8.0 / 16.322_144 / 1e9;
        assert!((request.break_even_gbit_per_s - expected).abs() < 1e-6, "{request:?}");
        let faster = KvRequest::new(KvModel::Llama8b, 1000, false, 2.0);
        let ratio = faster.break_even_gbit_per_s / request.break_even_gbit_per_s;
        assert!((ratio - 2.0).abs() < 1e-9);
        assert!(request.note().contains("4032 ranges of 32 KiB, 126.0 MiB a request"));
    }

    #[test]
    fn speeds_are_numbers_above_0() {
        assert_eq!(positive("0.5"), Ok(0.5));
        assert!(["0", "-1", "x", "nan", "inf"].iter().all(|text| positive(text).is_err()));
    }
}
