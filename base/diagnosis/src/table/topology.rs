//! TCPX-3xx: NICs, GPUs and how they are placed.

use crate::diagnosis::diagnoses;

diagnoses! {
NIC_MISSING = 301 FatalForPlugin "there is no network interface for data"
    symptom "init returns 3, \"no interface\""
    lines ["net->init rc=3"]
    cause "no interface other than loopback has an address"
    cure ["ip -br addr"]
    source "plugin 3.1.9, run"
NIC_DOWN = 302 Error "a data NIC is down"
    symptom "connect times out on this NIC; \"channel n is over NIC <NIC>, which is down\"; \"channel n, NIC <NIC>: lost, and work goes on over the others\"; RxDM exits on link down"
    cause "the interface's operational state is down"
    cure ["ip link set <NIC> up"]
    source "RxDM 2.0, source"
NIC_WITHOUT_ADDRESS = 303 Error "a data NIC has no IPv4 address"
    symptom "the NIC is not used, or connections fail"
    cause "the plugin and RxDM's rules work with IPv4 only"
    cure ["ip -4 addr show dev <NIC>", "# configure the NIC in its own VPC subnet and renew its lease"]
    source "plugin 3.1.9, source"
NIC_WITHOUT_PCI = 304 FatalForPlugin "a data NIC is no PCI device"
    symptom "the process dies of SIGSEGV in regMr"
    cause "loopback and virtual interfaces have no device link; the plugin's pciPath is then NULL, and it reads through it"
    cure ["export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=eth1,eth2,eth3,eth4", "# or use plugin = soft"]
    source "plugin 3.1.9, run"
NIC_DOMAIN = 305 Error "a data NIC is not in PCI domain 0000"
    symptom "CUDA regMr returns 3"
    cause "the plugin passes bus, device and function to the kernel and assumes domain 0000"
    cure ["lspci -D", "# choose NICs in domain 0000"]
    source "plugin 3.1.9, source"
GPU_WITHOUT_NEAR_NIC = 306 Error "a GPU has no data NIC under its PCIe switch"
    symptom "\"rx no cmsg\", or a fraction of the bandwidth"
    cause "the NIC must write the GPU's memory over a PCIe switch they share (PIX or PXB); through a host bridge it is slow or impossible"
    cure ["tcpx devices", "# choose a GPU with a near NIC, or add that NIC to NCCL_GPUDIRECTTCPX_SOCKET_IFNAME"]
    source "A3 topology notes; NCCL_NET_GDR_LEVEL=PIX of the A3 High profile"
NIC_SPEED_UNKNOWN = 307 Info "the speed of a data NIC is unknown"
    symptom "the plugin reports 10000 Mbit/s"
    cause "the driver gives no value in /sys/class/net/<NIC>/speed; common for virtual NICs"
    cure ["cat /sys/class/net/<NIC>/speed"]
    source "plugin 3.1.9, source"
NIC_MTU_SMALL = 308 Warning "a data NIC has a small MTU"
    symptom "many small fragments; more CPU time; large requests near the limit of 2048 fragments"
    cause "payload is cut at the MTU; A3 networks allow 8244 bytes, and 1448-byte pieces reach 2048 fragments at 2.9 MB"
    cure ["ip link set dev <NIC> mtu 8244", "# the VPC network's MTU must allow it"]
    source "A3 High networks; plugin 3.1.9, run"
NUMA_NODE_HAZARD = 309 FatalForPlugin "the plugin would read the CPU list of a NUMA node that does not exist"
    symptom "the process dies of SIGSEGV in init"
    cause "any numa_node that does not start with 0 counts as node 1, even -1, and its missing cpulist is read through a null pointer"
    cure ["cat /sys/class/net/<NIC>/device/numa_node", "ls /sys/devices/system/node"]
    source "plugin 3.1.9, source"
PEER_IS_THIS_HOST = 311 Error "both ends are on one host"
    symptom "\"rx no cmsg\"; the receiver exits"
    cause "traffic to an own address never leaves through the NIC, so it cannot land in GPU memory"
    cure ["# run the two ends on two hosts, or use plugin = soft"]
    source "kernel 6.18, Documentation/networking/devmem.rst; p2p notes on errors"
NIC_NOT_A_PCI_FUNCTION = 312 Error "a data NIC's device link does not end in a PCI address"
    symptom "CUDA regMr returns 3"
    cause "the plugin takes the last part of the link as the PCI address; virtio NICs end in virtioN"
    cure ["readlink -f /sys/class/net/<NIC>/device", "# use a gVNIC (driver gve) for data, or plugin = soft"]
    source "plugin 3.1.9, source"
NIC_SHARED_SUBNET = 313 Warning "two data NICs have addresses in one /24"
    symptom "traffic of one NIC leaves through another; bandwidth of a single NIC"
    cause "each data NIC needs a VPC network of its own; within one network the route decides, not the plugin"
    cure ["ip -br -4 addr", "ip route get <ADDRESS>"]
    source "A3 High deployment guides"
GPU_WITHOUT_DRIVER = 314 Warning "a GPU is not in the driver's list"
    symptom "fewer CUDA devices than PCI shows"
    cause "the GPU is on the PCI bus, but the NVIDIA driver has not taken it: it failed, or it is given to another driver or container"
    cure ["nvidia-smi -L", "dmesg | grep -i nvrm"]
    source "NVIDIA driver's /proc files"
NIC_NOT_EXAMINED = 315 Info "the addresses of the interfaces cannot be read"
    symptom "checks that need addresses are left out"
    cause "the kernel refused the netlink request"
    cure ["ip -br -4 addr"]
    source "rtnetlink(7)"
NIC_UNKNOWN = 316 Error "the plugin offers no NIC of this name"
    symptom "\"no NIC <NAME>; the plugin offers: <NAMES>\""
    cause "the name is misspelt, or the interface settings of the plugin leave it out"
    cure ["tcpx devices", "# name one of the NICs that the message lists"]
    source "this project"
}
