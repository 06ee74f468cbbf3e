/*
 * libtcpx_p2p: GPU memory between hosts over TCP.
 *
 * Generated from tcpx-capi by `cargo xtask header`; changes by hand are lost. docs/c-api has a page
 * for each object.
 *
 * These rules hold for every function:
 * - It returns a tcpx_status: TCPX_OK is 0, and failures are negative. tcpx_last_error() has the
 *   words for the calling thread.
 * - It checks pointers for NULL, numbers for their range, and lengths for their limits.
 * - Outputs come last, and are written only on success. Sizes that say how large a buffer must be
 *   are the exception.
 * - Handles are numbers that are looked up, never addresses. One that is stale, of the wrong kind
 *   or made up gives TCPX_ERR_HANDLE.
 * - Any thread may call it, unless its comment says otherwise.
 * - In a child forked after the first session it does nothing, and gives TCPX_ERR_FORKED.
 * - Sizes and offsets are in bytes. Times are in the unit with which the name ends.
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
 * Version of the binary interface, which is the number in the soname `libtcpx_p2p.so.N`.
 *
 * It goes up when a program that was compiled against an older header would break.
 */
#define TCPX_ABI_VERSION 2

/**
 * Kind of an entry: a transfer whose round has ended, or an operation whose post has ended.
 */
#define TCPX_COMPLETION_TRANSFER 0

/**
 * Kind of an entry: a peer that has come up, has parted, or has failed.
 */
#define TCPX_COMPLETION_PEER 1

/**
 * Bytes of a key to remote memory. A newer library may need more, so ask with a NULL buffer.
 */
#define TCPX_REMOTE_KEY_BYTES 86

/**
 * Access of an export: peers may read it.
 */
#define TCPX_ACCESS_READ 1

/**
 * Access of an export: peers may write it. The sum of both gives both.
 */
#define TCPX_ACCESS_WRITE 2

/**
 * Most bytes of the name of a session or peer, without the terminating NUL.
 */
#define TCPX_MAX_NAME_BYTES 64

/**
 * Log level: no lines.
 */
#define TCPX_LOG_OFF 0

/**
 * Log level: failures that are not tried again.
 */
#define TCPX_LOG_ERROR 1

/**
 * Log level: events that an operator should look at.
 */
#define TCPX_LOG_WARN 2

/**
 * Log level: events that happen once for each session or peer.
 */
#define TCPX_LOG_INFO 3

/**
 * Log level: the steps of setting up and closing.
 */
#define TCPX_LOG_DEBUG 4

/**
 * Log level: everything, down to single chunks.
 */
#define TCPX_LOG_TRACE 5

/**
 * Pointer type: host memory. Data is received straight into place.
 */
#define TCPX_PTR_HOST 1

/**
 * Pointer type: device memory. In a session whose `gpu` is TCPX_GPU_NONE ordinary memory stands in
 * for it. Data is received into the bounce buffer and unpacked from there.
 */
#define TCPX_PTR_CUDA 2

/**
 * Bytes of a serialised memory descriptor. A newer library may need more, so ask with a NULL
 * buffer.
 */
#define TCPX_MEMORY_DESCRIPTOR_BYTES 40

/**
 * Size of `tcpx_nic.name` in bytes.
 */
#define TCPX_NIC_NAME_BYTES 64

/**
 * Size of `tcpx_nic.pci_path` in bytes.
 */
#define TCPX_NIC_PATH_BYTES 256

/**
 * Size of `tcpx_notification.peer` in bytes.
 */
#define TCPX_NOTIFICATION_PEER_BYTES 72

/**
 * Kind of an operation: a read, whose bytes come here.
 */
#define TCPX_READ 1

/**
 * Kind of an operation: a write, whose bytes go to the peer.
 */
#define TCPX_WRITE 2

/**
 * State of an operation: it has not been posted yet.
 */
#define TCPX_OPERATION_IDLE 0

/**
 * State of an operation: it was posted, and has not ended.
 */
#define TCPX_OPERATION_ACTIVE 1

/**
 * State of an operation: it has ended well.
 */
#define TCPX_OPERATION_DONE 2

/**
 * State of an operation: it has ended with an error.
 */
#define TCPX_OPERATION_FAILED 3

/**
 * Most bytes of a notification.
 */
#define TCPX_MAX_NOTIFICATION_BYTES 65536

/**
 * Value of `gpu`: no GPU. Ordinary memory stands in for device memory. The hardware plugin refuses
 * such a session with `TCPX_ERR_SETTING`, because it hands out GPU memory.
 */
#define TCPX_GPU_NONE (-1)

/**
 * Most pairs of one operation.
 */
#define TCPX_MAX_PAIRS 1048576

/**
 * State of a peer: an accept waits for the peer.
 */
#define TCPX_PEER_ACCEPTING 1

/**
 * State of a peer: the session is connecting to the peer, or the peer has come in and is not up
 * yet.
 */
#define TCPX_PEER_CONNECTING 2

/**
 * State of a peer: transfers with the peer can be made.
 */
#define TCPX_PEER_UP 3

/**
 * State of a peer: this end has said goodbye, and waits for the peer's goodbye.
 */
#define TCPX_PEER_LEAVING 4

/**
 * State of a peer: the peer was up and has said goodbye. Its name is free.
 */
#define TCPX_PEER_PARTED 5

/**
 * State of a peer: the last attempt with the name has failed, or the peer has ended. The name is
 * free, and `tcpx_session_peer_error` has the error.
 */
#define TCPX_PEER_FAILED 6

/**
 * Most operations in one call of a batch function.
 */
#define TCPX_MAX_BATCH 1048576

/**
 * Most bytes of connection info.
 */
#define TCPX_MAX_CONN_INFO_BYTES 65576

/**
 * Value of `timeout_ms`: no limit.
 */
#define TCPX_WAIT_FOREVER (-1)

/**
 * Result of a function: 0, or a negative number.
 *
 * The tens give the origin of the trouble: from -1 on the call, from -10 the peer's name or state,
 * from -20 the connection, from -30 memory and data, from -40 the plugin and hardware, from -50
 * the system and this library itself. Numbers are never reused. A newer library may return numbers
 * that this header does not list.
 */
enum tcpx_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * The function has done its work.
   */
  TCPX_OK = 0,
  /**
   * A pointer is NULL that must not be NULL.
   */
  TCPX_ERR_NULL = -1,
  /**
   * A number, text, length or alignment is outside what the function takes.
   */
  TCPX_ERR_ARGUMENT = -2,
  /**
   * The handle is stale or of another kind, or was never given out.
   */
  TCPX_ERR_HANDLE = -3,
  /**
   * The buffer is too small. The needed size was written.
   */
  TCPX_ERR_BUFFER_TOO_SMALL = -4,
  /**
   * Another call is using the handle right now. Nothing was done.
   */
  TCPX_ERR_BUSY = -5,
  /**
   * The call came from inside the log callback. Nothing was done.
   */
  TCPX_ERR_IN_CALLBACK = -6,
  /**
   * An option or environment variable is outside its range.
   */
  TCPX_ERR_SETTING = -7,
  /**
   * The process was forked from one that had made a session, and must not use the library.
   * Nothing was done.
   */
  TCPX_ERR_FORKED = -8,
  /**
   * The peer's program has not taken the notifications that were sent before, and no more may
   * wait. Nothing was done; call again later.
   */
  TCPX_ERR_AGAIN = -9,
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
   * The peer sent something that breaks the protocol.
   */
  TCPX_ERR_PROTOCOL = -22,
  /**
   * The peer said goodbye, ended, was killed or gave up.
   */
  TCPX_ERR_PEER_GONE = -23,
  /**
   * The time limit of the call has passed. No operation ends with this.
   */
  TCPX_ERR_TIMEOUT = -24,
  /**
   * No registration has this id.
   */
  TCPX_ERR_UNKNOWN_MEMORY = -30,
  /**
   * The memory cannot be registered, or does not allow this operation.
   */
  TCPX_ERR_MEMORY = -31,
  /**
   * The registration is in use: by posted operations, or by something that cannot be ended.
   */
  TCPX_ERR_MEMORY_IN_USE = -32,
  /**
   * The two ends posted different sizes for one message.
   */
  TCPX_ERR_SIZE_MISMATCH = -33,
  /**
   * The data that arrived differs from what was announced. Nothing of it was copied.
   */
  TCPX_ERR_DATA = -34,
  /**
   * The program withdrew the operation by `tcpx_transfer_cancel` or `tcpx_operation_cancel`.
   */
  TCPX_ERR_CANCELLED = -35,
  /**
   * The program has closed the session, or disconnected the peer that the transfer belonged to.
   */
  TCPX_ERR_CLOSED = -36,
  /**
   * The bytes are no memory descriptor, or no key to remote memory, of this library, or are
   * damaged.
   */
  TCPX_ERR_DESCRIPTOR = -37,
  /**
   * The remote memory cannot be accessed this way: the key is not known any more or does not
   * allow the access, or the ranges of the two ends do not fit. The text says which.
   */
  TCPX_ERR_REMOTE_MEMORY = -38,
  /**
   * The operation had not ended within the time limit of `tcpx_transfer_set_timeout` or
   * `tcpx_operation_post_with`, and was given up.
   */
  TCPX_ERR_EXPIRED = -39,
  /**
   * The plugin file could not be loaded, or this library cannot work with it.
   */
  TCPX_ERR_PLUGIN_LOAD = -40,
  /**
   * A call into the plugin failed, or does not return.
   */
  TCPX_ERR_PLUGIN = -41,
  /**
   * There is no NIC that fits.
   */
  TCPX_ERR_NO_NIC = -42,
  /**
   * This build or this machine lacks what was asked for.
   */
  TCPX_ERR_UNAVAILABLE = -43,
  /**
   * The unpack backend failed or is not available.
   */
  TCPX_ERR_UNPACK = -44,
  /**
   * The hardware plugin would end the process, crash or hang on this host, so it was not loaded.
   * The text of `tcpx_last_error` says what to change.
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
  /**
   * The system has no memory for what was asked. Nothing was done.
   */
  TCPX_ERR_NO_MEMORY = -52,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum tcpx_status tcpx_status;
#else
typedef int32_t tcpx_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Handle of a transfer: sends and receives with one peer that are waited for together.
 *
 * An id of 0 is no transfer.
 */
typedef struct tcpx_transfer {
  /**
   * A number that only this library understands.
   */
  uint64_t id;
} tcpx_transfer;

/**
 * Handle of a session: one GPU (or host memory), its NICs, its peers, its registrations. A session
 * made with `group` 1 has the host and all GPUs.
 *
 * An id of 0 is no session.
 */
typedef struct tcpx_session {
  /**
   * Number that only this library understands.
   */
  uint64_t id;
} tcpx_session;

/**
 * Entry of the completion queue: a transfer whose round has ended, an operation whose post has
 * ended, or a peer that has come up or ended. New members are added at the end.
 */
