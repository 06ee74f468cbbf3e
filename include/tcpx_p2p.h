/*
 * libtcpx_p2p: GPU memory between hosts over TCP.
 *
 * Generated from tcpx-capi by `cargo xtask header`; changes by hand are lost. docs/c-api has a page for each object.
 *
 * The same for every function:
 * - It returns a tcpx_status: TCPX_OK is 0, failures are negative. tcpx_last_error() has the words for the calling thread.
 * - Pointers are checked for NULL, numbers for their range, lengths for their limits.
 * - Outputs come last and are written only on success, but for sizes that say how large a buffer must be.
 * - Handles are numbers that are looked up, never addresses: a stale, wrong or made-up one is TCPX_ERR_HANDLE.
 * - Any thread may call anything, unless the function says otherwise. After fork() the child calls nothing.
 * - Sizes and offsets are bytes; times are in the unit that the name ends with.
 */

#ifndef TCPX_P2P_H
#define TCPX_P2P_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Version of this header; tcpx_version() is that of the library. */
#define TCPX_VERSION "0.1.0"
#define TCPX_VERSION_MAJOR 0
#define TCPX_VERSION_MINOR 1
#define TCPX_VERSION_PATCH 0

/**
 * Version of the binary interface: the number in the soname, `libtcpx_p2p.so.N`. It goes up when a program that was
 * compiled against an older header would break.
 */
#define TCPX_ABI_VERSION 1

/**
 * Longest name of a session or peer, in bytes without the terminating NUL.
 */
#define TCPX_MAX_NAME_BYTES 64

/**
 * No log lines.
 */
#define TCPX_LOG_OFF 0

/**
 * What failed and will not be tried again.
 */
#define TCPX_LOG_ERROR 1

/**
 * What an operator should look at.
 */
#define TCPX_LOG_WARN 2

/**
 * Once per session or peer.
 */
#define TCPX_LOG_INFO 3

/**
 * Steps of setting up and closing.
 */
#define TCPX_LOG_DEBUG 4

/**
 * Everything, down to single chunks.
 */
#define TCPX_LOG_TRACE 5

/**
 * Pointer type: host memory. Received straight into place.
 */
#define TCPX_PTR_HOST 1

/**
 * Pointer type: device memory, or ordinary memory that stands in for it in a session with `gpu` TCPX_GPU_NONE. Received
 * through the bounce buffer and unpacked.
 */
#define TCPX_PTR_CUDA 2

/**
 * Bytes of a serialised memory descriptor. A newer library may need more: ask with a NULL buffer.
 */
#define TCPX_MEMORY_DESCRIPTOR_BYTES 40

/**
 * Bytes of `tcpx_nic.name`.
 */
#define TCPX_NIC_NAME_BYTES 64

/**
 * Bytes of `tcpx_nic.pci_path`.
 */
#define TCPX_NIC_PATH_BYTES 256

/**
 * `gpu`: no GPU; ordinary memory stands in for device memory.
 */
#define TCPX_GPU_NONE (-1)

/**
 * Most operations in one call of a batch function.
 */
#define TCPX_MAX_BATCH 1048576

/**
 * Connection info is never larger than this.
 */
#define TCPX_MAX_CONN_INFO_BYTES 65576

/**
 * `timeout_ms`: no limit.
 */
#define TCPX_WAIT_FOREVER (-1)

/**
 * What a function returns: 0, or a negative number. The tens say what is wrong: -1 the call, -10 the peer's name or
 * state, -20 the connection, -30 memory and data, -40 plugin and hardware, -50 the system and this library itself.
 *
 * Numbers are never reused. A newer library may return some that this header does not list.
 */
