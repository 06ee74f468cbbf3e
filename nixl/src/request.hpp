/*
 * A transfer of NIXL: one operation of tcpx for each pair of devices, one here and one at the peer.
 * As a rule that is one.
 */
#ifndef TCPX_NIXL_REQUEST_HPP
#define TCPX_NIXL_REQUEST_HPP

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "nixl_abi.hpp"
#include "plan.hpp"
#include "tcpx_p2p.h"

namespace tcpx_nixl {

class Request : public nixlBackendReqH {
 public:
  /* Ends what is under way. Its memory is protected by tcpx until it is free. */
  ~Request() override;

  /* Makes one of two lists, which it does not need afterwards. `out` is written on success. */
  static nixl_status_t prepare(tcpx_session session, const std::string& peer, std::int32_t kind,
                               const nixl_meta_dlist_t& local, const nixl_meta_dlist_t& remote,
                               std::unique_ptr<Request>& out);

  /* Posts it, once more if it has ended. */
  nixl_status_t post(std::optional<std::string> notification);

  /* How it stands; once this is not NIXL_IN_PROG, nothing of it is under way. */
  nixl_status_t check();

  bool uses(std::uint64_t memory) const;
  bool isWith(const std::string& peer) const { return peer == peer_; }
  const std::vector<tcpx_operation>& operations() const { return operations_; }

 private:
  Request(tcpx_session session, const std::string& peer) : session_(session), peer_(peer) {}

  nixl_status_t postOthers();
  nixl_status_t postLast();
  nixl_status_t fail(nixl_status_t why);

  tcpx_session session_;
  std::string peer_;
  /* Of a request whose peer was gone when it was made: NIXL wants to hear of that from a post. */
  std::unique_ptr<Plan> plan_;
  std::vector<std::uint64_t> memory_; /* sorted */
  std::vector<tcpx_operation> operations_;
  /* A notification goes with the last operation, which is posted when the others are done. */
  std::optional<std::string> notification_;
  std::size_t posted_ = 0;
  nixl_status_t outcome_ = NIXL_SUCCESS;
};

/* The requests of an engine, for what is done to all that touch a memory or a peer. */
class Requests {
 public:
  void add(Request* request);
  void remove(Request* request);

  /* Gives up those that use a memory, or are with a peer. Returns their operations. */
  std::vector<tcpx_operation> cancelUsersOf(std::uint64_t memory) const;
  std::vector<tcpx_operation> cancelThoseWith(const std::string& peer) const;

 private:
  template <class Matches>
  std::vector<tcpx_operation> cancel(Matches matches) const;

  mutable std::mutex mutex_;
  std::unordered_set<Request*> all_;
};

}  // namespace tcpx_nixl

#endif
