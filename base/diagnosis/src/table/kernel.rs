//! TCPX-4xx: device memory TCP in the kernel and in the NIC's driver.

use crate::diagnosis::diagnoses;

diagnoses! {
DIALECT_ABSENT = 401 FatalForPlugin "the kernel has no device memory TCP"
    symptom "\"rx no cmsg\"; the receiver exits; dmesg shows no devmem line"
    lines ["TCP: devmem-tcp enabled"]
    cause "neither the dialect of Google's COS kernels (option 97) nor the mainline one (option 80) is there"
    cure ["uname -r", "# run on an A3 image with GPUDirect-TCPX support, or use plugin = soft"]
    source "kernel 6.18, net/core/sock.c; plugin 3.1.9, src/sock/tcpx.h"
DIALECT_MAINLINE_ONLY = 402 FatalForPlugin "the kernel speaks only mainline device memory TCP"
    symptom "\"rx no cmsg\"; the receiver exits"
    cause "plugin 3.1.9 uses the older dialect of Google's COS kernels (options 97 to 99); mainline uses 78 to 80 with other layouts"
    cure ["uname -r", "# run on an A3 image with GPUDirect-TCPX support, or use plugin = soft", "# this kernel's own device memory TCP is what plugin = devmem uses: see docs/devmem.md for what a NIC needs"]
    source "kernel 6.18, net/core/sock.c; plugin 3.1.9, src/sock/tcpx.h"
RX_DEVMEM_UNSUPPORTED = 403 Info "a NIC's driver cannot receive into device memory"
    symptom "bind-rx is refused"
    cause "the driver has no queue management operations, or no DMA: virtio_net, lo, veth and most others"
    cure ["ethtool -i <NIC>", "# drivers with support in 6.18: gve (DQO), bnxt, mlx5e, fbnic"]
    source "kernel 6.18, net/core/netdev_rx_queue.c; measured"
TX_DEVMEM_UNSUPPORTED = 404 Info "a NIC's driver cannot send from device memory"
    symptom "bind-tx is refused: \"Driver does not support netmem TX\""
    cause "the driver does not declare netmem_tx"
    cure ["ethtool -i <NIC>", "# drivers with support in 6.18: gve (DQO-RDA), bnxt, mlx5, fbnic"]
    source "kernel 6.18, net/core/netdev-genl.c; measured"
HEADER_SPLIT_OFF = 405 Error "tcp-data-split is off"
    symptom "\"rx no cmsg\"; bind-rx fails: \"tcp-data-split is disabled\""
    lines ["tcp-data-split: off"]
    cause "without header split the NIC cannot keep payload apart from headers, so payload cannot go to the GPU alone"
    cure ["ethtool -G <NIC> tcp-data-split on"]
    source "kernel 6.18, Documentation/networking/devmem.rst; p2p notes on errors"
HDS_THRESHOLD_NOT_ZERO = 406 Error "hds-thresh is not 0"
    symptom "small packets land in host memory; bind-rx fails: \"hds-thresh is not zero\""
    cause "packets below the threshold are not split"
    cure ["ethtool -G <NIC> hds-thresh 0"]
    source "kernel 6.18, net/core/netdev_rx_queue.c"
FLOW_STEERING_OFF = 407 Error "flow steering is off"
    symptom "\"rx no cmsg\": packets go to queues that are not bound to the GPU"
    cause "ntuple filters steer a connection to the bound queue; they are switched off or absent"
    cure ["ethtool -K <NIC> ntuple on"]
    source "kernel 6.18, Documentation/networking/devmem.rst"
DEVMEM_PROBE_DENIED = 408 Info "device memory support could not be asked"
    symptom "the answer is EPERM"
    cause "bind-rx needs CAP_NET_ADMIN even for a question"
    cure ["sudo tcpx doctor"]
    source "kernel 6.18, Documentation/netlink/specs/netdev.yaml"
DEVMEM_PACKETS_NOT_COUNTED = 409 Error "the NIC counted no packet into device memory"
    symptom "\"rx no cmsg\" while the counter rx_devmem_pkts does not change"
    cause "traffic arrived on queues that are not bound: steering rule missing, wrong address, both ends on one host, or the NIC is under another PCIe root than the GPU"
    cure ["ethtool -S <NIC> | grep rx_devmem_pkts", "ethtool -n <NIC>", "tcpx devices"]
    source "p2p notes on errors; plugin 3.1.9, src/sock/tcpx.h"
DEVMEM_COUNTER_ABSENT = 410 Info "the NIC has no counter rx_devmem_pkts"
    symptom "it cannot be seen whether packets reach device memory"
    cause "the driver does not count them"
    cure ["ethtool -S <NIC>"]
    source "gve driver of A3 images"
NIC_QUERY_FAILED = 411 Info "a NIC's settings could not be read"
    symptom "header split, flow steering or counters are unknown"
    cause "the kernel or the driver does not answer the ethtool request"
    cure ["ethtool -g <NIC>", "ethtool -k <NIC>"]
    source "kernel 6.18, ethtool netlink"
RX_DEVMEM_BLOCKED = 412 Warning "a NIC can receive into device memory, but not as it is set up"
    symptom "bind-rx fails with ERANGE, EEXIST or EBUSY"
    cause "the queue does not exist, is bound already, or XDP or AF_XDP uses it"
    cure ["ip -d link show dev <NIC>", "# detach XDP programs and stop other users of device memory"]
    source "kernel 6.18, net/core/netdev_rx_queue.c"
DEVMEM_PACKETS_COUNTED = 413 Info "the NIC counts packets into device memory"
    symptom "rx_devmem_pkts grows"
    cause "traffic reaches bound queues, as it should"
    cure ["# nothing to do"]
    source "gve driver of A3 images"
DIALECT_UNKNOWN = 414 Info "the kernel's dialect could not be asked"
    symptom "no TCP socket could be made"
    cause "the kernel or a sandbox refused the socket or its option"
    cure ["uname -r"]
    source "kernel 6.18, net/core/sock.c"
RX_DEVMEM_SUPPORTED = 415 Info "a NIC can receive into device memory"
    symptom "bind-rx fails at the dma-buf"
    cause "driver and device answered the probe as capable ones do"
    cure ["# nothing to do"]
    source "kernel 6.18, net/core/netdev-genl.c"
TX_DEVMEM_SUPPORTED = 416 Info "a NIC can send from device memory"
    symptom "bind-tx fails at the dma-buf"
    cause "driver and device answered the probe as capable ones do"
    cure ["# nothing to do"]
    source "kernel 6.18, net/core/netdev-genl.c"
NIC_ERRORS_GROW = 417 Warning "a NIC counts errors or drops"
    symptom "transfers slow down or stall; TCP retransmits"
    cause "packets were lost in the NIC, its driver or its queues: no free receive buffers, a bad link, or a full ring"
    cure ["ethtool -S <NIC>", "ip -s link show dev <NIC>", "dmesg | grep <NIC>"]
    source "drivers' counters"
DRIVER_COMPLAINED = 418 Warning "the driver of a GPU or data NIC has complained"
    symptom "transfers fail, stall or slow down from some moment on"
    cause "the kernel's log has a warning or an error of the driver; its time shows whether it belongs to the problem"
    cure ["dmesg -T --level=emerg,alert,crit,err,warn", "nvidia-smi"]
    source "kernel log, NVIDIA driver's Xid messages"
KERNEL_LOG_DENIED = 419 Info "the kernel's log may not be read"
    symptom "it is not known when a driver last complained"
    cause "kernel.dmesg_restrict is 1 and this user has no CAP_SYSLOG"
    cure ["sudo dmesg -T --level=emerg,alert,crit,err,warn"]
    source "kernel 6.18, kernel/printk/printk.c"
DEVMEM_KERNEL_TOO_OLD = 420 Error "the kernel is too old for its own device-memory TCP"
    symptom "the family netdev or one of its commands is not there"
    lines ["the kernel has no device-memory TCP: ..."]
    cause "receiving into device memory came with Linux 6.12, sending from it with 6.16, and a kernel may be built without NET_DEVMEM"
    cure ["uname -r", "# run on Linux 6.16 or newer, built with NET_DEVMEM, or use plugin = soft"]
    source "kernel 7.3, Documentation/networking/devmem.rst"
DEVMEM_NOT_PERMITTED = 421 Error "binding device memory to a NIC is not permitted"
    symptom "bind-rx or a flow rule is refused: EPERM"
    lines ["<NIC>: ... is not permitted: it takes CAP_NET_ADMIN"]
    cause "a receive queue belongs to the whole machine, so binding it and steering connections to it take CAP_NET_ADMIN in the NIC's network namespace; sending takes no privilege"
    cure ["sudo setcap cap_net_admin+ep <PROGRAM>", "# in a container: --cap-add NET_ADMIN, and the NIC in the container's network namespace"]
    source "kernel 7.3, Documentation/netlink/specs/netdev.yaml; seen in a guest"
NO_FREE_QUEUE = 422 Error "a NIC has no receive queue free for device memory"
    symptom "no queue can be bound"
    lines ["<NIC> has n of n receive queues free: ..."]
    cause "a bound queue must get only the connections that are steered to it: queues over which the NIC spreads ordinary packets are no choice, nor are those that device memory, AF_XDP or io_uring has"
    cure ["ethtool -x <NIC>", "ethtool -X <NIC> equal <COUNT>", "# COUNT is smaller than the number of queues that ethtool -l shows; the rest is free"]
    source "kernel 7.3, Documentation/networking/devmem.rst"
QUEUE_RESET_FAILED = 423 Error "a NIC could not reset a receive queue"
    symptom "bind-rx fails with ENOMEM, EIO or another error of the driver"
    lines ["<NIC>: receive queues ... cannot be reset: ..."]
    cause "binding stops the queue and starts it with the new memory; the driver had no memory for that, or the device refused"
    cure ["dmesg | grep <NIC>", "# smaller rings need less: ethtool -G <NIC> rx <ENTRIES>"]
    source "kernel 7.3, net/core/netdev_rx_queue.c"
DMABUF_REFUSED = 424 Error "a NIC does not take a dma-buf"
    symptom "bind-rx or bind-tx fails with EINVAL, EBADF, E2BIG or ENOMEM"
    lines ["<NIC> refuses the dma-buf: ..."]
    cause "its pieces are not whole pages, or the NIC cannot reach the memory: GPU and NIC behind different root ports, an IOMMU between them, or a GPU whose BAR1 is smaller than what it hands out"
    cure ["tcpx devices", "nvidia-smi -q -d MEMORY", "dmesg | tail"]
    source "kernel 7.3, net/core/devmem.c"
UDMABUF_ABSENT = 425 Error "host memory cannot be made a dma-buf"
    symptom "/dev/udmabuf is not there, may not be opened, or refuses the size"
    lines ["host memory of n bytes cannot be made a dma-buf: ..."]
    cause "udmabuf, which lets host memory stand in for a GPU's, is not built in, belongs to group kvm, or is limited to 64 MiB"
    cure ["modprobe udmabuf", "ls -l /dev/udmabuf", "# a larger buffer: raise /sys/module/udmabuf/parameters/size_limit_mb"]
    source "kernel 7.3, drivers/dma-buf/udmabuf.c"
FLOW_RULE_REFUSED = 426 Error "a NIC refuses a flow rule"
    symptom "a connection cannot be steered to its queue: EOPNOTSUPP, ENOSPC, EINVAL or EEXIST"
    lines ["<NIC>: a flow rule is refused: ..."]
    cause "ntuple is off, the NIC has no room for another rule, or does not know rules for TCP with both addresses and both ports"
    cure ["ethtool -K <NIC> ntuple on", "ethtool -n <NIC>", "# delete what is stale: ethtool -N <NIC> delete <NUMBER>"]
    source "kernel 7.3, net/ethtool/ioctl.c; seen in a guest"
FLOW_RULE_STALE = 427 Warning "flow rules of a process that is gone"
    symptom "a NIC's table of rules fills up; connections go to a queue that no process reads"
    cause "flow rules belong to the NIC and not to the process that made them, so those of a killed one stay"
    cure ["ethtool -n <NIC>", "ethtool -N <NIC> delete <NUMBER>"]
    source "seen in a guest"
DEVMEM_BINDING_LOST = 428 Error "a NIC has lost its device memory"
    symptom "a connection stalls after its NIC was removed, or its driver was reloaded"
    lines ["<NIC>: queue n has lost its device memory", "there is no NIC <NIC> (any more)"]
    cause "a binding ends with the device; a NIC that is only down keeps it"
    cure ["ip -d link show dev <NIC>", "dmesg | grep <NIC>", "# restart the session"]
    source "kernel 7.3, net/core/devmem.c; seen in a guest"
DEVMEM_PACKET_MIXED = 429 Error "what the kernel received does not fit its description"
    symptom "recvmsg fails with ENODEV, or describes other bytes than it returns"
    lines ["recvmsg returned n bytes, and described n: ...", "a packet holds memory of another owner", "fragments cannot be given back: ..."]
    cause "one packet has device memory and host memory in it, or memory of another user of the queue; the place in the stream is lost"
    cure ["uname -r", "ethtool -i <NIC>", "# a fault of kernel or driver: report it with both answers"]
    source "kernel 7.3, net/ipv4/tcp.c; seen in a guest"
DEVMEM_WRONG_ROUTE = 430 Error "a connection does not leave by the NIC that its memory is bound to"
    symptom "sendmsg fails with ENODEV or EHOSTUNREACH"
    lines ["the connection does not leave by the NIC that its memory is bound to"]
    cause "the route to the peer is over another NIC, a bond or a tunnel; device memory can leave only by the NIC itself"
    cure ["ip route get <ADDRESS>", "# give each data NIC a subnet of its own, or a route by source address"]
    source "kernel 7.3, net/core/devmem.c"
DEVMEM_POOL_HELD = 431 Error "a NIC has no device memory left to receive into"
    symptom "connections over one queue stand still, and packets are dropped for want of a page"
    lines ["no bytes arrive: n of the NIC's n pages are held", "... takes n pages that <NIC> receives into, and n are free for it"]
    cause "what was received is not given back: chunks that are not whole yet, or not consumed, hold the memory that others wait for"
    cure ["ethtool -S <NIC>", "# more memory for the queue, fewer channels, smaller chunks, or requests that are consumed sooner"]
    source "kernel 7.3, net/core/devmem.c; seen in a guest"
DEVMEM_NIC_DOWN = 432 Error "a NIC with device memory is down"
    symptom "a connection stalls, and ends when the peer's host has been silent for too long"
    lines ["<NIC> is down"]
    cause "the interface was set down, or has lost its link; its memory and its flow rules stay, and transfers go on when it comes up in time"
    cure ["ip link show dev <NIC>", "ip link set <NIC> up"]
    source "seen in a guest"
DEVMEM_GPU_MEMORY = 433 Error "memory of a GPU cannot be handed to a NIC"
    symptom "a session with a GPU is refused with plugin = devmem, or a registration of its memory"
    lines ["memory of GPU n cannot be handed to a NIC: ..."]
    cause "a NIC reaches a GPU's memory by a dma-buf, which the CUDA driver does not make: the driver is older than CUDA 11.7 or has no open kernel modules, what NICs write would have to be flushed, or the memory is the host's or managed, or no whole pages of one allocation"
    cure ["nvidia-smi --query-gpu=driver_version,pci.bus_id --format=csv", "# memory of cuMemAlloc or cudaMalloc, from a page boundary on; or plugin = soft, which copies"]
    source "CUDA driver API, cuMemGetHandleForAddressRange; docs/devmem.md"
DEVMEM_NO_NIC = 434 Error "no NIC can receive into device memory as it is set up"
    symptom "plugin = devmem is refused"
    cause "each NIC lacks a driver that can, a setting, or a free receive queue"
    cure ["tcpx doctor --min-severity info", "# set one up as docs/devmem.md says, or use plugin = soft"]
    source "docs/devmem.md"
DEVMEM_AUTO = 435 Info "what plugin = auto does with memory of a GPU"
    symptom "\"memory of the GPU goes by device memory\", or \"by plain sockets\" and why, for each NIC"
    lines ["memory of the GPU goes by device memory nic=\"<NIC>\" gpu=n", "memory of the GPU goes by plain sockets nic=\"<NIC>\" gpu=n why=..."]
    cause "without a hardware plugin, auto takes the kernel's device-memory TCP for memory of GPUs, over each NIC that can both receive and send, is set up for it and may be bound by this process, if the GPU's driver hands the memory out; plain sockets for all else, and for host memory"
    cure ["# nothing to do; plugin = devmem insists on it, and plugin = soft does without"]
    source "docs/devmem.md"
ZERO_COPY_SUPPORTED = 440 Info "a NIC can receive into the memory of processes"
    symptom "a queue that does not exist is refused for its number only"
    cause "kernel, driver and device can do io_uring's zero-copy receive"
    cure ["# nothing to do; TCPX_SOFT_TRANSPORT=io_uring uses it, see docs/devmem.md"]
    source "kernel 6.18, io_uring/zcrx.c, net/core/netdev_rx_queue.c"
ZERO_COPY_UNSUPPORTED = 441 Info "a NIC's driver cannot receive into the memory of processes"
    symptom "io_uring's zero-copy receive is refused with EOPNOTSUPP"
    cause "the driver has no queue management operations, or no DMA: virtio_net, lo, veth and most others"
    cure ["ethtool -i <NIC>", "# drivers with queue management in 6.18: gve (DQO), bnxt, mlx5e, fbnic"]
    source "kernel 6.18, net/core/netdev_rx_queue.c; measured"
ZERO_COPY_NOT_IN_KERNEL = 442 Info "the kernel has no zero-copy receive of io_uring"
    symptom "io_uring refuses to register a receive queue"
    cause "the kernel is older than 6.15, or was built without CONFIG_IO_URING_ZCRX"
    cure ["uname -r", "# run a kernel from 6.15 on that was built with CONFIG_IO_URING_ZCRX"]
    source "kernel 6.18, io_uring/zcrx.h, io_uring/register.c"
ZERO_COPY_PROBE_DENIED = 443 Info "zero-copy receive could not be asked"
    symptom "the answer is EPERM"
    cause "registering a receive queue needs CAP_NET_ADMIN even for a question, or kernel.io_uring_disabled is set"
    cure ["sudo tcpx doctor", "cat /proc/sys/kernel/io_uring_disabled"]
    source "kernel 6.18, io_uring/zcrx.c, io_uring/io_uring.c"
IO_URING_DENIED = 444 Error "io_uring is not permitted"
    symptom "TCPX_SOFT_TRANSPORT=io_uring is refused: EPERM when a ring is made"
    lines ["io_uring is not permitted: ..."]
    cause "kernel.io_uring_disabled is 2, or is 1 and the process is not of kernel.io_uring_group, or the container's seccomp profile leaves io_uring out, as those of Docker and containerd do"
    cure ["sysctl kernel.io_uring_disabled", "sudo sysctl kernel.io_uring_disabled=0", "# in a container: a seccomp profile that has io_uring_setup, io_uring_enter and io_uring_register"]
    source "kernel 7.3, io_uring/io_uring.c"
ZERO_COPY_MEMORY_NOT_LOCKED = 445 Error "a NIC's memory is more than the process may lock"
    symptom "io_uring refuses to register a receive queue: ENOMEM"
    lines ["n bytes for <NIC> to receive into are more than may be locked: n"]
    cause "memory that a NIC writes to is locked, and counts against RLIMIT_MEMLOCK of the user unless the process has CAP_IPC_LOCK; the limit is often 8 MiB"
    cure ["ulimit -l", "ulimit -l unlimited", "# in a container: --ulimit memlock=-1; of a service: LimitMEMLOCK=infinity; or a smaller TCPX_SOFT_POOL_BYTES"]
    source "kernel 7.3, io_uring/zcrx.c"
ZERO_COPY_MEMORY_NOT_PINNED = 446 Error "the CUDA driver does not pin a NIC's memory for a GPU"
    symptom "a session with a GPU is refused with TCPX_SOFT_TRANSPORT=io_uring: cuMemHostRegister fails"
    lines ["the receive memory of <NIC> cannot be pinned for GPU n: ..."]
    cause "the GPU reads what came from memory of the host, which the driver must register: it may refuse where confidential computing is switched on, and refuses what the system cannot lock"
    cure ["nvidia-smi conf-compute -f", "# a smaller TCPX_SOFT_POOL_BYTES, where memory is short; or no TCPX_SOFT_TRANSPORT, so that plain sockets copy"]
    source "CUDA driver API, cuMemHostRegister; docs/devmem.md"
}
