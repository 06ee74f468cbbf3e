//! Buffers that are not in use, by GPU and size. Pure.

/// Buffer with the GPU and size that it fits.
#[derive(Debug)]
struct Idle<B> {
    gpu: u32,
    bytes: u64,
    buffer: B,
}

/// Buffers kept for later users.
#[derive(Debug)]
pub(crate) struct IdleBuffers<B> {
    buffers: Vec<Idle<B>>,
    kept_bytes: u64,
    limit_bytes: u64,
}

impl<B> IdleBuffers<B> {
    /// Creates a store that keeps at most `limit_bytes` bytes.
    pub(crate) const fn new(limit_bytes: u64) -> Self {
        Self { buffers: Vec::new(), kept_bytes: 0, limit_bytes }
    }

    /// Takes out a buffer of this GPU that was made for exactly `bytes` bytes, the one that was
    /// kept last.
    pub(crate) fn take(&mut self, gpu: u32, bytes: u64) -> Option<B> {
        let fits = |idle: &Idle<B>| (idle.gpu, idle.bytes) == (gpu, bytes);
        let found = self.buffers.iter().rposition(fits)?;
        self.kept_bytes -= bytes;
        Some(self.buffers.swap_remove(found).buffer)
    }

    /// Keeps a buffer. Returns the buffer when it exceeds the limit.
    pub(crate) fn put(&mut self, gpu: u32, bytes: u64, buffer: B) -> Option<B> {
        let kept_bytes = self.kept_bytes.saturating_add(bytes);
        if kept_bytes > self.limit_bytes {
            return Some(buffer);
        }
        self.kept_bytes = kept_bytes;
        self.buffers.push(Idle { gpu, bytes, buffer });
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_buffer_is_reused_by_the_same_gpu_for_the_same_size() {
        let mut idle = IdleBuffers::new(1000);
        assert_eq!(idle.put(0, 100, "a"), None);
        assert_eq!(idle.put(1, 100, "b"), None);
        assert_eq!(idle.put(0, 200, "c"), None);
        assert_eq!(idle.take(2, 100), None);
        assert_eq!(idle.take(0, 150), None);
        assert_eq!(idle.take(1, 100), Some("b"));
        assert_eq!(idle.take(1, 100), None, "once");
        assert_eq!(idle.take(0, 200), Some("c"));
        assert_eq!(idle.take(0, 100), Some("a"));
        assert_eq!(idle.kept_bytes, 0);
    }

    #[test]
    fn idle_buffers_stay_within_the_limit() {
        let mut idle = IdleBuffers::new(250);
        assert_eq!(idle.put(0, 100, 1), None);
        assert_eq!(idle.put(0, 100, 2), None);
        assert_eq!(idle.put(0, 100, 3), Some(3), "too much");
        assert_eq!(idle.put(0, 50, 4), None);
        assert_eq!(idle.put(0, u64::MAX, 5), Some(5));
        // Users that come and go do not add up.
        for _ in 0..1000 {
            let buffer = idle.take(0, 100).expect("two are kept");
            assert_eq!(idle.put(0, 100, buffer), None);
        }
        assert_eq!((idle.kept_bytes, idle.buffers.len()), (250, 3));
    }
}
