/* What a transfer is to move: pairs of ranges, sorted by the devices that they lie on. */
#ifndef TCPX_NIXL_PLAN_HPP
#define TCPX_NIXL_PLAN_HPP

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nixl_abi.hpp"
#include "tcpx_p2p.h"

namespace tcpx_nixl {

class Plan {
 public:
  /* Of two lists of NIXL; `kind` is TCPX_READ or TCPX_WRITE. It points to keys of `remote`. */
  nixl_status_t make(std::int32_t kind, const nixl_meta_dlist_t& local,
                     const nixl_meta_dlist_t& remote);

  /* One operation for each pair of devices; all of them, or none. */
  tcpx_status prepare(tcpx_session session, const std::string& peer,
                      std::vector<tcpx_operation>& out) const;

  /* Copies the keys, so that NIXL may take back what it has handed over. */
  void keepKeys();

  /* Registrations of this end, sorted. */
  std::vector<std::uint64_t> memory() const;

 private:
  nixl_status_t add(std::size_t index, const nixlMetaDesc& local, const nixlMetaDesc& remote,
                    std::size_t count);

  using Devices = std::pair<std::int32_t, std::int32_t>;

  std::int32_t kind_ = 0;
  std::map<Devices, std::vector<tcpx_pair>> parts_;
  /* The part that the last pair went to. */
  std::vector<tcpx_pair>* part_ = nullptr;
  Devices devices_{};
  std::list<std::string> keys_;
};

}  // namespace tcpx_nixl

#endif
