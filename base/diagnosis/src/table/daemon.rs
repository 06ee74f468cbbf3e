//! TCPX-5xx: RxDM, the daemon that owns the GPU's receive memory and programs the NIC.

use crate::diagnosis::diagnoses;

diagnoses! {
RXDM_DIRECTORY_MISSING = 501 FatalForPlugin "RxDM's socket directory is missing"
    symptom "accept returns 3, \"failed accept socket\""
    cause "RxDM is not running, or its directory is not mounted into this container"
    cure ["ls -l <PATH>", "# start RxDM (tcpgpudmarxd --gpu_nic_preset a3vm --gpu_shmem_type fd --uds_path /run/tcpx) and mount its directory"]
    source "A3 High deployment files; transfer flow notes"
RXDM_PREFIX_WRONG = 502 FatalForPlugin "RxDM's sockets are under another directory"
    symptom "accept returns 3, \"failed accept socket\""
    cause "the plugin looks under /tmp unless NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX says otherwise; RxDM uses /run/tcpx"
    cure ["export NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX=<PATH>"]
    source "A3 High deployment files; transfer flow notes"
RXDM_SOCKET_MISSING = 503 FatalForPlugin "one of RxDM's sockets is missing"
    symptom "accept returns 3, or the process exits while it imports the bounce buffer"
    lines ["/run/tcpx/get_gpu_fd_<PCI>", "/run/tcpx/get_gpu_metadata_<PCI>", "/run/tcpx/rx_rule_manager"]
    cause "RxDM is still starting, does not serve this GPU, or has another version"
    cure ["ls -l <DIRECTORY>", "# restart RxDM and look at its log; in a job script, wait for it before the job starts"]
    source "plugin 3.1.9, run; Slurm deployments"
RXDM_REFUSES = 504 FatalForPlugin "RxDM refuses connections"
    symptom "accept returns 3; \"Connection refused, retrying\" without end"
    cause "the socket's file is left over: the RxDM that made it has ended"
    cure ["# restart RxDM and look at its log: driver and CUDA upgrades are a common reason for its end"]
    source "plugin 3.1.9, run; cluster deployments"
RXDM_HANGS = 505 FatalForPlugin "RxDM does not answer"
    symptom "accept is never ready, or close never returns"
    cause "RxDM holds the connection and sends nothing; the plugin waits without a limit"
    cure ["# restart RxDM and look at its log"]
    source "plugin 3.1.9, source"
RXDM_CLOSES = 506 FatalForPlugin "RxDM closes the connection without an answer"
    symptom "a thread of the plugin spins at 100 % and accept never returns"
    cause "the plugin takes the end of the stream for \"no message yet\" and reads on for ever"
    cure ["# restart RxDM; check that its version belongs to the plugin's"]
    source "plugin 3.1.9, source"
RXDM_BAD_ANSWER = 507 FatalForPlugin "RxDM's answer is not understood"
    symptom "the process exits or crashes while it imports the bounce buffer"
    cause "the metadata must be 24 bytes with a size up to 4 GiB; the plugin copies them without a check"
    cure ["# install the RxDM version that belongs to the plugin's (plugin 3.1.9: RxDM 2.0.12)"]
    source "plugin 3.1.9, source"
RXDM_DENIED = 508 FatalForPlugin "RxDM's socket may not be used by this user"
    symptom "accept returns 3; permission denied"
    cause "the socket or its directory gives this user no right to write"
    cure ["ls -ld <DIRECTORY>", "ls -l <DIRECTORY>", "# run as a user who may write to it"]
    source "unix(7)"
RXDM_SOCKET_PATH = 509 FatalForPlugin "a path under RxDM's prefix cannot be a socket"
    symptom "accept returns 3"
    cause "the path is longer than 107 bytes, or something other than a socket lies there"
    cure ["ls -l <PATH>", "export NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX=/run/tcpx"]
    source "unix(7)"
BOUNCE_BUFFER_MISSING = 510 Error "the plugin gave no bounce buffer"
    symptom "\"bounce memory is not available\" when a peer connects"
    cause "the import from RxDM failed without an error code, or left out this GPU"
    cure ["tcpx doctor", "ls -l /run/tcpx", "unset NCCL_TCPX_RXMEM_IMPORT_USE_GPU_PCI_CLIENT NCCL_TCPX_RXMEM_IMPORT_SKIP_ODDS"]
    source "plugin 3.1.9, source"
BOUNCE_BUFFER_TOO_SMALL = 511 Error "the bounce buffer is too small for the chunks of all channels"
    symptom "a peer is refused when it connects; with the plugin alone, transfers stand still for ever"
    cause "the NIC takes pages packet by packet, and parts of chunks hold all of them: no chunk is ever whole, and no page comes back"
    cure ["export TCPX_CHUNK_BYTES=<BYTES>", "export TCPX_CHANNELS=<COUNT>", "# or give RxDM a larger pool"]
    source "plugin 3.1.9, run"
}
