#![allow(unsafe_code)]
//! Posts of sends and receives, one by one and in batches.

use tcpx_core::{Error, MemoryUnavailable, Post, Transfer};

use crate::failure::Failure;
use crate::input_array::{InputArray, InputItem};
use crate::status::tcpx_status;
use crate::transfer::tcpx_transfer;
use crate::{boundary, input};

/// Most operations in one call of a batch function.
pub const TCPX_MAX_BATCH: usize = 1_048_576;

/// Send or receive of a batch. New members are added at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct tcpx_post {
    /// Id of the registration.
    pub memory: u64,
    /// Offset of the bytes in the registration.
    pub offset: u64,
    /// Number of bytes. The other end must post the same number.
    pub bytes: u64,
    /// Tag of the message. The other end's post with the same tag is the counterpart. Equal tags
    /// match in the order of posting.
    pub tag: i64,
}

const _: () = assert!(size_of::<tcpx_post>() == 32);

// SAFETY: four words are 32 bytes without padding, as asserted.
unsafe impl InputItem for tcpx_post {
    const NAME: &'static str = "tcpx_post";
    const FIRST_BYTES: usize = 32;
}

impl tcpx_post {
    fn to_core(self) -> Result<Post, Failure> {
        let Self { memory, offset, bytes, tag } = self;
        Ok(Post { memory: input::memory_id(memory)?, offset, bytes, tag })
    }
}

/// Posts a send of `bytes` bytes at `offset` of registration `memory`.
///
/// The bytes must not change until the transfer is complete. The other end posts a receive of the
/// same size and tag, before or after.
///
/// Errors: `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_MEMORY`; `TCPX_ERR_MEMORY` when the bytes are not
/// all in the registration; `TCPX_ERR_PEER_STATE`, `TCPX_ERR_CLOSED` or the peer's own error when
/// the peer is not up; `TCPX_ERR_NO_MEMORY` when the system has no memory for it. After an error
/// nothing was posted. Any thread; does not block.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_transfer_post_send(
    transfer: tcpx_transfer,
    memory: u64,
    offset: u64,
    bytes: u64,
    tag: i32,
) -> tcpx_status {
    boundary::call(|| {
        let post = tcpx_post { memory, offset, bytes, tag: tag.into() };
        Ok(transfer.get()?.post_send(post.to_core()?)?)
    })
}

/// Posts a receive of `bytes` bytes to `offset` of registration `memory`.
///
/// The memory was registered with `is_recv` 1. Until the transfer is complete the bytes must be
/// neither read nor written.
///
/// Errors: those of `tcpx_transfer_post_send`. Any thread; does not block.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_transfer_post_recv(
    transfer: tcpx_transfer,
    memory: u64,
    offset: u64,
    bytes: u64,
    tag: i32,
) -> tcpx_status {
    boundary::call(|| {
        let post = tcpx_post { memory, offset, bytes, tag: tag.into() };
        Ok(transfer.get()?.post_recv(post.to_core()?)?)
    })
}

/// Posts many sends: all of them, or none if one is wrong or memory runs out.
///
/// `posts` is an array of `count` items, of `post_bytes` each, which is sizeof(tcpx_post). The
/// array is copied. A `count` of 0 posts nothing.
///
/// Errors: those of `tcpx_transfer_post_send`; `TCPX_ERR_NULL`; `TCPX_ERR_ARGUMENT` for a `count`
/// above TCPX_MAX_BATCH, and for another size of an item. Any thread; does not block.
///
/// # Safety
/// `posts` is NULL or may be read for `count` times `post_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_transfer_post_send_batch(
    transfer: tcpx_transfer,
    posts: *const tcpx_post,
    post_bytes: usize,
    count: usize,
) -> tcpx_status {
    // SAFETY: passed on from the caller.
    boundary::call(|| unsafe {
        post_batch(transfer, (posts, post_bytes, count), Transfer::post_send_batch)
    })
}

/// Posts many receives: all of them, or none if one is wrong or memory runs out.
///
/// `posts` is an array of `count` items, of `post_bytes` each, which is sizeof(tcpx_post). The
/// array is copied. A `count` of 0 posts nothing.
///
/// Errors: those of `tcpx_transfer_post_send_batch`. Any thread; does not block.
///
/// # Safety
/// `posts` is NULL or may be read for `count` times `post_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_transfer_post_recv_batch(
    transfer: tcpx_transfer,
    posts: *const tcpx_post,
    post_bytes: usize,
    count: usize,
) -> tcpx_status {
    // SAFETY: passed on from the caller.
    boundary::call(|| unsafe {
        post_batch(transfer, (posts, post_bytes, count), Transfer::post_recv_batch)
    })
}

/// # Safety
/// `posts` is NULL or may be read for `count` times `post_bytes` bytes.
unsafe fn post_batch(
    transfer: tcpx_transfer,
    (posts, post_bytes, count): (*const tcpx_post, usize, usize),
    post: impl FnOnce(&Transfer, &[Post]) -> tcpx_core::Result<()>,
) -> Result<(), Failure> {
    // SAFETY: passed on from the caller.
    let posts = unsafe { InputArray::new("posts", posts, post_bytes, count, TCPX_MAX_BATCH) }?;
    let transfer = transfer.get()?;
    let mut copy: Vec<Post> = Vec::new();
    copy.try_reserve_exact(count)
        .map_err(|_| Error::MemoryUnavailable(MemoryUnavailable::Operations { count }))?;
    for post in posts.iter() {
        copy.push(post?.to_core()?);
    }
    Ok(post(&transfer, &copy)?)
}
