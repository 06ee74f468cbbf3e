//! A drop-in `libcuda.so.1` for machines without a GPU, for tests. It is never part of a product.
//!
//! What it has in common with a GPU is what code gets wrong without one:
//! - Device memory lies at addresses that the CPU may not touch: a thread that tries gets SIGSEGV.
//!   The bytes are behind a second mapping, which only this library knows.
//! - Pinned memory has an alias for the GPU at another address, which the CPU may not touch either.
//! - Copies and kernels are worked off later, by a thread for each stream, in order. Freeing memory
//!   waits for them.
//! - A kernel that touches what it may not breaks its context, and every later call says so.
//! - The two kernels of `tcpx-unpack` are carried out; any other is refused.
//!
//! Where the real driver lets pass what a careful program does not do, this one refuses; what it
//! does not know is `CUDA_ERROR_NOT_SUPPORTED`, or not exported at all. `TCPX_FAKE_CUDA_GPUS` says
//! how many GPUs there are, 2 by default; with `TCPX_FAKE_CUDA_DMA_BUF=0` they export no memory,
//! and with `TCPX_FAKE_CUDA_REGISTER=0` no memory of the program's is registered.
//! `TCPX_FAKE_CUDA_HOST_NODE` says which node of the host is nearest to them, 0 by default.
//! What it answers to `cuMemGetHandleForAddressRange` and `cuMemHostRegister` was compared with
//! driver 580 on an H100; where it is stricter, `export` and `entries` say so.
//!
//! - `ordinary`: memory that the driver does not know
//! - `pages`, `reservation`: bytes that the driver reaches, and addresses that no code may touch
//! - `program_memory`: memory of the program's own that it registers
//! - `video_memory`: the file in which the GPUs' own bytes are
//! - `address_space`: what lies at which address
//! - `export`: ranges as dma-bufs, by udmabuf where the system has it
//! - `copy`: the two sides of a copy
//! - `gpu`, `current`: GPUs with their primary contexts, and the context of a thread
//! - `stream`, `event`, `handles`: work that is done later, and marks in it
//! - `module`, `kernel`: PTX, and what its kernels do
//! - `status`: what calls answer; `calls`: how often each was made
//! - `entries`: the exported functions

mod address_space;
mod calls;
mod copy;
mod current;
mod entries;
mod event;
mod export;
mod gpu;
mod handles;
mod kernel;
mod module;
mod ordinary;
mod pages;
mod program_memory;
mod reservation;
mod status;
mod stream;
mod video_memory;
