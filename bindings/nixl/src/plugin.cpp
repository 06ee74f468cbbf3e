/* What NIXL looks for in libplugin_TCPX.so. */
#include <exception>

#include "engine.hpp"
#include "log.hpp"
#include "parameters.hpp"

namespace {

nixlBackendEngine* create(const nixlBackendInitParams* init) {
  try {
    return new tcpx_nixl::Engine(*init);
  } catch (const std::exception& error) {
    tcpx_nixl::log(TCPX_LOG_ERROR, std::string("no backend: ") + error.what());
    return nullptr;
  }
}

void destroy(nixlBackendEngine* engine) { delete engine; }
const char* name() { return tcpx_nixl::kBackend; }

nixlBackendPlugin plugin = {
    kNixlPluginApiVersion,     create, destroy, name, tcpx_version, tcpx_nixl::parameterNames,
    tcpx_nixl::supportedMems,
};

}  // namespace

extern "C" {

/* Which version a file is, for those who do not load it: `tcpx doctor` reads it. */
__attribute__((visibility("default"))) extern const char tcpx_nixl_version[] = TCPX_VERSION;

__attribute__((visibility("default"))) nixlBackendPlugin* nixl_plugin_init() { return &plugin; }

__attribute__((visibility("default"))) void nixl_plugin_fini() {}

}
