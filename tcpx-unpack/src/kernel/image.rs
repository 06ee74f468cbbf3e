//! The compiled kernel.

use std::ffi::CStr;

/// PTX in the repository, made by CUDA 12.2: driver 535 and newer take it.
const COMMITTED: &str = include_str!("../../kernels/unpack.ptx");

/// PTX texts in the order in which they are tried. The output of this build's nvcc comes first; it
/// may be too new for the driver.
#[cfg(nvcc_ptx)]
pub(super) const IMAGES: [&str; 2] =
    [include_str!(concat!(env!("OUT_DIR"), "/unpack.ptx")), COMMITTED];
/// PTX texts in the order in which they are tried.
#[cfg(not(nvcc_ptx))]
pub(super) const IMAGES: [&str; 1] = [COMMITTED];

/// Kernel that takes up to [`TILES_BY_VALUE`](super::launch::TILES_BY_VALUE) entries in its
/// parameters.
pub(super) const BY_VALUE: &CStr = c"tcpx_unpack_by_value";
/// Kernel that takes a pointer to any number of entries.
pub(super) const FROM_MEMORY: &CStr = c"tcpx_unpack_from_memory";

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    const SOURCE: &[u8] = include_bytes!("../../kernels/unpack.cu");

    #[test]
    fn the_committed_ptx_belongs_to_the_committed_source() {
        let digest: String =
            Sha256::digest(SOURCE).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            COMMITTED.lines().next(),
            Some(format!("// source sha256 {digest}").as_str()),
            "run tools/scripts/kernel-ptx.sh"
        );
    }

    #[test]
    fn the_committed_ptx_loads_on_driver_535() {
        let version = COMMITTED.lines().find_map(|line| line.strip_prefix(".version ")).unwrap();
        let (major, minor) = version.split_once('.').unwrap();
        let isa = (major.parse::<u32>().unwrap(), minor.parse::<u32>().unwrap());
        assert!(isa <= (8, 2), "PTX ISA {version}");
        assert!(COMMITTED.contains("\n.target sm_80\n"));
    }

    #[test]
    fn every_image_has_both_kernels() {
        for image in IMAGES {
            for name in [BY_VALUE, FROM_MEMORY] {
                assert!(image.contains(&format!(".entry {}(", name.to_str().unwrap())));
            }
        }
    }
}
