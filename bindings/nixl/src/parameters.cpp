#include "parameters.hpp"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <variant>

#include "log.hpp"

namespace tcpx_nixl {
namespace {

using Options = tcpx_session_options;
using Member = std::variant<const char* Options::*, std::int32_t Options::*,
                            std::uint32_t Options::*, std::uint64_t Options::*>;

struct Parameter {
  const char* name;
  const char* variable;
  Member member;
};

const Parameter kParameters[] = {
    {"plugin", "TCPX_PLUGIN", &Options::plugin},
    {"unpack", "TCPX_UNPACK", &Options::unpack},
    {"nics", "TCPX_NIC", &Options::nics},
    {"listen", "TCPX_LISTEN", &Options::listen},
    {"advertise", "TCPX_ADVERTISE", &Options::advertise},
    {"gpu", "TCPX_GPU", &Options::gpu},
    {"channels", "TCPX_CHANNELS", &Options::channels},
    {"chunk_bytes", "TCPX_CHUNK_BYTES", &Options::chunk_bytes},
    {"recv_window", "TCPX_RECV_WINDOW", &Options::recv_window},
    {"send_window", "TCPX_SEND_WINDOW", &Options::send_window},
    {"connect_timeout_ms", "TCPX_CONNECT_TIMEOUT_MS", &Options::connect_timeout_ms},
    {"close_timeout_ms", "TCPX_CLOSE_TIMEOUT_MS", &Options::close_timeout_ms},
    {"peer_timeout_ms", "TCPX_PEER_TIMEOUT_MS", &Options::peer_timeout_ms},
    {"spin_us", "TCPX_SPIN_US", &Options::spin_us},
    {"staging_bytes", "TCPX_STAGING_BYTES", &Options::staging_bytes},
    {"eager_bytes", "TCPX_EAGER_BYTES", &Options::eager_bytes},
    {"eager_buffer_bytes", "TCPX_EAGER_BUFFER_BYTES", &Options::eager_buffer_bytes},
    {"notification_bytes", "TCPX_NOTIFICATION_BYTES", &Options::notification_bytes},
    {"kept_for_peers_bytes", "TCPX_KEPT_FOR_PEERS_BYTES", &Options::kept_for_peers_bytes},
    {"preflight", "TCPX_PREFLIGHT", &Options::preflight},
    {"keep_sigpipe", "TCPX_KEEP_SIGPIPE", &Options::keep_sigpipe},
    {"encryption", "TCPX_ENCRYPTION", &Options::encryption},
    {"tls_cert", "TCPX_TLS_CERT", &Options::tls_cert},
    {"tls_key", "TCPX_TLS_KEY", &Options::tls_key},
    {"tls_ca", "TCPX_TLS_CA", &Options::tls_ca},
};

[[noreturn]] void refuse(const Parameter& parameter, const std::string& text, const char* why) {
  const std::string what = "parameter " + std::string(parameter.name) + "=" + text;
  throw std::invalid_argument(what + ": " + why);
}

template <class Number>
void set(const Parameter& parameter, const std::string& text, Number& out) {
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, out);
  const bool isNumber = read.ec == std::errc() && read.ptr == end;
  if (!isNumber) refuse(parameter, text, "not a number that it can have");
}

void set(const Parameter&, const std::string& text, const char*& out) { out = text.c_str(); }

const std::string* valueOf(const nixl_b_params_t& parameters, const char* name) {
  const auto found = parameters.find(name);
  return found == parameters.end() || found->second.empty() ? nullptr : &found->second;
}

bool isKnown(const std::string& name) {
  for (const Parameter& parameter : kParameters) {
    if (name == parameter.name || name == parameter.variable) return true;
  }
  return false;
}

[[noreturn]] void refuseUnknown(const std::string& name) {
  std::string names;
  for (const Parameter& parameter : kParameters) {
    names.append(names.empty() ? "" : ", ").append(parameter.name);
  }
  throw std::invalid_argument("there is no parameter " + name + "; there are " + names);
}

/* Under another backend's name, a program hands over the parameters of that backend. */
void checkNames(const nixl_b_params_t& parameters, const std::string& backend) {
  for (const auto& [name, value] : parameters) {
    if (isKnown(name)) continue;
    if (backend == kBackend) refuseUnknown(name);
    log(TCPX_LOG_INFO, "parameter " + name + "=" + value + " of " + backend + " has no effect");
  }
}

}  // namespace

nixl_b_params_t parameterNames() {
  nixl_b_params_t names;
  for (const Parameter& parameter : kParameters) names.emplace(parameter.name, "");
  return names;
}

void applyParameters(const nixl_b_params_t& parameters, const std::string& backend,
                     tcpx_session_options& options) {
  checkNames(parameters, backend);
  for (const Parameter& parameter : kParameters) {
    const std::string* value = valueOf(parameters, parameter.name);
    const std::string* other = valueOf(parameters, parameter.variable);
    if (value && other) refuse(parameter, *value, "given twice");
    if (!value) value = other;
    if (!value) continue;
    std::visit([&](auto member) { set(parameter, *value, options.*member); }, parameter.member);
  }
  /* The one option that tcpx does not read from the environment by itself. */
  if (!options.advertise) options.advertise = std::getenv("TCPX_ADVERTISE");
}

}  // namespace tcpx_nixl
