#include "request.hpp"

#include <utility>

#include "log.hpp"
#include "status.hpp"

namespace tcpx_nixl {

Request::~Request() {
  if (operation_) tcpx_operation_release(*operation_);
}

nixl_status_t Request::prepare(tcpx_session session, const std::string& peer, std::int32_t kind,
                               const nixl_meta_dlist_t& local, const nixl_meta_dlist_t& remote,
                               std::unique_ptr<Request>& out) {
  std::unique_ptr<Request> request(new Request(session, peer));
  request->pairs_ = std::make_unique<DescriptorPairs>();
  const nixl_status_t made = request->pairs_->make(kind, local, remote);
  if (made != NIXL_SUCCESS) return made;
  const tcpx_status status = request->prepare();
  if (status == TCPX_ERR_REMOTE_MEMORY) {
    report(status, "a transfer with " + peer);
    return NIXL_ERR_INVALID_PARAM;
  }
  if (statusOf(status) == NIXL_ERR_REMOTE_DISCONNECT) {
    request->pairs_->copyKeys();
  } else if (status != TCPX_OK) {
    return report(status, "a transfer with " + peer);
  }
  out = std::move(request);
  return NIXL_SUCCESS;
}

tcpx_status Request::prepare() {
  tcpx_operation operation;
  const tcpx_status status = pairs_->prepare(session_, peer_, operation);
  if (status != TCPX_OK) return status;
  operation_ = operation;
  pairs_.reset();
  return TCPX_OK;
}

nixl_status_t Request::post(const std::optional<std::string>& notification) {
  if (!operation_) {
    const tcpx_status status = prepare();
    if (status != TCPX_OK) return report(status, "a transfer with " + peer_);
  }
  const tcpx_status status = tcpx_operation_post(
      *operation_, notification ? notification->data() : nullptr,
      notification ? notification->size() : 0);
  return status == TCPX_OK ? NIXL_IN_PROG : report(status, "a post to " + peer_);
}

nixl_status_t Request::check() const {
  if (!operation_) return NIXL_ERR_NOT_POSTED;
  std::int32_t state;
  tcpx_status error;
  const tcpx_status asked = tcpx_operation_status(*operation_, &state, &error);
  if (asked != TCPX_OK) return report(asked, "the state of a transfer with " + peer_);
  if (state == TCPX_OPERATION_ACTIVE) return NIXL_IN_PROG;
  if (state != TCPX_OPERATION_FAILED) return NIXL_SUCCESS;
  log(TCPX_LOG_WARN, "a transfer with " + peer_ + " has failed: " + errorText(*operation_));
  return statusOf(error);
}

void Requests::add(Request* request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  all_.insert(request);
}

void Requests::remove(Request* request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  all_.erase(request);
}

void Requests::cancelAllWith(const std::string& peer) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Request* request : all_) {
    if (request->operation() && request->isWith(peer)) {
      tcpx_operation_cancel(*request->operation());
    }
  }
}

}  // namespace tcpx_nixl
