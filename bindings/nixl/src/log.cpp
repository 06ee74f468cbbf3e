#include "log.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "status.hpp"

namespace tcpx_nixl {
namespace {

constexpr struct {
  std::string_view name;
  int level;
} kLevels[] = {
    {"TRACE", TCPX_LOG_TRACE}, {"DEBUG", TCPX_LOG_DEBUG}, {"INFO", TCPX_LOG_INFO},
    {"WARN", TCPX_LOG_WARN},   {"ERROR", TCPX_LOG_ERROR}, {"FATAL", TCPX_LOG_ERROR},
};

/* NIXL's default is WARN. */
int levelOfEnvironment() {
  const char* wanted = std::getenv("NIXL_LOG_LEVEL");
  for (const auto& known : kLevels) {
    if (wanted && wanted == known.name) return known.level;
  }
  return TCPX_LOG_WARN;
}

int mostLevel() {
  static const int level = levelOfEnvironment();
  return level;
}

/* One call, so that lines of several threads do not mix. */
void write(int level, const char* target, const char* line) {
  const char* name = "ERROR";
  for (const auto& known : kLevels) {
    if (known.level == level) {
      name = known.name.data();
      break;
    }
  }
  std::fprintf(stderr, "%s NIXL backend TCPX: %s%s%s\n", name, target, *target ? ": " : "", line);
}

void writeLine(void*, std::int32_t level, const char* target, const char* message) {
  write(level, target, message);
}

}  // namespace

void startLog() {
  static std::once_flag once;
  std::call_once(once, [] { tcpx_set_log_callback(writeLine, nullptr, mostLevel()); });
}

void log(int level, const std::string& line) {
  if (level <= mostLevel()) write(level, "", line.c_str());
}

nixl_status_t report(tcpx_status status, const std::string& what, int level) {
  if (status != TCPX_OK && level <= mostLevel()) log(level, what + ": " + tcpx_last_error());
  return statusOf(status);
}

std::string errorText(tcpx_operation operation) {
  tcpx_status error;
  char text[1024];
  std::size_t bytes;
  const tcpx_status status = tcpx_operation_error(operation, &error, text, sizeof text, &bytes);
  return status == TCPX_OK ? text : tcpx_status_text(error);
}

}  // namespace tcpx_nixl
