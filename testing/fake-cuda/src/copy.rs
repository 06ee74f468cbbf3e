//! The two sides of a copy: memory that the driver knows, or ordinary memory.

use std::sync::Arc;

use crate::address_space::{Place, READ, WRITE, space};
use crate::pages::Pages;
use crate::status::Result;
use crate::stream::Stream;

/// Queues a copy between any two memories.
///
/// As with the real driver, ordinary memory is read within the call, and a call that writes
/// ordinary memory returns when it has been written. Where nothing is mapped, the real one may end
/// the process; here that is `CUDA_ERROR_INVALID_VALUE`.
pub(crate) fn copy(stream: &Stream, dst: u64, src: u64, bytes: usize) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let (from, to) = {
        let space = space();
        (space.place(src, bytes, READ)?, space.place(dst, bytes, WRITE)?)
    };
    let from = match from {
        Some(place) => place,
        None => Place { pages: Pages::of_ordinary(src, bytes)?, offset: 0 },
    };
    let Some(to) = to else {
        let landed = Pages::new(bytes as u64)?;
        queue(stream, from, Place { pages: Arc::clone(&landed), offset: 0 }, bytes);
        stream.wait();
        stream.gpu.check()?;
        return landed.to_ordinary(dst, bytes);
    };
    queue(stream, from, to, bytes);
    Ok(())
}

fn queue(stream: &Stream, from: Place, to: Place, bytes: usize) {
    stream.push(move || {
        Pages::copy((&from.pages, from.offset), (&to.pages, to.offset), bytes);
        Ok(())
    });
}
