//! TCPX-9xx: problems that a user of the programs sees.

use crate::diagnosis::diagnoses;

diagnoses! {
KERNEL_UNPACK_SLOW = 901 Warning "the kernel unpack is 100 times slower than d2d"
    symptom "kernel mode: 7040 ms for 64 MB; d2d mode: 8 ms"
    lines ["Kernel mode: Avg: n ms, BW: n GB/s", "D2D mode: Avg: n ms, BW: n GB/s"]
    cause "a stream, an event or a launcher is made for each chunk (cudaStreamCreate in a loop), or each launch is waited for"
    cure ["# make streams and launchers once, launch without waiting, wait for the event at the end; our backends do this", "tcpx perf --help"]
    source "p2p notes on errors"
TRANSFER_STUCK = 902 Error "a transfer is stuck or times out"
    symptom "\"Send timeout at iteration n chunk=n\"; no error from the plugin"
    lines [
        "chunk_idx=n tag=n size=n offset=n",
        "tag must be unique",
        "unique tag per chunk to avoid cross-match",
        "must match sender's tag",
    ]
    cause "the two ends run different sequences of operations, a data socket died unnoticed, pages leaked, or the chunk size is 0; equal tags are not the reason, because the plugin ignores tags"
    cure ["tcpx doctor", "tcpx env", "# compare both ends' errors: ours name peer, channel and phase"]
    source "plugin 3.1.9, run; p2p notes on errors"
RX_NO_CMSG = 903 FatalForPlugin "\"rx no cmsg\""
    symptom "the receiver prints \"rx no cmsg\" and exits"
    lines ["Failed to receive data"]
    cause "bytes arrived outside device memory: kernel or NIC without devmem, header split off, steering rule missing or too late, GPU and NIC under different PCIe roots, both ends on one host, or another address than the data NIC's"
    cure ["tcpx doctor", "ethtool -S eth1 | grep rx_devmem_pkts", "ethtool -g eth1", "tcpx devices"]
    source "plugin 3.1.9, src/sock/tcpx.h; p2p notes on errors"
PAYLOAD_ALL_ZERO = 904 Error "the received payload is all zeros"
    symptom "\"Payload mismatch\", the hex preview shows 00 only"
    cause "the sender closed early, its buffer was never filled (a failed cuMemcpyHtoD), or the receiver looked before the copy had finished"
    cure ["tcpx transfer --help", "# check the sender's copy to the GPU, and wait for completion on both ends"]
    source "transfer flow notes"
PAYLOAD_DIFFERS = 905 Error "the received payload differs"
    symptom "\"Data verification failed\""
    lines ["Expected: n, Got: n", "Error at offset n: expected n, got n"]
    cause "early consume (TCPX-808), unsorted fragments (TCPX-816), two CUDA devices (TCPX-707), or plugins of two versions (TCPX-714)"
    cure ["export UCCL_TCPX_UNPACK_IMPL=host UCCL_TCPX_DEBUG=1", "# if host unpack is right, look at the kernel and at when slots are consumed"]
    source "transfer test guide; p2p notes on errors"
BANDWIDTH_LOW = 906 Warning "bandwidth is far below the NIC's"
    symptom "64 MB take longer than 50 ms over four NICs; under 9 GB/s for one GPU"
    cause "one NIC only, wrong GPU and NIC pair, unpinned helper threads, small MTU, few sockets, or small TCP buffers"
    cure ["tcpx doctor", "tcpx env", "tcpx devices"]
    source "p2p notes on errors; user reports"
BUILD_HEADER_MISSING = 907 Info "the build does not find rx_cmsg_parser.h"
    symptom "a compile error of the older C++ sources"
    lines ["rx_cmsg_parser.h: No such file or directory"]
    cause "stale objects of an earlier build; this project has no such header"
    cure ["cargo clean", "cargo build --release"]
    source "transfer test guide"
BUILD_TYPE_UNDEFINED = 908 Info "the build says that loadMeta is undefined"
    symptom "a compile error of the older C++ sources"
    cause "tcpx_structs.h was included after rx_descriptor.h; here the type lives in the crate tcpx-sys"
    cure ["# C and C++ programs include tcpx_p2p.h or tcpx_p2p.hpp only"]
    source "transfer test guide"
LOOPBACK_ADDRESS = 909 Error "the server's address is localhost"
    symptom "\"rx no cmsg\", or the peer cannot connect"
    cause "127.0.0.1 reaches only this host and no data NIC"
    cure ["ip -br -4 addr", "# use the address of the server's data or control NIC"]
    source "p2p notes on errors"
TWO_PROCESSES_ON_ONE_NIC = 910 Error "two processes use one NIC"
    symptom "\"rx no cmsg\" in one of them"
    cause "steering rules and queues belong to one GPU's receiver; a second process on the NIC competes for them"
    cure ["# give each process its own NIC, the one nearest to its GPU", "tcpx devices"]
    source "p2p notes on errors"
HOST_PATH_TAKEN = 911 Info "data goes through host memory"
    symptom "transfers work, at plain TCP speed"
    cause "no hardware plugin is installed, so the software plugin serves"
    cure ["tcpx doctor", "# name the hardware plugin's path to insist on it"]
    source "this project"
UNPACK_FAILED = 912 Error "the unpack backend failed"
    symptom "\"unpack:\" and the driver's words"
    lines ["Direct kernel access to devmem-tcp bounce buffers not working"]
    cause "the backend that was asked for does not work here, or the GPU reported an error"
    cure ["export UCCL_TCPX_UNPACK_IMPL=host", "nvidia-smi", "dmesg | grep -i xid"]
    source "this project"
UNPACK_BACKEND_SLOW = 913 Warning "GPU memory is unpacked by a slow backend"
    symptom "the GPU's copy engines or the PCIe bus are the limit, not the network"
    lines ["one copy per fragment"]
    cause "the host backend takes every byte down to the host and up again; d2d makes a copy for every fragment that has no neighbour"
    cure ["export UCCL_TCPX_UNPACK_IMPL=kernel", "# the report's unpack_why says why this backend was taken"]
    source "this project"
UNPACK_IS_BOTTLENECK = 914 Warning "unpacking is slower than the network"
    symptom "every slot of a channel holds bytes that arrived and wait for their unpack, for seconds"
    cause "the GPU is busy with other work, the backend is slow, or launches wait for another stream"
    cure ["export UCCL_TCPX_UNPACK_IMPL=kernel", "nvidia-smi", "# give the unpack stream room beside the application's kernels"]
    source "this project"
CHANNEL_STARVED = 915 Warning "a channel's window is never full"
    symptom "large chunks move, but only a few are in flight at a time; bandwidth is far below the NIC's"
    cause "one end posts a message, waits for it, and posts the next; or the plugin takes fewer requests than the window has slots"
    cure ["# post several messages before waiting, receives ahead of their sends; or use larger messages", "# fewer channels concentrate what there is"]
    source "this project"
FIRST_MESSAGE_LOST = 916 Error "nothing has ever arrived on a channel"
    symptom "the first message of a channel never finishes, while the peer's control link answers"
    cause "its data went another way: the steering rule was not there yet, the NIC is another than the peer reaches, or a firewall drops data connections"
    cure ["tcpx doctor", "ethtool -S eth1 | grep rx_devmem_pkts", "export NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS=1000000"]
    source "plugin 3.1.9, source; p2p notes on errors"
STEP_WENT_WELL = 917 Info "a line of a successful transfer"
    symptom "the older test programs print a line for each step"
    lines [
        "TCPX GPU-to-GPU transfer test",
        "Loading plugin: <PATH>",
        "net->init rc=0",
        "net->devices rc=0 ndev=n",
        "Using payload_bytes=n",
        "Running in <END> mode",
        "Listening on device n",
        "Connecting to device n",
        "Bootstrap connection established, sending handle",
        "Connection accepted; recv_comm=n",
        "Connection established; send_comm=n",
        "Registered server receive buffer ptr=n bytes=n",
        "Registered client send buffer ptr=n bytes=n",
        "Waiting for client data, expected bytes=n",
        "Request metadata: request_ptr=n",
        "Device handle: meta=n bounce_buf=n",
        "Wrote test message to GPU buffer",
        "Sending n bytes with tag n",
        "descriptor[n] src_off=<N> len=n dst_off=n",
        "Bounce probe (n) from src_off",
        "Launching device unpack",
        "Device unpack completed successfully",
        "Received data (n bytes)",
        "Hello from TCPX client",
        "Data validation PASSED",
        "Payload matches expected string",
        "Send completed successfully",
        "Server test completed successfully",
        "Client test completed successfully",
        "All bytes: n",
    ]
    cause "this line shows no problem; the step after the last printed line failed"
    cure ["tcpx transfer", "# it prints the same steps, with an error that names the one that failed"]
    source "transfer test guide; transfer flow notes"
BUILD_NOT_POSITION_INDEPENDENT = 918 Info "the build complains of relocations"
    symptom "readelf shows TEXTREL in a shared library of the older C++ sources"
    lines [
        "relocation <TYPE> against <NAME> can not be used when making a shared object",
        "recompile with -fPIC",
        "Checking for TEXTREL (should be empty)",
        "No TEXTREL found",
    ]
    cause "objects, those of nvcc too, were compiled without -fPIC"
    cure ["# link against libtcpx_p2p.so, which cargo xtask install lays down; older sources: -fPIC, and -Xcompiler -fPIC for nvcc"]
    source "plugin interface notes"
COMMAND_LINE_WRONG = 920 Error "a command line cannot be carried out"
    symptom "\"unrecognized subcommand\", \"unexpected argument\", \"invalid value\", and what would be right"
    cause "a command, flag or value is misspelt, missing or out of its range, or two of them contradict each other"
    cure ["tcpx --help", "# tcpx COMMAND --help explains every flag, with ranges, defaults and variables"]
    source "this project"
FILE_UNUSABLE = 921 Error "a file cannot be read or written"
    symptom "\"No such file or directory\", \"Permission denied\" or \"Is a directory\", behind what the command was doing"
    cause "the path is misspelt, its folder does not exist, or this user may not use the file"
    cure ["ls -ld <PATH>", "# name a file that this user may read, or for output one in a folder that it may write"]
    source "this project"
}