enum tcpx_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Done.
   */
  TCPX_OK = 0,
  /**
   * A pointer that must not be NULL is.
   */
  TCPX_ERR_NULL = -1,
  /**
   * A number, text, length or alignment is outside what the function takes.
   */
  TCPX_ERR_ARGUMENT = -2,
  /**
   * The handle is stale, of another kind, or was never given out.
   */
  TCPX_ERR_HANDLE = -3,
  /**
   * The buffer is too small. The size that is needed was written.
   */
  TCPX_ERR_BUFFER_TOO_SMALL = -4,
  /**
   * Another call is using the handle right now. Nothing was done.
   */
  TCPX_ERR_BUSY = -5,
  /**
   * Called from inside the log callback. Nothing was done.
   */
  TCPX_ERR_IN_CALLBACK = -6,
  /**
   * An option or environment variable is outside its range.
   */
  TCPX_ERR_SETTING = -7,
  /**
   * No peer has this name.
   */
  TCPX_ERR_UNKNOWN_PEER = -10,
  /**
   * The peer is not in a state for this call.
   */
  TCPX_ERR_PEER_STATE = -11,
  /**
   * The bytes are not connection info of this library, or are damaged.
   */
  TCPX_ERR_CONN_INFO = -20,
  /**
   * The two ends do not fit together, or one could not prove that it has the connection info.
   */
  TCPX_ERR_HANDSHAKE = -21,
  /**
   * The peer sent what no well-behaved peer sends.
   */
  TCPX_ERR_PROTOCOL = -22,
  /**
   * The peer said goodbye, ended, was killed or gave up.
   */
  TCPX_ERR_PEER_GONE = -23,
  /**
   * The time given, or a time-out of the session, has passed.
   */
  TCPX_ERR_TIMEOUT = -24,
  /**
   * No registration has this id.
   */
  TCPX_ERR_UNKNOWN_MEMORY = -30,
  /**
   * The memory cannot be registered, or cannot serve this post.
   */
  TCPX_ERR_MEMORY = -31,
  /**
   * The registration is used by operations that are posted.
   */
  TCPX_ERR_MEMORY_IN_USE = -32,
  /**
   * The two ends posted different sizes for one message.
   */
  TCPX_ERR_SIZE_MISMATCH = -33,
  /**
   * What arrived is not what was announced. Nothing of it was copied.
   */
  TCPX_ERR_DATA = -34,
  /**
   * The operation was cancelled.
   */
  TCPX_ERR_CANCELLED = -35,
  /**
   * The session, or the peer that the transfer belonged to, is closed.
   */
  TCPX_ERR_CLOSED = -36,
  /**
   * The bytes are no memory descriptor of this library, or are damaged.
   */
  TCPX_ERR_DESCRIPTOR = -37,
  /**
   * The plugin file could not be loaded, or is not one this library can work with.
   */
  TCPX_ERR_PLUGIN_LOAD = -40,
  /**
   * A call into the plugin failed.
   */
  TCPX_ERR_PLUGIN = -41,
  /**
   * No NIC fits.
   */
  TCPX_ERR_NO_NIC = -42,
  /**
   * This build or this machine does not have what was asked for.
   */
  TCPX_ERR_UNAVAILABLE = -43,
  /**
   * The unpack backend failed or is not available.
   */
  TCPX_ERR_UNPACK = -44,
  /**
   * The hardware plugin would end the process, crash or hang on this host, so it was not loaded. The text says what to
   * change.
   */
  TCPX_ERR_HOST = -45,
  /**
   * A system call failed.
   */
  TCPX_ERR_IO = -50,
  /**
   * A fault in this library. Please report it with the text of `tcpx_last_error`.
   */
  TCPX_ERR_INTERNAL = -51,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum tcpx_status tcpx_status;
#else
typedef int32_t tcpx_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Takes one log line: the context given with it, a level (`TCPX_LOG_ERROR` to `TCPX_LOG_TRACE`), the part of the library
 * that speaks, and the line without a newline. Both texts are UTF-8, never NULL, and valid during the call only.
 *
 * It is called from any thread, also from threads of the library, possibly from several at once and while the library
 * holds locks: it must return soon, must not throw or jump out, and must not wait for another call of this library.
 * Calls of this library from inside return `TCPX_ERR_IN_CALLBACK`.
 */
typedef void (*tcpx_log_callback)(void *context, int32_t level, const char *target, const char *message);

/**
 * Handle of a session: one GPU (or host memory), its NICs, its peers, its registrations. An id of 0 is no session.
 */
typedef struct tcpx_session {
  /**
   * A number that only this library understands.
   */
  uint64_t id;
} tcpx_session;

/**
 * What a session knows of a registration.
 */
typedef struct tcpx_memory_info {
  /**
   * Its id, from 1 upwards; ids are never used twice in a session.
   */
  uint64_t id;
  /**
   * Address of its first byte.
   */
  uint64_t address;
  /**
   * Size in bytes.
   */
  uint64_t bytes;
  /**
   * TCPX_PTR_HOST or TCPX_PTR_CUDA.
   */
  int32_t ptr_type;
  /**
   * 1 when it may be received into, else 0.
   */
  int32_t is_recv;
} tcpx_memory_info;

/**
 * Where memory is, how large, and of what kind. A plain value: it owns nothing and keeps nothing registered.
 */
typedef struct tcpx_memory_descriptor {
  /**
   * Address of the first byte, in the address space of whoever made the descriptor.
   */
  uint64_t base_addr;
  /**
   * Size in bytes.
   */
  uint64_t size;
  /**
   * TCPX_PTR_HOST or TCPX_PTR_CUDA.
   */
  int32_t ptr_type;
} tcpx_memory_descriptor;

/**
 * A network interface as the plugin reports it. New members are added at the end.
 */
