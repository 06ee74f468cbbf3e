#![allow(unsafe_code)]
//! NIC as the plugin reports it.

use std::ffi::CStr;
use std::path::PathBuf;

use tcpx_sys::{Entries, NET_DEVICE_UNPACK, NcclResult, NetProperties, UNPACK_VERSION};

/// Network interface as the plugin reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Nic {
    /// Number of the NIC in the plugin.
    pub index: i32,
    /// Interface name.
    pub name: String,
    /// Real path under `/sys`, if the NIC has one.
    pub pci_path: Option<PathBuf>,
    /// Port speed in Mbit/s.
    pub speed_mbps: i32,
}

/// Reason why a NIC cannot be used.
pub(super) enum NicError {
    /// `getProperties` returned this code.
    Call(NcclResult),
    /// The plugin reported properties that this library cannot use.
    Unfit(String),
}

/// Reads the properties of a NIC from the plugin. `index` is below the count of `devices`.
pub(super) fn read_nic(entries: &Entries, index: i32) -> Result<Nic, NicError> {
    let mut properties = NetProperties {
        name: std::ptr::null(),
        pci_path: std::ptr::null(),
        guid: 0,
        ptr_support: 0,
        speed: 0,
        port: 0,
        latency: 0.0,
        max_comms: 0,
        max_recvs: 0,
        net_device_type: 0,
        net_device_version: 0,
    };
    // SAFETY: `properties` is a valid struct of the v7 layout. `devices` reported the index.
    let code = unsafe { (entries.get_properties)(index, &raw mut properties) };
    if !code.is_success() {
        return Err(NicError::Call(code));
    }
    let text = |pointer: *const std::ffi::c_char| {
        // SAFETY: the pointer is not NULL. It points to a NUL-terminated string of the plugin,
        // which never frees it.
        (!pointer.is_null())
            .then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
    };
    let name = text(properties.name).unwrap_or_else(|| format!("nic{index}"));
    let (kind, version) = (properties.net_device_type, properties.net_device_version);
    if kind != NET_DEVICE_UNPACK || version != UNPACK_VERSION {
        return Err(NicError::Unfit(format!(
            "NIC {name} has device type {kind} version {version:#x}, this library reads type {NET_DEVICE_UNPACK} \
             version {UNPACK_VERSION:#x}"
        )));
    }
    Ok(Nic {
        index,
        name,
        pci_path: text(properties.pci_path).map(PathBuf::from),
        speed_mbps: properties.speed,
    })
}
