/*
 * libtcpx_p2p for C++17: classes over tcpx_p2p.h, header only.
 *
 * tcpx::Session, tcpx::Transfer and tcpx::Operation own C handles and end them in their
 * destructors. They can be moved and not copied. tcpx::MemoryDescriptor, tcpx::RemoteKey and
 * tcpx::Notification are plain values. The rules of tcpx_p2p.h hold: any thread may call anything.
 * But an object must not be destroyed, moved or assigned to while another thread is inside one of
 * its methods. In a forked child destructors do nothing.
 *
 * A program chooses how errors are reported:
 * - As exceptions, the default: a method that fails throws tcpx::Error.
 * - As codes: define TCPX_P2P_NO_EXCEPTIONS before including this, or compile with -fno-exceptions.
 *   Methods that return int return the tcpx_status, which is 0 for success. The others return the
 *   value that their comment gives after "As codes". tcpx_last_error() has the text.
 * One program may use both, in different source files.
 */

#ifndef TCPX_P2P_HPP
#define TCPX_P2P_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tcpx_fwd.hpp"
#include "tcpx_p2p.h"

/* The two ways to report errors are different classes to the linker. */
#ifdef TCPX_P2P_NO_EXCEPTIONS
#define TCPX_P2P_ERRORS codes
#else
#define TCPX_P2P_ERRORS exceptions
#endif