typedef struct tcpx_nic {
  /**
   * sizeof(tcpx_nic), set by the program before the call.
   */
  size_t size;
  /**
   * The plugin's number for it.
   */
  int32_t index;
  /**
   * Port speed in Mbit/s, 0 when it is not known.
   */
  int32_t speed_mbps;
  /**
   * Interface name, as the option `nics` takes it. Ends with NUL; cut when longer.
   */
  char name[TCPX_NIC_NAME_BYTES];
  /**
   * Real path under /sys, empty when it has none. Ends with NUL; cut when longer.
   */
  char pci_path[TCPX_NIC_PATH_BYTES];
} tcpx_nic;

/**
 * How a session is set up. Fill it with `tcpx_session_options_init`, then change what should differ.
 *
 * Numbers are in force as they stand. Texts are NULL for "what the environment says, else the default"; they are read
 * during `tcpx_session_create` and not kept. New members are added at the end: `size` says which ones the program knows.
 */
typedef struct tcpx_session_options {
  /**
   * sizeof(tcpx_session_options), set by `tcpx_session_options_init`.
   */
  size_t size;
  /**
   * Which plugin: "auto" (the hardware plugin where it is installed, else the software plugin), "soft", or the path of
   * a plugin file. TCPX_PLUGIN.
   */
  const char *plugin;
  /**
   * How fragments are copied to their destination: "auto", "host", "d2d" or "kernel". TCPX_UNPACK.
   */
  const char *unpack;
  /**
   * The session's own name, at most 64 bytes: a peer's `tcpx_session_accept` finds it under this name only. NULL or
   * empty: any accept takes it.
   */
  const char *name;
  /**
   * Names of NICs with commas between; channels go round robin over them. NULL or empty: chosen for each peer. TCPX_NIC.
   */
  const char *nics;
  /**
   * Address and port of the control listener, such as "0.0.0.0:0"; port 0 lets the system choose. TCPX_LISTEN.
   */
  const char *listen;
  /**
   * IP addresses to put into the connection info, with commas between. NULL or empty: every address of this host that
   * `listen` covers.
   */
  const char *advertise;
  /**
   * CUDA ordinal of the GPU whose memory is moved, or TCPX_GPU_NONE. TCPX_GPU.
   */
  int32_t gpu;
  /**
   * Channels to each peer, 1 to 64; two ends agree on the smaller number. TCPX_CHANNELS.
   */
  uint32_t channels;
  /**
   * Bytes of a chunk, 4096 to 4194304 and at most NCCL_DYNAMIC_CHUNK_SIZE; two ends agree on the smaller.
   * TCPX_CHUNK_BYTES.
   */
  uint32_t chunk_bytes;
  /**
   * Receives in flight on a channel, 1 to 16. TCPX_RECV_WINDOW.
   */
  uint32_t recv_window;
  /**
   * Sends in flight on a channel, 1 to 16. TCPX_SEND_WINDOW.
   */
  uint32_t send_window;
  /**
   * How long `tcpx_session_accept` and `tcpx_session_connect` wait, in milliseconds. TCPX_CONNECT_TIMEOUT_MS.
   */
  uint32_t connect_timeout_ms;
  /**
   * How long `tcpx_session_disconnect` and `tcpx_session_destroy` wait for the peer's goodbye, in milliseconds.
   * TCPX_CLOSE_TIMEOUT_MS.
   */
  uint32_t close_timeout_ms;
  /**
   * How long a waiting thread spins before it yields and later sleeps, in microseconds. TCPX_SPIN_US.
   */
  uint32_t spin_us;
  /**
   * 1: a thread of the session makes progress. 0: progress is made inside calls of this library only.
   * TCPX_PROGRESS_THREAD.
   */
  int32_t progress_thread;
  /**
   * How long a peer may be silent before it counts as gone, in milliseconds, 100 to 86400000; 0: for ever. A peer with a
   * progress thread is silent when it answers no ping, any peer when its host acknowledges nothing.
   * TCPX_PEER_TIMEOUT_MS.
   */
  uint32_t peer_timeout_ms;
} tcpx_session_options;

/**
 * Handle of a transfer: sends and receives with one peer that are waited for together. An id of 0 is no transfer.
 */
typedef struct tcpx_transfer {
  /**
   * A number that only this library understands.
   */
  uint64_t id;
} tcpx_transfer;

/**
 * One send or receive of a batch.
 */
typedef struct tcpx_post {
  /**
   * Id of the registration.
   */
  uint64_t memory;
  /**
   * Where in the registration, in bytes.
   */
  uint64_t offset;
  /**
   * How many bytes. The other end must post the same number.
   */
  uint64_t bytes;
  /**
   * The other end's post with the same tag is the counterpart; equal tags match in the order of posting.
   */
  int32_t tag;
} tcpx_post;

