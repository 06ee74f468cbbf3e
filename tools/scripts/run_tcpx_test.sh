#!/bin/sh
# Runs a test program of tcpx with the settings of an A3 High host.
set -eu

usage() {
    cat <<'TEXT'
usage: run_tcpx_test.sh transfer|connection|perf server|ADDR [OPTION...]

  transfer     sends "Hello from TCPX client!" and compares it at the other end
  connection   makes the handshake only
  perf         measures time and bandwidth over many iterations

  server       waits for the other end
  ADDR         the server's address: a host name or an IPv4 address
  OPTION...    goes to the tcpx command; see `tcpx transfer --help` and so on

On the first host:   run_tcpx_test.sh transfer server
On the second host:  run_tcpx_test.sh transfer 10.64.1.7

The script sets all variables of the A3 High profile, and overwrites those that you have set.
These variables choose the plugin:
  TCPX_PLUGIN            soft, auto or a path; the script keeps it when it is set
  TCPX_HARDWARE_PLUGIN   where the script looks for a hardware plugin otherwise (default:
                         /usr/local/tcpx/lib64/libnccl-net-tcpx.so); if there is none, it
                         takes the software plugin
  TCPX_SOFT_IFNAME       NICs of the software plugin; it does not get the profile's NICs,
                         which only an A3 High host has
The program is `tcpx` in PATH, or target/release/tcpx of the checkout that has this script.
TEXT
}

refuse() {
    echo "run_tcpx_test.sh: $1" >&2
    usage >&2
    exit 2
}

case "${1-}" in
    -h | --help)
        usage
        exit 0
        ;;
    transfer) program=transfer ;;
    connection) program=connect ;;
    perf) program=perf ;;
    "") refuse "which test?" ;;
    *) refuse "unknown test \"$1\"" ;;
esac

case "${2-}" in
    "") refuse "server, or the server's address?" ;;
    -*) refuse "\"$2\" is no address" ;;
    server) role=server address= ;;
    *) role=client address=$2 ;;
esac
shift 2

# >>> A3 High profile
# NCCL's bootstrap stays off the data NICs
export NCCL_SOCKET_IFNAME='eth0'
# control sockets stay off the data NICs
export NCCL_GPUDIRECTTCPX_CTRL_DEV='eth0'
# the four data NICs
export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME='eth1,eth2,eth3,eth4'
# where RxDM puts its sockets
export NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX='/run/tcpx'
# the bounce buffer comes from RxDM's sockets
export NCCL_TCPX_RXMEM_IMPORT_USE_GPU_PCI_CLIENT='1'
# transfers hang without it; 512 KiB stays far below 2048 fragments
export NCCL_DYNAMIC_CHUNK_SIZE='524288'
# NCCL's chunk equals the plugin's, so no pages leak
export NCCL_P2P_NET_CHUNKSIZE='524288'
# NCCL's chunk equals the plugin's, so no pages leak
export NCCL_P2P_PCI_CHUNKSIZE='524288'
# larger chunks where NVLink carries them
export NCCL_P2P_NVL_CHUNKSIZE='1048576'
# a protocol buffer fits one slot of the unpack queue
export NCCL_BUFFSIZE='4194304'
# four data sockets fill a 200 Gbit/s NIC
export NCCL_NSOCKS_PERTHREAD='4'
# one helper thread for a comm
export NCCL_SOCKET_NTHREADS='1'
# each GPU keeps to its own NIC
export NCCL_CROSS_NIC='0'
# from NCCL 2.24 on PAT may be chosen, whose kernels do not unpack: all-gather and reduce-scatter give wrong data
export NCCL_ALGO='Ring'
# the only protocol whose data the plugin can unpack
export NCCL_PROTO='Simple'
# GPU and NIC must share a PCIe switch
export NCCL_NET_GDR_LEVEL='PIX'
# messages leave through the GPU's own NIC
export NCCL_P2P_PXN_LEVEL='0'
# half a second is enough for a rule; the default is 5 s for each accept
export NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS='500000'
# sending threads on the NIC's own NUMA node
export NCCL_GPUDIRECTTCPX_TX_BINDINGS='eth1:8-21,112-125;eth2:8-21,112-125;eth3:60-73,164-177;eth4:60-73,164-177'
# receiving threads on the NIC's own NUMA node, apart from sending ones
export NCCL_GPUDIRECTTCPX_RX_BINDINGS='eth1:22-35,126-139;eth2:22-35,126-139;eth3:74-87,178-191;eth4:74-87,178-191'
# <<< A3 High profile

# The driver's libraries are mounted there in A3 containers, outside the linker's own directories.
LD_LIBRARY_PATH=/usr/local/nvidia/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

if [ -z "${TCPX_PLUGIN-}" ]; then
    TCPX_PLUGIN=${TCPX_HARDWARE_PLUGIN:-/usr/local/tcpx/lib64/libnccl-net-tcpx.so}
    if [ ! -f "$TCPX_PLUGIN" ]; then
        echo "run_tcpx_test.sh: no hardware plugin at $TCPX_PLUGIN, using the software plugin" >&2
        TCPX_PLUGIN=soft
    fi
fi
export TCPX_PLUGIN

case $TCPX_PLUGIN in
    soft) is_soft=1 ;;
    # The tcpx command looks there alone.
    auto) if [ -e /usr/local/tcpx/lib64/libnccl-net-tcpx.so ]; then is_soft=0; else is_soft=1; fi ;;
    *) is_soft=0 ;;
esac
if [ "$is_soft" = 1 ]; then
    # Hosts that run it have other NICs, and it finds them by itself.
    unset NCCL_GPUDIRECTTCPX_SOCKET_IFNAME
fi

built=$(dirname "$0")/../../target/release/tcpx
if command -v tcpx >/dev/null 2>&1; then
    tcpx=tcpx
elif [ -x "$built" ]; then
    tcpx=$built
else
    echo "run_tcpx_test.sh: no tcpx in PATH and none at $built; run: cargo build --release" >&2
    exit 127
fi

exec "$tcpx" "$program" "$role" ${address:+"$address"} "$@"
