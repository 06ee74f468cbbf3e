#![allow(unsafe_code)]
//! Copies and fills.

use std::ffi::c_uchar;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUdeviceptr, CUresult, CUstream};

use crate::address_space::{WRITE, space};
use crate::copy::copy;
use crate::current;
use crate::status::{Result, answer};
use crate::stream::{STREAMS, Stream};

/// The stream, if it belongs to the current context.
pub(super) fn own_stream(stream: CUstream) -> Result<Arc<Stream>> {
    let gpu = current::working()?;
    let stream = STREAMS.get(stream)?;
    match ptr::eq(stream.gpu, gpu) {
        true => Ok(stream),
        false => Err(CUresult::CUDA_ERROR_INVALID_CONTEXT),
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyAsync(
    dst: CUdeviceptr,
    src: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    answer(|| copy(&*own_stream(stream)?, dst, src, bytes))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(
    address: CUdeviceptr,
    value: c_uchar,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    answer(|| {
        let stream = own_stream(stream)?;
        let place = space().place(address, bytes, WRITE)?;
        let place = place.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        stream.push(move || {
            place.pages.fill(place.offset, value, bytes);
            Ok(())
        });
        Ok(())
    })
}