/**
 * Sums over everything since the session was made, peers that are gone included; only `peers` and `channels` are what it
 * has now. New members are added at the end.
 */
typedef struct tcpx_session_stats {
  /**
   * sizeof(tcpx_session_stats), set by the program before the call.
   */
  size_t size;
  /**
   * Peers, in whatever state.
   */
  uint64_t peers;
  /**
   * Channels to them.
   */
  uint64_t channels;
  /**
   * Chunks sent.
   */
  uint64_t chunks_sent;
  /**
   * Their bytes.
   */
  uint64_t bytes_sent;
  /**
   * Chunks received and unpacked.
   */
  uint64_t chunks_received;
  /**
   * Their bytes.
   */
  uint64_t bytes_received;
  /**
   * Fragments that receives arrived in.
   */
  uint64_t fragments;
  /**
   * Fragments that were merged into a neighbour before unpacking.
   */
  uint64_t fragments_merged;
  /**
   * Times a chunk waited because its channel's window was full.
   */
  uint64_t window_full;
  /**
   * Times the plugin asked to be asked again later.
   */
  uint64_t plugin_busy;
  /**
   * Batches of chunks that were unpacked.
   */
  uint64_t unpack_batches;
  /**
   * Nanoseconds from the submit of a batch until it was seen to be finished, summed.
   */
  uint64_t unpack_ns;
  /**
   * Sends that found their receive.
   */
  uint64_t messages_sent;
  /**
   * Receives that found their send.
   */
  uint64_t messages_received;
  /**
   * Operations that ended with an error, cancelled ones included.
   */
  uint64_t errors;
  /**
   * Peers that failed so far, those that are gone included.
   */
  uint64_t peers_failed;
  /**
   * Trouble that was noticed while running; the JSON has it by id.
   */
  uint64_t alarms;
  /**
   * Peers that ended while chunks of theirs are still being unpacked or gathered: memory registered for them stays in
   * use. Above 0 for more than a moment: the GPU hangs.
   */
  uint64_t peers_parked;
} tcpx_session_stats;

/**
 * Numbers of a transfer so far.
 */
typedef struct tcpx_transfer_counts {
  /**
   * Sends and receives that were posted.
   */
  uint64_t operations_posted;
  /**
   * Those that ended, in whatever way.
   */
  uint64_t operations_done;
  /**
   * Chunks of all operations that have found their counterpart.
   */
  uint64_t chunks_posted;
  /**
   * Chunks sent, or received and unpacked.
   */
  uint64_t chunks_done;
  /**
   * Bytes of those chunks.
   */
  uint64_t bytes_done;
} tcpx_transfer_counts;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The details of the last failure in the calling thread: what failed, with which peer, channel and numbers. The text of
 * one that has a diagnosis ends with its id in brackets, `[TCPX-902]`.
 *
 * Never NULL; empty when nothing has failed in this thread. The text is UTF-8. It stays valid until the next call of
 * this library fails in the same thread, or the thread ends; successful calls leave it alone. Any thread; not for
 * another thread's eyes.
 */
const char *tcpx_last_error(void);

/**
 * The id of the last failure's diagnosis in the calling thread, such as `TCPX-902`: `tcpx explain TCPX-902` prints its
 * cause and cure.
 *
 * Never NULL; empty when nothing has failed in this thread, or when the text says all there is, as for a mistake of the
 * calling program. Valid as long as the text of `tcpx_last_error`. Any thread; not for another thread's eyes.
 */
const char *tcpx_last_error_id(void);

/**
 * Sends the library's log lines up to `max_level` to `callback`, process-wide, in place of an earlier one. NULL turns
 * them off. Without a call of this there are none: the library itself never prints.
 *
 * When it returns, the earlier callback is not running and will not be called again. Any thread, but not from inside the
 * callback.
 *
 * Errors: `TCPX_ERR_ARGUMENT` when `max_level` is not a level; `TCPX_ERR_UNAVAILABLE` when the program is written in
 * Rust and has a `tracing` subscriber of its own.
 *
 * Pointers:
 * `callback` is NULL or a function of this type that may be called from any thread, with `context`, until it is replaced.
 */
tcpx_status tcpx_set_log_callback(tcpx_log_callback callback,
                                  void *context,
                                  int32_t max_level);

/**
 * Drops the plugin's log lines above `level` before they are formatted, process-wide: for a callback that takes
 * everything else. `TCPX_LOG_DEBUG` unless set.
 *
 * Lines of the plugin arrive as `TCPX_LOG_WARN`, `TCPX_LOG_DEBUG` or `TCPX_LOG_TRACE`, with the target `tcpx::plugin`, and
 * only as far as the `max_level` of `tcpx_set_log_callback` allows. Any thread; does not block.
 *
 * Errors: `TCPX_ERR_ARGUMENT` when `level` is not a level.
 */
