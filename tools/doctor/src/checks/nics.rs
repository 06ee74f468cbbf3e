//! Data NICs: their state, placement, and the features of their drivers.

use tcpx_devmem::nic::HeaderSplit;
use tcpx_diagnosis::pci::{Distance, Gpu, Nic};
use tcpx_diagnosis::table::{kernel as kernel_table, topology as table};
use tcpx_diagnosis::{Dialects, Finding};

use super::device_memory;
use crate::devices::nearest_nics;
use crate::kernel::{DevmemSupport, Direction, Kernel, ZeroCopySupport};

/// MTU of A3 High data networks, in bytes.
const JUMBO_MTU: u32 = 8244;

/// Returns the findings about state and placement, which make transfers slow or fail.
pub(crate) fn check_state(data: &[&Nic], gpus: &[Gpu]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = data.iter().flat_map(|nic| check_link(nic)).collect();
    findings.extend(check_subnets(data));
    let owned: Vec<Nic> = data.iter().map(|&nic| nic.clone()).collect();
    findings.extend(gpus.iter().filter_map(|gpu| check_nearest(gpu, &owned)));
    findings
}

fn check_link(nic: &Nic) -> Vec<Finding> {
    let name = &nic.name;
    let mut findings: Vec<Finding> = nic.down().into_iter().collect();
    let mut add = |diagnosis, seen: String| {
        findings.push(Finding::new(diagnosis, seen).with("<NIC>", name));
    };
    if nic.ipv4.is_empty() {
        add(&table::NIC_WITHOUT_ADDRESS, format!("{name} has no IPv4 address"));
    }
    if nic.speed_mbps.is_none() {
        add(&table::NIC_SPEED_UNKNOWN, format!("the speed of {name} is unknown"));
    }
    if let Some(mtu) = nic.mtu.filter(|&mtu| mtu < JUMBO_MTU) {
        add(&table::NIC_MTU_SMALL, format!("{name} has an MTU of {mtu} bytes"));
    }
    findings
}

fn check_subnets(data: &[&Nic]) -> Option<Finding> {
    let subnets: Vec<_> = data
        .iter()
        .flat_map(|nic| nic.ipv4.iter().map(|address| (nic.name.as_str(), *address)))
        .collect();
    subnets.iter().enumerate().find_map(|(row, &(name, address))| {
        let other = subnets[..row]
            .iter()
            .find(|(other, at)| *other != name && at.octets()[..3] == address.octets()[..3])?;
        let seen = format!("{} has {}, {name} has {address}", other.0, other.1);
        Some(Finding::new(&table::NIC_SHARED_SUBNET, seen).with("<ADDRESS>", &address.to_string()))
    })
}

fn check_nearest(gpu: &Gpu, data: &[Nic]) -> Option<Finding> {
    // Without a path there is nothing to compare, and another finding says so.
    gpu.pci_path.as_ref()?;
    let (nic, distance) = *nearest_nics(gpu, data).first()?;
    (distance > Distance::Pxb).then(|| {
        let seen =
            format!("the nearest data NIC of {} is {}, at {distance}", gpu.pci_bus_id, nic.name);
        Finding::new(&table::GPU_WITHOUT_NEAR_NIC, seen).with("<NIC>", &nic.name)
    })
}

/// Returns the findings about header split, flow steering, device memory and zero-copy receive of
/// each NIC. Only a kernel with the mainline dialect answers queries about the last two.
pub(crate) fn check_features(
    kernel: &dyn Kernel,
    data: &[&Nic],
    dialects: Dialects,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for nic in data {
        let can_receive = dialects.mainline
            && matches!(
                kernel.devmem(nic.ifindex, Direction::Receive),
                Ok(DevmemSupport::Supported | DevmemSupport::Blocked(_))
            );
        // A NIC that is no PCI device has a finding only if it can receive into device memory.
        if nic.pci_path.is_none() && !can_receive {
            continue;
        }
        findings.extend(check_rings(kernel, nic));
        findings.extend(check_steering(kernel, nic));
        if dialects.mainline {
            findings.push(check_devmem(kernel, nic, Direction::Receive));
            findings.push(check_devmem(kernel, nic, Direction::Transmit));
            findings.push(check_zero_copy(kernel, nic));
        }
        if can_receive {
            findings.extend(device_memory::check(kernel, &nic.name));
        }
    }
    findings
}

