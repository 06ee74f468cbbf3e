/*
 * TcpxSession: one GPU with its peers and its registered memory. C++17, header only.
 *
 * No method throws an error of the library. Methods that return int return 0 or a negative
 * tcpx_status; the comments of the others give their value on failure. tcpx_last_error() has the
 * text. Any thread may call any method, but no thread may be inside a method when the object is
 * destroyed.
 */
#ifndef TCPX_SESSION_H
#define TCPX_SESSION_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "tcpx_memory_desc.h"
#include "tcpx_transfer.h"
#include "tcpx_types.h"

class TcpxSession {
 public:
  /** Properties of a registration. Its address stays the same until the memory is deregistered. */
  struct MemoryHandle {
    void* buffer;
    size_t size;
    int ptr_type;
    bool is_recv;
    /** NULL: the plugin's handles stay inside the library; each channel has its own. */
    void* mhandle;
    uint64_t id;
  };

  /**
   * Makes a session on GPU `gpu_id` with `num_channels` channels to each peer. status() says
   * whether it was made. The other options are those of tcpx_session_options_init().
   *
   * For TCPX_GPU_NONE, and on a machine without any GPU, ordinary memory stands in for the GPU's,
   * so that a program can be tried there. The hardware plugin refuses such a session.
   */
  TcpxSession(int gpu_id, int num_channels) {
    tcpx_session_options options{};
    status_ = tcpx_session_options_init(&options, sizeof options);
    if (status_ != TCPX_OK) return;
    options.gpu = hasGpus() ? gpu_id : TCPX_GPU_NONE;
    /* A negative number is out of range as an unsigned one too. */
    options.channels = static_cast<uint32_t>(num_channels);
    status_ = tcpx_session_create(&options, &handle_);
  }

  TcpxSession(const TcpxSession&) = delete;
  TcpxSession& operator=(const TcpxSession&) = delete;

  /**
   * Ends the session: says goodbye to each peer, and waits for the peers' goodbyes for at most 5
   * seconds, or the time in TCPX_CLOSE_TIMEOUT_MS. Memory may be freed afterwards, unless the GPU
   * hangs.
   */
  ~TcpxSession() {
    if (handle_.id != 0) tcpx_session_destroy(handle_);
  }

  /** Returns 0, or the reason why the session was not made. */
  int status() const noexcept { return status_; }

  /** Returns the handle of the C interface, for everything that this class lacks. */
  tcpx_session handle() const noexcept { return handle_; }

  /** Listens, and returns the connection info for peers, with a secret in it; empty on failure. */
  std::string listen() {
    std::string info;
    size_t size = 0;
    int status = tcpx_session_listen(handle_, nullptr, 0, &size);
    while (status == TCPX_OK || status == TCPX_ERR_BUFFER_TOO_SMALL) {
      info.resize(size);
      status = tcpx_session_listen(handle_, &info[0], info.size(), &size);
      if (status == TCPX_OK) {
        info.resize(size);
        return info;
      }
    }
    return {};
  }

  /**
   * Takes a peer that has come in, or waits for a peer, and gives the peer the name `remote_name`.
   * Waits for at most 30 seconds, or the time in TCPX_CONNECT_TIMEOUT_MS.
   */
  int accept(const std::string& remote_name) {
    return named(remote_name, [&](const char* name) { return tcpx_session_accept(handle_, name); });
  }

  /** Remembers how to reach a peer, from the bytes that the peer's listen() returned. */
  int loadRemoteConnInfo(const std::string& remote_name, const std::string& conn_info) {
    return named(remote_name, [&](const char* name) {
      return tcpx_session_load_remote_conn_info(handle_, name, conn_info.data(), conn_info.size());
    });
  }

  /**
   * Connects to a peer whose connection info was loaded, within the time that accept() waits. Both
   * ends can then send and receive.
   */
  int connect(const std::string& remote_name) {
    return named(remote_name,
                 [&](const char* name) { return tcpx_session_connect(handle_, name); });
  }

  /** Says goodbye to a peer, within the time that the destructor waits. */
  int disconnect(const std::string& remote_name) {
    return named(remote_name,
                 [&](const char* name) { return tcpx_session_disconnect(handle_, name); });
  }

  /**
   * Registers `size` bytes of memory, for all peers, and returns the id of the registration, which
   * is never 0; 0 on failure. The memory stays the program's, and must stay valid until
   * deregisterMemory() has returned 0 or the session has ended.
   */
  uint64_t registerMemory(void* buffer, size_t size, int ptr_type, bool is_recv) {
    /* Made before the registration, after which nothing may fail. */
    std::map<uint64_t, MemoryHandle> made;
    made.emplace(0, MemoryHandle{buffer, size, ptr_type, is_recv, nullptr, 0});
    auto entry = made.extract(made.begin());
    const int receives = is_recv ? 1 : 0;
    uint64_t id = 0;
    if (tcpx_session_register_memory(handle_, buffer, size, ptr_type, receives, &id) != TCPX_OK) {
      return 0;
    }
    entry.key() = entry.mapped().id = id;
    const std::lock_guard<std::mutex> lock(mutex_);
    memory_.insert(std::move(entry));
    return id;
  }

  /**
   * Deregisters memory: gives up the operations that use the memory, and waits for their end. After
   * a failure the memory must stay as it is, and another call waits again.
   */
  int deregisterMemory(uint64_t mem_id) {
    const int status = tcpx_session_deregister_memory(handle_, mem_id);
    if (status == TCPX_OK) {
      const std::lock_guard<std::mutex> lock(mutex_);
      memory_.erase(mem_id);
    }
    return status;
  }

  /** Returns the properties of a registration; NULL if there is none. */
  MemoryHandle* getMemoryHandle(uint64_t mem_id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = memory_.find(mem_id);
    return found == memory_.end() ? nullptr : &found->second;
  }

  /** Makes a transfer with a connected peer, which the caller deletes; NULL on failure. */
  TcpxTransfer* createTransfer(const std::string& remote_name) {
    tcpx_transfer handle{0};
    const int status = named(remote_name, [&](const char* name) {
      return tcpx_session_create_transfer(handle_, name, &handle);
    });
    if (status != TCPX_OK) return nullptr;
    auto* transfer = new (std::nothrow) TcpxTransfer(handle);
    if (transfer == nullptr) tcpx_transfer_release(handle);
    return transfer;
  }

 private:
  static bool hasGpus() {
    size_t count = 0;
    return tcpx_gpu_count(&count) == TCPX_OK && count != 0;
  }

  /** Runs call(text) unless the text contains a NUL, at which C would cut it. */
  template <typename Call>
  static int named(const std::string& name, Call call) {
    return name.find('\0') == std::string::npos ? call(name.c_str()) : TCPX_ERR_ARGUMENT;
  }

  tcpx_session handle_{0};
  int status_ = TCPX_OK;
  std::mutex mutex_;
  std::map<uint64_t, MemoryHandle> memory_;
};

#endif /* TCPX_SESSION_H */
