#include "descriptor_pairs.hpp"

#include <algorithm>
#include <unordered_map>

#include "log.hpp"
#include "memory.hpp"

namespace tcpx_nixl {
namespace {

nixl_status_t refuse(std::size_t index, const char* why,
                     nixl_status_t status = NIXL_ERR_INVALID_PARAM) {
  log(TCPX_LOG_ERROR, "descriptor " + std::to_string(index) + " " + why);
  return status;
}

}  // namespace

nixl_status_t DescriptorPairs::make(std::int32_t kind, const nixl_meta_dlist_t& local,
                          const nixl_meta_dlist_t& remote) {
  kind_ = kind;
  if (local.size() != remote.size() || local.size() == 0) return NIXL_ERR_INVALID_PARAM;
  pairs_.reserve(local.size());
  for (std::size_t i = 0; i < local.size(); ++i) {
    const nixl_status_t status = add(i, local[i], remote[i]);
    if (status != NIXL_SUCCESS) return status;
  }
  return NIXL_SUCCESS;
}

nixl_status_t DescriptorPairs::add(std::size_t index, const nixlMetaDesc& local, const nixlMetaDesc& remote) {
  const auto* here = static_cast<const Memory*>(local.metadataP);
  const auto* there = static_cast<const Memory*>(remote.metadataP);
  if (!here || !there) return refuse(index, "has no registered memory");
  if (local.len != remote.len) return refuse(index, "has two lengths");
  if (!here->covers(local.addr, local.len)) return refuse(index, "leaves the memory here");
  if (!there->covers(remote.addr, remote.len)) return refuse(index, "leaves the peer's memory");
  const std::uint32_t needed = kind_ == TCPX_WRITE ? TCPX_ACCESS_WRITE : TCPX_ACCESS_READ;
  if (!(there->access & needed)) {
    return refuse(index, "is host memory of a peer whose plugin can only send it",
                  NIXL_ERR_NOT_SUPPORTED);
  }
  pairs_.push_back({here->id, local.addr - here->address, there->key.data(), there->key.size(),
                    remote.addr - there->address, local.len});
  return NIXL_SUCCESS;
}

tcpx_status DescriptorPairs::prepare(tcpx_session session, const std::string& peer,
                           tcpx_operation& out) const {
  return tcpx_operation_prepare(session, peer.c_str(), kind_, pairs_.data(), sizeof pairs_[0],
                                pairs_.size(), &out);
}

void DescriptorPairs::copyKeys() {
  std::unordered_map<const void*, const void*> kept;
  for (tcpx_pair& pair : pairs_) {
    const auto [copy, isNew] = kept.try_emplace(pair.key);
    if (isNew) {
      keys_.emplace_back(static_cast<const char*>(pair.key), pair.key_bytes);
      copy->second = keys_.back().data();
    }
    pair.key = copy->second;
  }
}

}  // namespace tcpx_nixl
