//! Test of the receive path on arrays: all that a build without the feature `alloc` has.

use tcpx_rx::{
    Dialect, Fragment, TokenBatches, TokenRange, UnpackDescriptor, check, merge_slice, walk,
};

/// Control message of the Google dialect, as the kernel lays it out.
fn control_message(offset: u32, bytes: u32, token: u32) -> [u8; 32] {
    let mut message = [0; 32];
    message[..8].copy_from_slice(&28_u64.to_ne_bytes());
    for (at, word) in [(8, 1), (12, 99), (16, offset), (20, bytes), (24, token)] {
        message[at..at + 4].copy_from_slice(&u32::to_ne_bytes(word));
    }
    message
}

#[test]
fn fragments_become_descriptors_and_tokens_without_an_allocator() {
    let mut control = [0; 64];
    control[..32].copy_from_slice(&control_message(8192, 4096, 11));
    control[32..].copy_from_slice(&control_message(12288, 1904, 12));

    let mut list = [UnpackDescriptor::default(); 2];
    let mut tokens = [TokenRange::single(0); 2];
    let mut dst_off = 0;
    let mut fragments = walk(&control, Dialect::Google);
    for (slot, token) in list.iter_mut().zip(&mut tokens) {
        let Some(Ok(Fragment::Device(device))) = fragments.next() else { panic!("a fragment") };
        *slot = UnpackDescriptor { src_off: device.offset as u32, len: device.bytes, dst_off };
        *token = TokenRange::single(device.token);
        dst_off += u64::from(device.bytes);
    }
    assert_eq!(fragments.next(), None);
    assert_eq!(fragments.totals().device_bytes, 6000);

    assert_eq!(check(&mut list, 1 << 20, 6000), Ok(()));
    assert_eq!(merge_slice(&mut list), 1);
    assert_eq!(list[0], UnpackDescriptor { src_off: 8192, len: 6000, dst_off: 0 });

    let batch = TokenBatches::new(&tokens).next().expect("two tokens");
    assert_eq!((batch.len(), batch.fragments()), (2, 2));
}
