//! `tcpx devices`: GPUs, NICs, the distances between them, and the plugin of a session here.

use std::process::ExitCode;

use serde::Serialize;
use tcpx_diagnosis::pci::{Distance, Gpu, Nic};
use tcpx_doctor::{gpu_nic_distance, render_devices};

use super::machine;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::session::Transport;

/// List GPUs and NICs with their distances, and say which plugin a session would use and why.
///
/// Distances are those of nvidia-smi and NCCL: LOC, PIX (one PCIe switch), PXB, PHB, NODE, SYS.
/// Exit status: 0.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct DevicesArgs {
    /// Print one JSON object instead of tables, with the distance of every GPU to every NIC
    #[arg(long)]
    json: bool,
}

/// JSON object of everything, for machines.
#[derive(Serialize)]
struct Devices<'a> {
    gpus: Vec<GpuRow<'a>>,
    nics: &'a [Nic],
    transport: &'a Transport,
}

#[derive(Serialize)]
struct GpuRow<'a> {
    /// Number that `tcpx doctor --gpu` takes.
    index: usize,
    #[serde(flatten)]
    gpu: &'a Gpu,
    distances: Vec<NicDistance<'a>>,
}

#[derive(Serialize)]
struct NicDistance<'a> {
    nic: &'a str,
    /// `null` when one of the two is not on PCI.
    distance: Option<Distance>,
}

/// Prints the devices.
pub(crate) fn run(args: &DevicesArgs) -> Result<ExitCode, Failure> {
    let (gpus, nics) = (machine::gpus(), machine::nics()?);
    let transport = Transport::of(None)?;
    if args.json {
        print_json(&describe(&gpus, &nics, &transport))?;
    } else {
        let Transport { plugin, why, .. } = transport;
        print(&format!("{}\nplugin: {plugin} ({why})", render_devices(&gpus, &nics)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn describe<'a>(gpus: &'a [Gpu], nics: &'a [Nic], transport: &'a Transport) -> Devices<'a> {
    let row = |(index, gpu): (usize, &'a Gpu)| GpuRow {
        index,
        gpu,
        distances: nics
            .iter()
            .map(|nic| NicDistance { nic: &nic.name, distance: gpu_nic_distance(gpu, nic) })
            .collect(),
    };
    Devices { gpus: gpus.iter().enumerate().map(row).collect(), nics, transport }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use tcpx_core::PluginChoice;
    use tcpx_diagnosis::pci::PciPath;

    fn below_switch(device: &str) -> Option<PciPath> {
        let switch = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";
        PciPath::parse(Path::new(&format!("{switch}/{device}")))
    }

    #[test]
    fn every_gpu_has_a_distance_to_every_nic() {
        let gpu = Gpu {
            pci_bus_id: "0000:04:00.0".into(),
            pci_path: below_switch("0000:02:00.0/0000:04:00.0"),
            numa: Some(0),
            has_driver: true,
            model: None,
        };
        let nic = |name: &str, pci_path| Nic {
            name: name.into(),
            ifindex: 2,
            pci_path,
            is_pci_function: true,
            speed_mbps: None,
            mtu: None,
            ipv4: Vec::new(),
            numa: Some(0),
            operstate: "up".into(),
            driver: None,
        };
        let nics = [nic("eth1", below_switch("0000:02:02.0/0000:06:00.0")), nic("lo", None)];
        let why = "asked".into();
        let transport = Transport { plugin: PluginChoice::Soft, why, is_left_open: false };
        let value = serde_json::to_value(describe(&[gpu], &nics, &transport)).unwrap();
        assert_eq!(value["gpus"][0]["index"], 0);
        assert_eq!(value["gpus"][0]["pci_bus_id"], "0000:04:00.0");
        assert_eq!(value["gpus"][0]["distances"][0]["nic"], "eth1");
        assert_eq!(value["gpus"][0]["distances"][0]["distance"], "PIX");
        assert!(value["gpus"][0]["distances"][1]["distance"].is_null());
        assert_eq!(value["nics"][1]["name"], "lo");
        assert_eq!(value["transport"]["plugin"], "soft");
    }
}