typedef struct tcpx_completion {
  /**
   * The `entry_bytes` of the call.
   */
  size_t size;
  /**
   * Value that the program passed to `tcpx_transfer_report_completions` or
   * `tcpx_operation_report_completions`. 0 for a peer.
   */
  uint64_t context;
  /**
   * Rounds of the transfer that have ended since its last entry was taken out. 0 for a peer.
   */
  uint64_t rounds;
  /**
   * TCPX_OK if all these rounds have ended well, or else the status of their first error. For a
   * peer that has failed, the status of its error.
   */
  int32_t status;
  /**
   * TCPX_COMPLETION_TRANSFER, or TCPX_COMPLETION_PEER.
   */
  uint32_t kind;
  /**
   * TCPX_PEER_UP, TCPX_PEER_PARTED or TCPX_PEER_FAILED for a peer; else 0.
   */
  int32_t state;
  /**
   * 0.
   */
  uint32_t reserved;
  /**
   * Name of a peer, which ends with NUL; else empty.
   */
  char peer[TCPX_NOTIFICATION_PEER_BYTES];
} tcpx_completion;

/**
 * Range of a registration, and the access to it, for `tcpx_export`. New members are added at the
 * end.
 */
typedef struct tcpx_export_options {
  /**
   * sizeof(tcpx_export_options).
   */
  size_t size;
  /**
   * Offset of the range in the registration, in bytes.
   */
  uint64_t offset;
  /**
   * Length of the range in bytes; 0: to the end of the registration.
   */
  uint64_t bytes;
  /**
   * TCPX_ACCESS_READ, TCPX_ACCESS_WRITE or their sum.
   */
  uint32_t access;
  /**
   * With 1, the session gives the same key, to the byte, each time that the same range of
   * addresses is exported with the same access. This is for programs that tell their peers only
   * once which memory they have. Such a key opens the range whenever it is exported. With 0, a
   * key is never used again.
   */
  int32_t is_stable;
} tcpx_export_options;

/**
 * Memory that a key leads to, as the key says. New members are added at the end.
 */
typedef struct tcpx_remote_memory {
  /**
   * sizeof(tcpx_remote_memory), set by the program before the call.
   */
  size_t size;
  /**
   * Address of the first byte, in the process that exports it. Operations name offsets from
   * here.
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
   * TCPX_ACCESS_READ, TCPX_ACCESS_WRITE or their sum.
   */
  uint32_t access;
} tcpx_remote_memory;

/**
 * Function of the program that takes one log line.
 *
 * It gets the context that was set with it, a level (`TCPX_LOG_ERROR` to `TCPX_LOG_TRACE`), the
 * part of the library that logs, and the line without a newline. Both texts are UTF-8, never NULL,
 * and valid during the call only.
 *
 * Any thread may call the function: also a thread of the library, several threads at once, and
 * while the library holds locks. So the function must return soon, must not throw or jump out, and
 * must not wait for another call of this library. Calls of this library from inside the function
 * return `TCPX_ERR_IN_CALLBACK`.
 */
typedef void (*tcpx_log_callback)(void *context,
                                  int32_t level,
                                  const char *target,
                                  const char *message);

/**
 * Properties of a registration. New members are added at the end.
 */
typedef struct tcpx_memory_info {
  /**
   * sizeof(tcpx_memory_info), set by the program before the call.
   */
  size_t size;
  /**
   * Id of the registration, from 1 upwards. A session never uses an id twice.
   */
  uint64_t id;
  /**
   * Address of the first byte.
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
   * 1 if the memory may be received into, else 0.
   */
  int32_t is_recv;
} tcpx_memory_info;

/**
 * Description of memory: its address, its size and its kind.
 *
 * This is a plain value: it owns nothing, and keeps nothing registered. New members are added at
 * the end.
 */
typedef struct tcpx_memory_descriptor {
  /**
   * sizeof(tcpx_memory_descriptor), set by the program before either call.
   */
  size_t size;
  /**
   * Address of the first byte, in the address space of the process that made the descriptor.
   */
  uint64_t base_addr;
  /**
   * Size in bytes.
   */
  uint64_t bytes;
  /**
   * TCPX_PTR_HOST or TCPX_PTR_CUDA.
   */
  int32_t ptr_type;
  /**
   * 0.
   */
  uint32_t reserved;
} tcpx_memory_descriptor;

/**
 * Range of memory to be registered, one of a list. New members are added at the end.
 */
typedef struct tcpx_registration {
  /**
   * Address of the first byte.
   */
  void *address;
  /**
   * Size in bytes.
   */
  uint64_t bytes;
  /**
   * TCPX_PTR_HOST or TCPX_PTR_CUDA.
   */
  int32_t ptr_type;
  /**
   * 1 if the memory may be received into, else 0.
   */
  int32_t is_recv;
} tcpx_registration;

/**
 * Network interface as the plugin reports it. New members are added at the end.
 */
typedef struct tcpx_nic {
  /**
   * sizeof(tcpx_nic), set by the program before the call.
   */
  size_t size;
  /**
   * Number that the plugin gives the interface.
   */
  int32_t index;
  /**
   * Port speed in Mbit/s; 0 if it is not known.
   */
  int32_t speed_mbps;
  /**
   * Interface name, as the option `nics` takes it. It ends with NUL, and is cut if it is longer.
   */
  char name[TCPX_NIC_NAME_BYTES];
  /**
   * Real path under /sys, empty if there is none. It ends with NUL, and is cut if it is longer.
   */
  char pci_path[TCPX_NIC_PATH_BYTES];
} tcpx_nic;

/**
 * Notification that has come. New members are added at the end.
 */
typedef struct tcpx_notification {
  /**
   * The `entry_bytes` of the call.
   */
  size_t size;
  /**
   * Offset of the notification's bytes in the buffer of the call.
   */
  size_t offset;
  /**
   * Number of bytes, which may be 0.
   */
  size_t bytes;
  /**
   * Name of the sender. It ends with NUL.
   */
  char peer[TCPX_NOTIFICATION_PEER_BYTES];
} tcpx_notification;

/**
 * Range of registered memory here, and a range of the same size at the peer. New members are added
 * at the end.
 */
typedef struct tcpx_pair {
  /**
   * Id of the registration here.
   */
  uint64_t memory;
  /**
   * Offset of the bytes in the registration.
   */
  uint64_t offset;
  /**
   * Key to the peer's memory. Pairs of one key should point to the same bytes, which are then
   * read once.
   */
  const void *key;
  /**
   * Bytes of the key.
   */
  size_t key_bytes;
  /**
   * Offset of the bytes in the memory that the key leads to.
   */
  uint64_t remote_offset;
  /**
   * Number of bytes. A pair of 0 bytes is skipped.
   */
  uint64_t bytes;
} tcpx_pair;

/**
 * Handle of an operation: a read or a write of a peer's memory, prepared once, posted any number
 * of times.
 *
 * An id of 0 is no operation.
 */
typedef struct tcpx_operation {
  /**
   * A number that only this library understands.
   */
  uint64_t id;
} tcpx_operation;

/**
 * Options of a post of an operation. With all members 0 but `size` the post has none. New members
 * are added at the end.
 */
typedef struct tcpx_operation_options {
  /**
   * sizeof(tcpx_operation_options).
   */
  size_t size;
  /**
   * Notification, as the parameter of `tcpx_operation_post`; NULL: no notification.
   */
  const void *notification;
  /**
   * Number of bytes of the notification.
   */
  size_t notification_bytes;
  /**
   * Time limit of the post in milliseconds; 0: no limit.
   */
  uint64_t timeout_ms;
} tcpx_operation_options;

/**
 * Options of a session. Fill them with `tcpx_session_options_init`, then change those that should
 * differ.
 *
 * Numbers are taken as they stand. A text that is NULL stands for the value of the environment, or
 * else for the default. Texts are read during `tcpx_session_create` and not kept. The comment of
 * an option ends with its environment variable. New members are added at the end; `size` says
 * which members the program knows.
 */