tcpx_status tcpx_set_plugin_log_level(int32_t level);

/**
 * Makes memory known to a session and writes its id, from 1 upwards, to `out_memory`. It serves every peer and channel.
 * Any address, any size but 0; the same memory may be registered more than once.
 *
 * The memory stays the program's: it must remain valid until `tcpx_session_deregister_memory` or `tcpx_session_destroy`
 * has returned TCPX_OK. While an operation is posted on a part of it, nobody else writes that part, and while a receive
 * is, nobody reads it either. `is_recv` 1: it may be received into and sent from; 0: sent from only.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_ARGUMENT` for an unknown `ptr_type`, an `is_recv` other than 0 and
 * 1; `TCPX_ERR_MEMORY` when the address and size cannot be, or the plugin cannot receive into memory of this type. Any
 * thread; does not block.
 *
 * Pointers:
 * `address` is NULL or the start of `bytes` bytes that follow the rules above; `out_memory` is NULL or may be written.
 */
tcpx_status tcpx_session_register_memory(struct tcpx_session session,
                                         void *address,
                                         uint64_t bytes,
                                         int32_t ptr_type,
                                         int32_t is_recv,
                                         uint64_t *out_memory);

/**
 * Takes a registration back. After TCPX_OK its memory is not touched any more and may be freed.
 *
 * Errors: `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_MEMORY`; `TCPX_ERR_MEMORY_IN_USE` while operations on it are posted: wait
 * for their transfers first. Any thread; does not block.
 */
tcpx_status tcpx_session_deregister_memory(struct tcpx_session session,
                                           uint64_t memory);

/**
 * Writes what the session knows of a registration.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_MEMORY`. Any thread; does not block.
 *
 * Pointers:
 * `out_info` is NULL or may be written.
 */
tcpx_status tcpx_session_memory_info(struct tcpx_session session, uint64_t memory, struct tcpx_memory_info *out_info);

/**
 * Puts a descriptor into bytes that `tcpx_memory_descriptor_deserialize` reads, on any machine: framed, versioned and
 * with a checksum.
 *
 * `out_size` gets the number of bytes; a NULL `buffer` asks for it alone.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`; `TCPX_ERR_DESCRIPTOR` for memory that cannot be: address or size 0, past
 * the end of the address space, an unknown pointer type; `TCPX_ERR_BUFFER_TOO_SMALL`, with the size that is needed in
 * `out_size`. Any thread; does not block.
 *
 * Pointers:
 * `descriptor` is NULL or may be read; `buffer` is NULL or may be written for `capacity` bytes; `out_size` is NULL or may
 * be written.
 */
tcpx_status tcpx_memory_descriptor_serialize(const struct tcpx_memory_descriptor *descriptor,
                                             void *buffer,
                                             size_t capacity,
                                             size_t *out_size);

/**
 * Reads a descriptor from bytes.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`; `TCPX_ERR_DESCRIPTOR` when the bytes are damaged, of another version, or
 * describe memory that cannot be. Any thread; does not block.
 *
 * Pointers:
 * `bytes` is NULL or may be read for `size` bytes; `out_descriptor` is NULL or may be written.
 */
tcpx_status tcpx_memory_descriptor_deserialize(const void *bytes,
                                               size_t size,
                                               struct tcpx_memory_descriptor *out_descriptor);

/**
 * Writes how many NICs the session's plugin offers.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`. Any thread; does not block.
 *
 * Pointers:
 * `out_count` is NULL or may be written.
 */
tcpx_status tcpx_session_nic_count(struct tcpx_session session, size_t *out_count);

/**
 * Writes what is known of NIC number `position`, from 0. Set `out_nic->size` to sizeof(tcpx_nic) first.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_ARGUMENT` when there is no such NIC. Any thread; does not block.
 *
 * Pointers:
 * `out_nic` is NULL or points to a size that says how many bytes from it on may be written.
 */
tcpx_status tcpx_session_nic(struct tcpx_session session,
                             size_t position,
                             struct tcpx_nic *out_nic);

/**
 * Writes how many GPUs the CUDA driver shows to this process: the ordinals that the option `gpu` takes are below it. 0
 * where there is no driver.
 *
 * Errors: `TCPX_ERR_NULL`. Any thread; the first call may take a moment, in which the driver starts.
 *
 * Pointers:
 * `out_count` is NULL or may be written.
 */
tcpx_status tcpx_gpu_count(size_t *out_count);

