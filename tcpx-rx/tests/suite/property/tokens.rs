//! Tokens: nothing is lost or added on the way to the kernel, whatever it answers.

use std::collections::BTreeSet;

use tcpx_rx::{
    MAX_BATCH_FRAGMENTS, MAX_BATCH_RANGES, TokenBatch, TokenBatches, TokenRange, TokenRanges,
};

/// Pushes `ranges` and expects the same tokens in the same order in batches within the limits.
pub(crate) fn batches_hold_every_token_in_order(ranges: &[TokenRange]) {
    let mut kept = TokenRanges::new();
    kept.extend(ranges.iter().copied());
    assert_eq!(tokens_of(kept.as_slice()), tokens_of(ranges));
    assert_eq!(kept.fragments(), tokens_of(ranges).len() as u64);
    assert!(kept.as_slice().windows(2).all(|pair| pair[0].end() != u64::from(pair[1].start())));

    let batches: Vec<TokenBatch> = kept.batches().collect();
    let in_batches: Vec<TokenRange> = batches.iter().flat_map(|batch| batch.to_vec()).collect();
    assert_eq!(tokens_of(&in_batches), tokens_of(ranges));
    for (index, batch) in batches.iter().enumerate() {
        assert_eq!(batch.fragments() as usize, tokens_of(batch).len());
        assert!(!batch.is_empty() && batch.len() <= MAX_BATCH_RANGES);
        assert!(batch.fragments() <= MAX_BATCH_FRAGMENTS);
        let full = batch.len() == MAX_BATCH_RANGES || batch.fragments() == MAX_BATCH_FRAGMENTS;
        assert!(full || index + 1 == batches.len(), "batch {index} has room left");
    }
}

/// Coalesces `ranges` and expects the same set of tokens in the fewest ranges.
pub(crate) fn coalescing_keeps_the_set(ranges: &[TokenRange]) {
    let mut kept = TokenRanges::new();
    kept.extend(ranges.iter().copied());
    kept.coalesce();
    let set: BTreeSet<u32> = tokens_of(ranges).into_iter().collect();
    assert_eq!(tokens_of(kept.as_slice()), Vec::from_iter(set));
    assert!(kept.as_slice().windows(2).all(|pair| pair[0].end() < u64::from(pair[1].start())));
}

/// Takes the first `freed` fragments off each batch and expects the others.
pub(crate) fn the_rest_is_what_follows(ranges: &[TokenRange], freed: u32) {
    for batch in TokenBatches::new(ranges) {
        let tokens = tokens_of(&batch);
        match batch.rest_after(freed) {
            Ok(Some(rest)) => assert_eq!(tokens_of(&rest), tokens[freed as usize..]),
            Ok(None) => assert_eq!(freed, batch.fragments()),
            Err(error) => {
                assert!(freed > batch.fragments());
                assert_eq!((error.freed, error.fragments), (freed, batch.fragments()));
            }
        }
    }
}

/// Returns `ranges` to a kernel that knows only the tokens `known` accepts and looks at no more
/// than `limit` in a call, and expects it to have none of them left.
pub(crate) fn every_known_token_is_freed(
    ranges: &[TokenRange],
    limit: usize,
    known: impl Fn(u32) -> bool,
) {
    let mut kept = TokenRanges::new();
    kept.extend(ranges.iter().copied());
    kept.coalesce();
    let mut held: BTreeSet<u32> =
        tokens_of(kept.as_slice()).into_iter().filter(|&token| known(token)).collect();
    for batch in kept.batches() {
        let mut next = Some(batch);
        while let Some(batch) = next {
            let looked_at = tokens_of(&batch).into_iter().take(limit);
            let freed = looked_at.filter(|token| held.remove(token)).count();
            next = batch.rest_after(freed as u32).expect("no more than was given");
            if freed == 0 {
                break;
            }
        }
    }
    // A whole call of unknown tokens frees nothing, which ends the batch. That cannot hide known
    // ones behind it as long as the kernel looks at a whole batch, as it does.
    let all_known = tokens_of(kept.as_slice()).into_iter().all(known);
    if all_known || limit >= MAX_BATCH_FRAGMENTS as usize {
        assert!(held.is_empty(), "{held:?} never went back");
    }
}

fn tokens_of(ranges: &[TokenRange]) -> Vec<u32> {
    ranges
        .iter()
        .flat_map(|range| (u64::from(range.start())..range.end()).map(|token| token as u32))
        .collect()
}