typedef struct tcpx_session_options {
  /**
   * sizeof(tcpx_session_options). `tcpx_session_options_init` sets it.
   */
  size_t size;
  /**
   * Plugin: "auto", "soft", "devmem", or the path of a plugin file. "auto" takes the hardware
   * plugin if it is installed, else the software plugin. TCPX_PLUGIN.
   */
  const char *plugin;
  /**
   * Backend that copies fragments to their destination: "auto", "host", "d2d" or "kernel".
   * TCPX_UNPACK.
   */
  const char *unpack;
  /**
   * The session's own name, at most 64 bytes. A peer's `tcpx_session_accept` takes the session
   * under this name only. If it is NULL or empty, any accept takes it.
   */
  const char *name;
  /**
   * Names of NICs, separated by commas. Channels go round robin over them. If it is NULL or
   * empty, NICs are chosen for each peer. TCPX_NIC.
   */
  const char *nics;
  /**
   * Address and port of the control listener, such as "0.0.0.0:0". Port 0 lets the system
   * choose. TCPX_LISTEN.
   */
  const char *listen;
  /**
   * IP addresses to put into the connection info, separated by commas. If it is NULL or empty,
   * every address of this host that `listen` covers is put in.
   */
  const char *advertise;
  /**
   * CUDA ordinal of the GPU whose memory is moved, or TCPX_GPU_NONE, the default, which the
   * hardware plugin refuses. TCPX_GPU.
   */
  int32_t gpu;
  /**
   * Channels to each peer, 1 to 64, or 0, the default, with which each end chooses. Over the
   * software plugin an end chooses 2 to 8 by its processors, and 2 where the process has many
   * peers. Over the hardware plugin it chooses 2. It chooses at least one channel for each of
   * `nics`. Two ends agree on the smaller number. Over the software plugin, where messages
   * travel on the control link, channels with 0 are opened on first use, unless
   * TCPX_CONNECT_CHANNELS is 1. TCPX_CHANNELS.
   */
  uint32_t channels;
  /**
   * Bytes of a chunk, 4096 to 4194304. A value above NCCL_DYNAMIC_CHUNK_SIZE is refused. With
   * the hardware plugin so is a value that the MTU of a NIC would cut into 2048 fragments. With
   * 0 a chunk has 524288 bytes, or less where these limits ask for less. Two ends agree on the
   * smaller number. TCPX_CHUNK_BYTES.
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
   * Time for which `tcpx_session_accept` and `tcpx_session_connect` wait, in milliseconds.
   * TCPX_CONNECT_TIMEOUT_MS.
   */
  uint32_t connect_timeout_ms;
  /**
   * Time for which `tcpx_session_disconnect` and `tcpx_session_destroy` wait for the peer's
   * goodbye, in milliseconds. TCPX_CLOSE_TIMEOUT_MS.
   */
  uint32_t close_timeout_ms;
  /**
   * Longest time, in microseconds, for which a waiting thread spins before it sleeps, where
   * recent waits have shown that spinning pays; 0: never. TCPX_SPIN_US.
   */
  uint32_t spin_us;
  /**
   * With 1, the default, a thread of the session makes progress. With 0, progress is made only
   * inside calls of this library. Without such calls peers cannot connect, nothing of theirs is
   * received or served, and withdrawals at either end do not finish. TCPX_PROGRESS_THREAD.
   */
  int32_t progress_thread;
  /**
   * Time for which a peer may be silent before it counts as gone, in milliseconds: 100 to
   * 86400000, or 0 for no limit. A peer with a progress thread is silent when it answers no ping
   * while something is posted with it. Any peer is silent when its host acknowledges nothing. A
   * data path fails after that time when nothing is acknowledged on it, or when a chunk that was
   * sent does not arrive; this ends the peer. TCPX_PEER_TIMEOUT_MS.
   */
  uint32_t peer_timeout_ms;
  /**
   * Most bytes of memory in which scattered small sends are gathered, of all channels together,
   * in host memory and GPU memory. The memory is allocated as channels first need it and freed
   * with the session. With 0, or where nothing is left for a channel, each send travels by
   * itself. TCPX_STAGING_BYTES.
   */
  uint64_t staging_bytes;
  /**
   * With 1, a plugin file is loaded only after the checks of `tcpx doctor`. With 0 it is loaded
   * unchecked, and the hardware plugin may then end, crash or hang the process. TCPX_PREFLIGHT.
   */
  int32_t preflight;
  /**
   * With 0, a session over the hardware plugin ignores SIGPIPE in the whole process if its
   * disposition was SIG_DFL: the plugin raises the signal when a peer ends in mid-transfer. A
   * handler, and SIG_IGN, stay. With 1, SIG_DFL stays too, and a peer that ends in mid-transfer
   * ends the process. Programs that the process starts inherit an ignored signal.
   * TCPX_KEEP_SIGPIPE.
   */
  int32_t keep_sigpipe;
  /**
   * Longest message that travels on the control link instead of a channel, 0 to 65536 bytes; 0
   * for none. Two ends agree on the smaller number. A send of such a message for which no
   * receive is announced goes ahead and is complete at once. Its completion says nothing of the
   * receiver. TCPX_LINK_BYTES bounds the reads and writes of a peer's memory that travel on the
   * link; with `eager_bytes` 0 none does. TCPX_EAGER_BYTES.
   */
  uint32_t eager_bytes;
  /**
   * Most bytes of unexpected messages, which each peer may send before their receives are
   * posted, up to 1 GiB. TCPX_EAGER_BUFFER_BYTES.
   */
  uint32_t eager_buffer_bytes;
  /**
   * Most bytes of notifications of each peer that wait for this program, and of notifications
   * that wait here for each peer. Each notification counts with 64 bytes more. 131072 to
   * 1073741824. TCPX_NOTIFICATION_BYTES.
   */
  uint32_t notification_bytes;
  /**
   * With 1, a peer that comes in and has proven itself is accepted at once, under its own name
   * or a generated one. With 0, the default, a peer waits for `tcpx_session_accept` or
   * `tcpx_session_accept_any` to name it. TCPX_ACCEPT_ALL.
   */
  int32_t accept_all;
  /**
   * With 1, the session has the host and all GPUs, with one connection info, one name, and one
   * set of peers. Memory is registered with its device, peers that have proven themselves are
   * accepted, and threads make progress. `gpu` then says only which GPU sends host memory over
   * the hardware plugin. 0 is the default.
   */
  int32_t group;
  /**
   * 0. Use `encryption`, which has taken its place; 1 is refused.
   */
  int32_t authenticate_link;
  /**
   * Most bytes that peers together may make the session keep for them, up to 1 TiB, beside 144
   * KiB for each. These are announced receives, lists of ranges, unexpected messages, and
   * notifications that the program has not taken, also of peers that have ended. Data that finds
   * no room waits at its sender. TCPX_KEPT_FOR_PEERS_BYTES.
   */
  uint64_t kept_for_peers_bytes;
  /**
   * Whether what crosses the network is encrypted, on the control link and on the channels:
   * "off", the default; "prefer", with peers that do not have it off; or "require", with every
   * peer, where one that has it off is refused. An attacker that changes, drops, repeats or
   * inserts bytes on the way ends the peer (TCPX-738). TCPX_ENCRYPTION.
   */
  const char *encryption;
  /**
   * File with the certificate of this session in PEM, followed by those between it and the
   * authority. With certificates, which all peers must have, an encrypted link is made only with
   * peers whose certificate an authority in `tls_ca` has issued for their name. `tls_cert`,
   * `tls_key` and `tls_ca` are named together, and with encryption. The files may be replaced at
   * any time. TCPX_TLS_CERT.
   */
  const char *tls_cert;
  /**
   * File with the private key of `tls_cert` in PEM. TCPX_TLS_KEY.
   */
  const char *tls_key;
  /**
   * File with the certificates of the authorities of peers in PEM. TCPX_TLS_CA.
   */
  const char *tls_ca;
} tcpx_session_options;

/**
 * Send or receive of a batch. New members are added at the end.
 */
typedef struct tcpx_post {
  /**
   * Id of the registration.
   */
  uint64_t memory;
  /**
   * Offset of the bytes in the registration.
   */
  uint64_t offset;
  /**
   * Number of bytes. The other end must post the same number.
   */
  uint64_t bytes;
  /**
   * Tag of the message. The other end's post with the same tag is the counterpart. Equal tags
   * match in the order of posting.
   */
  int64_t tag;
} tcpx_post;

/**
 * Sums over everything since the session was made, including peers that are gone.
 *
 * Only `peers` and `channels` are what the session has now. New members are added at the end.
 */
typedef struct tcpx_session_stats {
  /**
   * sizeof(tcpx_session_stats), set by the program before the call.
   */
  size_t size;
  /**
   * Current peers, in whatever state.
   */
  uint64_t peers;
  /**
   * Channels to these peers. A peer that has not needed a channel yet has none.
   */
  uint64_t channels;
  /**
   * Chunks sent.
   */
  uint64_t chunks_sent;
  /**
   * Bytes of these chunks.
   */
  uint64_t bytes_sent;
  /**
   * Chunks received and unpacked.
   */
  uint64_t chunks_received;
  /**
   * Bytes of these chunks.
   */
  uint64_t bytes_received;
  /**
   * Fragments in which receives arrived.
   */
  uint64_t fragments;
  /**
   * Fragments that were merged into a neighbour before unpacking.
   */
  uint64_t fragments_merged;
  /**
   * Times that a chunk waited because its channel's window was full.
   */
  uint64_t window_full;
  /**
   * Times that the plugin could not take a request and had to be asked again.
   */
  uint64_t plugin_busy;
  /**
   * Batches of chunks that were unpacked.
   */
  uint64_t unpack_batches;
  /**
   * Nanoseconds from the submit of a batch until its completion was seen, summed over all
   * batches.
   */
  uint64_t unpack_ns;
  /**
   * Sends that found their receive, or went ahead of it.
   */
  uint64_t messages_sent;
  /**
   * Receives that found their send.
   */
  uint64_t messages_received;
  /**
   * Operations that ended with an error, including those that were cancelled.
   */
  uint64_t errors;
  /**
   * Peers that failed so far, including those that are gone.
   */
  uint64_t peers_failed;
  /**
   * Times that the session noticed trouble. The JSON has them by the id of the diagnosis.
   */
  uint64_t alarms;
  /**
   * Lingering peers: their chunks are still being unpacked or gathered after their end, or their
   * memory has been in use for too long. Memory that is registered for them stays in use. If
   * this is above 0 for more than a moment, the GPU or the plugin hangs.
   */
  uint64_t peers_parked;
  /**
   * Bytes of memory that open channels have for gathering scattered small sends.
   */
  uint64_t staging_bytes;
  /**
   * Calls of the plugin that have not returned for more than 10 seconds. Each is left behind
   * with its comm.
   */
  uint64_t plugin_calls_hung;
  /**
   * Times that a chunk waited because the peer's bounce buffer had no room for it.
   */
  uint64_t credit_waits;
  /**
   * Messages that were sent on the control link, which no channel counts.
   */
  uint64_t eager_messages_sent;
  /**
   * Bytes of these messages.
   */
  uint64_t eager_bytes_sent;
  /**
   * Messages that were received on the control link.
   */
  uint64_t eager_messages_received;
  /**
   * Bytes of these messages.
   */
  uint64_t eager_bytes_received;
  /**
   * Writes of peers into memory that this session exports, with all their bytes in place.
   */
  uint64_t writes_served;
  /**
   * Reads of peers from such memory, with all their bytes sent.
   */
  uint64_t reads_served;
  /**
   * Bytes that peers have written, including writes that were stopped in the middle.
   */
  uint64_t bytes_written;
  /**
   * Bytes that peers have read, including reads that were stopped in the middle.
   */
  uint64_t bytes_read;
  /**
   * Requests of peers that were refused because they have no key to the memory.
   */
  uint64_t refused_key;
  /**
   * Requests that were refused because they reach past what is exported.
   */
  uint64_t refused_range;
  /**
   * Requests that were refused because the key does not allow them.
   */
  uint64_t refused_access;
  /**
   * Requests that were refused for other reasons.
   */
  uint64_t refused_otherwise;
  /**
   * Requests that were refused, or stopped in the middle, because the export was taken back.
   */
  uint64_t revoked;
  /**
   * Notifications that were sent.
   */
  uint64_t notifications_sent;
  /**
   * Notifications that have come.
   */
  uint64_t notifications_received;
  /**
   * Notifications that wait for the program now.
   */
  uint64_t notifications_waiting;
  /**
   * Ranges that were sent to peers in lists of operations, each list once.
   */
  uint64_t ranges_told;
  /**
   * Notifications that waited for room at a peer when it ended. They are lost.
   */
  uint64_t notifications_unsent;
  /**
   * Bytes of reads and writes of a peer's memory, requested by either end, that were sent on the
   * control link, which no channel counts.
   */
  uint64_t link_bytes_sent;
  /**
   * Bytes of such reads and writes that were received there.
   */
  uint64_t link_bytes_received;
  /**
   * Bytes that this session keeps for peers now, or has promised to keep, beside 144 KiB for
   * each: at most `kept_for_peers_bytes` of the session's options.
   */
  uint64_t kept_for_peers_bytes;
} tcpx_session_stats;

/**
 * Counters of a transfer so far: of its whole life, or of its last round. New members are added at
 * the end.
 */
typedef struct tcpx_transfer_counts {
  /**
   * sizeof(tcpx_transfer_counts), set by the program before the call.
   */
  size_t size;
  /**
   * Sends and receives that were posted.
   */
  uint64_t operations_posted;
  /**
   * Operations that ended, in whatever way.
   */
  uint64_t operations_done;
  /**
   * Chunks of the operations that have found their counterpart.
   */
  uint64_t chunks_posted;
  /**
   * Chunks sent, or received and unpacked.
   */
  uint64_t chunks_done;
  /**
   * Bytes of the chunks that are done.
   */
  uint64_t bytes_done;
} tcpx_transfer_counts;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes `tcpx_session_poll_completions` report the end of each round of the transfer from now on.
 *
 * `context` is any number that identifies the transfer to the program: an index, or an address.
 * Call this before the first post: a round that has already ended is not reported. Another call
 * changes the number. One entry at most waits for each transfer; `tcpx_transfer_release` removes
 * it.
 *
 * Errors: `TCPX_ERR_HANDLE`. Any thread; does not block.
 */
tcpx_status tcpx_transfer_report_completions(struct tcpx_transfer transfer, uint64_t context);

/**
 * Makes `tcpx_session_poll_completions` report from now on which peers come up, part or fail.
 * Peers that are up now are reported first.
 *
 * A peer is reported under the name by which the program knows it; a peer that comes in is
 * reported once an accept has taken it. The program's own acts are not reported: that it leaves a
 * peer, or destroys the session. With `group` 1 a peer is up from its first connection on,
 * whichever devices have it, until the last connection has ended.
 *
 * Errors: `TCPX_ERR_HANDLE`. Any thread; does not block.
 */
