/*
 * TcpxTransfer: sends and receives with one peer that are waited for together. C++17, header only.
 *
 * No method throws an error of the library. Methods that return int return 0 or a negative
 * tcpx_status; tcpx_last_error() has the text. Any thread may call any method, but no thread may be
 * inside a method when the object is deleted.
 */
#ifndef TCPX_TRANSFER_H
#define TCPX_TRANSFER_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tcpx_types.h"

class TcpxSession;

/** Transfer that TcpxSession::createTransfer() makes, and that its caller deletes. */
class TcpxTransfer {
 public:
  TcpxTransfer(const TcpxTransfer&) = delete;
  TcpxTransfer& operator=(const TcpxTransfer&) = delete;

  /** Releases the transfer. */
  ~TcpxTransfer() { release(); }

  /**
   * Posts a send of `size` bytes at `offset` of registration `mem_id`. The other end posts a
   * receive of the same size and tag. The bytes must not change until the transfer is complete.
   */
  int postSend(uint64_t mem_id, size_t offset, size_t size, int tag) {
    return tcpx_transfer_post_send(handle_, mem_id, offset, size, tag);
  }

  /** Posts a receive of `size` bytes to `offset` of registration `mem_id`. */
  int postRecv(uint64_t mem_id, size_t offset, size_t size, int tag) {
    return tcpx_transfer_post_recv(handle_, mem_id, offset, size, tag);
  }

  /** Posts many sends, given as four vectors of one length: all of them, or none. */
  int postSendBatch(const std::vector<uint64_t>& mem_ids, const std::vector<size_t>& offsets,
                    const std::vector<size_t>& sizes, const std::vector<int>& tags) {
    return postBatch(tcpx_transfer_post_send_batch, mem_ids, offsets, sizes, tags);
  }

  /** Posts many receives, given as four vectors of one length: all of them, or none. */
  int postRecvBatch(const std::vector<uint64_t>& mem_ids, const std::vector<size_t>& offsets,
                    const std::vector<size_t>& sizes, const std::vector<int>& tags) {
    return postBatch(tcpx_transfer_post_recv_batch, mem_ids, offsets, sizes, tags);
  }

  /**
   * Returns whether every operation has ended, well or not: wait(0) says which. Returns true when
   * nothing was posted. Makes a round of progress while an operation has not ended.
   */
  bool isComplete() {
    bool complete = false;
    return tcpx_transfer_is_complete(handle_, &complete) != TCPX_OK || complete;
  }

  /**
   * Waits until every operation has ended, for at most `timeout_ms` milliseconds; -1 sets no limit.
   * Returns 0, the first error, or TCPX_ERR_TIMEOUT while some go on.
   */
  int wait(int timeout_ms = -1) { return tcpx_transfer_wait(handle_, timeout_ms); }

  /**
   * Ends the transfer, as the destructor does. Operations without a counterpart are withdrawn; the
   * others go on, and their registrations stay in use. A second call does nothing.
   */
  int release() {
    if (handle_.id == 0) return TCPX_OK;
    const int status = tcpx_transfer_release(handle_);
    if (status == TCPX_OK) handle_.id = 0;
    return status;
  }

  /** Returns the handle of the C interface. It stays this object's. */
  tcpx_transfer handle() const noexcept { return handle_; }

 private:
  friend class TcpxSession;
  explicit TcpxTransfer(tcpx_transfer handle) noexcept : handle_(handle) {}

  template <typename Post>
  int postBatch(Post post, const std::vector<uint64_t>& mem_ids, const std::vector<size_t>& offsets,
                const std::vector<size_t>& sizes, const std::vector<int>& tags) {
    const size_t count = mem_ids.size();
    if (offsets.size() != count || sizes.size() != count || tags.size() != count) {
      return TCPX_ERR_ARGUMENT;
    }
    std::vector<tcpx_post> posts;
    posts.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      posts.push_back(tcpx_post{mem_ids[i], offsets[i], sizes[i], tags[i]});
    }
    return post(handle_, posts.data(), sizeof(tcpx_post), count);
  }

  tcpx_transfer handle_;
};

#endif /* TCPX_TRANSFER_H */
