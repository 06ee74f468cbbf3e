/* A transfer of NIXL: an operation of tcpx. */
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
#include "descriptor_pairs.hpp"
#include "tcpx_p2p.h"

namespace tcpx_nixl {

class Request : public nixlBackendReqH {
 public:
  /* Gives up what is under way. tcpx counts it as a user of its memory until its last byte. */
  ~Request() override;

  /* Makes one of two lists, which it does not need afterwards. `out` is written on success. */
  static nixl_status_t prepare(tcpx_session session, const std::string& peer, std::int32_t kind,
                               const nixl_meta_dlist_t& local, const nixl_meta_dlist_t& remote,
                               std::unique_ptr<Request>& out);

  /* Posts it, once more if it has ended. */
  nixl_status_t post(const std::optional<std::string>& notification);

  /* How it stands; once this is not NIXL_IN_PROG, nothing of it is under way. */
  nixl_status_t check() const;

  bool isWith(const std::string& peer) const { return peer == peer_; }
  const std::optional<tcpx_operation>& operation() const { return operation_; }

 private:
  Request(tcpx_session session, const std::string& peer) : session_(session), peer_(peer) {}

  tcpx_status prepare();

  tcpx_session session_;
  std::string peer_;
  /* Of a request whose peer was gone when it was made: NIXL expects that error from a post. */
  std::unique_ptr<DescriptorPairs> pairs_;
  std::optional<tcpx_operation> operation_;
};

/* The requests of an engine, for what is done to all with a peer. */
class Requests {
 public:
  void add(Request* request);
  void remove(Request* request);

  /* Gives up those with a peer. */
  void cancelAllWith(const std::string& peer) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_set<Request*> all_;
};

}  // namespace tcpx_nixl

#endif