tcpx_status tcpx_session_report_peers(struct tcpx_session session);

/**
 * Takes entries out of the session's completion queue: transfers whose rounds have ended, and
 * peers that have come up or ended. Transfers come in the order in which they ended. Peers are
 * reported if the program has called `tcpx_session_report_peers`.
 *
 * For a peer that ends and comes up again several times in between, the last end is reported, and
 * that the peer is up if it is. Programs that were compiled with an older header have shorter
 * entries, and get entries of transfers only.
 *
 * `out_completions` is an array of `capacity` entries, of `entry_bytes` each, which is
 * sizeof(tcpx_completion). `out_count` gets the number of entries written; more may wait if it
 * equals `capacity`. `tcpx_transfer_error` has the text of an error. The call makes no progress,
 * and takes no lock that is held while data moves.
 *
 * Afterwards the descriptor of `tcpx_session_event_fd` is not readable, unless entries are left.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; nothing is taken out then. Any
 * thread; does not block.
 *
 * Pointers:
 * `out_completions` is NULL or may be written for `capacity` times `entry_bytes` bytes;
 * `out_count` is NULL or may be written.
 */
tcpx_status tcpx_session_poll_completions(struct tcpx_session session,
                                          struct tcpx_completion *out_completions,
                                          size_t entry_bytes,
                                          size_t capacity,
                                          size_t *out_count);

/**
 * Writes a descriptor for the program's own event loop (poll, epoll and the like).
 *
 * The descriptor is readable when one of these has happened:
 * - a round of a transfer, or a post of an operation, has ended, whether or not it is reported;
 * - an attempt that `tcpx_session_start_connect` and its like began has ended;
 * - a notification has come;
 * - a peer has come up or ended, and peers are reported.
 *
 * It is readable at first. In a session without a progress thread it is also readable when a round
 * of progress is due. Only `tcpx_session_progress` and `tcpx_session_poll_completions` make it
 * unreadable. When it is readable, call these two in this order, and then look at transfers, peers
 * and notifications. A later event makes it readable again.
 *
 * The descriptor is the session's until `tcpx_session_destroy`: the program neither reads it nor
 * closes it. It is closed by `exec`.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_IO` when the process has no descriptors
 * left. Any thread; does not block.
 *
 * Pointers:
 * `out_fd` is NULL or may be written.
 */
tcpx_status tcpx_session_event_fd(struct tcpx_session session, int32_t *out_fd);

/**
 * Prepares for a wait on the descriptor of `tcpx_session_event_fd`: the progress thread moves the
 * bytes at once.
 *
 * After the program has waited in a call of this library, or has polled often, the progress thread
 * stands back for up to 1 ms. A program that does so between waits on the descriptor calls this
 * before each of those waits. It makes a system call only where the thread stands back. Without a
 * progress thread it does nothing.
 *
 * Errors: `TCPX_ERR_HANDLE`. Any thread; does not block.
 */
tcpx_status tcpx_session_arm(struct tcpx_session session);

/**
 * Exports a range of registered memory to peers, and writes the key that opens it.
 *
 * The key is a plain value of TCPX_REMOTE_KEY_BYTES bytes, which may contain NUL. Give it only to
 * the peers that are to reach the range, on a path that you trust. A peer that has the key and a
 * connection to the session may do with the range what `access` says, and nothing with any other
 * memory. `out_size` gets the number of bytes; a NULL `buffer` asks for the number alone, and
 * exports nothing.
 *
 * From now until the key is taken back, peers may read or write the range at any time, as `access`
 * says. The programs of both ends must agree on when each uses the range.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_MEMORY`; `TCPX_ERR_ARGUMENT` for
 * an unknown `access`, or an `is_stable` other than 0 and 1; `TCPX_ERR_MEMORY` when the range is
 * not all in the registration, or is to be written and was registered with `is_recv` 0;
 * `TCPX_ERR_BUFFER_TOO_SMALL`, with the needed size in `out_size`; `TCPX_ERR_CLOSED`. After an
 * error nothing was exported. Any thread; does not block.
 *
 * Pointers:
 * `options` is NULL or points to a struct of the size it names; `buffer` is NULL or may be written
 * for `capacity` bytes; `out_size` is NULL or may be written.
 */
tcpx_status tcpx_export(struct tcpx_session session,
                        uint64_t memory,
                        const struct tcpx_export_options *options,
                        void *buffer,
                        size_t capacity,
                        size_t *out_size);

/**
 * Takes a key back. After TCPX_OK no peer touches the memory through the key any more. Operations
 * that were under way have failed at the peers with `TCPX_ERR_REMOTE_MEMORY`.
 *
 * `tcpx_session_deregister_memory` does the same for every export of its memory.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_DESCRIPTOR` when the
 * bytes are no key; `TCPX_ERR_REMOTE_MEMORY` for a key of another session, a key that this session
 * never gave out, and a key that was taken back; `TCPX_ERR_MEMORY_IN_USE` when a plugin or a GPU
 * does not release the memory within 10 seconds after the peers were ended: no peer can begin a
 * new use, but the memory must stay. Any thread; blocks while peers use the memory, as a rule for
 * microseconds. Peers that still use it after `close_timeout_ms` are ended.
 *
 * Pointers:
 * `key` is NULL or may be read for `key_bytes` bytes.
 */
tcpx_status tcpx_unexport(struct tcpx_session session, const void *key, size_t key_bytes);

/**
 * Writes what a key says of the memory that it leads to. Whether the key still opens that memory
 * shows when an operation is posted.
 *
 * Set `out_memory->size` to sizeof(tcpx_remote_memory) first.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`; `TCPX_ERR_DESCRIPTOR` when the bytes are no key,
 * are damaged or of another version. Any thread; does not block.
 *
 * Pointers:
 * `key` is NULL or may be read for `key_bytes` bytes; `out_memory` is NULL or points to a struct
 * of the size it names, which may be written.
 */
tcpx_status tcpx_remote_key_info(const void *key,
                                 size_t key_bytes,
                                 struct tcpx_remote_memory *out_memory);

/**
 * Returns the details of the last failure in the calling thread: what failed, with which peer,
 * channel and numbers. If the failure has a diagnosis, the text ends with its id in brackets, such
 * as `[TCPX-902]`.
 *
 * The pointer is never NULL. The text is UTF-8, and empty when nothing has failed in this thread.
 * It stays valid until the next call of this library fails in the same thread, or the thread ends;
 * successful calls leave it alone. In a forked child it is that of `TCPX_ERR_FORKED`. Any thread;
 * only the calling thread may read the text.
 */
const char *tcpx_last_error(void);

/**
 * Returns the id of the last failure's diagnosis in the calling thread, such as `TCPX-902`. The
 * command `tcpx explain TCPX-902` prints the cause and the cure.
 *
 * The pointer is never NULL. The text is empty when nothing has failed in this thread, or when the
 * failure has no diagnosis, as with a mistake of the calling program. It is valid as long as the
 * text of `tcpx_last_error`. Any thread; only the calling thread may read the text.
 */
const char *tcpx_last_error_id(void);

/**
 * Sends the library's log lines up to `max_level` to `callback`, for the whole process.
 *
 * The callback takes the place of an earlier one; NULL turns the lines off. Until this is called
 * there are no lines, because the library itself never prints. When it returns, the earlier
 * callback is not running and will not be called again. Any thread, but not from inside the
 * callback.
 *
 * Errors: `TCPX_ERR_ARGUMENT` when `max_level` is not a level; `TCPX_ERR_UNAVAILABLE` when the
 * program is written in Rust and has a `tracing` subscriber of its own.
 *
 * Pointers:
 * `callback` is NULL or a function of this type that may be called from any thread, with
 * `context`, until it is replaced.
 */
tcpx_status tcpx_set_log_callback(tcpx_log_callback callback, void *context, int32_t max_level);

/**
 * Drops the plugin's log lines above `level` before they are formatted, for the whole process.
 *
 * This call serves a callback that takes everything else. Until it is called the level is
 * `TCPX_LOG_DEBUG`. Lines of the plugin arrive as `TCPX_LOG_WARN`, `TCPX_LOG_DEBUG` or
 * `TCPX_LOG_TRACE`, with the target `tcpx::plugin`, and only up to the `max_level` of
 * `tcpx_set_log_callback`. Any thread; does not block.
 *
 * Errors: `TCPX_ERR_ARGUMENT` when `level` is not a level.
 */
tcpx_status tcpx_set_plugin_log_level(int32_t level);

/**
 * Registers memory with a session, and writes the id of the registration to `out_memory`.
 *
 * The registration serves every peer and channel. Any address and any size but 0 will do; the same
 * memory may be registered more than once. With `is_recv` 1 the memory may be received into and
 * sent from, with 0 only sent from.
 *
 * The memory stays the program's. It must remain valid until `tcpx_session_deregister_memory` or
 * `tcpx_session_destroy` has returned TCPX_OK. While an operation is posted on a part of the
 * memory, no other code may write that part. While a receive, or a read of a peer's memory, is
 * posted on a part, no other code may read that part either. Other peers do not reach the memory
 * unless it is exported; see `tcpx_export`.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_ARGUMENT` for an unknown `ptr_type`, for
 * an `is_recv` other than 0 and 1, and for TCPX_PTR_CUDA with `group` 1, where
 * `tcpx_session_register_memory_on` names the GPU; `TCPX_ERR_MEMORY` when there can be no such
 * memory, when the session's GPU does not reach it, when the GPU may only read memory that is to
 * be received into, or when the plugin cannot receive into memory of this type. Any thread; does
 * not block.
 *
 * Pointers:
 * `address` is NULL or the start of `bytes` bytes that follow the rules above; `out_memory` is
 * NULL or may be written.
 */
tcpx_status tcpx_session_register_memory(struct tcpx_session session,
                                         void *address,
                                         uint64_t bytes,
                                         int32_t ptr_type,
                                         int32_t is_recv,
                                         uint64_t *out_memory);

/**
 * Registers memory of a device: `device` is the CUDA ordinal of a GPU, or TCPX_GPU_NONE for host
 * memory. Otherwise the call does what `tcpx_session_register_memory` does.
 *
 * With `group` 1 the first registration of a GPU's memory opens the GPU, which may take a while.
 * With 0 a session has one GPU at most, and takes memory of that GPU and of the host.
 *
 * Errors: those of `tcpx_session_register_memory`; `TCPX_ERR_ARGUMENT` for a device that is none
 * of the session's; with `group` 1 the error of a GPU that does not exist or cannot be used, such
 * as `TCPX_ERR_UNAVAILABLE`. Any thread.
 *
 * Pointers:
 * As for `tcpx_session_register_memory`.
 */
tcpx_status tcpx_session_register_memory_on(struct tcpx_session session,
                                            int32_t device,
                                            void *address,
                                            uint64_t bytes,
                                            int32_t is_recv,
                                            uint64_t *out_memory);

