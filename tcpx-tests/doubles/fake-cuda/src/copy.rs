//! The two sides of a copy: memory that the driver knows, or ordinary memory.

use std::sync::mpsc;

use cudarc::driver::sys::CUresult;

use crate::address_space::{READ, WRITE, space};
use crate::ordinary;
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
    match (from, to) {
        (Some(from), Some(to)) => {
            stream.push(move || {
                Pages::copy((&from.pages, from.offset), (&to.pages, to.offset), bytes);
                Ok(())
            });
            Ok(())
        }
        (None, Some(to)) => {
            let content = ordinary::read(src, bytes)?;
            stream.push(move || {
                to.pages.write(to.offset, &content);
                Ok(())
            });
            Ok(())
        }
        (Some(from), None) => {
            let (sender, receiver) = mpsc::channel();
            stream.push(move || {
                let mut content = vec![0; bytes];
                from.pages.read(from.offset, &mut content);
                // The thread that waits for the content stays until it comes.
                let _ = sender.send(content);
                Ok(())
            });
            // Of a broken context nothing comes.
            let content = receiver.recv().map_err(|_| CUresult::CUDA_ERROR_ILLEGAL_ADDRESS)?;
            ordinary::write(dst, &content)
        }
        (None, None) => Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
    }
}
