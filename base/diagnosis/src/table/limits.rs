//! TCPX-6xx: limits of the system and the network between the hosts.

use crate::diagnosis::diagnoses;

diagnoses! {
OPTMEM_SMALL = 601 Warning "net.core.optmem_max is below 131072"
    symptom "sends stop with ENOBUFS under load; throughput collapses"
    cause "zerocopy notifications are paid from each socket's option memory"
    cure ["sysctl -w net.core.optmem_max=131072"]
    source "kernel 6.18, net/core/skbuff.c; A3 High deployment files"
MEMLOCK_SMALL = 602 Warning "little memory may be locked"
    symptom "cudaHostAlloc or zerocopy sends fail with ENOMEM or ENOBUFS"
    cause "pinned buffers and zerocopy pages count against RLIMIT_MEMLOCK for users without IPC_LOCK"
    cure ["ulimit -l unlimited", "# in a container: add the capability IPC_LOCK"]
    source "A3 High deployment files"
TCP_RMEM_SMALL = 603 Warning "TCP receive buffers are small"
    symptom "one connection stays far below the NIC's speed"
    cause "the window is bound by the third number of net.ipv4.tcp_rmem"
    cure ["sysctl -w net.ipv4.tcp_rmem='4096 1048576 15728640'"]
    source "RxDM tuning script"
TCP_WMEM_SMALL = 604 Warning "TCP send buffers are small"
    symptom "one connection stays far below the NIC's speed"
    cause "the bytes in flight are bound by the third number of net.ipv4.tcp_wmem"
    cure ["sysctl -w net.ipv4.tcp_wmem='4096 1048576 67108864'"]
    source "RxDM tuning script"
PORT_RANGE_NARROW = 605 Warning "few local ports are left for connections"
    symptom "connect fails with EADDRNOTAVAIL"
    cause "every channel takes several ephemeral ports on both ends; ports are not configurable in the plugin"
    cure ["sysctl -w net.ipv4.ip_local_port_range='32768 60999'"]
    source "plugin 3.1.9, source"
PEER_TIMES_OUT = 606 Error "the peer's address does not answer"
    symptom "connect waits for a minute or for ever"
    cause "a firewall drops the packets, the address is wrong, or there is no route; ephemeral ports must be open between the hosts"
    cure ["ip route get <ADDRESS>", "ping -c 3 <ADDRESS>", "# allow all TCP ports between the data NICs' subnets: ports are ephemeral"]
    source "p2p notes on errors"
PEER_REFUSES = 607 Error "no process listens at the peer's address"
    symptom "\"Connection refused, retrying\""
    cause "the host answers, but no process has this port open: not started yet, another address, or it has ended"
    cure ["ss -ltn", "# start the server first, and use the address it shows"]
    source "p2p notes on errors"
OPEN_FILES_LIMIT = 608 Warning "few files may be open"
    symptom "with many peers or channels nothing more can be opened"
    cause "a peer holds a socket, each of its channels up to 7 descriptors where they are made, a registration 2"
    cure ["ulimit -n 65536"]
    source "plugin 3.1.9, run"
SLOW_START_AFTER_IDLE = 609 Info "TCP starts slowly after every pause"
    symptom "the first transfer after a pause is slow"
    cause "the congestion window is forgotten after an idle round trip timeout"
    cure ["sysctl -w net.ipv4.tcp_slow_start_after_idle=0"]
    source "RxDM tuning script"
PEER_UNREACHABLE = 610 Error "the peer's address cannot be reached"
    symptom "connect fails at once: network or host unreachable"
    cause "no route leads there, or a router refuses"
    cure ["ip route get <ADDRESS>", "ip -br addr"]
    source "tcp(7)"
SYSCTL_NOT_READABLE = 611 Info "a kernel setting could not be read"
    symptom "the check is left out"
    cause "the file below /proc/sys is missing: no permission, a sandbox, or another kernel"
    cure ["ls -l <PATH>"]
    source "proc(5)"
CPU_WITHOUT_AES = 612 Info "the processor has no instructions for AES"
    symptom "with encryption (TCPX_ENCRYPTION) transfers reach about a third of their usual speed"
    cause "without these instructions records are encrypted with ChaCha20-Poly1305, at both ends of a connection as soon as one end lacks them; a virtual machine may hide what its host has"
    cure ["cat /proc/cpuinfo", "# in a virtual machine: choose a CPU model that passes the instructions on (QEMU: -cpu host)"]
    source "proc(5)"
PORT_IN_USE = 613 Error "the port is in use"
    symptom "\"port is in use\", or \"address in use\" when a session or a server listens"
    cause "another process listens on this port of this address, or a server that was started before still does"
    cure ["ss -ltnp", "# stop the other program, or choose another port: --port of tcpx, listen (TCPX_LISTEN) of a session; 0 lets the system choose"]
    source "this project"
KERNEL_TLS_UNUSED = 614 Info "tcpx encrypts by itself, not by the kernel's TLS"
    symptom "tcpx doctor says whether this kernel has TLS; encryption (TCPX_ENCRYPTION) is the same with it as without"
    cause "the kernel's TLS cannot renew its keys before Linux 6.14, and it was never measured to be faster: records are encrypted in the process, on every kernel alike"
    cure ["sysctl net.ipv4.tcp_available_ulp", "# nothing to do: tcpx needs nothing of the kernel to encrypt"]
    source "this project, docs/decisions/encryption.md"
CLOCK_NOT_SYNCHRONISED = 615 Warning "the clock is not synchronised"
    symptom "a certificate (TCPX_TLS_CERT) is refused as expired or not valid yet, though it is valid"
    cause "certificates are checked by this machine's clock, and nothing sets it by another one: no program like chrony or systemd-timesyncd runs, or it reaches no server"
    cure ["date -u", "# timedatectl status, or chronyc tracking, says which program sets the clock: start one; in a container the clock is the host's"]
    source "adjtimex(2)"
CLOUD_ENCRYPTS = 616 Info "what the network of this cloud encrypts"
    symptom "tcpx doctor says what the cloud's documents state about traffic between virtual machines"
    cause "the cloud may encrypt below this machine, with keys that the cloud has and where this machine cannot see it; with TCPX_ENCRYPTION only the two ends have the keys"
    cure ["# Google Cloud: nothing to set", "# Amazon EC2: aws ec2 describe-instance-types --filters Name=network-info.encryption-in-transit-supported,Values=true names the types that do", "# Azure: az network vnet show --query encryption says whether it is enabled", "# to have the keys at the two ends alone: export TCPX_ENCRYPTION=require"]
    source "documents of the clouds: Encryption in transit (Google Cloud), Data protection in Amazon EC2, Virtual network encryption (Azure)"
}
