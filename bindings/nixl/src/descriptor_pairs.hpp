/* Pairs of ranges of a transfer, from NIXL's two descriptor lists. */
#ifndef TCPX_NIXL_DESCRIPTOR_PAIRS_HPP
#define TCPX_NIXL_DESCRIPTOR_PAIRS_HPP

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "nixl_abi.hpp"
#include "tcpx_p2p.h"

namespace tcpx_nixl {

class DescriptorPairs {
 public:
  /* Of two lists of NIXL; `kind` is TCPX_READ or TCPX_WRITE. It points to keys of `remote`. */
  nixl_status_t make(std::int32_t kind, const nixl_meta_dlist_t& local,
                     const nixl_meta_dlist_t& remote);

  /* One operation of them all, also if they lie on several devices. */
  tcpx_status prepare(tcpx_session session, const std::string& peer, tcpx_operation& out) const;

  /* Copies the keys, so that NIXL may take back what it has handed over. */
  void copyKeys();

 private:
  nixl_status_t add(std::size_t index, const nixlMetaDesc& local, const nixlMetaDesc& remote);

  std::int32_t kind_ = 0;
  std::vector<tcpx_pair> pairs_;
  std::list<std::string> keys_;
};

}  // namespace tcpx_nixl

#endif
