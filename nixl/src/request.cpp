#include "request.hpp"

#include <algorithm>
#include <utility>

#include "log.hpp"
#include "status.hpp"

namespace tcpx_nixl {

Request::~Request() {
  for (const tcpx_operation operation : operations_) tcpx_operation_release(operation);
}

nixl_status_t Request::prepare(tcpx_session session, const std::string& peer, std::int32_t kind,
                               const nixl_meta_dlist_t& local, const nixl_meta_dlist_t& remote,
                               std::unique_ptr<Request>& out) {
  std::unique_ptr<Request> request(new Request(session, peer));
  auto plan = std::make_unique<Plan>();
  const nixl_status_t made = plan->make(kind, local, remote);
  if (made != NIXL_SUCCESS) return made;
  request->memory_ = plan->memory();
  const tcpx_status status = plan->prepare(session, peer, request->operations_);
  if (status == TCPX_ERR_REMOTE_MEMORY) {
    report(status, "a transfer with " + peer);
    return NIXL_ERR_INVALID_PARAM;
  }
  if (statusOf(status) == NIXL_ERR_REMOTE_DISCONNECT) {
    plan->keepKeys();
    request->plan_ = std::move(plan);
  } else if (status != TCPX_OK) {
    return report(status, "a transfer with " + peer);
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
  if (plan_) {
    const tcpx_status status = plan_->prepare(session_, peer_, operations_);
    if (status != TCPX_OK) return report(status, "a transfer with " + peer_);
    plan_.reset();
  }
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