/**
 * Deregisters memory. After TCPX_OK the library does not touch the memory any more, and the
 * program may free it.
 *
 * Keys to the memory are revoked first, as by `tcpx_unexport`: requests of peers are refused from
 * then on. Operations of this program on the memory are given up, with everything else that was
 * posted to their transfers, as by `tcpx_transfer_cancel`. This includes transfers and operations
 * that were released. The call waits for operations under way for `close_timeout_ms`; peers that
 * use the memory even then are ended.
 *
 * Errors: `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_MEMORY`; `TCPX_ERR_MEMORY_IN_USE` when a plugin or
 * a GPU does not release the memory within 10 seconds after that; `TCPX_ERR_PLUGIN` when the
 * plugin does not return from deregistering it within 10 seconds. After the last two the memory
 * must stay as it is, the id remains valid, and another call waits again. Any thread; blocks while
 * the memory is used, as a rule for microseconds.
 */
tcpx_status tcpx_session_deregister_memory(struct tcpx_session session, uint64_t memory);

/**
 * Writes the properties of a registration.
 *
 * Set `out_info->size` to sizeof(tcpx_memory_info) first.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_MEMORY`. Any
 * thread; does not block.
 *
 * Pointers:
 * `out_info` is NULL or points to a struct of the size it names, which may be written.
 */
tcpx_status tcpx_session_memory_info(struct tcpx_session session,
                                     uint64_t memory,
                                     struct tcpx_memory_info *out_info);

/**
 * Writes a descriptor as bytes that `tcpx_memory_descriptor_deserialize` reads on any machine.
 *
 * The bytes have a version and a checksum. `out_size` gets their number; a NULL `buffer` asks for
 * the number alone.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`; `TCPX_ERR_DESCRIPTOR` when there can be no such
 * memory: its address or size is 0, it passes the end of the address space, or its pointer type is
 * unknown; `TCPX_ERR_BUFFER_TOO_SMALL`, with the needed size in `out_size`. Any thread; does not
 * block.
 *
 * Pointers:
 * `descriptor` is NULL or points to a struct of the size it names; `buffer` is NULL or may be
 * written for `capacity` bytes; `out_size` is NULL or may be written.
 */
tcpx_status tcpx_memory_descriptor_serialize(const struct tcpx_memory_descriptor *descriptor,
                                             void *buffer,
                                             size_t capacity,
                                             size_t *out_size);

/**
 * Reads a descriptor from bytes, or from the text "base_addr,bytes,ptr_type": three decimal
 * numbers without signs and spaces, and without a terminating NUL in `size`.
 *
 * Set `out_descriptor->size` to sizeof(tcpx_memory_descriptor) first.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`; `TCPX_ERR_DESCRIPTOR` when the bytes are damaged,
 * of another version or no descriptor, or when there can be no such memory. Any thread; does not
 * block.
 *
 * Pointers:
 * `bytes` is NULL or may be read for `size` bytes; `out_descriptor` is NULL or points to a struct
 * of the size it names, which may be written.
 */
tcpx_status tcpx_memory_descriptor_deserialize(const void *bytes,
                                               size_t size,
                                               struct tcpx_memory_descriptor *out_descriptor);

/**
 * Registers many ranges of memory with a session: all of them, or none if one is wrong.
 *
 * `list` is an array of `count` items, of `registration_bytes` each, which is
 * sizeof(tcpx_registration). The list is copied. `out_memories` gets the id of each registration,
 * in the order of the list. The rules of `tcpx_session_register_memory` hold for each range. Each
 * registration is deregistered by itself. With a `count` of 0 nothing is registered, and both
 * pointers may be NULL.
 *
 * Errors: those of `tcpx_session_register_memory`, whose text says which range is wrong;
 * `TCPX_ERR_ARGUMENT` for a `count` above TCPX_MAX_BATCH, and for another size of an item;
 * `TCPX_ERR_NO_MEMORY` when the system has no memory for the list. Any thread; does not block.
 *
 * Pointers:
 * `list` is NULL or may be read for `count` times `registration_bytes` bytes, and each range of it
 * follows the rules of `tcpx_session_register_memory`; `out_memories` is NULL or may be written
 * for `count` ids.
 */
tcpx_status tcpx_session_register_memory_list(struct tcpx_session session,
                                              const struct tcpx_registration *list,
                                              size_t registration_bytes,
                                              size_t count,
                                              uint64_t *out_memories);

/**
 * Writes the counters of sessions as text that Prometheus reads, with a terminating NUL.
 *
 * The text is one page, with which a program answers a request for `/metrics`. A page has each
 * metric once, so pages cannot be joined. `sessions` is an array of `count` sessions. Every sample
 * has the labels `session`, which is the option `name`, and `device`, which is "host" or "gpu0"
 * and so on. Sessions that have both in common get a number behind the name. docs/metrics.md lists
 * all metrics.
 *
 * `out_size` gets the bytes of the text, including the NUL; a NULL `buffer` asks for the number
 * alone. Numbers grow between two calls: leave some room, or ask again after
 * `TCPX_ERR_BUFFER_TOO_SMALL`.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_ARGUMENT` for more than 65,536 sessions;
 * `TCPX_ERR_BUFFER_TOO_SMALL`, with the needed size in `out_size`. Any thread; does not block.
 *
 * Pointers:
 * `sessions` is NULL or points to `count` handles; `buffer` is NULL or may be written for
 * `capacity` bytes; `out_size` is NULL or may be written.
 */
tcpx_status tcpx_metrics_text(const struct tcpx_session *sessions,
                              size_t count,
                              char *buffer,
                              size_t capacity,
                              size_t *out_size);

/**
 * Writes the number of NICs that the session's plugin offers.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`. Any thread; does not block.
 *
 * Pointers:
 * `out_count` is NULL or may be written.
 */
tcpx_status tcpx_session_nic_count(struct tcpx_session session, size_t *out_count);

/**
 * Writes the properties of NIC number `position`, counted from 0.
 *
 * Set `out_nic->size` to sizeof(tcpx_nic) first.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_ARGUMENT` when there is no such NIC. Any
 * thread; does not block.
 *
 * Pointers:
 * `out_nic` is NULL or points to a size that gives the number of bytes from it on that may be
 * written.
 */
tcpx_status tcpx_session_nic(struct tcpx_session session,
                             size_t position,
                             struct tcpx_nic *out_nic);

/**
 * Writes the number of GPUs that the CUDA driver shows to this process, 0 if there is no driver.
 *
 * The option `gpu` takes ordinals below this number.
 *
 * Errors: `TCPX_ERR_NULL`. Any thread. The first call may take a moment, while the driver starts.
 *
 * Pointers:
 * `out_count` is NULL or may be written.
 */
tcpx_status tcpx_gpu_count(size_t *out_count);

/**
 * Sends a notification to a connected peer, in the order of the calls. It has up to
 * TCPX_MAX_NOTIFICATION_BYTES bytes, also none, and NUL among them. The bytes are copied.
 *
 * The peer's program takes it with `tcpx_poll_notifications`. No notification is dropped while
 * both sessions live. Notifications that the peer's program does not take wait. When too much
 * waits, this call returns `TCPX_ERR_AGAIN`.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_ARGUMENT` when it is too long;
 * `TCPX_ERR_AGAIN`; `TCPX_ERR_UNKNOWN_PEER`; `TCPX_ERR_PEER_STATE`, or the peer's own error when
 * the peer is leaving or over. A notification to a peer that is being connected waits until the
 * peer is up. A peer that is not connected is connected first, as by `tcpx_operation_post`. As
 * much may wait for that as for a peer that is up. If the peer does not come up, what waits is
 * lost: the next call returns the peer's error, once, and the call after that connects it again.
 * After an error nothing was sent. Any thread; does not block.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL; `notification` is NULL or may be read for
 * `notification_bytes` bytes.
 */
tcpx_status tcpx_notify(struct tcpx_session session,
                        const char *peer,
                        const void *notification,
                        size_t notification_bytes);

/**
 * Takes out notifications that have come, in the order in which they came: those sent alone, and
 * those of operations.
 *
 * `out_notifications` is an array of `capacity` entries, of `entry_bytes` each, which is
 * sizeof(tcpx_notification). Their bytes are put into `buffer`, one behind the other. `buffer` has
 * `buffer_bytes` bytes, TCPX_MAX_NOTIFICATION_BYTES at least, so that any notification finds room.
 * `out_count` gets the number of entries written; more may wait if it is not 0. The call makes no
 * progress: without a progress thread, `tcpx_session_progress` does.
 *
 * The descriptor of `tcpx_session_event_fd` is readable when a notification has come, and while
 * some wait.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; nothing is taken out then. Any
 * thread; does not block.
 *
 * Pointers:
 * `out_notifications` is NULL or may be written for `capacity` times `entry_bytes` bytes; `buffer`
 * is NULL or may be written for `buffer_bytes` bytes; `out_count` is NULL or may be written.
 */
tcpx_status tcpx_poll_notifications(struct tcpx_session session,
                                    struct tcpx_notification *out_notifications,
                                    size_t entry_bytes,
                                    size_t capacity,
                                    void *buffer,
                                    size_t buffer_bytes,
                                    size_t *out_count);

/**
 * As `tcpx_poll_notifications`, but waits until there is a notification, for at most `timeout_ms`
 * milliseconds. TCPX_WAIT_FOREVER (-1) sets no limit. The call makes progress meanwhile. With a
 * `capacity` of 0 it does not wait. It asks the peers for signs of life, so a frozen peer ends. It
 * goes on when peers end, even the last one: another may come.
 *
 * Errors: those of `tcpx_poll_notifications`; `TCPX_ERR_ARGUMENT` for another negative number;
 * `TCPX_ERR_TIMEOUT` when none has come; `TCPX_ERR_CLOSED`, also when another thread closes the
 * session meanwhile. After any of these `out_count` is not written. Any thread. Blocks for at most
 * `timeout_ms`.
 *
 * Pointers:
 * As for `tcpx_poll_notifications`.
 */
tcpx_status tcpx_wait_notifications(struct tcpx_session session,
                                    struct tcpx_notification *out_notifications,
                                    size_t entry_bytes,
                                    size_t capacity,
                                    void *buffer,
                                    size_t buffer_bytes,
                                    size_t *out_count,
                                    int32_t timeout_ms);

/**
 * Prepares a read (TCPX_READ) or a write (TCPX_WRITE) of memory that a connected peer exports. End
 * it with `tcpx_operation_release`.
 *
 * `pairs` is an array of `count` pairs, of `pair_bytes` each, which is sizeof(tcpx_pair). The
 * pairs are copied, and so are the keys. Neighbouring pairs are merged: the number of pairs into
 * which a range is cut does not matter. At one end all ranges lie in host memory, or all in device
 * memory; with `group` 1 they may lie on any devices. The peer receives nothing of the operation
 * before the first post.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_ARGUMENT`, also for a `count` above
 * TCPX_MAX_PAIRS; `TCPX_ERR_DESCRIPTOR` when the bytes of a key are no key;
 * `TCPX_ERR_REMOTE_MEMORY` when a key is of another session than the peer's or does not allow the
 * operation, when a range leaves the memory that its key leads to, when host and device memory are
 * mixed, and when no pair has any bytes; `TCPX_ERR_UNKNOWN_MEMORY`; `TCPX_ERR_MEMORY` when a range
 * here leaves its registration, or is to be read into and was registered with `is_recv` 0;
 * `TCPX_ERR_UNKNOWN_PEER`, `TCPX_ERR_PEER_STATE`, or the peer's own error when it is leaving or
 * over; `TCPX_ERR_NO_MEMORY`. Any thread; does not block.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL; `pairs` is NULL or may be read for `count` times
 * `pair_bytes` bytes, and the key of each pair is NULL or may be read for its `key_bytes`;
 * `out_operation` is NULL or may be written.
 */
