//! TCPX-1xx: environment variables.

use crate::diagnosis::diagnoses;

diagnoses! {
CHUNK_SIZE_UNSET = 101 FatalForPlugin "NCCL_DYNAMIC_CHUNK_SIZE is unset or 0"
    symptom "transfers never finish; no error; the receiver may log \"Connection closed by remote peer\""
    lines ["connection closed by peer"]
    cause "the plugin's effective chunk size is then 0, so every transfer spins on empty chunks for ever"
    cure ["export NCCL_DYNAMIC_CHUNK_SIZE=524288"]
    source "plugin 3.1.9, run"
CHUNK_SIZE_SUFFIX = 102 Error "NCCL_DYNAMIC_CHUNK_SIZE has a suffix"
    symptom "very slow transfers with tiny chunks"
    cause "the plugin reads the leading digits only: \"512K\" is 512 bytes"
    cure ["export NCCL_DYNAMIC_CHUNK_SIZE=524288"]
    source "plugin 3.1.9, run"
CHUNK_SIZE_OUT_OF_RANGE = 103 Warning "NCCL_DYNAMIC_CHUNK_SIZE is out of range"
    symptom "chunks have 131072 bytes whatever the variable says"
    cause "a value outside 0..2147483646 is replaced by the plugin's own default of 131072 bytes"
    cure ["export NCCL_DYNAMIC_CHUNK_SIZE=524288"]
    source "plugin 3.1.9, run"
CHUNK_SIZE_TOO_LARGE = 104 FatalForPlugin "NCCL_DYNAMIC_CHUNK_SIZE is above 4 MiB"
    symptom "the receiving process ends with \"received n/2048 segs, failstop\""
    cause "a chunk of 2048 or more fragments makes the plugin exit(1); 4 MiB is the most that its queue was made for"
    cure ["export NCCL_DYNAMIC_CHUNK_SIZE=524288"]
    source "plugin 3.1.9, src/sock/tcpx.h, run"
THREADS_ABOVE_EIGHT = 105 FatalForPlugin "NCCL_SOCKET_NTHREADS is above 8"
    symptom "connections succeed, transfers never move"
    cause "the product with NCCL_NSOCKS_PERTHREAD is capped at 8 by reducing the latter, which then becomes 0: no data socket at all"
    cure ["export NCCL_SOCKET_NTHREADS=1 NCCL_NSOCKS_PERTHREAD=4"]
    source "plugin 3.1.9, run"
SOCKETS_CAPPED = 106 Warning "more than 8 sockets are asked for"
    symptom "fewer data sockets than configured"
    cause "sockets per thread times threads is capped at 8 by reducing the sockets per thread"
    cure ["export NCCL_SOCKET_NTHREADS=1 NCCL_NSOCKS_PERTHREAD=4"]
    source "plugin 3.1.9, source"
VALUE_OUT_OF_RANGE = 107 Warning "a value is outside its legal range"
    symptom "the setting has no effect"
    cause "the plugin replaces a value outside the range by a default of its own and says nothing"
    cure ["unset <VARIABLE>", "# or give it a value in <RANGE>"]
    source "plugin 3.1.9, source"
VALUE_NOT_A_NUMBER = 108 Warning "a number is followed by other characters"
    symptom "the setting is far from what was meant"
    cause "only the leading digits are read, with base 8 after a leading 0 and base 16 after 0x"
    cure ["# write <VARIABLE> as plain decimal digits, in <RANGE>"]
    source "plugin 3.1.9, source"
VARIABLE_WITHOUT_EFFECT = 109 Info "a variable is known to do nothing"
    symptom "the setting has no effect"
    cause "version 3.1.9 of the plugin declares or looks up this variable but uses it nowhere"
    cure ["unset <VARIABLE>"]
    source "plugin 3.1.9, source"
VARIABLE_UNKNOWN = 110 Warning "no such variable"
    symptom "the setting has no effect"
    cause "neither the plugin nor this library has a variable of this name"
    cure ["unset <VARIABLE>"]
    source "plugin 3.1.9, source"
BINDINGS_WITHOUT_RANGE = 111 FatalForPlugin "CPU bindings without a valid range"
    symptom "the process dies of SIGFPE when the first comm starts its helper threads"
    cause "a binding needs a dash (8-21); an interface whose list holds no valid range makes the plugin divide by zero"
    cure ["export <VARIABLE>='<VALUE>'"]
    source "plugin 3.1.9, run"
BINDINGS_OVERLAP = 112 Warning "RX and TX bindings overlap"
    symptom "throughput drops when both directions are busy"
    cause "sending and receiving helper threads of one NIC share cores"
    cure ["# give NCCL_GPUDIRECTTCPX_RX_BINDINGS and NCCL_GPUDIRECTTCPX_TX_BINDINGS disjoint cores for each interface"]
    source "A3 High deployment files"
BINDINGS_MISPRINT = 113 Warning "RX bindings contain the misprint 124-139"
    symptom "receive threads of eth1 and eth2 share cores 124 and 125 with send threads"
    cause "older pages print 124-139 where 126-139 was meant"
    cure ["export NCCL_GPUDIRECTTCPX_RX_BINDINGS='eth1:22-35,126-139;eth2:22-35,126-139;eth3:74-87,178-191;eth4:74-87,178-191'"]
    source "A3 High deployment files, older and newer"
BINDINGS_SUSPECT = 114 Warning "part of the CPU bindings is ignored or wrong"
    symptom "helper threads run on cores that were not meant"
    cause "the plugin reads `if:lo-hi,lo-hi;if:lo-hi`, at most 8 ranges an interface, and skips what it cannot read"
    cure ["# correct <VARIABLE>: interfaces that exist, lo-hi ranges with a dash, cores that exist"]
    source "plugin 3.1.9, source"
INLINE_WITH_CUDA = 115 FatalForPlugin "NCCL_INLINE_THRESHOLD is above 0"
    symptom "the receiving process dies of SIGSEGV at the first small message; where the CPU may write GPU memory, messages arrive with no fragments"
    cause "messages up to the threshold travel beside the data sockets, and the receiver copies them to the device pointer with memcpy, on the CPU"
    cure ["unset NCCL_INLINE_THRESHOLD"]
    source "plugin 3.1.9, run"
CTRL_DEV_UNKNOWN = 116 FatalForPlugin "NCCL_GPUDIRECTTCPX_CTRL_DEV names no interface"
    symptom "listen succeeds with a garbage address; connect never succeeds"
    cause "the plugin does not notice that no interface matches and uses uninitialised memory as the address"
    cure ["ip -br -4 addr", "export NCCL_GPUDIRECTTCPX_CTRL_DEV=<NIC>"]
    source "plugin 3.1.9, source"
NO_INTERFACE_MATCHES = 117 FatalForPlugin "no interface matches NCCL_GPUDIRECTTCPX_SOCKET_IFNAME"
    symptom "init returns 3, \"no interface\""
    lines ["net->init rc=3"]
    cause "none of the interfaces that have an address matches; names are prefixes, `=name` is exact, a leading ^ excludes"
    cure ["ip -br -4 addr", "export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=<NIC>"]
    source "plugin 3.1.9, run"
STRATEGY_UNSUPPORTED = 118 FatalForPlugin "NCCL_GPUDIRECTTCPX_FLOW_STEERING_STRATEGY is not 3"
    symptom "init returns 3"
    lines ["net->init rc=3"]
    cause "only strategy 3, asking RxDM over a UNIX socket, is left in the plugin"
    cure ["unset NCCL_GPUDIRECTTCPX_FLOW_STEERING_STRATEGY"]
    source "plugin 3.1.9, run"
SOCKET_DISABLED = 119 FatalForPlugin "NCCL_GPUDIRECTTCPX_SOCKET_ENABLE is 0"
    symptom "init returns 3"
    lines ["net->init rc=3"]
    cause "the variable switches the whole plugin off"
    cure ["unset NCCL_GPUDIRECTTCPX_SOCKET_ENABLE"]
    source "plugin 3.1.9, run"
RETRY_ZERO = 120 FatalForPlugin "NCCL_GPUDIRECTTCPX_CONNECTION_RETRY is 0"
    symptom "connect always returns 3, \"failed to connect socket\""
    cause "the value counts tries, not repetitions: 0 means that none is made"
    cure ["unset NCCL_GPUDIRECTTCPX_CONNECTION_RETRY"]
    source "plugin 3.1.9, run"
DMA_BUF_DISABLED = 121 Error "NCCL_USE_DMA_BUF is 0"
    symptom "every CUDA regMr returns 3"
    cause "dma-buf export is the plugin's only way to register GPU memory"
    cure ["unset NCCL_USE_DMA_BUF"]
    source "plugin 3.1.9, source"
TELEMETRY_WITHOUT_PATH = 122 FatalForPlugin "statistics are exported to no path"
    symptom "the process dies of SIGSEGV soon after start"
    cause "NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORT_STATS_TO_FILE=1 without NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORTER_PATH writes through a null pointer"
    cure ["unset NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORT_STATS_TO_FILE"]
    source "plugin 3.1.9, source"
RECV_SYNC_SET = 123 Info "NCCL_GPUDIRECTTCPX_RECV_SYNC is 1"
    symptom "a peer without the setting makes every send wait for ever"
    cause "it turns each message into a rendezvous; set on the sender only, the receiver never sends what the sender waits for"
    cure ["unset NCCL_GPUDIRECTTCPX_RECV_SYNC", "# or set it to 1 on both hosts"]
    source "plugin 3.1.9, run"
SPINWAIT_OFF = 124 Warning "NCCL_GPUDIRECTTCPX_SPINWAIT_CONNECT is 0"
    symptom "isend or irecv return 0 and no request"
    cause "the setting does nothing in 3.1.9; other builds hand out a comm before it is connected and then give no request instead of waiting"
    cure ["unset NCCL_GPUDIRECTTCPX_SPINWAIT_CONNECT"]
    source "plugin 3.1.9, source"
ODD_GPUS_SKIPPED = 125 Error "NCCL_TCPX_RXMEM_IMPORT_SKIP_ODDS is 1"
    symptom "GPUs 1, 3, 5 and 7 receive nothing"
    cause "odd GPUs then get no bounce buffer"
    cure ["unset NCCL_TCPX_RXMEM_IMPORT_SKIP_ODDS"]
    source "plugin 3.1.9, source"
LEGACY_IMPORT = 126 FatalForPlugin "the bounce buffer is looked for in a legacy file"
    symptom "accept succeeds; the first receive reads address 0"
    cause "with NCCL_TCPX_RXMEM_IMPORT_USE_GPU_PCI_CLIENT=0 the plugin opens /tmp/nvdma-PCI, and carries on without a bounce buffer when that is missing"
    cure ["export NCCL_TCPX_RXMEM_IMPORT_USE_GPU_PCI_CLIENT=1"]
    source "plugin 3.1.9, source"
STEERING_WAIT_LONG = 127 Info "each accept sleeps for seconds"
    symptom "every connection takes 5.5 s"
    cause "accept sleeps NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS at its end, 5 s when unset"
    cure ["export NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS=500000"]
    source "plugin 3.1.9, run"
FAMILY_IPV6 = 128 Error "NCCL_GPUDIRECTTCPX_SOCKET_FAMILY is AF_INET6"
    symptom "connect fails or reaches another host"
    cause "the plugin truncates IPv6 addresses in several places, and RxDM programs IPv4 rules only"
    cure ["export NCCL_GPUDIRECTTCPX_SOCKET_FAMILY=AF_INET"]
    source "plugin 3.1.9, source"
PROFILE_VALUE_DIFFERS = 129 Warning "a variable differs from the A3 High profile"
    symptom "results differ from published ones"
    cause "<REASON>"
    cure ["export <VARIABLE>='<VALUE>'"]
    source "A3 High deployment files"
PROFILE_VALUE_MISSING = 130 Warning "a variable of the A3 High profile is unset"
    symptom "results differ from published ones"
    cause "<REASON>"
    cure ["export <VARIABLE>='<VALUE>'"]
    source "A3 High deployment files"
TOO_MANY_INTERFACES = 131 Warning "more than 16 interfaces match"
    symptom "some NICs are never used"
    cause "the plugin keeps the first 16 interfaces by name"
    cure ["export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=eth1,eth2,eth3,eth4"]
    source "plugin 3.1.9, source"
INTERFACE_LIST_PARTLY_UNMATCHED = 132 Warning "a name in NCCL_GPUDIRECTTCPX_SOCKET_IFNAME matches nothing"
    symptom "fewer NICs than expected"
    cause "the plugin silently leaves out names that match no interface with an address"
    cure ["ip -br -4 addr", "# correct NCCL_GPUDIRECTTCPX_SOCKET_IFNAME"]
    source "plugin 3.1.9, source"
SETTING_OUT_OF_RANGE = 133 Error "a setting of this library is out of range"
    symptom "\"<NAME> = <VALUE>: must be n to n\": an option or variable, its value, and what it takes"
    cause "the value is outside its range, or contradicts another one"
    cure ["# give the option or variable a value that the message allows, or leave it out"]
    source "this project"
SPELLINGS_CONTRADICT = 134 Warning "two names of one setting have different values"
    symptom "a setting of this library is not what a script has set"
    cause "a setting may be given by the library's own name or by that of UCCL's programs; where both are set, the library's own counts"
    cure ["unset <VARIABLE>", "# or give both the same value"]
    source "this project"
NCCL_CHUNK_DIFFERS = 135 Warning "NCCL's chunk is not the plugin's"
    symptom "throughput falls over time until everything stops, without an error (TCPX-815); or small, slow requests"
    cause "a chunk of NCCL's that is larger than the plugin's is cut in two, whose pages leak; a smaller one leaves requests half empty"
    cure ["export NCCL_P2P_NET_CHUNKSIZE=<BYTES>", "# the same on all hosts"]
    source "plugin 3.1.9, run; A3 High deployment files"
ALGORITHM_UNSAFE = 136 Error "NCCL may choose an algorithm that gives wrong data over the plugin"
    symptom "all-gather and reduce-scatter give wrong data, without an error"
    cause "from NCCL 2.24 on PAT may be chosen, whose kernels never look for what arrived in the bounce buffer"
    cure ["export NCCL_ALGO=Ring"]
    source "NCCL 2.28.9 over the software plugin, run"
}