/**
 * Fills options: numbers with what the environment says, else the default; texts with NULL. `size` is
 * sizeof(tcpx_session_options) as the program was compiled.
 *
 * Errors: `TCPX_ERR_NULL`; `TCPX_ERR_ARGUMENT` for a size that no version of the struct has; `TCPX_ERR_SETTING` naming a
 * variable of the environment that cannot be read. Any thread.
 *
 * Pointers:
 * `options` is NULL or may be written for `size` bytes.
 */
tcpx_status tcpx_session_options_init(struct tcpx_session_options *options,
                                      size_t size);

/**
 * Posts a send of `bytes` bytes at `offset` of registration `memory`. Until the transfer is complete the bytes must not
 * change. The other end posts a receive of the same size and tag, before or after.
 *
 * Errors: `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_MEMORY`; `TCPX_ERR_MEMORY` when it does not fit; `TCPX_ERR_PEER_STATE`,
 * `TCPX_ERR_CLOSED`, or the peer's own error, when the peer is not up. Nothing was posted then. Any thread; does not block.
 */
tcpx_status tcpx_transfer_post_send(struct tcpx_transfer transfer,
                                    uint64_t memory,
                                    uint64_t offset,
                                    uint64_t bytes,
                                    int32_t tag);

/**
 * Posts a receive of `bytes` bytes to `offset` of registration `memory`, which was registered with `is_recv` 1. Until the
 * transfer is complete the bytes must be neither read nor written.
 *
 * Errors: as for `tcpx_transfer_post_send`. Any thread; does not block.
 */
tcpx_status tcpx_transfer_post_recv(struct tcpx_transfer transfer,
                                    uint64_t memory,
                                    uint64_t offset,
                                    uint64_t bytes,
                                    int32_t tag);

/**
 * Posts many sends: all of them, or none when one is wrong. The array is copied. A `count` of 0 posts nothing.
 *
 * Errors: as for `tcpx_transfer_post_send`; `TCPX_ERR_NULL`; `TCPX_ERR_ARGUMENT` above TCPX_MAX_BATCH. Any thread; does
 * not block.
 *
 * Pointers:
 * `posts` is NULL or may be read for `count` items.
 */
tcpx_status tcpx_transfer_post_send_batch(struct tcpx_transfer transfer, const struct tcpx_post *posts, size_t count);

/**
 * Posts many receives: all of them, or none when one is wrong. The array is copied. A `count` of 0 posts nothing.
 *
 * Errors: as for `tcpx_transfer_post_send_batch`. Any thread; does not block.
 *
 * Pointers:
 * `posts` is NULL or may be read for `count` items.
 */
tcpx_status tcpx_transfer_post_recv_batch(struct tcpx_transfer transfer, const struct tcpx_post *posts, size_t count);

/**
 * Makes a session: opens the plugin (once per process) and the unpack backend. NULL options stand for the environment's
 * values, else the defaults. End it with `tcpx_session_destroy`.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_SETTING`, `TCPX_ERR_PLUGIN_LOAD`, `TCPX_ERR_PLUGIN`,
 * `TCPX_ERR_HOST`, `TCPX_ERR_NO_NIC`, `TCPX_ERR_UNPACK`, `TCPX_ERR_UNAVAILABLE` for a GPU that this build cannot use. Any
 * thread.
 *
 * Pointers:
 * `options` is NULL or points to a struct of the size it names, whose texts are NULL or end with NUL. `out_session` is
 * NULL or may be written.
 */
tcpx_status tcpx_session_create(const struct tcpx_session_options *options,
                                struct tcpx_session *out_session);

/**
 * Says goodbye to every peer, waiting at most `close_timeout_ms` for them, then closes everything. Afterwards no memory
 * that was registered with the session is touched any more; its handle, and those of its transfers, still want their end.
 * A session that is closed already stays so.
 *
 * Errors: `TCPX_ERR_HANDLE`; `TCPX_ERR_TIMEOUT` naming the peers that did not answer: everything is closed here all the
 * same; or naming those whose chunks a GPU that hangs has not unpacked: memory that they are received into must then stay,
 * and closing again looks again. Any thread, also while others are inside calls on this session: theirs end with `TCPX_ERR_CLOSED`. Blocks for at
 * most `close_timeout_ms`, and as long as unpacks under way take.
 */
tcpx_status tcpx_session_close(struct tcpx_session session);

/**
 * Ends a session: closes it, as `tcpx_session_close` does, without telling whether every peer answered.
 *
 * Afterwards no memory that was registered with it is touched any more, unless `tcpx_session_close` said so before. Its
 * transfers answer `TCPX_ERR_CLOSED`, or
 * `TCPX_ERR_PEER_GONE` where the peer said goodbye first; they still want their `tcpx_transfer_release`.
 *
 * Errors: `TCPX_ERR_HANDLE`; `TCPX_ERR_BUSY` while another thread is inside a call on this session: nothing was done then.
 * Any thread. Blocks for at most `close_timeout_ms`, and as long as unpacks under way take.
 */
