/*
 * What NIXL and a backend plugin hand each other, as binaries: the layout of NIXL's types and the
 * order of its virtual functions. The wheels of NIXL bring no headers, so this is written down
 * here, for NIXL 1.0.1 and later. Names are NIXL's; what a backend does not use is left out.
 *
 * The order of the virtual functions is the interface: NIXL's version number of it has stayed 1
 * across a change. `tests/vtable.py` compares it with the wheel's own UCX plugin.
 */
#ifndef TCPX_NIXL_ABI_HPP
#define TCPX_NIXL_ABI_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

enum nixl_mem_t { DRAM_SEG, VRAM_SEG, BLK_SEG, OBJ_SEG, FILE_SEG };
enum nixl_xfer_op_t { NIXL_READ, NIXL_WRITE };
enum nixl_status_t {
  NIXL_IN_PROG = 1,
  NIXL_SUCCESS = 0,
  NIXL_ERR_NOT_POSTED = -1,
  NIXL_ERR_INVALID_PARAM = -2,
  NIXL_ERR_BACKEND = -3,
  NIXL_ERR_NOT_FOUND = -4,
  NIXL_ERR_MISMATCH = -5,
  NIXL_ERR_NOT_ALLOWED = -6,
  NIXL_ERR_REPOST_ACTIVE = -7,
  NIXL_ERR_UNKNOWN = -8,
  NIXL_ERR_NOT_SUPPORTED = -9,
  NIXL_ERR_REMOTE_DISCONNECT = -10,
};
enum class nixl_thread_sync_t : int { NONE, STRICT, RW };
enum class nixl_cost_t : int { ANALYTICAL_BACKEND };

using nixl_mem_list_t = std::vector<nixl_mem_t>;
using nixl_b_params_t = std::unordered_map<std::string, std::string>;
using nixl_query_resp_t = std::optional<nixl_b_params_t>;
using nixlMemViewH = void*;
/* A sender's name, and what it said. */
using notif_list_t = std::vector<std::pair<std::string, std::string>>;

struct nixlBasicDesc {
  std::uintptr_t addr;
  std::size_t len;
  std::uint64_t devId;
};

struct nixlBlobDesc : nixlBasicDesc {
  std::string metaInfo;
};

class nixlBackendMD {
 public:
  explicit nixlBackendMD(bool isPrivate) : isPrivateMD(isPrivate) {}
  virtual ~nixlBackendMD() = default;

 protected:
  bool isPrivateMD;
};

class nixlBackendReqH {
 public:
  virtual ~nixlBackendReqH() = default;
};

struct nixlMetaDesc : nixlBasicDesc {
  nixlBackendMD* metadataP;
};

/* A list as it lies in memory. NIXL makes lists, a backend only reads them. */
template <class T>
class nixlDescList {
 public:
  nixl_mem_t getType() const { return type; }
  std::size_t size() const { return descs.size(); }
  const T& operator[](std::size_t index) const { return descs[index]; }

  nixlDescList() = delete;
  virtual ~nixlDescList() = default;

 protected:
  nixl_mem_t type;
  std::vector<T> descs;
};
using nixl_meta_dlist_t = nixlDescList<nixlMetaDesc>;
using nixl_reg_dlist_t = nixlDescList<nixlBlobDesc>;
struct nixlRemoteMetaDesc;
using nixl_remote_meta_dlist_t = nixlDescList<nixlRemoteMetaDesc>;

struct nixlBackendOptionalArgs {
  std::string notifMsg;
  bool hasNotif = false;
  std::string customParam;
};
using nixl_opt_b_args_t = nixlBackendOptionalArgs;
struct nixlAgentOptionalArgs;
using nixl_opt_args_t = nixlAgentOptionalArgs;

struct nixlBackendInitParams {
  std::string localAgent;
  std::string type;
  nixl_b_params_t* customParams = nullptr;
  bool enableProgTh = false;
  std::uint64_t pthrDelay = 0; /* microseconds */
  nixl_thread_sync_t syncMode = nixl_thread_sync_t::NONE;
  bool enableTelemetry = false;
};

/* An event of NIXL's telemetry. None is ever made here: its size differs between versions. */
struct nixlTelemetryEvent {
  std::uint64_t words[2];
};

class nixlBackendEngine {
 public:
  explicit nixlBackendEngine(const nixlBackendInitParams& init)
      : backendType(init.type),
        customParams(*init.customParams),
        localAgent(init.localAgent),
        enableTelemetry_(init.enableTelemetry) {}
  nixlBackendEngine(const nixlBackendEngine&) = delete;
  nixlBackendEngine& operator=(const nixlBackendEngine&) = delete;