tcpx_status tcpx_operation_prepare(struct tcpx_session session,
                                   const char *peer,
                                   int32_t kind,
                                   const struct tcpx_pair *pairs,
                                   size_t pair_bytes,
                                   size_t count,
                                   struct tcpx_operation *out_operation);

/**
 * Prepares an operation that moves no bytes. End it with `tcpx_operation_release`.
 *
 * Each post carries its notification. The post is done when the peer's program can take the
 * notification, which `tcpx_notify` does not report. A post without a notification asks whether
 * the peer still answers.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`, `TCPX_ERR_ARGUMENT`; `TCPX_ERR_UNKNOWN_PEER`,
 * `TCPX_ERR_PEER_STATE`, or the peer's own error when it is leaving or over. Any thread; does not
 * block.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL; `out_operation` is NULL or may be written.
 */
tcpx_status tcpx_operation_prepare_notification(struct tcpx_session session,
                                                const char *peer,
                                                struct tcpx_operation *out_operation);

/**
 * Posts an operation, again if it has ended. The error of the post before is forgotten.
 *
 * With a `notification` that is not NULL the peer gets these bytes. The peer's program finds them
 * with `tcpx_poll_notifications` when every byte of the operation is in place. There may be up to
 * TCPX_MAX_NOTIFICATION_BYTES, also none. The bytes are copied.
 *
 * A post to a peer that is being connected waits until the peer is up. A peer that is not
 * connected, or was lost, and whose connection info was loaded, is connected first, as by
 * `tcpx_session_start_connect`. If that fails, the operation ends with the error, and the next
 * post tries again.
 *
 * A write is done when all its bytes are in place at the peer, and its notification can be taken
 * there. A read is done when all its bytes are in place here. Until then the bytes of a write must
 * not change here, and those of a read must be neither read nor written. Two operations that touch
 * the same bytes have no order.
 *
 * A write that has failed because its peer was lost may go on at the peer for a while: the peer
 * may have received bytes that it has not put in place. These bytes are put in place before
 * anything that is sent later. So the peer's program leaves that memory alone until something has
 * come that was sent later, or until it has taken back the key (`tcpx_unexport`,
 * `tcpx_session_deregister_memory`).
 *
 * Errors: `TCPX_ERR_HANDLE`; `TCPX_ERR_NULL` for bytes of a notification without an address;
 * `TCPX_ERR_ARGUMENT` for a notification that is too long; `TCPX_ERR_PEER_STATE` while the
 * operation is under way; `TCPX_ERR_UNKNOWN_MEMORY` when its memory was deregistered;
 * `TCPX_ERR_PEER_STATE`, `TCPX_ERR_CLOSED` or the peer's own error when the peer is leaving or
 * over. After an error nothing was posted. Any thread; does not block.
 *
 * Pointers:
 * `notification` is NULL or may be read for `notification_bytes` bytes.
 */
tcpx_status tcpx_operation_post(struct tcpx_operation operation,
                                const void *notification,
                                size_t notification_bytes);

/**
 * As `tcpx_operation_post`, with options. `options` may be NULL.
 *
 * A post whose time limit has passed is given up, as `tcpx_operation_cancel` does. It ends with
 * `TCPX_ERR_EXPIRED` once nothing of it uses memory of this session, also if the peer never
 * answers. Some bytes may have moved, or all. A read may have to wait for the peer, which may send
 * its bytes at any time. Rounds of progress check the time limit.
 *
 * Errors: those of `tcpx_operation_post`, and `TCPX_ERR_ARGUMENT` for a `size` that no version
 * has. Any thread; does not block.
 *
 * Pointers:
 * `options` is NULL or points to a size that gives the number of bytes from it on; `notification`
 * is NULL or may be read for `notification_bytes` bytes.
 */
tcpx_status tcpx_operation_post_with(struct tcpx_operation operation,
                                     const struct tcpx_operation_options *options);

/**
 * Writes the state of an operation: TCPX_OPERATION_IDLE, TCPX_OPERATION_ACTIVE,
 * TCPX_OPERATION_DONE or TCPX_OPERATION_FAILED. The call makes no system call and no progress: in
 * a session without a progress thread, call `tcpx_session_progress` too.
 *
 * `out_error`, which may be NULL, gets TCPX_OK, or the status of the error with which the
 * operation has failed. `tcpx_operation_error` has the text.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`. Any thread; does not block, and takes no lock that
 * another call may hold for long.
 *
 * Pointers:
 * `out_state` and `out_error` are NULL or may be written.
 */
tcpx_status tcpx_operation_status(struct tcpx_operation operation,
                                  int32_t *out_state,
                                  tcpx_status *out_error);

/**
 * Waits until an operation has ended, for at most `timeout_ms` milliseconds; TCPX_WAIT_FOREVER
 * (-1) sets no limit. For an operation that was not posted the call returns at once.
 *
 * Errors: `TCPX_ERR_HANDLE`; `TCPX_ERR_ARGUMENT` for another negative number; `TCPX_ERR_TIMEOUT`
 * while the operation goes on: wait again, or cancel it; else the error with which it has ended.
 * No operation ends with `TCPX_ERR_TIMEOUT`. Any thread. Blocks for at most `timeout_ms`.
 */
tcpx_status tcpx_operation_wait(struct tcpx_operation operation, int32_t timeout_ms);

/**
 * Gives up a posted operation. It ends with `TCPX_ERR_CANCELLED`, or as without a cancel when it
 * is too late. Wait for the operation to learn its outcome, and until its memory is free.
 *
 * Errors: `TCPX_ERR_HANDLE`. Any thread, also while another one waits for the operation; does not
 * block.
 */
tcpx_status tcpx_operation_cancel(struct tcpx_operation operation);

/**
 * Writes the error with which an operation has ended.
 *
 * `out_error` gets the status, or TCPX_OK if the operation was not posted, goes on or has ended
 * well. `buffer` gets the text with a terminating NUL. `out_size` gets the bytes of the text,
 * including the NUL; a NULL `buffer` asks for the number alone.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_BUFFER_TOO_SMALL`, with the needed size in
 * `out_size`, and `out_error` written too. Any thread; does not block.
 *
 * Pointers:
 * `out_error` and `out_size` are NULL or may be written; `buffer` is NULL or may be written for
 * `capacity` bytes.
 */
tcpx_status tcpx_operation_error(struct tcpx_operation operation,
                                 tcpx_status *out_error,
                                 char *buffer,
                                 size_t capacity,
                                 size_t *out_size);

/**
 * Makes `tcpx_session_poll_completions` report the end of each post from now on, as
 * `tcpx_transfer_report_completions` does for a transfer: each post is a round. `context` is any
 * number that identifies the operation to the program; the queue holds entries of transfers and of
 * operations.
 *
 * Errors: `TCPX_ERR_HANDLE`. Any thread; does not block.
 */
tcpx_status tcpx_operation_report_completions(struct tcpx_operation operation, uint64_t context);

/**
 * Ends an operation. Its handle is no longer valid.
 *
 * An operation that is under way is given up, as by `tcpx_operation_cancel`. Its registrations
 * stay in use until the peer has answered or is gone: when `tcpx_session_deregister_memory`
 * returns TCPX_OK, the memory is free.
 *
 * Errors: `TCPX_ERR_HANDLE`; `TCPX_ERR_BUSY` while another thread is inside a call on this
 * operation: nothing was done. `tcpx_operation_cancel` makes a thread that waits for it return.
 * Any thread; does not block.
 */
tcpx_status tcpx_operation_release(struct tcpx_operation operation);

/**
 * Fills options. Numbers get the value of the environment, or else the default; texts get NULL.
 *
 * `size` is sizeof(tcpx_session_options) as the program was compiled.
 *
 * Errors: `TCPX_ERR_NULL`; `TCPX_ERR_ARGUMENT` for a size that no version of the struct has;
 * `TCPX_ERR_SETTING` when a variable of the environment cannot be read: the text names it. Any
 * thread.
 *
 * Pointers:
 * `options` is NULL or may be written for `size` bytes.
 */
tcpx_status tcpx_session_options_init(struct tcpx_session_options *options, size_t size);

/**
 * Begins what `tcpx_session_accept` does, and returns at once.
 *
 * The accept goes on in rounds of progress; `tcpx_session_peer_state` gives its state. A failure
 * has the errors of `tcpx_session_accept`. The accept ends after `connect_timeout_ms` at the
 * latest, and the descriptor of `tcpx_session_event_fd` is readable then.
 * `tcpx_session_disconnect` gives the accept up.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_PEER_STATE` when the
 * session does not listen, or the name is taken; `TCPX_ERR_CLOSED`. Any thread; does not block.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL.
 */
tcpx_status tcpx_session_start_accept(struct tcpx_session session, const char *peer);

/**
 * Begins what `tcpx_session_connect` does, and returns at once.
 *
 * The connect goes on in rounds of progress; `tcpx_session_peer_state` gives its state. A failure
 * has the errors of `tcpx_session_connect`. The connect ends after `connect_timeout_ms` at the
 * latest, and the descriptor of `tcpx_session_event_fd` is readable then.
 * `tcpx_session_disconnect` gives the connect up.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_PEER`;
 * `TCPX_ERR_PEER_STATE` when the name is taken; `TCPX_ERR_CLOSED`. Any thread; does not block.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL.
 */
tcpx_status tcpx_session_start_connect(struct tcpx_session session, const char *peer);

/**
 * Begins what `tcpx_session_disconnect` does, and returns at once.
 *
 * The goodbye goes on in rounds of progress, and ends after `close_timeout_ms` at the latest. The
 * descriptor of `tcpx_session_event_fd` is readable then. `tcpx_session_peer_state` then gives
 * `TCPX_ERR_UNKNOWN_PEER`, or TCPX_PEER_FAILED if the peer did not answer.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_PEER`. Any
 * thread; does not block.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL.
 */
tcpx_status tcpx_session_start_disconnect(struct tcpx_session session, const char *peer);

/**
 * Writes the state of a peer: one of TCPX_PEER_ACCEPTING, TCPX_PEER_CONNECTING, TCPX_PEER_UP,
 * TCPX_PEER_LEAVING, TCPX_PEER_PARTED and TCPX_PEER_FAILED. The call makes no progress.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_UNKNOWN_PEER` when
 * there is no such peer, and no accept waits for one; `TCPX_ERR_CLOSED`. Any thread; does not
 * block.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL; `out_state` is NULL or may be written.
 */
tcpx_status tcpx_session_peer_state(struct tcpx_session session,
                                    const char *peer,
                                    int32_t *out_state);