tcpx_status tcpx_session_destroy(struct tcpx_session session);

/**
 * Opens the control listener, once, and writes the connection info that peers load with
 * `tcpx_session_load_remote_conn_info`. Any number of peers may use the same bytes. They contain a secret: hand them over
 * on a trusted way.
 *
 * `out_size` gets the number of bytes; a NULL `buffer` asks for it alone.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_BUFFER_TOO_SMALL`, with the size that is needed in `out_size`;
 * `TCPX_ERR_IO` when the address cannot be listened on. Any thread; does not block.
 *
 * Pointers:
 * `buffer` is NULL or may be written for `capacity` bytes; `out_size` is NULL or may be written.
 */
tcpx_status tcpx_session_listen(struct tcpx_session session,
                                void *buffer,
                                size_t capacity,
                                size_t *out_size);

/**
 * Gives a peer that connects, or has connected, the name `peer` from then on; waits for one if need be. Call
 * `tcpx_session_listen` first. A connecting session that has a name of its own is only accepted under that name. Peers do
 * not wait for this call, only for the session's progress; one that is gone before it is passed over.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_PEER_STATE` without listening, or for a name
 * that is taken; `TCPX_ERR_TIMEOUT` when nobody came within `connect_timeout_ms`; `TCPX_ERR_HANDSHAKE`, `TCPX_ERR_PEER_GONE`, `TCPX_ERR_PLUGIN` when connecting failed.
 * Any thread. Blocks for at most `connect_timeout_ms`.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL.
 */
tcpx_status tcpx_session_accept(struct tcpx_session session,
                                const char *peer);

/**
 * Remembers how `peer` is reached: bytes that its `tcpx_session_listen` wrote. The bytes are copied.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_CONN_INFO` when the bytes are damaged or of
 * another version. Any thread; does not block.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL; `bytes` is NULL or may be read for `size` bytes.
 */
tcpx_status tcpx_session_load_remote_conn_info(struct tcpx_session session,
                                               const char *peer,
                                               const void *bytes,
                                               size_t size);

/**
 * Connects to a peer whose connection info was loaded. Afterwards both ends can send and receive; what is posted before the
 * other end has called `tcpx_session_accept` waits for its counterpart, as always.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_PEER`, `TCPX_ERR_PEER_STATE`,
 * `TCPX_ERR_HANDSHAKE`, `TCPX_ERR_PEER_GONE`, `TCPX_ERR_PLUGIN`; `TCPX_ERR_IO` when no address of the peer answers;
 * `TCPX_ERR_TIMEOUT` after `connect_timeout_ms`. Any thread. Blocks for at most `connect_timeout_ms`.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL.
 */
tcpx_status tcpx_session_connect(struct tcpx_session session,
                                 const char *peer);

/**
 * Says goodbye to a peer: withdraws what has no counterpart, finishes what has one, closes both ends in the order that
 * loses nothing. The name is free again afterwards, whatever the status.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_PEER`; `TCPX_ERR_TIMEOUT` when the
 * peer did not answer within `close_timeout_ms`: everything is closed here all the same. Any thread. Blocks for at most
 * `close_timeout_ms`.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL.
 */
tcpx_status tcpx_session_disconnect(struct tcpx_session session, const char *peer);

/**
 * Makes one round of progress over every peer and transfer. `out_moved`, which may be NULL, gets whether anything moved.
 *
 * Errors: `TCPX_ERR_HANDLE`; failures of peers and operations show at their transfers. Any thread; does not block beyond
 * the round itself.
 *
 * Pointers:
 * `out_moved` is NULL or may be written.
 */
tcpx_status tcpx_session_progress(struct tcpx_session session,
                                  bool *out_moved);

/**
 * Writes sums over the session's whole life. Set `out_stats->size` to sizeof(tcpx_session_stats) first.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`. Any thread; does not block.
 *
 * Pointers:
 * `out_stats` is NULL or points to a size that says how many bytes from it on may be written.
 */
tcpx_status tcpx_session_get_stats(struct tcpx_session session, struct tcpx_session_stats *out_stats);

/**
 * Writes everything the session counts as a JSON object with a terminating NUL: transport ("software" or "hardware"),
 * plugin, unpack backend and why it was chosen, trouble that was noticed by the id of its diagnosis, each peer with its state and each channel's numbers.
 *
 * `out_size` gets the bytes of the text, NUL included; a NULL `buffer` asks for it alone. Numbers grow between two calls:
 * leave some room, or ask again after `TCPX_ERR_BUFFER_TOO_SMALL`.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_BUFFER_TOO_SMALL`, with the size that is
 * needed in `out_size`. Any thread; does not block.
 *
 * Pointers:
 * `buffer` is NULL or may be written for `capacity` bytes; `out_size` is NULL or may be written.
 */