  virtual ~nixlBackendEngine() = default;
  virtual bool supportsRemote() const = 0;
  virtual bool supportsLocal() const = 0;
  virtual bool supportsNotif() const = 0;
  virtual nixl_mem_list_t getSupportedMems() const = 0;
  virtual nixl_status_t registerMem(const nixlBlobDesc& mem, const nixl_mem_t& kind,
                                    nixlBackendMD*& out) = 0;
  virtual nixl_status_t deregisterMem(nixlBackendMD* memory) = 0;
  virtual nixl_status_t connect(const std::string& agent) = 0;
  virtual nixl_status_t disconnect(const std::string& agent) = 0;
  virtual nixl_status_t unloadMD(nixlBackendMD* memory) = 0;
  virtual nixl_status_t prepXfer(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& local,
                                 const nixl_meta_dlist_t& remote, const std::string& agent,
                                 nixlBackendReqH*& handle, const nixl_opt_b_args_t* args) const = 0;
  virtual nixl_status_t postXfer(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& local,
                                 const nixl_meta_dlist_t& remote, const std::string& agent,
                                 nixlBackendReqH*& handle, const nixl_opt_b_args_t* args) const = 0;
  virtual nixl_status_t checkXfer(nixlBackendReqH* handle) const = 0;
  virtual nixl_status_t releaseReqH(nixlBackendReqH* handle) const = 0;
  virtual nixl_status_t prepMemView(const nixl_remote_meta_dlist_t& remote, nixlMemViewH& view,
                                    const nixl_opt_b_args_t* args) const = 0;
  virtual nixl_status_t prepMemView(const nixl_meta_dlist_t& local, nixlMemViewH& view,
                                    const nixl_opt_b_args_t* args) const = 0;
  virtual void releaseMemView(nixlMemViewH view) const = 0;
  virtual nixl_status_t getPublicData(const nixlBackendMD* memory, std::string& out) const = 0;
  virtual nixl_status_t getConnInfo(std::string& out) const = 0;
  virtual nixl_status_t loadRemoteConnInfo(const std::string& agent, const std::string& info) = 0;
  virtual nixl_status_t loadRemoteMD(const nixlBlobDesc& input, const nixl_mem_t& kind,
                                     const std::string& agent, nixlBackendMD*& out) = 0;
  virtual nixl_status_t loadLocalMD(nixlBackendMD* input, nixlBackendMD*& out) = 0;
  virtual nixl_status_t getNotifs(notif_list_t& out) = 0;
  virtual nixl_status_t genNotif(const std::string& agent, const std::string& message) const = 0;
  virtual nixl_status_t queryMem(const nixl_reg_dlist_t& list,
                                 std::vector<nixl_query_resp_t>& out) const = 0;
  virtual nixl_status_t estimateXferCost(const nixl_xfer_op_t& operation,
                                         const nixl_meta_dlist_t& local,
                                         const nixl_meta_dlist_t& remote, const std::string& agent,
                                         nixlBackendReqH* const& handle,
                                         std::chrono::microseconds& duration,
                                         std::chrono::microseconds& margin, nixl_cost_t& method,
                                         const nixl_opt_args_t* args) const = 0;

  /* NIXL's own functions reach these directly. */
 private:
  std::string backendType;
  nixl_b_params_t customParams;
  std::vector<nixlTelemetryEvent> telemetryEvents_;
  std::mutex telemetryEventsMutex_;

 protected:
  bool initErr = false;
  const std::string localAgent;
  const bool enableTelemetry_;
};

struct nixlBackendPlugin {
  int api_version;
  nixlBackendEngine* (*create_engine)(const nixlBackendInitParams* init);
  void (*destroy_engine)(nixlBackendEngine* engine);
  const char* (*get_plugin_name)();
  const char* (*get_plugin_version)();
  nixl_b_params_t (*get_backend_options)();
  nixl_mem_list_t (*get_backend_mems)();
};
constexpr int kNixlPluginApiVersion = 1;

/* As in NIXL 1.0.1 to 1.5.1 on 64-bit Linux with libstdc++. */
static_assert(sizeof(std::string) == 32, "libstdc++ with the C++11 string");
static_assert(sizeof(nixlBasicDesc) == 24);
static_assert(sizeof(nixlBlobDesc) == 56);
static_assert(sizeof(nixlMetaDesc) == 32);
static_assert(sizeof(nixl_meta_dlist_t) == 40);
static_assert(sizeof(nixlBackendMD) == 16);
static_assert(sizeof(nixlBackendReqH) == 8);
static_assert(sizeof(nixlBackendOptionalArgs) == 72);
static_assert(sizeof(nixlBackendInitParams) == 96);
/* 208 on x86-64, 216 on aarch64: glibc has a longer mutex there. */
static_assert(sizeof(nixlBackendEngine) == 168 + sizeof(std::mutex));
static_assert(sizeof(nixlBackendPlugin) == 56);

#endif
