//! Place of contiguous bytes, and whether the bytes of an array lie side by side, in the order of
//! its elements.

use tcpx_core::Device;

/// Place of contiguous bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Address of the first byte, in this process or on the device.
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) device: Device,
    pub(crate) is_read_only: bool,
}

/// Returns the size of an array in bytes. `None`: no memory is that large.
pub(crate) fn bytes_of(shape: &[i64], item_bytes: u64) -> Option<u64> {
    let mut bytes = item_bytes;
    for length in shape {
        bytes = bytes.checked_mul(u64::try_from(*length).ok()?)?;
    }
    Some(bytes)
}

/// Checks that an array is contiguous, with its last dimension densest ("C order"). `strides` are
/// in bytes. The error names the shape and the strides.
pub(crate) fn check_contiguous(
    shape: &[i64],
    strides: &[i64],
    item_bytes: u64,
) -> Result<(), String> {
    if shape.contains(&0) {
        return Ok(());
    }
    let mut dense = i64::try_from(item_bytes).unwrap_or(i64::MAX);
    for (length, stride) in shape.iter().zip(strides).rev() {
        // A dimension of one element is never stepped over.
        if *length != 1 && *stride != dense {
            return Err(format!(
                "an array of shape {shape:?} with strides of {strides:?} bytes is not contiguous: \
                 its bytes do not lie side by side in the order of its elements"
            ));
        }
        dense = dense.saturating_mul(*length);
    }
    Ok(())
}

/// Cure of an array that is not contiguous.
pub(crate) const CONTIGUOUS_CURE: &str = "make a contiguous copy (torch: tensor.contiguous(), \
    numpy: numpy.ascontiguousarray(array)), or move its contiguous parts one by one";
