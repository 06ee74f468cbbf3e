//! TCPX-8xx: requests, the order of calls, and registration.

use crate::diagnosis::diagnoses;

diagnoses! {
TEST_OUT_OF_ORDER = 801 Error "test was called for a request that is not the oldest"
    symptom "\"test called with invalid request\", rc 3; or rc 0 and not done"
    lines ["test called with invalid request"]
    cause "a comm's requests finish strictly in the order in which they were posted"
    cure ["# test only the oldest request of a comm that is not done yet"]
    source "plugin 3.1.9, run"
ERROR_TAKEN_AS_NOT_READY = 802 Error "rc 3 from test was taken as \"not ready\""
    symptom "an endless loop"
    cause "not ready is rc 0 with done 0; rc 3 is a wrong call and repeats for ever"
    cure ["# stop on any rc that is not 0"]
    source "plugin 3.1.9, run"
TESTED_AFTER_DONE = 803 Error "a request was tested again after it was done"
    symptom "rc 0 and not done for ever, or rc 3; later another request's answer"
    cause "the plugin reports done once, then uses the request's place again"
    cure ["# forget a request as soon as test says done"]
    source "plugin 3.1.9, run"
SIZE_EXPECTED_FROM_TEST = 804 Warning "the received size was read from test"
    symptom "sizes are 0 or garbage"
    cause "test never writes them"
    cure ["# add up the lengths in the unpack queue, or ask iflush"]
    source "plugin 3.1.9, run"
TEST_NOT_CALLED = 805 Error "nothing moves because test is not called"
    symptom "posted requests stay where they are, no log line"
    cause "isend and irecv only queue; test does the work, and starts one request per call"
    cure ["# keep calling progress or wait; or switch the progress thread on"]
    source "plugin 3.1.9, run"
TOO_MANY_REQUESTS = 806 Error "\"unable to allocate requests\""
    symptom "isend or irecv returns 3 at the 17th request"
    lines ["tcpx_irecv failed (chunk)", "tcpx_isend failed (chunk)"]
    cause "a comm holds 16 requests; a receive counts until irecvConsumed, not until it is done"
    cure ["# post through a window of at most 16 per channel and consume what is done; our windows do this"]
    source "plugin 3.1.9, run; p2p notes on errors"
CONSUMED_WRONGLY = 807 Error "irecvConsumed was called early, twice or out of order"
    symptom "\"no inactive request\" or \"invalid request\", rc 3"
    lines ["invalid request <NUMBERS> vs expected"]
    cause "a receive is consumed once, after it is done, oldest first"
    cure ["# consume in the order of posting, after test reported done"]
    source "plugin 3.1.9, run"
CONSUMED_BEFORE_COPY = 808 Error "corrupted payload: pages were given back before the copy had finished"
    symptom "\"Data verification failed\", random or zero bytes; no error code"
    lines ["Expected: n, Got: n", "Error at offset n: expected n, got n"]
    cause "irecvConsumed lets the NIC write the pages again while the unpack kernel still reads them"
    cure ["# wait for the unpack's completion event, then call irecvConsumed; our slots do this"]
    source "plugin 3.1.9, run; p2p notes on errors"
EMPTY_RECEIVE_NOT_CONSUMED = 809 Error "a receive of 0 bytes was not consumed"
    symptom "\"unable to allocate requests\" after a while"
    cause "empty receives take a slot like all others"
    cure ["# call irecvConsumed for empty receives too"]
    source "plugin 3.1.9, run"
EMPTY_RECEIVE_OUT_OF_ORDER = 810 Error "a receive of 0 bytes was consumed out of order"
    symptom "irecvConsumed returns 0, then 3 for another request; pages are lost"
    cause "the plugin checks no order for empty receives and frees the oldest request instead"
    cure ["# consume in the order of posting"]
    source "plugin 3.1.9, run"
REGISTRATION_REFUSED = 811 Error "tcpx_reg_mr returns 3"
    symptom "\"data not aligned\", \"unknown mem type\", \"NULL communicator\", or no word"
    lines ["tcpx_reg_mr returns 3", "ioctl get dma_buf frags"]
    cause "the pointer is no multiple of 4096, the type is neither host nor CUDA, the comm is NULL, or the driver gave no dma-buf"
    cure ["# align GPU buffers to 4096 bytes and round sizes up", "ls -l /run/tcpx", "tcpx doctor"]
    source "plugin 3.1.9, run; transfer flow notes"
SENT_OUTSIDE_REGISTRATION = 812 Error "a send lies outside its registration"
    symptom "neither side ever finishes, or wrong bytes arrive"
    cause "isend checks no bounds: the kernel refuses and the helper thread ends silently"
    cure ["# check offset + size against the registration"]
    source "plugin 3.1.9, run"
RECEIVE_TOO_SMALL = 813 Error "the sender sent more than was posted"
    symptom "success, and bytes behind the buffer are overwritten"
    cause "the plugin does not compare the received size with the posted one"
    cure ["# check the unpack queue's lengths before copying; our sessions refuse the message on both ends"]
    source "plugin 3.1.9, run"
TOO_MANY_FRAGMENTS = 814 FatalForPlugin "\"too many pages\": a request came in too many fragments"
    symptom "the receiving process exits, also with \"received n/2048 segs, failstop\""
    cause "a request came in more than 2048 fragments, or one chunk in 2048 or more; a fragment ends with its packet or its page of 4 KiB, so a small MTU makes many. A session refuses a chunk_bytes that could come to this"
    cure ["# send requests of at most NCCL_DYNAMIC_CHUNK_SIZE bytes", "export NCCL_DYNAMIC_CHUNK_SIZE=524288", "unset TCPX_CHUNK_BYTES UCCL_TCPX_CHUNK_BYTES"]
    source "plugin 3.1.9, run"
PAGES_LEAKED = 815 Error "receive pages leak until transfers stall"
    symptom "throughput falls over time, then everything stops without an error"
    cause "a request larger than the chunk size puts two chunks on one socket, and the second one's start forgets the first one's pages"
    cure ["# send requests of at most NCCL_DYNAMIC_CHUNK_SIZE bytes, the same on both hosts"]
    source "plugin 3.1.9, run"
ENTRIES_TAKEN_AS_SORTED = 816 Error "scrambled data: fragments were concatenated"
    symptom "all bytes are there, in a wrong order"
    cause "fragments come in the order of the sockets, not of the message"
    cure ["# copy each fragment to its own dst_off"]
    source "plugin 3.1.9, run"
COUNT_POLLED = 817 Error "the queue's count was polled instead of done"
    symptom "old fragments are unpacked again"
    cause "until a slot is used again it keeps the count of the request that had it before, 16 requests ago"
    cure ["# read the slot only after test reported done"]
    source "plugin 3.1.9, run"
COMM_SHARED = 818 Error "two streams share one comm"
    symptom "messages reach the wrong receiver; a tag does not help"
    cause "the plugin ignores tags: the n-th send meets the n-th receive"
    cure ["# match tags above the plugin, or use a comm for each stream; our sessions match tags"]
    source "plugin 3.1.9, run"
COMM_USED_BY_TWO_THREADS = 819 FatalForPlugin "one comm is used by two threads"
    symptom "crashes and lost requests, by chance"
    cause "comms have no lock"
    cure ["# call one comm from one thread at a time"]
    source "plugin 3.1.9, source"
RECEIVE_INTO_HOST_MEMORY = 820 Error "a receive into host memory never finishes"
    symptom "test says rc 0 and not done for ever; \"requested receive on host mem buffer\""
    cause "data sockets are steered to the GPU, so a plain recv on them fails and the helper thread ends"
    cure ["# receive into GPU memory, or use plugin = soft, or devmem, for host memory"]
    source "plugin 3.1.9, run under emulation"
REGISTERED_ODD_SIZE = 821 Error "standard input was closed by a registration"
    symptom "regMr returns 3 and file descriptor 0 is gone"
    cause "an odd size makes CUDA refuse; the plugin then closes descriptor 0 and leaves a CUDA context behind"
    cure ["# round sizes of CUDA registrations up to 4096 bytes; our registrations do this"]
    source "plugin 3.1.9, run"
DEREGISTERED_IN_USE = 822 Error "memory was deregistered while a send used it"
    symptom "neither side ever finishes"
    cause "the helper thread gets EBADF and ends without a word"
    cure ["# wait for all sends, then deregister"]
    source "plugin 3.1.9, source"
HARMLESS_WARNINGS = 823 Info "\"No free space for recv task\" or \"more than 64 sends\""
    symptom "the plugin repeats these lines while data flows"
    lines ["sched_getcpu"]
    cause "a queue inside the plugin is full for a moment; nothing is lost"
    cure ["# nothing to do; a smaller chunk size makes them rarer"]
    source "plugin 3.1.9, run"
SIZES_DIFFER = 824 Error "the receiver posted more than the sender"
    symptom "\"size mismatch\" at both ends; nothing was copied"
    cause "the two ends disagree on the size of the message with this tag"
    cure ["# post the same number of bytes at both ends"]
    source "this project"
REGISTRATION_UNFIT = 825 Error "memory cannot be registered, or a post does not fit its registration"
    symptom "\"registration n:\" and what is wrong"
    cause "an impossible range, memory the session's GPU does not reach or may only read, a post beyond the end, or a receive into memory that was registered for sending"
    cure ["# register what the message asks for, and post inside of it"]
    source "this project"
FRAGMENTS_WRONG = 826 Error "the unpack descriptors of a chunk are wrong"
    symptom "\"unpack descriptor n reads ... of a bounce buffer of ...\"; nothing was copied"
    cause "the plugin published entries that leave the bounce buffer, overlap, or do not cover the chunk"
    cure ["tcpx conformance --plugin /usr/local/tcpx/lib64/libnccl-net-tcpx.so", "# install the plugin's release 3.1.9"]
    source "this project"
CALLED_AFTER_FORK = 827 Error "a forked child calls the library"
    symptom "\"this process was forked from one that had made a session\", TCPX_ERR_FORKED"
    cause "threads, sockets and GPU contexts of a session belong to the process that made it; a child made with fork shares the sockets, lacks the threads, and may find locks held for ever"
    cure ["# start workers by exec; in Python: multiprocessing.set_start_method(\"spawn\")", "# or fork before the first session is made"]
    source "this project"
MEMORY_NOT_EXPORTABLE = 829 Error "device memory cannot be exported as a dma-buf"
    symptom "\"the CUDA driver exports no dma-buf\" when memory is registered; without this check, regMr returns 3 and file descriptor 0 of the process is closed"
    cause "the hardware plugin, and plugin = devmem, send from a dma-buf of whole pages; the driver has none of host or managed memory, of a range that reaches past its allocation, or, with some drivers, of one that begins before it once it is rounded out to pages; a driver without dma-buf support has none at all"
    cure ["# register memory of cuMemAlloc or cudaMalloc, from a page boundary on; let small tensors share one large allocation", "# register memory of the host as host memory, for sending", "nvidia-smi --query-gpu=driver_version --format=csv"]
    source "plugin 3.1.9, run; driver 580, run"
REMOTE_KEY_UNKNOWN = 830 Error "a key to remote memory opens nothing"
    symptom "\"its session knows no such key\", or \"the key is of another session\""
    cause "the key was made up or changed, is used with another peer than the one that exported it, or was exported by a process that has been started again; a stable key also opens nothing while its range is not exported"
    cure ["# fetch the keys again from the peer that is connected now, and use each with the peer it came from"]
    source "this project"
REMOTE_MEMORY_REVOKED = 831 Error "remote memory is not exported any more"
    symptom "\"its export was taken back\""
    cause "the other end has called unexport or deregistered the memory; an operation that was under way on it ends with this too, and what of it had arrived stays"
    cure ["# let the owner wait until its peers are through before it takes a key back", "# fetch a key of the new export"]
    source "this project"
REMOTE_RANGE_OUTSIDE = 832 Error "a range reaches past what is exported"
    symptom "\"range 4: offset 8 and size 9 reach past the 16 bytes that are exported\"; nothing was moved"
    cause "offsets count from the start of the export, and not of the registration or of the other end's memory"
    cure ["# take the address of the key off an address of the other end to have the offset, and stay inside the key's size"]
    source "this project"
REMOTE_ACCESS_REFUSED = 833 Error "remote memory is not exported for this"
    symptom "\"it is not exported for peers to write\"; nothing was moved"
    cause "an export allows reads, writes or both, as its owner chose"
    cure ["# let the owner export it with the access that is needed; to be written it must be registered for receiving too"]
    source "this project"
REMOTE_KEY_UNUSABLE = 834 Error "the bytes are no key to remote memory"
    symptom "\"remote key:\" damaged, cut short, or of another version"
    cause "the bytes were changed on their way, come from something else, or from another release"
    cure ["# hand over exactly the bytes of the key; they may contain NUL", "# install the same release at both ends"]
    source "this project"
LISTS_DIFFER = 835 Error "the two lists of an operation do not fit together"
    symptom "\"pair 3: 4096 bytes at this end, 8192 at the other\", \"one list names both host and device memory\", or too many ranges"
    cause "each local range is paired with the remote range of the same place in the other list, and all ranges of one end are memory of one kind"
    cure ["# give both lists the same lengths in the same order", "# prepare an operation for each kind of memory, or for each part of a very long list"]
    source "this project"
NOTIFICATIONS_NOT_READ = 836 Warning "a peer does not take notifications as fast as they are sent"
    symptom "\"notifications of 1048576 bytes wait for peer decode, which is yet to be reached, or whose program does not take what it has\""
    cause "each peer queues a limited number of notifications for its program, and fewer where other peers fill its session's shared limit; nothing is dropped, so the sender waits, as it does until the peer is connected"
    cure ["# wait until the peer is connected, and send again", "# take notifications out at the other end (poll_notifications) as often as they are sent", "# a larger notification_bytes (TCPX_NOTIFICATION_BYTES) at both ends lets more wait, and a larger kept_for_peers_bytes (TCPX_KEPT_FOR_PEERS_BYTES) at the other end, where many peers share it"]
    source "this project"
NOTIFICATIONS_DROPPED = 837 Warning "notifications of peers that have ended were dropped"
    symptom "\"the program does not take notifications: of peers that have ended, those that left most of them have left too many, and theirs are dropped\""
    cause "notifications of ended peers wait for the program, up to a quarter of kept_for_peers_bytes (TCPX_KEPT_FOR_PEERS_BYTES) together, or less where peers use up the rest; notifications of a connected peer are never dropped"
    cure ["# take notifications out (poll_notifications), as often as they come", "# if they are unexpected: any holder of the secret can send them (docs/security.md)"]
    source "this project"
PEER_UNKNOWN = 838 Error "no peer has this name"
    symptom "\"unknown peer <NAME>\", and the names that there are"
    cause "the name is misspelt, nothing was loaded, connected or accepted under it, or the peer has been disconnected"
    cure ["# use a name that the error lists, or load the peer's connection info first (load_remote_conn_info) and connect, or accept the peer under this name"]
    source "this project"
REGISTRATION_UNKNOWN = 839 Error "no registration has this id"
    symptom "\"registration n does not exist\""
    cause "the memory was deregistered, or the id is of another session; ids are never used again"
    cure ["# register the memory and use the id that the call returns; deregister it only when nothing uses it any more"]
    source "this project"
OPERATION_EXPIRED = 850 Error "an operation had not ended within its time"
    symptom "\"given up: it had not ended within its 2.000 s, peer decode\""
    cause "the program gave a transfer or a post of an operation a timeout; the peer is slow, its program makes no progress, or nothing was posted there that fits; some bytes may have moved, or all"
    cure ["# give it more time, or find out what the peer does meanwhile: its statistics say what it waits for", "# let the peer's session make progress by itself (progress_thread)"]
    source "this project"
}
