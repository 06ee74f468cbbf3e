//! Lines as users meet them in guides and logs, and the diagnosis that each leads to first.

use tcpx_diagnosis::search;

/// Lines of the notes on errors, of the guides for the older test programs, and of the plugin.
const LINES: &[(&str, u16)] = &[
    // Notes on errors.
    ("Kernel 比 D2D 慢 100×", 901),
    ("[PERF] Kernel mode: Avg: 7040 ms, BW: 0.01 GB/s", 901),
    ("[PERF] D2D mode:    Avg: 8 ms,    BW: 8.0 GB/s", 901),
    ("cudaStreamCreate", 901),
    ("[ERROR] tcpx_irecv failed (chunk)", 806),
    ("[ncclNet:2] unable to allocate requests", 806),
    ("[ERROR] Data verification failed", 808),
    ("Data verification failed!", 808),
    ("Expected: 0x42, Got: 0x00 (or random value)", 808),
    ("Expected: 0x42, Got: 0x9c", 808),
    ("Error at offset 17: expected 0x42, got 0x9c", 808),
    ("Error at offset %d: expected 0x42, got 0x%02x", 808),
    ("[PERF][CLIENT] chunk_idx=6 tag=99 size=524288 offset=3145728", 902),
    ("[ERROR] Send timeout at iteration 0 chunk=6", 902),
    ("tag must be unique", 902),
    ("unique tag per chunk to avoid cross-match", 902),
    ("must match sender's tag", 902),
    ("[TCPX] rx no cmsg", 903),
    ("rx no cmsg", 903),
    ("[ERROR] Failed to receive data", 903),
    ("TCP: devmem-tcp enabled", 401),
    ("tcp-data-split: on", 405),
    ("tcp-data-split: off", 405),
    // Guide for the transfer test.
    ("[DEBUG] === TCPX GPU-to-GPU transfer test ===", 917),
    ("[TCPX] Loading plugin: /usr/local/tcpx/lib64/libnccl-net-tcpx.so", 201),
    ("[DEBUG] Using payload_bytes=23", 917),
    ("[DEBUG] Running in SERVER mode", 917),
    ("[DEBUG] Running in CLIENT mode, server=<server_ip>", 917),
    ("[DEBUG] Listening on device 0", 917),
    ("[DEBUG] Bootstrap connection established, sending handle", 917),
    ("[DEBUG] Connection accepted; recv_comm=0x...", 917),
    ("[DEBUG] Registered server receive buffer ptr=0x... bytes=4096", 917),
    ("[DEBUG] Waiting for client data, expected bytes=23", 917),
    ("[DEBUG] Request metadata: request_ptr=0x... active=1 idx=0 cnt_cache=1 ...", 917),
    ("[DEBUG] Device handle: meta=0x... bounce_buf=0x... head=...", 917),
    ("[DEBUG] descriptor[0] src_off=... len=23 dst_off=0", 917),
    ("[DEBUG] descriptor[0] src_off=20480 len=23 dst_off=0", 917),
    ("[DEBUG] Bounce probe (23B) from src_off=...: 48 65 6c 6c 6f ...", 917),
    ("[DEBUG] Launching device unpack (D2D copies), total_bytes=23", 917),
    ("[DEBUG] Device unpack completed successfully", 917),
    ("[DEBUG] Received data (23 bytes): Hello from TCPX client!", 917),
    ("[DEBUG] ✓ Data validation PASSED", 917),
    ("[DEBUG] Server test completed successfully", 917),
    ("[DEBUG] Connecting to device 0", 917),
    ("[DEBUG] Connection established; send_comm=0x...", 917),
    ("[DEBUG] Registered client send buffer ptr=0x... bytes=4096", 917),
    ("[DEBUG] Wrote test message to GPU buffer: Hello from TCPX client!", 917),
    ("[DEBUG] Sending 23 bytes with tag 42", 917),
    ("[DEBUG] Send completed successfully", 917),
    ("[DEBUG] Client test completed successfully", 917),
    ("[TCPX] net->init rc=0", 917),
    ("[TCPX] net->devices rc=0 ndev=4", 917),
    ("[TCPX] net->init rc=3", 117),
    ("[TCPX] net->devices rc=0 ndev=0", 211),
    ("[TCPX] net->devices rc=0 ndev=-1", 712),
    ("`rx_cmsg_parser.h`", 907),
    ("`loadMeta` 未定义", 908),
    ("libnccl-net-tcpx.so: undefined symbol: cuMemGetHandleForAddressRange", 213),
    ("undefined symbol", 213),
    ("undefined symbol: ncclNetPlugin_v7", 205),
    ("libcudart.so.12: cannot open shared object file: No such file or directory", 201),
    // Notes on the flow of a transfer.
    ("`tcpx_reg_mr` 返回 3", 811),
    ("`tcpx_test` 返回 2 / \"Connection closed by remote peer\"", 709),
    ("**Payload mismatch**", 904),
    ("`cuMemcpyHtoD`", 904),
    ("SUCCESS: Payload matches expected string", 917),
    ("All bytes: 24", 917),
    ("/run/tcpx/get_gpu_fd_*", 503),
    // Readme and interface notes.
    ("Direct kernel access to devmem-tcp bounce buffers not working", 912),
    ("D2D issues one copy per fragment", 913),
    ("Checking for TEXTREL (should be empty)...", 918),
    ("✓ No TEXTREL found (good)", 918),
    ("Hello from TCPX client!", 917),
    // The plugin's own lines.
    ("gpu lib init twice", 712),
    ("NET/GPUDirectTCPX : failed to connect socket", 717),
    ("failed accept socket", 717),
    ("Resource exhausted", 717),
    ("NET/GPUDirectTCPX : failed against receive-datapath-manager", 717),
    ("Create FlowSteerRule Failed", 717),
    ("tx comp timeout poll", 716),
    ("rx recv timeout error 11", 716),
    ("accept returned 3, failed accept socket", 717),
    ("double free detected", 702),
    ("data not aligned", 811),
    ("unknown mem type", 811),
    ("NULL communicator", 811),
    ("ioctl get dma_buf frags", 811),
    ("sched_getcpu", 823),
    ("test called with invalid request, send %d, r, ni", 801),
    ("no inactive request", 807),
    ("invalid request", 807),
    ("invalid request … vs expected", 807),
    ("invalid request 4 vs expected 3", 807),
    ("WARN Connection closed by remote peer …rx", 709),
    ("some pages not yet freed?", 734),
    ("requested receive on host mem buffer", 820),
    ("too many pages", 814),
    ("WARN too many pages", 814),
    ("received n/2048 segs, failstop", 104),
    ("received n/2048 segs", 104),
    ("received 2048/2048 segs, failstop", 104),
    ("too many pages / received n/2048 segs, failstop", 104),
    ("data landed on host memory", 708),
    ("No free space for recv task", 823),
    ("more than 64 sends", 823),
    ("connection closed by peer", 101),
    ("WARN Connection closed by remote peer 10.0.0.7<40414> rx", 709),
    ("rx ctrl timeout", 716),
    ("Connection refused, retrying", 715),
    ("signal 13", 711),
    ("SIGFPE", 111),
    ("NCCL_DYNAMIC_CHUNK_SIZE unset", 101),
    ("NCCL_INLINE_THRESHOLD", 115),
    ("rc=3 from test not ready", 802),
    ("rc=2 typically not ready", 802),
    ("no message yet", 506),
];

#[test]
fn every_known_line_finds_its_diagnosis_first() {
    let mut wrong = Vec::new();
    for (line, expected) in LINES {
        let found: Vec<u16> = search(line).iter().map(|it| it.code.number()).collect();
        if found.first() != Some(expected) {
            wrong.push(format!("{line:?}: {expected}, found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_unknown_line_finds_nothing() {
    for text in ["no such words in the table", "hello from the other side", "0x7f12", "..."] {
        assert!(search(text).is_empty(), "{text}: {:?}", search(text));
    }
}