/**
 * Writes the error of a peer whose state is TCPX_PEER_FAILED.
 *
 * `out_error` gets the status, or TCPX_OK in any other state. `buffer` gets the error's text with
 * a terminating NUL. `out_size` gets the bytes of the text, including the NUL; a NULL `buffer`
 * asks for the number alone.
 *
 * Errors: those of `tcpx_session_peer_state`; `TCPX_ERR_BUFFER_TOO_SMALL`, with the needed size in
 * `out_size`, and `out_error` written too. Any thread; does not block.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL; `out_error` and `out_size` are NULL or may be
 * written; `buffer` is NULL or may be written for `capacity` bytes.
 */
tcpx_status tcpx_session_peer_error(struct tcpx_session session,
                                    const char *peer,
                                    tcpx_status *out_error,
                                    char *buffer,
                                    size_t capacity,
                                    size_t *out_size);

/**
 * Takes the peer that has come in first, or waits until a peer comes in. Writes the name by which
 * the peer is known here from then on.
 *
 * The name is the one under which the peer's connection info was loaded, else the peer's own
 * (`name` of its options). A peer without a name, or with a name that another peer has, is named
 * "peer-1", "peer-2" and so on. A peer for whose name another accept waits goes to that accept.
 * `capacity` is at least TCPX_MAX_NAME_BYTES + 1.
 *
 * Errors: those of `tcpx_session_accept`; `TCPX_ERR_ARGUMENT` for a smaller `capacity`. Any
 * thread. Blocks for at most `connect_timeout_ms`.
 *
 * Pointers:
 * `out_name` is NULL or may be written for `capacity` bytes.
 */
tcpx_status tcpx_session_accept_any(struct tcpx_session session, char *out_name, size_t capacity);

/**
 * Begins what `tcpx_session_accept_any` does, and returns at once. Several may be begun: each
 * takes one peer, and `tcpx_session_poll_accept_any` writes the peer's name.
 *
 * Errors: `TCPX_ERR_HANDLE`; `TCPX_ERR_PEER_STATE` when the session does not listen;
 * `TCPX_ERR_CLOSED`. Any thread; does not block.
 */
tcpx_status tcpx_session_start_accept_any(struct tcpx_session session);

/**
 * Writes the outcome of one `tcpx_session_start_accept_any`.
 *
 * `out_accepted` gets whether a peer is up. If one is, `out_name` gets its name, of at most
 * TCPX_MAX_NAME_BYTES bytes and a NUL; `capacity` is at least TCPX_MAX_NAME_BYTES + 1. Each accept
 * that was begun is answered once, in the order in which they ended. The call makes no progress.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_PEER_STATE` when no
 * accept is under way; the error with which an accept has ended: `TCPX_ERR_TIMEOUT`,
 * `TCPX_ERR_CLOSED`, `TCPX_ERR_PEER_GONE`, `TCPX_ERR_PLUGIN`. Any thread; does not block.
 *
 * Pointers:
 * `out_accepted` is NULL or may be written; `out_name` is NULL or may be written for `capacity`
 * bytes.
 */
tcpx_status tcpx_session_poll_accept_any(struct tcpx_session session,
                                         bool *out_accepted,
                                         char *out_name,
                                         size_t capacity);

/**
 * Gives up every accept that `tcpx_session_start_accept_any` began and that no peer has come for.
 *
 * Errors: `TCPX_ERR_HANDLE`. Any thread; does not block.
 */
tcpx_status tcpx_session_stop_accept_any(struct tcpx_session session);

/**
 * Posts a send of `bytes` bytes at `offset` of registration `memory`.
 *
 * The bytes must not change until the transfer is complete. The other end posts a receive of the
 * same size and tag, before or after.
 *
 * Errors: `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_MEMORY`; `TCPX_ERR_MEMORY` when the bytes are not
 * all in the registration; `TCPX_ERR_PEER_STATE`, `TCPX_ERR_CLOSED` or the peer's own error when
 * the peer is not up; `TCPX_ERR_NO_MEMORY` when the system has no memory for it. After an error
 * nothing was posted. Any thread; does not block.
 */
tcpx_status tcpx_transfer_post_send(struct tcpx_transfer transfer,
                                    uint64_t memory,
                                    uint64_t offset,
                                    uint64_t bytes,
                                    int32_t tag);

/**
 * Posts a receive of `bytes` bytes to `offset` of registration `memory`.
 *
 * The memory was registered with `is_recv` 1. Until the transfer is complete the bytes must be
 * neither read nor written.
 *
 * Errors: those of `tcpx_transfer_post_send`. Any thread; does not block.
 */
tcpx_status tcpx_transfer_post_recv(struct tcpx_transfer transfer,
                                    uint64_t memory,
                                    uint64_t offset,
                                    uint64_t bytes,
                                    int32_t tag);

/**
 * Posts many sends: all of them, or none if one is wrong or memory runs out.
 *
 * `posts` is an array of `count` items, of `post_bytes` each, which is sizeof(tcpx_post). The
 * array is copied. A `count` of 0 posts nothing.
 *
 * Errors: those of `tcpx_transfer_post_send`; `TCPX_ERR_NULL`; `TCPX_ERR_ARGUMENT` for a `count`
 * above TCPX_MAX_BATCH, and for another size of an item. Any thread; does not block.
 *
 * Pointers:
 * `posts` is NULL or may be read for `count` times `post_bytes` bytes.
 */
tcpx_status tcpx_transfer_post_send_batch(struct tcpx_transfer transfer,
                                          const struct tcpx_post *posts,
                                          size_t post_bytes,
                                          size_t count);

/**
 * Posts many receives: all of them, or none if one is wrong or memory runs out.
 *
 * `posts` is an array of `count` items, of `post_bytes` each, which is sizeof(tcpx_post). The
 * array is copied. A `count` of 0 posts nothing.
 *
 * Errors: those of `tcpx_transfer_post_send_batch`. Any thread; does not block.
 *
 * Pointers:
 * `posts` is NULL or may be read for `count` times `post_bytes` bytes.
 */
tcpx_status tcpx_transfer_post_recv_batch(struct tcpx_transfer transfer,
                                          const struct tcpx_post *posts,
                                          size_t post_bytes,
                                          size_t count);

/**
 * Makes a session; with `group` 1 of the options, a session of the host and of all GPUs. End it
 * with `tcpx_session_destroy`.
 *
 * The call opens the plugin, once for the process, and the unpack backend. NULL options stand for
 * the environment's values, or else the defaults. With the hardware plugin, SIGPIPE is ignored
 * from then on if its disposition was SIG_DFL; see `keep_sigpipe` of the options.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_SETTING`, `TCPX_ERR_PLUGIN_LOAD`,
 * `TCPX_ERR_PLUGIN`, `TCPX_ERR_HOST`, `TCPX_ERR_NO_NIC`, `TCPX_ERR_UNPACK`; `TCPX_ERR_UNAVAILABLE`
 * for a GPU that this build cannot use. Any thread.
 *
 * Pointers:
 * `options` is NULL or points to a struct of the size it names, whose texts are NULL or end with
 * NUL. `out_session` is NULL or may be written.
 */
tcpx_status tcpx_session_create(const struct tcpx_session_options *options,
                                struct tcpx_session *out_session);

/**
 * Says goodbye to every peer, then closes everything.
 *
 * When it returns `TCPX_OK`, the library does not touch memory that was registered with the
 * session any more. The handles stay valid: end each transfer with `tcpx_transfer_release`, and
 * the session with `tcpx_session_destroy`. Closing a session that is closed changes nothing.
 *
 * Errors: `TCPX_ERR_HANDLE`; `TCPX_ERR_TIMEOUT` in two cases, and the text names the peers. Either
 * they did not answer: everything is closed here all the same. Or something still uses registered
 * memory, because a GPU hangs that unpacks chunks, or the plugin does while it closes comms: that
 * memory must stay, and another call looks again. `tcpx_session_destroy` tells the two apart.
 *
 * Any thread, also while other threads are inside calls on this session: those calls end with
 * `TCPX_ERR_CLOSED`. Blocks for at most `close_timeout_ms`, and then for at most 10 seconds while
 * unpacks under way end and comms close.
 */
tcpx_status tcpx_session_close(struct tcpx_session session);

/**
 * Ends a session. The call closes the session as `tcpx_session_close` does, but does not say
 * whether every peer answered.
 *
 * When it returns `TCPX_OK`, the handle is no longer valid, and the library does not touch memory
 * that was registered with the session any more. The handles of its transfers stay valid until
 * `tcpx_transfer_release`. These transfers answer `TCPX_ERR_CLOSED`, or `TCPX_ERR_PEER_GONE` if
 * the peer said goodbye first.
 *
 * Errors: the handle stays valid after each of these. `TCPX_ERR_HANDLE`; `TCPX_ERR_BUSY` while
 * another thread is inside a call on this session; `TCPX_ERR_TIMEOUT` when the session is closed
 * but registered memory is still used, because a GPU hangs that unpacks chunks, or the plugin
 * hangs while it closes comms. The text names the peers. That memory must stay; another call looks
 * again. Any thread. Blocks for at most `close_timeout_ms`, and then for at most 10 seconds while
 * unpacks under way end and comms close.
 */
tcpx_status tcpx_session_destroy(struct tcpx_session session);

/**
 * Writes the connection info, which peers load with `tcpx_session_load_remote_conn_info`. The
 * first call opens the control listener.
 *
 * Any number of peers may use the same bytes. They contain a secret, so hand them over on a
 * trusted path. `out_size` gets the number of bytes; a NULL `buffer` asks for the number alone.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_BUFFER_TOO_SMALL`, with the needed size in
 * `out_size`; `TCPX_ERR_IO` when the library cannot listen on the address. Any thread; does not
 * block.
 *
 * Pointers:
 * `buffer` is NULL or may be written for `capacity` bytes; `out_size` is NULL or may be written.
 */
tcpx_status tcpx_session_listen(struct tcpx_session session,
                                void *buffer,
                                size_t capacity,
                                size_t *out_size);

/**
 * Takes a peer that connects, or has connected, and gives it the name `peer`. Waits for a peer if
 * there is none.
 *
 * Call `tcpx_session_listen` first. A connecting session that has a name of its own is accepted
 * under that name only. Where connection info was loaded under the name, only the session that it
 * leads to is accepted, whatever name that session has. Peers do not wait for this call; they need
 * only the session's progress. A peer that is gone before this call is skipped. A session to which
 * this session is itself connecting goes to that `tcpx_session_connect`, never to a waiting
 * accept.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_PEER_STATE` when the
 * session does not listen, or the name is taken; `TCPX_ERR_TIMEOUT` when no peer came within
 * `connect_timeout_ms`; `TCPX_ERR_CLOSED` as soon as another thread closes the session;
 * `TCPX_ERR_HANDSHAKE`, `TCPX_ERR_PEER_GONE`, `TCPX_ERR_PLUGIN` when connecting failed. Any
 * thread. Blocks for at most `connect_timeout_ms`.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL.
 */
tcpx_status tcpx_session_accept(struct tcpx_session session, const char *peer);

/**
 * Remembers how to reach `peer`, from the bytes that the peer's `tcpx_session_listen` wrote. The
 * bytes are copied. They stay until `tcpx_session_forget_remote_conn_info`.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_CONN_INFO` when the
 * bytes are damaged or of another version. Any thread; does not block.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL; `bytes` is NULL or may be read for `size` bytes.
 */