fn check_rings(kernel: &dyn Kernel, nic: &Nic) -> Vec<Finding> {
    let name = &nic.name;
    let rings = match kernel.rings(name) {
        Ok(rings) => rings,
        Err(error) => return vec![query_failed(nic, "ring settings", &error)],
    };
    let mut findings = Vec::new();
    match rings.header_split {
        HeaderSplit::On => {}
        HeaderSplit::Off => {
            findings.push(Finding::new(
                &kernel_table::HEADER_SPLIT_OFF,
                format!("{name}: tcp-data-split is off"),
            ));
        }
        HeaderSplit::Unknown => {
            let seen = format!("{name}: the driver does not report tcp-data-split");
            findings.push(Finding::new(&kernel_table::NIC_QUERY_FAILED, seen));
        }
    }
    if let Some(bytes) = rings.header_split_threshold_bytes.filter(|&bytes| bytes > 0) {
        let seen = format!("{name}: hds-thresh is {bytes} bytes");
        findings.push(Finding::new(&kernel_table::HDS_THRESHOLD_NOT_ZERO, seen));
    }
    findings.into_iter().map(|finding| finding.with("<NIC>", name)).collect()
}

fn check_steering(kernel: &dyn Kernel, nic: &Nic) -> Option<Finding> {
    let name = &nic.name;
    match kernel.flow_steering(name) {
        Ok(true) => None,
        Ok(false) => {
            let seen = format!("{name}: ntuple filters are off");
            Some(Finding::new(&kernel_table::FLOW_STEERING_OFF, seen).with("<NIC>", name))
        }
        Err(error) => Some(query_failed(nic, "features", &error)),
    }
}

fn check_devmem(kernel: &dyn Kernel, nic: &Nic, direction: Direction) -> Finding {
    let name = &nic.name;
    let (unsupported, supported) = match direction {
        Direction::Receive => {
            (&kernel_table::RX_DEVMEM_UNSUPPORTED, &kernel_table::RX_DEVMEM_SUPPORTED)
        }
        Direction::Transmit => {
            (&kernel_table::TX_DEVMEM_UNSUPPORTED, &kernel_table::TX_DEVMEM_SUPPORTED)
        }
    };
    let command = if direction == Direction::Receive { "bind-rx" } else { "bind-tx" };
    let (diagnosis, reply) = match kernel.devmem(nic.ifindex, direction) {
        Ok(DevmemSupport::Supported) => (supported, "capable".to_owned()),
        Ok(DevmemSupport::Unsupported(text)) => (unsupported, text),
        Ok(DevmemSupport::Blocked(text)) => (&kernel_table::RX_DEVMEM_BLOCKED, text),
        Ok(DevmemSupport::Denied) => {
            (&kernel_table::DEVMEM_PROBE_DENIED, "not permitted".to_owned())
        }
        Err(error) => return query_failed(nic, command, &error),
    };
    Finding::new(diagnosis, format!("{name}: {command}: {reply}")).with("<NIC>", name)
}

fn check_zero_copy(kernel: &dyn Kernel, nic: &Nic) -> Finding {
    let (diagnosis, reply) = match kernel.zero_copy_receive(nic.ifindex) {
        Ok(ZeroCopySupport::Supported) => (&kernel_table::ZERO_COPY_SUPPORTED, "capable"),
        Ok(ZeroCopySupport::NoDriverSupport) => {
            (&kernel_table::ZERO_COPY_UNSUPPORTED, "not by this driver or device")
        }
        Ok(ZeroCopySupport::NoKernelSupport) => {
            (&kernel_table::ZERO_COPY_NOT_IN_KERNEL, "not by this kernel")
        }
        Ok(ZeroCopySupport::Denied) => (&kernel_table::ZERO_COPY_PROBE_DENIED, "not permitted"),
        Err(error) => return query_failed(nic, "io_uring zero-copy receive", &error),
    };
    let seen = format!("{}: io_uring zero-copy receive: {reply}", nic.name);
    Finding::new(diagnosis, seen).with("<NIC>", &nic.name)
}

fn query_failed(nic: &Nic, what: &str, error: &std::io::Error) -> Finding {
    let name = &nic.name;
    let seen = format!("{name}: {what}: {error}");
    Finding::new(&kernel_table::NIC_QUERY_FAILED, seen).with("<NIC>", name)
}
