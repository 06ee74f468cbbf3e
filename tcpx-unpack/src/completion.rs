//! Completions of the submits on a stream of copies, with an event for each submit.

use std::collections::VecDeque;

use tcpx_cuda::{CudaError, CudaGpu, Event, Stream};

use crate::error::UnpackError;
use crate::ticket::Ticket;

/// Largest number of submits in flight: 16 channels of 16 requests, each a submit of its own.
const EVENTS: usize = 256;

/// Events that are made once and used in turn, and the tickets that they stand for.
pub(crate) struct Completions {
    free: Vec<Event>,
    under_way: VecDeque<(Ticket, Event)>,
    submitted: Ticket,
    finished: Ticket,
    failure: Option<UnpackError>,
}

impl Completions {
    pub(crate) fn new(gpu: &CudaGpu) -> Result<Self, CudaError> {
        Ok(Self {
            free: (0..EVENTS).map(|_| Event::new(gpu)).collect::<Result<_, _>>()?,
            under_way: VecDeque::with_capacity(EVENTS),
            submitted: Ticket::NONE,
            finished: Ticket::NONE,
            failure: None,
        })
    }

    /// Runs `queue`, which puts one submit's copies on `stream`, and marks its end.
    ///
    /// A failure is permanent, because part of the submit may be in flight without an event behind
    /// it.
    pub(crate) fn submit(
        &mut self,
        stream: &Stream,
        queue: impl FnOnce() -> Result<(), UnpackError>,
    ) -> Result<Ticket, UnpackError> {
        let event = self.free_event()?;
        if let Err(error) = queue().and_then(|()| Ok(stream.record(&event)?)) {
            return Err(self.fail(error));
        }
        self.submitted = self.submitted.next();
        self.under_way.push_back((self.submitted, event));
        Ok(self.submitted)
    }

    /// Returns whether a submit is not known to be finished.
    pub(crate) fn are_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Returns the newest finished ticket.
    pub(crate) fn poll(&mut self) -> Result<Ticket, UnpackError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let under_way = &self.under_way;
        match count_done(under_way.len(), |index| under_way[index].1.is_done()) {
            Ok(done) => {
                for (ticket, event) in self.under_way.drain(..done) {
                    self.finished = ticket;
                    self.free.push(event);
                }
                Ok(self.finished)
            }
            Err(error) => Err(self.fail(error.into())),
        }
    }

    /// Returns a free event.
    ///
    /// A query of an event in flight takes 1.2 µs, so it is made only when no event is free.
    fn free_event(&mut self) -> Result<Event, UnpackError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if self.free.is_empty() {
            self.poll()?;
        }
        self.free.pop().ok_or(UnpackError::Busy)
    }

    fn fail(&mut self, error: UnpackError) -> UnpackError {
        tracing::error!(%error, "unpacking stopped");
        self.failure = Some(error.clone().without_job());
        error
    }

    /// Refuses all later submits.
    pub(crate) fn stop(&mut self) {
        self.failure.get_or_insert(UnpackError::ShutDown);
    }
}

/// Returns whether no work on `stream` uses memory any more. Never blocks.
pub(crate) fn is_over(gpu: &CudaGpu, stream: &Stream) -> bool {
    let idle = gpu.enter().and_then(|_entered| stream.is_idle());
    idle.unwrap_or_else(|error| !is_refused_for_now(&error))
}

/// Returns whether an error is about the call, and not about the context. Any other error means
/// that the context is gone or broken, and its work with it.
fn is_refused_for_now(error: &CudaError) -> bool {
    // While the program captures a graph, the driver refuses calls: CUDA_ERROR_STREAM_CAPTURE_*.
    matches!(error, CudaError::Call { code: 900..=908, .. })
}

/// Returns how many of `len` marks are done. Marks become done in order.
///
/// A query of one mark takes 1.2 µs. One query therefore suffices when nothing is new, and few when
/// much is new: the steps double first, and are halved then.
fn count_done(
    len: usize,
    mut is_done: impl FnMut(usize) -> Result<bool, CudaError>,
) -> Result<usize, CudaError> {
    let (mut done, mut step) = (0, 1);
    while done + step <= len && is_done(done + step - 1)? {
        done += step;
        step *= 2;
    }
    let mut end = len.min(done + step - 1);
    while done < end {
        let middle = done.midpoint(end);
        if is_done(middle)? {
            done = middle + 1;
        } else {
            end = middle;
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_are_counted_with_few_queries() {
        for len in 0..40 {
            for truth in 0..=len {
                let mut queries = 0;
                let counted = count_done(len, |index| {
                    queries += 1;
                    assert!(index < len);
                    Ok(index < truth)
                });
                assert_eq!(counted, Ok(truth));
                let most = if truth == 0 { 1 } else { 2 * (truth.ilog2() + 1) + 1 };
                assert!(queries <= most, "{queries} queries for {truth} of {len}");
            }
        }
    }

    #[test]
    fn a_broken_context_is_over_and_a_refused_call_is_not() {
        let failed = |code| CudaError::Call { call: "cuStreamQuery", code, name: String::new() };
        for (code, is_refused) in [(700, false), (709, false), (719, false), (900, true)] {
            assert_eq!(is_refused_for_now(&failed(code)), is_refused, "{code}");
        }
        assert!(!is_refused_for_now(&CudaError::NoDriver));
    }

    #[test]
    fn a_failed_query_is_returned() {
        let failure = CudaError::Stalled { waited_ms: 1 };
        assert_eq!(count_done(4, |_| Err(failure.clone())), Err(failure));
    }
}
