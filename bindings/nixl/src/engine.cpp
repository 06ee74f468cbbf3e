#include "engine.hpp"

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <utility>

#include "envelope.hpp"
#include "log.hpp"
#include "parameters.hpp"
#include "status.hpp"

namespace tcpx_nixl {
namespace {

/* Before tcpx's connection info: what this backend says to itself elsewhere, and how. */
const std::string kConnInfoVersion = "tcpx-nixl/1 ";

/* Notifications that wait at either end, for each peer. NIXL's programs may send thousands before
 * the other one looks, and have no answer for "later". */
constexpr std::uint32_t kNotificationBytes = 64u << 20;

constexpr std::size_t kNotificationsAtOnce = 256;
constexpr std::size_t kNotificationsBuffer = 4 * TCPX_MAX_NOTIFICATION_BYTES;

/* No exception leaves a function that NIXL calls. */
template <class Body>
nixl_status_t guarded(Body body) {
  try {
    return body();
  } catch (const std::exception& error) {
    log(TCPX_LOG_ERROR, error.what());
    return NIXL_ERR_BACKEND;
  }
}

void must(tcpx_status status, const char* what) {
  if (status != TCPX_OK) throw std::runtime_error(std::string(what) + ": " + tcpx_last_error());
}

tcpx_session open(const nixlBackendInitParams& init) {
  tcpx_session_options options;
  must(tcpx_session_options_init(&options, sizeof options), "options");
  if (!std::getenv("TCPX_NOTIFICATION_BYTES")) options.notification_bytes = kNotificationBytes;
  if (init.type != kBackend) log(TCPX_LOG_INFO, "loaded under the name " + init.type);
  if (init.customParams) applyParameters(*init.customParams, init.type, options);
  const std::string name = plainName(init.localAgent);
  options.name = name.c_str();
  options.group = 1;
  tcpx_session session;
  must(tcpx_session_create(&options, &session), "a session");
  return session;
}

nixl_status_t tooLong(const std::string& message) {
  log(TCPX_LOG_ERROR, "a notification of " + std::to_string(message.size()) +
                          " bytes is too long: with the agent's name there may be " +
                          std::to_string(TCPX_MAX_NOTIFICATION_BYTES - 2));
  return NIXL_ERR_INVALID_PARAM;
}

std::string listen(tcpx_session session) {
  std::string info(TCPX_MAX_CONN_INFO_BYTES, '\0');
  std::size_t bytes;
  must(tcpx_session_listen(session, info.data(), info.size(), &bytes), "a listener");
  info.resize(bytes);
  return info;
}

}  // namespace

nixl_mem_list_t supportedMems() { return {DRAM_SEG, VRAM_SEG}; }

Engine::Engine(const nixlBackendInitParams& init)
    : nixlBackendEngine(init), notifications_(kNotificationsBuffer) {
  startLog();
  session_ = open(init);
  try {
    const std::string info = listen(session_);
    connInfo_ = kConnInfoVersion + info;
    /* An agent reaches itself as it reaches others. */
    if (loadConnInfo(localAgent, info) != NIXL_SUCCESS) throw std::runtime_error("no way to itself");
    const std::string folder = metricsFolder();
    if (!folder.empty()) metrics_ = std::make_unique<MetricsFile>(session_, folder);
  } catch (...) {
    tcpx_session_destroy(session_);
    throw;
  }
}

Engine::~Engine() {
  metrics_.reset();
  report(tcpx_session_destroy(session_), "the end", TCPX_LOG_WARN);
}

nixl_status_t Engine::registerMem(const nixlBlobDesc& mem, const nixl_mem_t& kind,
                                  nixlBackendMD*& out) {
  return guarded([&]() -> nixl_status_t {
    const std::optional<std::int32_t> device = deviceOf(kind, mem.devId);
    if (!device) return NIXL_ERR_NOT_SUPPORTED;
    auto memory = std::make_unique<Memory>(true);
    memory->address = mem.addr;
    memory->bytes = mem.len;
    memory->device = *device;
    const auto add = [&](std::int32_t isRecv) {
      return tcpx_session_register_memory_on(session_, *device, reinterpret_cast<void*>(mem.addr),
                                             mem.len, isRecv, &memory->id);
    };
    memory->access = TCPX_ACCESS_READ | TCPX_ACCESS_WRITE;
    tcpx_status status = add(1);
    if (status == TCPX_ERR_MEMORY) {
      /* The hardware plugin sends host memory and cannot receive into it. */
      log(TCPX_LOG_INFO, std::string("memory that is only sent from: ") + tcpx_last_error());
      memory->access = TCPX_ACCESS_READ;
      status = add(0);
    }
    if (status != TCPX_OK) return report(status, "registering memory");
    const nixl_status_t shared = exportMemory(*memory);
    if (shared != NIXL_SUCCESS) {
      tcpx_session_deregister_memory(session_, memory->id);
      return shared;
    }
    out = memory.release();
    return NIXL_SUCCESS;
  });
}

/* NIXL's agents do not take another key for memory that they know, so keys are stable. */
nixl_status_t Engine::exportMemory(Memory& memory) const {
  tcpx_export_options options{};
  options.size = sizeof options;
  options.access = memory.access;
  options.is_stable = 1;
  memory.key.resize(TCPX_REMOTE_KEY_BYTES);
  std::size_t bytes;
  const tcpx_status status =
      tcpx_export(session_, memory.id, &options, memory.key.data(), memory.key.size(), &bytes);
  if (status != TCPX_OK) return report(status, "exporting memory");
  memory.key.resize(bytes);
  return NIXL_SUCCESS;
}

/* When this returns NIXL_SUCCESS, nothing touches the memory any more: neither peers nor requests of
 * this agent, which are given up, released or not. */
nixl_status_t Engine::deregisterMem(nixlBackendMD* handle) {
  return guarded([&]() -> nixl_status_t {
    const std::unique_ptr<Memory> memory(static_cast<Memory*>(handle));
    if (!memory) return NIXL_ERR_INVALID_PARAM;
    return report(tcpx_session_deregister_memory(session_, memory->id), "deregistering memory");
  });
}

nixl_status_t Engine::connect(const std::string& agent) {
  return guarded([&]() -> nixl_status_t {
    /* To itself it connects when that is first needed. */
    if (agent == localAgent) return NIXL_SUCCESS;
    const std::optional<std::string> peer = peers_.find(agent);
    if (!peer) return NIXL_ERR_NOT_FOUND;
    const tcpx_status status = tcpx_session_start_connect(session_, peer->c_str());
    if (status == TCPX_ERR_PEER_STATE) return NIXL_SUCCESS; /* It is connected, or being so. */
    return report(status, "a connection to " + *peer);
  });
}

/* tcpx does not know any more how a peer is reached, and why it is over if it is. */
void Engine::unloadConnInfo(const std::string& peer) const {
  tcpx_session_forget_remote_conn_info(session_, peer.c_str());
}

/* A connection that lives stays: the peer may be using it, and it ends with the peer's agent. If
 * the agent is loaded again before that, tcpx finds it. */
nixl_status_t Engine::disconnect(const std::string& agent) {
  return guarded([&]() -> nixl_status_t {
    if (agent == localAgent) return NIXL_SUCCESS;
    const std::optional<std::string> peer = peers_.remove(agent);
    if (!peer) return NIXL_ERR_NOT_FOUND;
    requests_.cancelAllWith(*peer);
    unloadConnInfo(*peer);
    return NIXL_SUCCESS;
  });
}

nixl_status_t Engine::unloadMD(nixlBackendMD* memory) {
  delete memory;
  return NIXL_SUCCESS;
}

nixl_status_t Engine::prepXfer(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& local,
                               const nixl_meta_dlist_t& remote, const std::string& agent,
                               nixlBackendReqH*& handle, const nixl_opt_b_args_t*) const {
  return guarded([&]() -> nixl_status_t {
    const std::optional<std::string> peer = peers_.find(agent);
    if (!peer) return NIXL_ERR_NOT_FOUND;
    std::unique_ptr<Request> request;
    const nixl_status_t status =
        Request::prepare(session_, *peer, operation == NIXL_WRITE ? TCPX_WRITE : TCPX_READ, local,
                         remote, request);
    if (status != NIXL_SUCCESS) return status;
    requests_.add(request.get());
    handle = request.release();
    return NIXL_SUCCESS;
  });
}

nixl_status_t Engine::postXfer(const nixl_xfer_op_t&, const nixl_meta_dlist_t&,
                               const nixl_meta_dlist_t&, const std::string&,
                               nixlBackendReqH*& handle, const nixl_opt_b_args_t* args) const {
  return guarded([&]() -> nixl_status_t {
    auto* request = static_cast<Request*>(handle);
    if (!request) return NIXL_ERR_INVALID_PARAM;
    std::optional<std::string> notification;
    if (args && args->hasNotif) {
      notification = seal(localAgent, args->notifMsg);
      if (!notification) return tooLong(args->notifMsg);
    }
    return request->post(notification);
  });
}

nixl_status_t Engine::checkXfer(nixlBackendReqH* handle) const {
  return guarded([&]() -> nixl_status_t {
    auto* request = static_cast<Request*>(handle);
    if (!request) return NIXL_ERR_INVALID_PARAM;
    const nixl_status_t status = request->check();
    if (status != NIXL_IN_PROG) return status;
    progress();
    return request->check();
  });
}

nixl_status_t Engine::releaseReqH(nixlBackendReqH* handle) const {
  return guarded([&]() -> nixl_status_t {
    const std::unique_ptr<Request> request(static_cast<Request*>(handle));
    if (request) requests_.remove(request.get());
    return NIXL_SUCCESS;
  });
}

/* Threads of tcpx make progress too. A program that asks again and again keeps the processor from
 * them, so it makes progress itself. */
void Engine::progress() const {
  bool moved;
  tcpx_session_progress(session_, &moved);
}

nixl_status_t Engine::prepMemView(const nixl_remote_meta_dlist_t&, nixlMemViewH&,
                                  const nixl_opt_b_args_t*) const {
  return NIXL_ERR_NOT_SUPPORTED;
}

nixl_status_t Engine::prepMemView(const nixl_meta_dlist_t&, nixlMemViewH&,
                                  const nixl_opt_b_args_t*) const {
  return NIXL_ERR_NOT_SUPPORTED;
}

void Engine::releaseMemView(nixlMemViewH) const {}

nixl_status_t Engine::getPublicData(const nixlBackendMD* memory, std::string& out) const {
  return guarded([&]() -> nixl_status_t {
    if (!memory) return NIXL_ERR_INVALID_PARAM;
    out = static_cast<const Memory*>(memory)->key;
    return NIXL_SUCCESS;
  });
}

nixl_status_t Engine::getConnInfo(std::string& out) const {
  return guarded([&]() -> nixl_status_t {
    out = connInfo_;
    return NIXL_SUCCESS;
  });
}

nixl_status_t Engine::loadRemoteConnInfo(const std::string& agent, const std::string& text) {
  return guarded([&]() -> nixl_status_t {
    if (text.compare(0, kConnInfoVersion.size(), kConnInfoVersion) != 0) {
      log(TCPX_LOG_ERROR, "the connection info of agent " + plainName(agent) +
                              " is damaged, of another backend, or of another version of this one");
      return NIXL_ERR_MISMATCH;
    }
    return loadConnInfo(agent, text.substr(kConnInfoVersion.size()));
  });
}

nixl_status_t Engine::loadConnInfo(const std::string& agent, const std::string& info) {
  /* NIXL says goodbye to an agent before it loads other connection info of it. */
  if (const std::optional<std::string> before = peers_.remove(agent)) unloadConnInfo(*before);
  const std::string peer = peers_.make(agent);
  const tcpx_status status =
      tcpx_session_load_remote_conn_info(session_, peer.c_str(), info.data(), info.size());
  if (status != TCPX_OK) return report(status, "the connection info of " + peer);
  peers_.set(agent, peer);
  return NIXL_SUCCESS;
}

nixl_status_t Engine::loadRemoteMD(const nixlBlobDesc& input, const nixl_mem_t& kind,
                                   const std::string& agent, nixlBackendMD*& out) {
  return guarded([&]() -> nixl_status_t {
    const std::optional<std::int32_t> device = deviceOf(kind, input.devId);
    if (!device) return NIXL_ERR_NOT_SUPPORTED;
    if (!peers_.find(agent)) {
      log(TCPX_LOG_ERROR, "metadata of agent " + plainName(agent) + " without its connection info");
      return NIXL_ERR_NOT_FOUND;
    }
    tcpx_remote_memory remote{};
    remote.size = sizeof remote;
    const tcpx_status status =
        tcpx_remote_key_info(input.metaInfo.data(), input.metaInfo.size(), &remote);
    if (status != TCPX_OK) return report(status, "metadata of agent " + plainName(agent));
    auto memory = std::make_unique<Memory>(false);
    memory->address = remote.address;
    memory->bytes = remote.bytes;
    memory->device = *device;
    memory->access = remote.access;
    memory->key = input.metaInfo;
    if (!memory->covers(input.addr, input.len)) {
      log(TCPX_LOG_ERROR, "metadata of agent " + plainName(agent) + " is of other memory");
      return NIXL_ERR_MISMATCH;
    }
    out = memory.release();
    return NIXL_SUCCESS;
  });
}

/* The agent's own memory, as the target of a transfer to itself. */
nixl_status_t Engine::loadLocalMD(nixlBackendMD* input, nixlBackendMD*& out) {
  return guarded([&]() -> nixl_status_t {
    if (!input) return NIXL_ERR_INVALID_PARAM;
    out = new Memory(*static_cast<const Memory*>(input));
    return NIXL_SUCCESS;
  });
}

nixl_status_t Engine::getNotifs(notif_list_t& out) {
  return guarded([&]() -> nixl_status_t {
    progress();
    const std::lock_guard<std::mutex> lock(notificationsMutex_);
    tcpx_notification entries[kNotificationsAtOnce];
    std::size_t count;
    bool mayMoreWait;
    do {
      const tcpx_status status =
          tcpx_poll_notifications(session_, entries, sizeof entries[0], kNotificationsAtOnce,
                                  notifications_.data(), notifications_.size(), &count);
      if (status != TCPX_OK) return report(status, "notifications");
      for (std::size_t i = 0; i < count; ++i) {
        auto opened = unseal(&notifications_[entries[i].offset], entries[i].bytes);
        if (opened) {
          out.push_back(std::move(*opened));
        } else {
          log(TCPX_LOG_WARN, std::string("a notification of ") + entries[i].peer +
                                 " is none of this backend, and was dropped");
        }
      }
      /* What had a place and room was taken. */
      const std::size_t used = count == 0 ? 0 : entries[count - 1].offset + entries[count - 1].bytes;
      mayMoreWait = count == kNotificationsAtOnce ||
                    notifications_.size() - used < TCPX_MAX_NOTIFICATION_BYTES;
    } while (mayMoreWait);
    return NIXL_SUCCESS;
  });
}

nixl_status_t Engine::genNotif(const std::string& agent, const std::string& message) const {
  return guarded([&]() -> nixl_status_t {
    const std::optional<std::string> peer = peers_.find(agent);
    if (!peer) return NIXL_ERR_NOT_FOUND;
    const std::optional<std::string> sealed = seal(localAgent, message);
    if (!sealed) return tooLong(message);
    return report(tcpx_notify(session_, peer->c_str(), sealed->data(), sealed->size()),
                  "a notification to " + *peer);
  });
}

nixl_status_t Engine::queryMem(const nixl_reg_dlist_t&, std::vector<nixl_query_resp_t>&) const {
  return NIXL_ERR_NOT_SUPPORTED;
}

nixl_status_t Engine::estimateXferCost(const nixl_xfer_op_t&, const nixl_meta_dlist_t&,
                                       const nixl_meta_dlist_t&, const std::string&,
                                       nixlBackendReqH* const&, std::chrono::microseconds&,
                                       std::chrono::microseconds&, nixl_cost_t&,
                                       const nixl_opt_args_t*) const {
  return NIXL_ERR_NOT_SUPPORTED;
}

}  // namespace tcpx_nixl