tcpx_status tcpx_session_stats_json(struct tcpx_session session,
                                    char *buffer,
                                    size_t capacity,
                                    size_t *out_size);

/**
 * What a status means, in a few words of English; `tcpx_last_error` has the details of the last failure.
 *
 * Never NULL; the text is constant. A number that this library does not know has a text that says so. Any thread.
 */
const char *tcpx_status_text(int32_t status);

/**
 * Makes a transfer with a connected peer. End it with `tcpx_transfer_release`. A transfer may be posted to again after it
 * was complete.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_PEER`, `TCPX_ERR_PEER_STATE`, or the
 * peer's own error when it is not up. Any thread; does not block.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL; `out_transfer` is NULL or may be written.
 */
tcpx_status tcpx_session_create_transfer(struct tcpx_session session,
                                         const char *peer,
                                         struct tcpx_transfer *out_transfer);

/**
 * Makes one round of progress and writes whether every operation of the transfer has ended well. One without operations
 * is complete.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`, `TCPX_ERR_CLOSED`; the first error of the operations, once all have ended.
 * Any thread; does not block beyond the round itself.
 *
 * Pointers:
 * `out_complete` is NULL or may be written.
 */
tcpx_status tcpx_transfer_is_complete(struct tcpx_transfer transfer,
                                      bool *out_complete);

/**
 * Waits until every operation of the transfer has ended, for at most `timeout_ms` milliseconds; TCPX_WAIT_FOREVER (-1)
 * for no limit, which a peer's end, a cancel or the session's end still cuts short.
 *
 * Errors: `TCPX_ERR_HANDLE`, `TCPX_ERR_CLOSED`; `TCPX_ERR_ARGUMENT` for another negative number; `TCPX_ERR_TIMEOUT` while
 * some operations have not ended: they go on, waiting again is possible; else the first error of the operations. Any
 * thread. Blocks for at most `timeout_ms`.
 */
tcpx_status tcpx_transfer_wait(struct tcpx_transfer transfer,
                               int32_t timeout_ms);

/**
 * Withdraws every operation that has no counterpart yet. Those end with `TCPX_ERR_CANCELLED`, receives once the peer has
 * agreed; what has its counterpart runs to its end. Wait for the transfer to know when its memory is free.
 *
 * Errors: `TCPX_ERR_HANDLE`. Any thread, also while another one waits for the transfer; does not block.
 */
tcpx_status tcpx_transfer_cancel(struct tcpx_transfer transfer);

/**
 * Writes the numbers of the transfer so far.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`, `TCPX_ERR_CLOSED`. Any thread; does not block.
 *
 * Pointers:
 * `out_counts` is NULL or may be written.
 */
tcpx_status tcpx_transfer_get_counts(struct tcpx_transfer transfer, struct tcpx_transfer_counts *out_counts);

/**
 * Writes the first error of the transfer's operations so far, while others may go on: its status to `out_error`, TCPX_OK
 * when there is none, and its text with a terminating NUL to `buffer`.
 *
 * `out_size` gets the bytes of the text, NUL included; a NULL `buffer` asks for it alone.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_BUFFER_TOO_SMALL`, with `out_error` and the size that is needed in
 * `out_size`. Any thread; does not block.
 *
 * Pointers:
 * `out_error` and `out_size` are NULL or may be written; `buffer` is NULL or may be written for `capacity` bytes.
 */
tcpx_status tcpx_transfer_error(struct tcpx_transfer transfer,
                                tcpx_status *out_error,
                                char *buffer,
                                size_t capacity,
                                size_t *out_size);

/**
 * Ends a transfer: its handle is not valid any more. Operations that have no counterpart yet are withdrawn; those that
 * have one go on in the background, and their registrations stay in use until then: when
 * `tcpx_session_deregister_memory` returns TCPX_OK, the memory is free.
 *
 * Errors: `TCPX_ERR_HANDLE`; `TCPX_ERR_BUSY` while another thread is inside a call on this transfer: nothing was done
 * then; `tcpx_transfer_cancel` ends such a wait. Any thread; does not block.
 */
tcpx_status tcpx_transfer_release(struct tcpx_transfer transfer);

/**
 * Version of the library that is loaded, such as "0.1.0". `TCPX_VERSION` is that of the header.
 *
 * Never NULL; the text is constant. Any thread.
 */
const char *tcpx_version(void);

/**
 * ABI version of the library that is loaded. A program compiled against `TCPX_ABI_VERSION` works with it when the two
 * are equal. Any thread.
 */
uint32_t tcpx_abi_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TCPX_P2P_H */