namespace tcpx {
inline namespace TCPX_P2P_ERRORS {

/**
 * A failed call. status() is its status, and what() says what failed. id() is the id of the
 * diagnosis, such as "TCPX-902", or "".
 */
class Error : public std::runtime_error {
 public:
  Error(tcpx_status status, const std::string& detail, const std::string& id = std::string())
      : std::runtime_error(detail.empty() ? tcpx_status_text(status) : detail), status_(status) {
    id.copy(id_, sizeof id_ - 1);
  }

  tcpx_status status() const noexcept { return status_; }
  /** Returns the id for `tcpx explain`; empty when the failure has no diagnosis. */
  const char* id() const noexcept { return id_; }

 private:
  tcpx_status status_;
  char id_[16] = {};
};

namespace detail {

#ifdef TCPX_P2P_NO_EXCEPTIONS
inline int check(tcpx_status status) noexcept { return status; }
inline int refuse(const char*) noexcept { return TCPX_ERR_ARGUMENT; }
#else
inline int check(tcpx_status status) {
  if (status != TCPX_OK) throw Error(status, tcpx_last_error(), tcpx_last_error_id());
  return status;
}
[[noreturn]] inline int refuse(const char* why) { throw Error(TCPX_ERR_ARGUMENT, why); }
#endif

/** Runs call(text) unless the text contains a NUL, at which C would cut it. */
template <typename Call>
int named(const std::string& name, Call call) {
  if (name.find('\0') != std::string::npos) return refuse("the name of the peer has a NUL inside");
  return check(call(name.c_str()));
}

/**
 * Runs call(buffer, capacity, size) until the buffer is large enough. A failure empties `bytes`.
 */
template <typename Call>
tcpx_status sized(std::string& bytes, Call call) {
  size_t size = 0;
  tcpx_status status = call(nullptr, 0, &size);
  while (status == TCPX_OK || status == TCPX_ERR_BUFFER_TOO_SMALL) {
    bytes.resize(size);
    status = call(&bytes[0], bytes.size(), &size);
    if (status == TCPX_OK) {
      bytes.resize(size);
      return status;
    }
  }
  bytes.clear();
  return status;
}

/**
 * Returns this thread's buffer for one notification, made at the first call. It is not cleared: that
 * would take longer than a poll that finds none.
 */
inline char* notificationBuffer() {
  static thread_local const std::unique_ptr<char[]> buffer(new char[TCPX_MAX_NOTIFICATION_BYTES]);
  return buffer.get();
}

}  // namespace detail

/** State of a peer. It compares with the numbers of the C interface, such as TCPX_PEER_UP. */
enum class PeerState : std::int32_t {
  /** No state: the call has failed. */
  None = 0,
  Accepting = TCPX_PEER_ACCEPTING,
  Connecting = TCPX_PEER_CONNECTING,
  Up = TCPX_PEER_UP,
  Leaving = TCPX_PEER_LEAVING,
  Parted = TCPX_PEER_PARTED,
  Failed = TCPX_PEER_FAILED,
};

/** State of an operation. It compares with the numbers of the C interface. */
enum class OperationState : std::int32_t {
  Idle = TCPX_OPERATION_IDLE,
  Active = TCPX_OPERATION_ACTIVE,
  Done = TCPX_OPERATION_DONE,
  Failed = TCPX_OPERATION_FAILED,
};

/** Kind of an operation. It compares with the numbers of the C interface. */
enum class OperationKind : std::int32_t { Read = TCPX_READ, Write = TCPX_WRITE };

namespace detail {

template <typename E>
using IfEnum = std::enable_if_t<std::is_same<E, PeerState>::value ||
                                    std::is_same<E, OperationState>::value ||
                                    std::is_same<E, OperationKind>::value,
                                bool>;

}  // namespace detail

template <typename E, detail::IfEnum<E> = true>
constexpr bool operator==(E value, std::int32_t number) noexcept {
  return static_cast<std::int32_t>(value) == number;
}
template <typename E, detail::IfEnum<E> = true>
constexpr bool operator==(std::int32_t number, E value) noexcept {
  return value == number;
}
template <typename E, detail::IfEnum<E> = true>
constexpr bool operator!=(E value, std::int32_t number) noexcept {
  return !(value == number);
}
template <typename E, detail::IfEnum<E> = true>
constexpr bool operator!=(std::int32_t number, E value) noexcept {
  return !(value == number);
}

/** Returns the options of the environment, or else the defaults. */
inline tcpx_session_options defaultOptions() {
  tcpx_session_options options{};
  detail::check(tcpx_session_options_init(&options, sizeof options));
  return options;
}

/**
 * Description of memory for the other end: its address, its size and its kind. A plain value.
 *
 * base_addr is an address in the process that made the descriptor. size is in bytes. ptr_type is
 * TCPX_PTR_HOST or TCPX_PTR_CUDA.
 */
struct MemoryDescriptor {
  uint64_t base_addr = 0;
  size_t size = 0;
  int ptr_type = 0;

  /**
   * Returns bytes with a version and a checksum. As codes: empty when there can be no such memory.
   */
  std::string serialize() const {
    const tcpx_memory_descriptor value{sizeof value, base_addr, size, ptr_type, 0};
    std::string bytes;
    detail::check(detail::sized(bytes, [&](char* buffer, size_t capacity, size_t* out_size) {
      return tcpx_memory_descriptor_serialize(&value, buffer, capacity, out_size);
    }));
    return bytes;
  }

  /**
   * Reads what serialize() made, or the text "base_addr,size,ptr_type". As codes: a descriptor of
   * size 0 when the bytes are something else.
   */
  static MemoryDescriptor deserialize(const std::string& bytes) {
    tcpx_memory_descriptor value{};
    value.size = sizeof value;
    detail::check(tcpx_memory_descriptor_deserialize(bytes.data(), bytes.size(), &value));
    return {value.base_addr, static_cast<size_t>(value.bytes), value.ptr_type};
  }
};

/**
 * Sends and receives with one peer that are waited for together.
 *
 * A Session makes a Transfer. A Transfer may outlive the session, and then fails with
 * TCPX_ERR_CLOSED or TCPX_ERR_PEER_GONE.
 */
class Transfer {
 public:
  /** Makes an object without a transfer, whose methods fail with TCPX_ERR_HANDLE. */
  Transfer() noexcept = default;
  /** Takes a handle of the C interface over. */
  explicit Transfer(tcpx_transfer handle) noexcept : handle_(handle) {}

  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  Transfer(Transfer&& other) noexcept : handle_(std::exchange(other.handle_, tcpx_transfer{0})) {}
  Transfer& operator=(Transfer&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  /** Releases the transfer. */
  ~Transfer() {
    if (handle_.id != 0) tcpx_transfer_release(handle_);
  }

  /** Returns the C handle. It stays this object's. */
  tcpx_transfer handle() const noexcept { return handle_; }

  /**
   * Posts a send of `size` bytes at `offset` of registration `mem_id`. The bytes must not change
   * until the transfer is complete.
   */
  int postSend(uint64_t mem_id, size_t offset, size_t size, int tag) {
    return detail::check(tcpx_transfer_post_send(handle_, mem_id, offset, size, tag));
  }

  /**
   * Posts a receive of `size` bytes to `offset` of registration `mem_id`. The bytes must be neither
   * read nor written until the transfer is complete.
   */
  int postRecv(uint64_t mem_id, size_t offset, size_t size, int tag) {
    return detail::check(tcpx_transfer_post_recv(handle_, mem_id, offset, size, tag));
  }

  /** Posts many sends: all of them, or none if one is wrong. */
  int postSendBatch(const std::vector<tcpx_post>& posts) {
    return detail::check(
        tcpx_transfer_post_send_batch(handle_, posts.data(), sizeof(tcpx_post), posts.size()));
  }

  /** Posts many receives: all of them, or none if one is wrong. */
  int postRecvBatch(const std::vector<tcpx_post>& posts) {
    return detail::check(
        tcpx_transfer_post_recv_batch(handle_, posts.data(), sizeof(tcpx_post), posts.size()));
  }

  /** Posts many sends, given as four vectors of one length. */
  int postSendBatch(const std::vector<uint64_t>& mem_ids, const std::vector<size_t>& offsets,
                    const std::vector<size_t>& sizes, const std::vector<int>& tags) {
    std::vector<tcpx_post> posts;
    const int status = gather(mem_ids, offsets, sizes, tags, posts);
    return status != TCPX_OK ? status : postSendBatch(posts);
  }

  /** Posts many receives, given as four vectors of one length. */
  int postRecvBatch(const std::vector<uint64_t>& mem_ids, const std::vector<size_t>& offsets,
                    const std::vector<size_t>& sizes, const std::vector<int>& tags) {
    std::vector<tcpx_post> posts;
    const int status = gather(mem_ids, offsets, sizes, tags, posts);
    return status != TCPX_OK ? status : postRecvBatch(posts);
  }

  /**
   * Makes Session::pollCompletions() report the end of each round from now on. `context` is any
   * number that identifies this transfer to the program.
   */
  int reportCompletions(uint64_t context) {
    return detail::check(tcpx_transfer_report_completions(handle_, context));
  }

  /**
   * Sets a time limit of `timeout_ms` milliseconds for each round that begins from now on; 0: no
   * limit. An overdue round ends with TCPX_ERR_EXPIRED.
   */
  int setTimeout(uint64_t timeout_ms) {
    return detail::check(tcpx_transfer_set_timeout(handle_, timeout_ms));
  }

  /**
   * Returns whether every operation has ended. While some have not, makes one round of progress,
   * unless another thread is inside the session. As exceptions: throws the first error once all
   * have ended. As codes: true also when one ended with an error, which wait(0) then returns.
   */
  bool isComplete() {
    bool complete = true;
    detail::check(tcpx_transfer_is_complete(handle_, &complete));
    return complete;
  }

  /**
   * Waits until every operation has ended, for at most `timeout_ms` milliseconds; -1 sets no limit.
   * Returns TCPX_OK, or TCPX_ERR_TIMEOUT while some have not ended. TCPX_ERR_TIMEOUT is never
   * thrown, because the program may wait again.
   */
  int wait(int timeout_ms = TCPX_WAIT_FOREVER) {
    const tcpx_status status = tcpx_transfer_wait(handle_, timeout_ms);
    return status == TCPX_ERR_TIMEOUT ? status : detail::check(status);
  }

  /** Withdraws every operation that has no counterpart yet, also while another thread waits. */
  int cancel() { return detail::check(tcpx_transfer_cancel(handle_)); }

  /** Returns the counters of its whole life, which only grow. As codes: zeros after a failure. */
  tcpx_transfer_counts counts() const {
    tcpx_transfer_counts counts{};
    counts.size = sizeof counts;
    detail::check(tcpx_transfer_get_counts(handle_, &counts));
    return counts;
  }

  /**
   * Returns the counters since its last round began: since the first post after it was complete. As
   * codes: zeros after a failure.
   */
  tcpx_transfer_counts roundCounts() const {
    tcpx_transfer_counts counts{};
    counts.size = sizeof counts;
    detail::check(tcpx_transfer_get_round_counts(handle_, &counts));
    return counts;
  }

  /**
   * Returns the first error of the last round so far, or TCPX_OK if there is none. The error's text
   * goes to `text`, if that is not NULL.
   */
  int error(std::string* text = nullptr) const {
    tcpx_status error = TCPX_OK;
    std::string words;
    const auto ask = [&](char* buffer, size_t capacity, size_t* out_size) {
      return tcpx_transfer_error(handle_, &error, buffer, capacity, out_size);
    };
    const tcpx_status status = detail::sized(words, ask);
    if (detail::check(status) != TCPX_OK) return status;
    if (!words.empty()) words.pop_back();
    if (text != nullptr) *text = words;
    return error;
  }

  /** Ends the transfer, as the destructor would. A second call does nothing. */
  int release() {
    if (handle_.id == 0) return TCPX_OK;
    const int status = detail::check(tcpx_transfer_release(handle_));
    if (status == TCPX_OK) handle_ = tcpx_transfer{0};
    return status;
  }

 private:
  static int gather(const std::vector<uint64_t>& mem_ids, const std::vector<size_t>& offsets,
                    const std::vector<size_t>& sizes, const std::vector<int>& tags,
                    std::vector<tcpx_post>& posts) {
    const size_t count = mem_ids.size();
    if (offsets.size() != count || sizes.size() != count || tags.size() != count) {
      return detail::refuse("the four vectors of a batch differ in length");
    }
    posts.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      posts.push_back(tcpx_post{mem_ids[i], offsets[i], sizes[i], tags[i]});
    }
    return TCPX_OK;
  }

  tcpx_transfer handle_{0};
};

/**
 * Key with which a peer reaches memory that a session has exported. A plain value; give its `bytes`
 * to those peers alone. They may contain NUL.
 */
struct RemoteKey {
  std::string bytes;

  /**
   * Returns a pair of `size` bytes at `offset` of registration `mem_id`, and the same number of
   * bytes at `remote_offset` of the memory that the key leads to. The key must not change until
   * Session::prepare() has returned.
   */
  tcpx_pair pair(uint64_t mem_id, size_t offset, size_t remote_offset, size_t size) const& noexcept {
    return {mem_id, offset, bytes.data(), bytes.size(), remote_offset, size};
  }
  /** A pair points to the bytes of its key, so a key that ends with the statement has none. */
  tcpx_pair pair(uint64_t, size_t, size_t, size_t) const&& = delete;

  /** Returns the memory that the key names. As codes: a size of 0 if it is no key. */
  tcpx_remote_memory memory() const {
    tcpx_remote_memory memory{};
    memory.size = sizeof memory;
    if (detail::check(tcpx_remote_key_info(bytes.data(), bytes.size(), &memory)) != TCPX_OK) {
      memory.size = 0;
    }
    return memory;
  }
};

/** Bytes that a peer has sent, and the peer's name. */
struct Notification {
  std::string peer;
  std::string bytes;
};

/**
 * A read or a write of memory that a peer exports: prepared once, posted any number of times.
 *
 * A Session makes an Operation. An Operation may outlive the session, and then fails with
 * TCPX_ERR_CLOSED or TCPX_ERR_PEER_GONE.
 */
class Operation {
 public:
  /** Makes an object without an operation, whose methods fail with TCPX_ERR_HANDLE. */
  Operation() noexcept = default;
  /** Takes a handle of the C interface over. */
  explicit Operation(tcpx_operation handle) noexcept : handle_(handle) {}

  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  Operation(Operation&& other) noexcept
      : handle_(std::exchange(other.handle_, tcpx_operation{0})) {}
  Operation& operator=(Operation&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  /** Releases the operation. */
  ~Operation() {
    if (handle_.id != 0) tcpx_operation_release(handle_);
  }

  /** Returns the C handle. It stays this object's. */
  tcpx_operation handle() const noexcept { return handle_; }

  /** Posts the operation, again if it has ended. */
  int post() { return detail::check(tcpx_operation_post(handle_, nullptr, 0)); }

  /** As post(); the peer gets the notification when every byte is in place. */
  int post(const std::string& notification) {
    return detail::check(
        tcpx_operation_post(handle_, notification.data(), notification.size()));
  }

  /**
   * As post(), with a time limit of `timeout_ms` milliseconds; 0: no limit. After that time the
   * operation is given up, and ends with TCPX_ERR_EXPIRED. `notification` may be NULL.
   */
  int postWithin(uint64_t timeout_ms, const std::string* notification = nullptr) {
    tcpx_operation_options options{};
    options.size = sizeof options;
    options.timeout_ms = timeout_ms;
    if (notification != nullptr) {
      options.notification = notification->data();
      options.notification_bytes = notification->size();
    }
    return detail::check(tcpx_operation_post_with(handle_, &options));
  }

  /**
   * Returns the state, such as OperationState::Done, without a system call. error() gives the cause
   * of a failure. As codes: OperationState::Failed after a failure of the call too.
   */
  OperationState state() const {
    int32_t state = TCPX_OPERATION_FAILED;
    detail::check(tcpx_operation_status(handle_, &state, nullptr));
    return static_cast<OperationState>(state);
  }

  /**
   * Waits until the operation has ended, for at most `timeout_ms` milliseconds; -1 sets no limit.
   * Returns TCPX_OK, or TCPX_ERR_TIMEOUT while the operation goes on. TCPX_ERR_TIMEOUT is never
   * thrown.
   */
  int wait(int timeout_ms = TCPX_WAIT_FOREVER) {
    const tcpx_status status = tcpx_operation_wait(handle_, timeout_ms);
    return status == TCPX_ERR_TIMEOUT ? status : detail::check(status);
  }

  /** Gives up the posted operation, if it is not too late; wait() returns the outcome. */
  int cancel() { return detail::check(tcpx_operation_cancel(handle_)); }

  /**
   * Makes Session::pollCompletions() report the end of each post from now on. `context` is any
   * number that identifies this operation to the program.
   */
  int reportCompletions(uint64_t context) {
    return detail::check(tcpx_operation_report_completions(handle_, context));
  }

  /**
   * Returns the error with which the operation has failed, or else TCPX_OK. The error's text goes
   * to `text`, if that is not NULL.
   */
  int error(std::string* text = nullptr) const {
    tcpx_status error = TCPX_OK;
    std::string words;
    const auto ask = [&](char* buffer, size_t capacity, size_t* out_size) {
      return tcpx_operation_error(handle_, &error, buffer, capacity, out_size);
    };
    const tcpx_status status = detail::sized(words, ask);
    if (detail::check(status) != TCPX_OK) return status;
    if (!words.empty()) words.pop_back();
    if (text != nullptr) *text = words;
    return error;
  }

  /** Ends the operation, as the destructor would. A second call does nothing. */
  int release() {
    if (handle_.id == 0) return TCPX_OK;
    const int status = detail::check(tcpx_operation_release(handle_));
    if (status == TCPX_OK) handle_ = tcpx_operation{0};
    return status;
  }

 private:
  tcpx_operation handle_{0};
};

/**
 * One GPU (or host memory), its NICs, its peers and its registrations.
 *
 * Making a session over the hardware plugin sets SIGPIPE to ignored in the process if its
 * disposition was SIG_DFL; see keep_sigpipe of tcpx_session_options.
 */
class Session {
 public:
  /**
   * Makes a session on GPU `gpu_id`, or on host memory for TCPX_GPU_NONE, with `num_channels`
   * channels to each peer.
   *
   * The other options are those of defaultOptions(). So the session has a progress thread, unless
   * the environment turns it off: peers connect and bytes move without calls of the program.
   */
  Session(int gpu_id, int num_channels) {
    tcpx_session_options options{};
    status_ = detail::check(tcpx_session_options_init(&options, sizeof options));
    if (status_ != TCPX_OK) return;
    options.gpu = gpu_id;
    /* A negative number is out of range as an unsigned one too. */
    options.channels = static_cast<uint32_t>(num_channels);
    create(options);
  }

  /** Makes a session with these options. As codes: status() says whether it was made. */
  explicit Session(const tcpx_session_options& options) { create(options); }

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  Session(Session&& other) noexcept
      : handle_(std::exchange(other.handle_, tcpx_session{0})), status_(other.status_) {}
  Session& operator=(Session&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(status_, other.status_);
    return *this;
  }

  /**
   * Ends the session, as destroy() does. The destructor cannot report a failure: call destroy()
   * before registered memory is freed. A session that cannot be ended is left behind.
   */
  ~Session() {
    if (handle_.id != 0) tcpx_session_destroy(handle_);
  }

  /** Returns TCPX_OK, or the reason why the session was not made. */
  int status() const noexcept { return status_; }

  /** Returns the C handle. It stays this object's. */
  tcpx_session handle() const noexcept { return handle_; }

  /**
   * Says goodbye to every peer, waits for the peers' goodbyes for at most close_timeout_ms, and
   * closes everything. Fails with TCPX_ERR_TIMEOUT when a peer did not answer.
   */
  int close() { return detail::check(tcpx_session_close(handle_)); }

  /**
   * Closes the session, whether or not peers answer, and ends its handle. Fails with
   * TCPX_ERR_TIMEOUT while registered memory is still used; the object then keeps the session.
   * After a success the library does not touch that memory, and a further call does nothing.
   */
  int destroy() {
    if (handle_.id == 0) return TCPX_OK;
    const int status = detail::check(tcpx_session_destroy(handle_));
    if (status == TCPX_OK) handle_ = tcpx_session{0};
    return status;
  }

  /**
   * Listens, and returns the connection info for peers. These bytes contain a secret. As codes:
   * empty after a failure.
   */
  std::string listen() {
    std::string info;
    detail::check(detail::sized(info, [&](char* buffer, size_t capacity, size_t* out_size) {
      return tcpx_session_listen(handle_, buffer, capacity, out_size);
    }));
    return info;
  }

  /**
   * Takes a peer that has come in, or waits for a peer for at most connect_timeout_ms, and gives
   * the peer the name `remote_name`.
   */
  int accept(const std::string& remote_name) {
    return detail::named(remote_name, [&](const char* name) {
      return tcpx_session_accept(handle_, name);
    });
  }

  /**
   * Takes the peer that has come in first, or waits for a peer for at most connect_timeout_ms.
   * Returns the peer's name: its own, or a generated one. As codes: empty after a failure.
   */
  std::string acceptAny() {
    char name[TCPX_MAX_NAME_BYTES + 1] = {};
    detail::check(tcpx_session_accept_any(handle_, name, sizeof name));
    return name;
  }

  /** Begins what accept() does, and returns at once; peerState() gives the state. */
  int startAccept(const std::string& remote_name) {
    return detail::named(remote_name, [&](const char* name) {
      return tcpx_session_start_accept(handle_, name);
    });
  }

  /** Begins what acceptAny() does, and returns at once; pollAcceptAny() has the name. */
  int startAcceptAny() { return detail::check(tcpx_session_start_accept_any(handle_)); }

  /**
   * Gives the outcome of startAcceptAny(): `remote_name` is empty while no peer is up. Fails as
   * acceptAny() does, once for each accept that was begun.
   */
  int pollAcceptAny(std::string& remote_name) {
    char name[TCPX_MAX_NAME_BYTES + 1] = {};
    bool accepted = false;
    remote_name.clear();
    const tcpx_status status =
        tcpx_session_poll_accept_any(handle_, &accepted, name, sizeof name);
    if (status == TCPX_OK && accepted) remote_name = name;
    return detail::check(status);
  }

  /** Gives up every accept that startAcceptAny() began and that no peer has come for. */
  int stopAcceptAny() { return detail::check(tcpx_session_stop_accept_any(handle_)); }

  /** Remembers how to reach a peer, from the bytes that the peer's listen() returned. */
  int loadRemoteConnInfo(const std::string& remote_name, const std::string& conn_info) {
    return detail::named(remote_name, [&](const char* name) {
      return tcpx_session_load_remote_conn_info(handle_, name, conn_info.data(), conn_info.size());
    });
  }

  /** Forgets how to reach a peer, and its error if the peer is over. A connection stays. */
  int forgetRemoteConnInfo(const std::string& remote_name) {
    return detail::named(remote_name, [&](const char* name) {
      return tcpx_session_forget_remote_conn_info(handle_, name);
    });
  }

  /**
   * Connects to a peer whose connection info was loaded, within connect_timeout_ms. Afterwards both
   * ends can send and receive. The other end may call it too: the two get one connection.
   */
  int connect(const std::string& remote_name) {
    return detail::named(remote_name, [&](const char* name) {
      return tcpx_session_connect(handle_, name);
    });
  }

  /** Begins what connect() does, and returns at once; peerState() gives the state. */
  int startConnect(const std::string& remote_name) {
    return detail::named(remote_name, [&](const char* name) {
      return tcpx_session_start_connect(handle_, name);
    });
  }

  /** Begins what disconnect() does, and returns at once. The peer is unknown when it is over. */
  int startDisconnect(const std::string& remote_name) {
    return detail::named(remote_name, [&](const char* name) {
      return tcpx_session_start_disconnect(handle_, name);
    });
  }

  /** Returns the state of a peer. As codes: PeerState::None after a failure. */
  PeerState peerState(const std::string& remote_name) const {
    int32_t state = 0;
    detail::named(remote_name, [&](const char* name) {
      return tcpx_session_peer_state(handle_, name, &state);
    });
    return static_cast<PeerState>(state);
  }

  /**
   * Returns the error of a peer whose state is TCPX_PEER_FAILED, or TCPX_OK in another state. The
   * error's text goes to `text`, if that is not NULL.
   */
  int peerError(const std::string& remote_name, std::string* text = nullptr) const {
    tcpx_status error = TCPX_OK;
    std::string words;
    const int status = detail::named(remote_name, [&](const char* name) {
      return detail::sized(words, [&](char* buffer, size_t capacity, size_t* out_size) {
        return tcpx_session_peer_error(handle_, name, &error, buffer, capacity, out_size);
      });
    });
    if (status != TCPX_OK) return status;
    if (!words.empty()) words.pop_back();
    if (text != nullptr) *text = words;
    return error;
  }

  /** Says goodbye to a peer, within close_timeout_ms. */
  int disconnect(const std::string& remote_name) {
    return detail::named(remote_name, [&](const char* name) {
      return tcpx_session_disconnect(handle_, name);
    });
  }

  /**
   * Registers `size` bytes of memory, and returns the id of the registration, which is never 0. As
   * codes: 0 after a failure. The memory stays the program's, and must stay valid until
   * deregisterMemory() has succeeded or the session has ended.
   */
  uint64_t registerMemory(void* buffer, size_t size, int ptr_type, bool is_recv) {
    uint64_t id = 0;
    const int receives = is_recv ? 1 : 0;
    detail::check(tcpx_session_register_memory(handle_, buffer, size, ptr_type, receives, &id));
    return id;
  }

  /**
   * Registers many ranges of memory, all or none, and returns their ids in the order of the list.
   * As codes: empty after a failure.
   */
  std::vector<uint64_t> registerMemoryList(const std::vector<tcpx_registration>& list) {
    std::vector<uint64_t> ids(list.size());
    const tcpx_status status = tcpx_session_register_memory_list(
        handle_, list.data(), sizeof(tcpx_registration), list.size(), ids.data());
    if (detail::check(status) != TCPX_OK) ids.clear();
    return ids;
  }

  /**
   * Registers `size` bytes of a device: of the GPU with this CUDA ordinal, or of the host for
   * TCPX_GPU_NONE. Otherwise as registerMemory(). For a session of all devices.
   */
  uint64_t registerMemoryOn(int device, void* buffer, size_t size, bool is_recv) {
    uint64_t id = 0;
    const int receives = is_recv ? 1 : 0;
    detail::check(tcpx_session_register_memory_on(handle_, device, buffer, size, receives, &id));
    return id;
  }

  /**
   * Deregisters memory: gives up the operations that use the memory, and waits for their end. After
   * a failure the memory must stay as it is, and another call waits again.
   */
  int deregisterMemory(uint64_t mem_id) {
    return detail::check(tcpx_session_deregister_memory(handle_, mem_id));
  }

  /** Returns the properties of a registration. As codes: an id of 0 if there is none. */
  tcpx_memory_info memoryInfo(uint64_t mem_id) const {
    tcpx_memory_info info{};
    info.size = sizeof info;
    detail::check(tcpx_session_memory_info(handle_, mem_id, &info));
    return info;
  }

  /**
   * Exports a range of a registration to peers, for the access in `access`: TCPX_ACCESS_READ,
   * TCPX_ACCESS_WRITE or their sum. A `size` of 0 reaches to the end of the registration. As codes:
   * a key without bytes after a failure.
   */
  RemoteKey exportMemory(uint64_t mem_id, uint32_t access, size_t offset = 0, size_t size = 0,
                         bool is_stable = false) {
    const tcpx_export_options options{sizeof options, offset, size, access, is_stable ? 1 : 0};
    RemoteKey key;
    detail::check(detail::sized(key.bytes, [&](char* buffer, size_t capacity, size_t* out_size) {
      return tcpx_export(handle_, mem_id, &options, buffer, capacity, out_size);
    }));
    return key;
  }

  /** Takes a key back, within close_timeout_ms. After a success no peer uses it any more. */
  int unexport(const RemoteKey& key) {
    return detail::check(tcpx_unexport(handle_, key.bytes.data(), key.bytes.size()));
  }

  /**
   * Prepares a read or a write of memory of a connected peer, from pairs that RemoteKey::pair()
   * makes. As codes: its handle().id is 0 after a failure.
   */
  Operation prepare(const std::string& remote_name, OperationKind kind,
                    const std::vector<tcpx_pair>& pairs) {
    return prepare(remote_name, static_cast<int>(kind), pairs);
  }

  /** As above, with TCPX_READ or TCPX_WRITE. */
  Operation prepare(const std::string& remote_name, int kind, const std::vector<tcpx_pair>& pairs) {
    tcpx_operation handle{0};
    detail::named(remote_name, [&](const char* name) {
      return tcpx_operation_prepare(handle_, name, kind, pairs.data(), sizeof(tcpx_pair),
                                    pairs.size(), &handle);
    });
    return Operation(handle);
  }

  /**
   * Prepares an operation that moves no bytes: a post is done when the peer's program can take its
   * notification. As codes: its handle().id is 0 after a failure.
   */
  Operation prepareNotification(const std::string& remote_name) {
    tcpx_operation handle{0};
    detail::named(remote_name, [&](const char* name) {
      return tcpx_operation_prepare_notification(handle_, name, &handle);
    });
    return Operation(handle);
  }

  /**
   * Sends a notification to a peer. Returns TCPX_OK, or TCPX_ERR_AGAIN while too much waits for the
   * peer's program. TCPX_ERR_AGAIN is never thrown, because the program may try again.
   */
  int notify(const std::string& remote_name, const std::string& notification) {
    bool is_full = false;
    const int status = detail::named(remote_name, [&](const char* name) {
      const tcpx_status sent =
          tcpx_notify(handle_, name, notification.data(), notification.size());
      is_full = sent == TCPX_ERR_AGAIN;
      return is_full ? TCPX_OK : sent;
    });
    return is_full ? static_cast<int>(TCPX_ERR_AGAIN) : status;
  }

  /**
   * Takes out notifications that have come, `most` at most, in the order in which they came. As
   * codes: empty after a failure.
   */
  std::vector<Notification> pollNotifications(size_t most = 64) {
    std::vector<Notification> notifications;
    char* const buffer = detail::notificationBuffer();
    tcpx_notification entry{};
    size_t count = 1;
    while (count != 0 && notifications.size() < most) {
      count = 0;
      detail::check(tcpx_poll_notifications(handle_, &entry, sizeof entry, 1, buffer,
                                            TCPX_MAX_NOTIFICATION_BYTES, &count));
      if (count != 0) {
        notifications.push_back({entry.peer, std::string(buffer, entry.bytes)});
      }
    }
    return notifications;
  }

  /**
   * Waits until there is a notification, for at most `timeout_ms` milliseconds; -1 sets no limit.
   * Returns the notifications that have come then, `most` at most. Returns none when none has come
   * in time, which is never thrown; as codes also after a failure.
   */
  std::vector<Notification> waitNotifications(size_t most = 64,
                                              int timeout_ms = TCPX_WAIT_FOREVER) {
    std::vector<Notification> notifications;
    if (most == 0) return notifications;
    char* const buffer = detail::notificationBuffer();
    tcpx_notification entry{};
    size_t count = 0;
    const tcpx_status waited =
        tcpx_wait_notifications(handle_, &entry, sizeof entry, 1, buffer,
                                TCPX_MAX_NOTIFICATION_BYTES, &count, timeout_ms);
    if (waited == TCPX_ERR_TIMEOUT || detail::check(waited) != TCPX_OK) return notifications;
    /* Taken out of the buffer before the poll, which uses the buffer too. */
    Notification first{entry.peer, std::string(buffer, entry.bytes)};
    notifications = pollNotifications(most - 1);
    notifications.insert(notifications.begin(), std::move(first));
    return notifications;
  }

  /** Makes a transfer with a connected peer. As codes: its handle().id is 0 after a failure. */
  Transfer transfer(const std::string& remote_name) {
    tcpx_transfer handle{0};
    detail::named(remote_name, [&](const char* name) {
      return tcpx_session_create_transfer(handle_, name, &handle);
    });
    return Transfer(handle);
  }

  /** Like transfer(), but made with new: the caller deletes it. As codes: NULL after a failure. */
  Transfer* createTransfer(const std::string& remote_name) {
    Transfer made = transfer(remote_name);
    if (made.handle().id == 0) return nullptr;
#ifdef TCPX_P2P_NO_EXCEPTIONS
    return new (std::nothrow) Transfer(std::move(made));
#else
    return new Transfer(std::move(made));
#endif
  }

  /** Makes one round of progress over every peer, and returns whether anything moved. */
  bool progress() {
    bool moved = false;
    detail::check(tcpx_session_progress(handle_, &moved));
    return moved;
  }

  /**
   * Returns a descriptor for an event loop. It is readable when a round of a transfer, or an
   * attempt of startConnect() and its like, has ended. Without a progress thread it is also
   * readable when a round of progress is due. progress(), where there is no such thread, and then
   * pollCompletions() make it unreadable. The descriptor stays the session's. As codes: -1 after a
   * failure.
   */
  int eventFd() const {
    int32_t descriptor = -1;
    detail::check(tcpx_session_event_fd(handle_, &descriptor));
    return descriptor;
  }

  /**
   * Prepares for a wait on eventFd(): the progress thread moves the bytes at once. It stands back for
   * up to 1 ms after a wait in this library, or many polls: a program that does so between its waits
   * on the descriptor calls this before each of those.
   */
  void arm() { detail::check(tcpx_session_arm(handle_)); }

  /** Makes pollCompletions() report from now on which peers come up, part or fail. */
  void reportPeers() { detail::check(tcpx_session_report_peers(handle_)); }

  /**
   * Takes out at most `most` entries: peers that have come up or ended (`kind` is
   * TCPX_COMPLETION_PEER), and reporting transfers that have ended a round. As codes: empty after a
   * failure.
   */
  std::vector<tcpx_completion> pollCompletions(size_t most = 64) {
    std::vector<tcpx_completion> completions(most);
    size_t count = 0;
    detail::check(tcpx_session_poll_completions(handle_, completions.data(),
                                                sizeof(tcpx_completion), most, &count));
    completions.resize(count);
    return completions;
  }

  /** Returns sums over the session's whole life. As codes: zeros after a failure. */
  tcpx_session_stats stats() const {
    tcpx_session_stats stats{};
    stats.size = sizeof stats;
    detail::check(tcpx_session_get_stats(handle_, &stats));
    return stats;
  }

  /** Returns all counters of the session, as a JSON object. As codes: empty after a failure. */
  std::string statsJson() const {
    std::string json;
    detail::check(detail::sized(json, [&](char* buffer, size_t capacity, size_t* out_size) {
      return tcpx_session_stats_json(handle_, buffer, capacity, out_size);
    }));
    if (!json.empty()) json.pop_back();
    return json;
  }

  /**
   * Returns the session's counters as text that Prometheus reads; tcpx_metrics_text joins several
   * sessions. As codes: empty after a failure.
   */
  std::string metricsText() const {
    std::string text;
    detail::check(detail::sized(text, [&](char* buffer, size_t capacity, size_t* out_size) {
      return tcpx_metrics_text(&handle_, 1, buffer, capacity, out_size);
    }));
    if (!text.empty()) text.pop_back();
    return text;
  }

  /** Returns the NICs that the plugin offers. As codes: empty after a failure. */
  std::vector<tcpx_nic> nics() const {
    size_t count = 0;
    detail::check(tcpx_session_nic_count(handle_, &count));
    std::vector<tcpx_nic> nics(count);
    for (size_t i = 0; i < count; ++i) {
      nics[i].size = sizeof nics[i];
      detail::check(tcpx_session_nic(handle_, i, &nics[i]));
    }
    return nics;
  }

 private:
  void create(const tcpx_session_options& options) {
    status_ = detail::check(tcpx_session_create(&options, &handle_));
  }

  tcpx_session handle_{0};
  int status_ = TCPX_OK;
};

}  // namespace TCPX_P2P_ERRORS
}  // namespace tcpx

#undef TCPX_P2P_ERRORS

#endif /* TCPX_P2P_HPP */