tcpx_status tcpx_session_load_remote_conn_info(struct tcpx_session session,
                                               const char *peer,
                                               const void *bytes,
                                               size_t size);

/**
 * Forgets how to reach `peer`, and its error if the peer is over. An existing connection stays.
 * This call is for programs whose peers come and go. With `group` 1 `peer` may be any name of the
 * peer, which then has no name.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_UNKNOWN_PEER` when
 * nothing was loaded under the name; `TCPX_ERR_CLOSED`. Any thread; does not block.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL.
 */
tcpx_status tcpx_session_forget_remote_conn_info(struct tcpx_session session, const char *peer);

/**
 * Connects to a peer whose connection info was loaded.
 *
 * Afterwards both ends can send and receive. What is posted before the other end has called
 * `tcpx_session_accept` waits for its counterpart, as always.
 *
 * Both ends may connect to each other, at the same time or one after the other, each under a name
 * of its own: they get one connection. A peer that has come in from the session of the connection
 * info, and that no accept has named, gets this name. A peer that comes in from that session
 * during the call completes the call, also when an accept of another name waits. A connect makes a
 * further connection of the same two sessions when the connections before have been named here.
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_PEER`,
 * `TCPX_ERR_PEER_STATE`, `TCPX_ERR_HANDSHAKE`, `TCPX_ERR_PEER_GONE`, `TCPX_ERR_PLUGIN`;
 * `TCPX_ERR_IO` when no address of the peer answers within half of `connect_timeout_ms` (3 s at
 * least, a minute at most), and the peer has not come in by itself: a session that listens waits
 * for that, for a tenth of `connect_timeout_ms`; `TCPX_ERR_TIMEOUT` after `connect_timeout_ms`;
 * `TCPX_ERR_CLOSED` as soon as another thread closes the session or disconnects the peer. Any
 * thread. Blocks for at most `connect_timeout_ms`.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL.
 */
tcpx_status tcpx_session_connect(struct tcpx_session session, const char *peer);

/**
 * Says goodbye to a peer.
 *
 * Operations that have no counterpart are withdrawn and end with `TCPX_ERR_CLOSED`. Operations
 * that have one are finished. Then both ends close, in the order that loses nothing. The name is
 * free again afterwards, whatever the status.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_PEER`;
 * `TCPX_ERR_TIMEOUT` when the peer did not answer within `close_timeout_ms`: everything is closed
 * here all the same, and operations that were under way end with `TCPX_ERR_PEER_GONE`. Any
 * thread. Blocks for at most `close_timeout_ms`.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL.
 */
tcpx_status tcpx_session_disconnect(struct tcpx_session session, const char *peer);

/**
 * Makes one round of progress over every peer and transfer. While a short message is copied from
 * or to memory of a GPU, the call goes on for up to 20 us, or TCPX_SPIN_US if that is less.
 *
 * `out_moved`, which may be NULL, gets whether anything moved. With `group` 1 a call in which
 * something moves may leave out all devices but one; the next call asks every one.
 *
 * Errors: `TCPX_ERR_HANDLE`. Transfers report the failures of peers and operations. Any thread;
 * does not block beyond the round itself.
 *
 * Pointers:
 * `out_moved` is NULL or may be written.
 */
tcpx_status tcpx_session_progress(struct tcpx_session session, bool *out_moved);

/**
 * Writes sums over the session's whole life, of all devices. Each two devices that are connected
 * count as a peer.
 *
 * Set `out_stats->size` to sizeof(tcpx_session_stats) first.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`. Any thread; does not block.
 *
 * Pointers:
 * `out_stats` is NULL or points to a size that says how many bytes from it on may be written.
 */
tcpx_status tcpx_session_get_stats(struct tcpx_session session,
                                   struct tcpx_session_stats *out_stats);

/**
 * Writes all counters of the session, as a JSON object with a terminating NUL.
 *
 * The object has the transport ("software" or "hardware"), the plugin, and the unpack backend and
 * why it was chosen. It has the trouble that was noticed, by the id of its diagnosis. It has each
 * peer with its state, and each channel's counters. With `group` 1 it has `sessions`, an array of
 * such objects, one for each device that is used: `device` is "host", or "gpu0" and so on.
 *
 * `out_size` gets the bytes of the text, including the NUL; a NULL `buffer` asks for the number
 * alone. Numbers grow between two calls: leave some room, or ask again after
 * `TCPX_ERR_BUFFER_TOO_SMALL`.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_BUFFER_TOO_SMALL`,
 * with the needed size in `out_size`. Any thread; does not block.
 *
 * Pointers:
 * `buffer` is NULL or may be written for `capacity` bytes; `out_size` is NULL or may be written.
 */
tcpx_status tcpx_session_stats_json(struct tcpx_session session,
                                    char *buffer,
                                    size_t capacity,
                                    size_t *out_size);

/**
 * Returns the meaning of a status, in a few words of English. `tcpx_last_error` has the details of
 * the last failure.
 *
 * The pointer is never NULL, and the text is constant. A number that this library does not know
 * has a text too. Any thread.
 */
const char *tcpx_status_text(int32_t status);

/**
 * Makes a transfer with a connected peer. End it with `tcpx_transfer_release`.
 *
 * A transfer may be used again and again. It is complete when every operation has ended. A post to
 * a complete transfer begins a round: the error of the round before is forgotten. A post while
 * operations go on belongs to their round, and keeps its error. So ask for the outcome of a round
 * before the next post.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_PEER`,
 * `TCPX_ERR_PEER_STATE`, or the peer's own error when it is not up. Any thread; does not block.
 *
 * Pointers:
 * `peer` is NULL or a text that ends with NUL; `out_transfer` is NULL or may be written.
 */
tcpx_status tcpx_session_create_transfer(struct tcpx_session session,
                                         const char *peer,
                                         struct tcpx_transfer *out_transfer);

/**
 * Writes whether every operation of the transfer has ended well. While some have not ended, the
 * call makes one round of progress, unless another thread is inside the session: it does not wait
 * for that thread.
 *
 * A transfer without operations is complete.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`, `TCPX_ERR_CLOSED`; the first error of the round,
 * once all have ended. Any thread; does not block beyond the round itself.
 *
 * Pointers:
 * `out_complete` is NULL or may be written.
 */
tcpx_status tcpx_transfer_is_complete(struct tcpx_transfer transfer, bool *out_complete);

/**
 * Waits until every operation of the transfer has ended, for at most `timeout_ms` milliseconds.
 *
 * TCPX_WAIT_FOREVER (-1) sets no limit. The end of the peer, a cancel or the end of the session
 * then ends the wait all the same.
 *
 * Errors: `TCPX_ERR_HANDLE`, `TCPX_ERR_CLOSED`; `TCPX_ERR_ARGUMENT` for another negative number;
 * `TCPX_ERR_TIMEOUT` while some operations have not ended: they go on, and the program may wait
 * again; else the first error of the round. No operation ends with `TCPX_ERR_TIMEOUT`, so a loop
 * that waits while it gets `TCPX_ERR_TIMEOUT` comes to an end. Any thread. Blocks for at most
 * `timeout_ms`.
 */
tcpx_status tcpx_transfer_wait(struct tcpx_transfer transfer, int32_t timeout_ms);

/**
 * Sets a time limit of `timeout_ms` milliseconds for each round of the transfer that begins from
 * now on; 0, as at first, sets no limit.
 *
 * A round that has not ended by then is given up, as `tcpx_transfer_cancel` does, and ends with
 * `TCPX_ERR_EXPIRED` once nothing of it uses memory. Operations that had found their counterpart
 * run to their end. Rounds of progress check the time limit.
 *
 * Errors: `TCPX_ERR_HANDLE`, `TCPX_ERR_CLOSED`. Any thread; does not block.
 */
tcpx_status tcpx_transfer_set_timeout(struct tcpx_transfer transfer, uint64_t timeout_ms);

/**
 * Withdraws every operation that has no counterpart yet.
 *
 * These end with `TCPX_ERR_CANCELLED`, and receives do so once the peer has agreed. A few thousand
 * are withdrawn at once, more of them in the rounds of progress that follow. Operations that have
 * their counterpart run to their end. Wait for the transfer before you reuse its memory.
 *
 * Errors: `TCPX_ERR_HANDLE`. Any thread, also while another one waits for the transfer; does not
 * block.
 */
tcpx_status tcpx_transfer_cancel(struct tcpx_transfer transfer);

/**
 * Writes the counters of the transfer over its whole life. They only grow.
 *
 * Set `out_counts->size` to sizeof(tcpx_transfer_counts) first.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`. Any thread; does not block, and
 * waits for no other thread.
 *
 * Pointers:
 * `out_counts` is NULL or points to a struct of the size it names, which may be written.
 */
tcpx_status tcpx_transfer_get_counts(struct tcpx_transfer transfer,
                                     struct tcpx_transfer_counts *out_counts);

/**
 * Writes the counters of the transfer since its last round began: since the first post to it after
 * it was complete.
 *
 * Set `out_counts->size` to sizeof(tcpx_transfer_counts) first.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`. Any thread; does not block, and
 * waits for no other thread.
 *
 * Pointers:
 * `out_counts` is NULL or points to a struct of the size it names, which may be written.
 */
tcpx_status tcpx_transfer_get_round_counts(struct tcpx_transfer transfer,
                                           struct tcpx_transfer_counts *out_counts);

/**
 * Writes the first error of the transfer's last round so far, while other operations may go on.
 *
 * `out_error` gets its status, or TCPX_OK if there is none. `buffer` gets its text with a
 * terminating NUL. `out_size` gets the bytes of the text, including the NUL; a NULL `buffer` asks
 * for the number alone.
 *
 * Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_BUFFER_TOO_SMALL`, with the needed size in
 * `out_size`, and `out_error` written too. Any thread; does not block.
 *
 * Pointers:
 * `out_error` and `out_size` are NULL or may be written; `buffer` is NULL or may be written for
 * `capacity` bytes.
 */
tcpx_status tcpx_transfer_error(struct tcpx_transfer transfer,
                                tcpx_status *out_error,
                                char *buffer,
                                size_t capacity,
                                size_t *out_size);

/**
 * Ends a transfer. Its handle is no longer valid.
 *
 * Operations that have no counterpart yet are withdrawn, as by `tcpx_transfer_cancel`. Operations
 * that have one go on in the background, and their registrations stay in use until they end. When
 * `tcpx_session_deregister_memory` returns TCPX_OK, the memory is free.
 *
 * Errors: `TCPX_ERR_HANDLE`; `TCPX_ERR_BUSY` while another thread is inside a call on this
 * transfer: nothing was done. `tcpx_transfer_cancel` makes a thread that waits for the transfer
 * return. Any thread; does not block.
 */
tcpx_status tcpx_transfer_release(struct tcpx_transfer transfer);

/**
 * Returns the version of the loaded library, such as "0.1.0". `TCPX_VERSION` is the version of the
 * header.
 *
 * The pointer is never NULL, and the text is constant. Any thread.
 */
const char *tcpx_version(void);

/**
 * Returns the ABI version of the loaded library.
 *
 * A program works with the library when this equals the `TCPX_ABI_VERSION` that it was compiled
 * against. Any thread.
 */
uint32_t tcpx_abi_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TCPX_P2P_H */
