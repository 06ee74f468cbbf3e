#include "request.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "log.hpp"
#include "memory.hpp"
#include "status.hpp"

namespace tcpx_nixl {
namespace {

using Devices = std::pair<std::int32_t, std::int32_t>;
using Parts = std::map<Devices, std::vector<tcpx_pair>>;

nixl_status_t refuse(std::size_t index, const char* why) {
  log(TCPX_LOG_ERROR, "descriptor " + std::to_string(index) + " " + why);
  return NIXL_ERR_INVALID_PARAM;
}

/* Sorts the pairs by the devices that they lie on. */
nixl_status_t split(const nixl_meta_dlist_t& local, const nixl_meta_dlist_t& remote,
                    std::uint32_t access, Parts& parts) {
  if (local.size() != remote.size() || local.size() == 0) return NIXL_ERR_INVALID_PARAM;
  std::vector<tcpx_pair>* part = nullptr;
  Devices of{};
  for (std::size_t i = 0; i < local.size(); ++i) {
    const auto* here = static_cast<const Memory*>(local[i].metadataP);
    const auto* there = static_cast<const Memory*>(remote[i].metadataP);
    if (!here || !there) return refuse(i, "has no registered memory");
    if (local[i].len != remote[i].len) return refuse(i, "has two lengths");
    if (!here->covers(local[i].addr, local[i].len)) return refuse(i, "leaves the memory here");
    if (!there->covers(remote[i].addr, remote[i].len)) return refuse(i, "leaves the peer's memory");
    if (!(there->access & access)) {
      log(TCPX_LOG_ERROR, "descriptor " + std::to_string(i) + ": the peer's plugin cannot receive "
                          "into this memory, so it can only be read");
      return NIXL_ERR_NOT_SUPPORTED;
    }
    const Devices devices{here->device, there->device};
    if (!part || devices != of) {
      part = &parts[devices];
      of = devices;
      if (parts.size() == 1) part->reserve(local.size());
    }
    part->push_back({here->id, local[i].addr - here->address, there->key.data(), there->key.size(),
                     remote[i].addr - there->address, local[i].len});
  }
  return NIXL_SUCCESS;
}

std::vector<std::uint64_t> memoryOf(const Parts& parts) {
  std::vector<std::uint64_t> ids;
  for (const auto& [devices, pairs] : parts) {
    for (const tcpx_pair& pair : pairs) {
      if (ids.empty() || ids.back() != pair.memory) ids.push_back(pair.memory);
    }
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace

Request::~Request() {
  for (const tcpx_operation operation : operations_) tcpx_operation_release(operation);
}

nixl_status_t Request::prepare(tcpx_session session, const std::string& peer, std::int32_t kind,
                               const nixl_meta_dlist_t& local, const nixl_meta_dlist_t& remote,
                               std::unique_ptr<Request>& out) {
  Parts parts;
  const std::uint32_t access = kind == TCPX_WRITE ? TCPX_ACCESS_WRITE : TCPX_ACCESS_READ;
  const nixl_status_t sorted = split(local, remote, access, parts);
  if (sorted != NIXL_SUCCESS) return sorted;
  std::unique_ptr<Request> request(new Request);
  request->peer_ = peer;
  request->memory_ = memoryOf(parts);
  for (const auto& [devices, pairs] : parts) {
    for (std::size_t begin = 0; begin < pairs.size(); begin += TCPX_MAX_PAIRS) {
      const std::size_t count = std::min<std::size_t>(pairs.size() - begin, TCPX_MAX_PAIRS);
      tcpx_operation operation;
      const tcpx_status status = tcpx_operation_prepare(
          session, peer.c_str(), kind, &pairs[begin], sizeof pairs[0], count, &operation);
      if (status != TCPX_OK) return report(status, "a transfer with " + peer);
      request->operations_.push_back(operation);
    }
  }
  out = std::move(request);
  return NIXL_SUCCESS;
}

bool Request::uses(std::uint64_t memory) const {
  return std::binary_search(memory_.begin(), memory_.end(), memory);
}

nixl_status_t Request::post(std::optional<std::string> notification) {
  notification_ = std::move(notification);
  posted_ = 0;
  outcome_ = NIXL_SUCCESS;
  const std::size_t last = operations_.size() - 1;
  const nixl_status_t others = postOthers();
  if (others != NIXL_SUCCESS) return others;
  return last > 0 && notification_ ? NIXL_IN_PROG : postLast();
}

/* What is posted is followed even if the next one cannot be. */
nixl_status_t Request::postOthers() {
  for (std::size_t i = 0; i + 1 < operations_.size(); ++i) {
    const tcpx_status status = tcpx_operation_post(operations_[i], nullptr, 0);
    if (status != TCPX_OK) return fail(report(status, "a post to " + peer_));
    posted_ = i + 1;
  }
  return NIXL_SUCCESS;
}

nixl_status_t Request::postLast() {
  const std::size_t last = operations_.size() - 1;
  const tcpx_status status = tcpx_operation_post(
      operations_[last], notification_ ? notification_->data() : nullptr,
      notification_ ? notification_->size() : 0);
  if (status != TCPX_OK) return fail(report(status, "a post to " + peer_));
  posted_ = last + 1;
  return NIXL_IN_PROG;
}

/* The others are given up; the request has failed once they have ended. */
nixl_status_t Request::fail(nixl_status_t why) {
  if (outcome_ == NIXL_SUCCESS) outcome_ = why;
  for (std::size_t i = 0; i < posted_; ++i) tcpx_operation_cancel(operations_[i]);
  return posted_ == 0 ? outcome_ : NIXL_IN_PROG;
}

nixl_status_t Request::check() {
  bool isActive = false;
  for (std::size_t i = 0; i < posted_; ++i) {
    std::int32_t state;
    tcpx_status error;
    const tcpx_status asked = tcpx_operation_status(operations_[i], &state, &error);
    if (asked != TCPX_OK) return report(asked, "the state of a transfer with " + peer_);
    isActive = isActive || state == TCPX_OPERATION_ACTIVE;
    if (state != TCPX_OPERATION_FAILED || outcome_ != NIXL_SUCCESS) continue;
    log(TCPX_LOG_WARN, "a transfer with " + peer_ + " has failed: " + errorText(operations_[i]));
    fail(statusOf(error));
  }
  if (isActive) return NIXL_IN_PROG;
  if (outcome_ == NIXL_SUCCESS && posted_ < operations_.size()) return postLast();
  return outcome_;
}

void Requests::add(Request* request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  all_.insert(request);
}

void Requests::remove(Request* request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  all_.erase(request);
}

template <class Matches>
std::vector<tcpx_operation> Requests::cancel(Matches matches) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<tcpx_operation> operations;
  for (const Request* request : all_) {
    if (!matches(*request)) continue;
    for (const tcpx_operation operation : request->operations()) {
      tcpx_operation_cancel(operation);
      operations.push_back(operation);
    }
  }
  return operations;
}

std::vector<tcpx_operation> Requests::cancelUsersOf(std::uint64_t memory) const {
  return cancel([&](const Request& request) { return request.uses(memory); });
}

std::vector<tcpx_operation> Requests::cancelThoseWith(const std::string& peer) const {
  return cancel([&](const Request& request) { return request.isWith(peer); });
}

}  // namespace tcpx_nixl
