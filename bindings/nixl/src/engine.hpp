/* A backend of NIXL over a group of tcpx: the host and all GPUs of the process. */
#ifndef TCPX_NIXL_ENGINE_HPP
#define TCPX_NIXL_ENGINE_HPP

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "memory.hpp"
#include "metrics_file.hpp"
#include "nixl_abi.hpp"
#include "peer_names.hpp"
#include "request.hpp"
#include "tcpx_p2p.h"

namespace tcpx_nixl {

/* Kinds of memory that there are backends for here. */
nixl_mem_list_t supportedMems();

class Engine final : public nixlBackendEngine {
 public:
  /* Throws std::exception when there can be no session; its text says why. */
  explicit Engine(const nixlBackendInitParams& init);
  /* Says goodbye to all peers. Waits for them for no longer than `close_timeout_ms`. */
  ~Engine() override;

  bool supportsRemote() const override { return true; }
  bool supportsLocal() const override { return true; }
  bool supportsNotif() const override { return true; }
  nixl_mem_list_t getSupportedMems() const override { return supportedMems(); }

  nixl_status_t registerMem(const nixlBlobDesc& mem, const nixl_mem_t& kind,
                            nixlBackendMD*& out) override;
  nixl_status_t deregisterMem(nixlBackendMD* memory) override;
  nixl_status_t connect(const std::string& agent) override;
  nixl_status_t disconnect(const std::string& agent) override;
  nixl_status_t unloadMD(nixlBackendMD* memory) override;

  nixl_status_t prepXfer(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& local,
                         const nixl_meta_dlist_t& remote, const std::string& agent,
                         nixlBackendReqH*& handle, const nixl_opt_b_args_t* args) const override;
  nixl_status_t postXfer(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& local,
                         const nixl_meta_dlist_t& remote, const std::string& agent,
                         nixlBackendReqH*& handle, const nixl_opt_b_args_t* args) const override;
  nixl_status_t checkXfer(nixlBackendReqH* handle) const override;
  nixl_status_t releaseReqH(nixlBackendReqH* handle) const override;

  nixl_status_t prepMemView(const nixl_remote_meta_dlist_t& remote, nixlMemViewH& view,
                            const nixl_opt_b_args_t* args) const override;
  nixl_status_t prepMemView(const nixl_meta_dlist_t& local, nixlMemViewH& view,
                            const nixl_opt_b_args_t* args) const override;
  void releaseMemView(nixlMemViewH view) const override;

  nixl_status_t getPublicData(const nixlBackendMD* memory, std::string& out) const override;
  nixl_status_t getConnInfo(std::string& out) const override;
  nixl_status_t loadRemoteConnInfo(const std::string& agent, const std::string& info) override;
  nixl_status_t loadRemoteMD(const nixlBlobDesc& input, const nixl_mem_t& kind,
                             const std::string& agent, nixlBackendMD*& out) override;
  nixl_status_t loadLocalMD(nixlBackendMD* input, nixlBackendMD*& out) override;

  nixl_status_t getNotifs(notif_list_t& out) override;
  nixl_status_t genNotif(const std::string& agent, const std::string& message) const override;

  nixl_status_t queryMem(const nixl_reg_dlist_t& list,
                         std::vector<nixl_query_resp_t>& out) const override;
  nixl_status_t estimateXferCost(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& local,
                                 const nixl_meta_dlist_t& remote, const std::string& agent,
                                 nixlBackendReqH* const& handle,
                                 std::chrono::microseconds& duration,
                                 std::chrono::microseconds& margin, nixl_cost_t& method,
                                 const nixl_opt_args_t* args) const override;

 private:
  /* Exports memory to peers, and writes its key. */
  nixl_status_t exportMemory(Memory& memory) const;
  nixl_status_t loadConnInfo(const std::string& agent, const std::string& info);
  void unloadConnInfo(const std::string& peer) const;
  void progress() const;

  tcpx_session session_{};
  std::unique_ptr<MetricsFile> metrics_; /* where the environment asks for it */
  std::string connInfo_;
  PeerNames peers_;
  mutable Requests requests_;
  std::mutex notificationsMutex_;
  std::vector<char> notifications_; /* room for the longest, and many short ones */
};

}  // namespace tcpx_nixl

#endif
