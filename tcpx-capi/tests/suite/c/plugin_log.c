/* Argument "silent" or "loud": the plugin, which speaks when the first session is made, is heard or not. */
#include "expect.h"

/* The session is made by one thread, and has no thread of its own. `context` counts the plugin's lines. */
static void count_line(void *context, int32_t level, const char *target, const char *message) {
  int *from_plugin = (int *)context;
  (void)level;
  TRUE(strlen(message) > 0);
  TRUE(tcpx_set_plugin_log_level(TCPX_LOG_TRACE) == TCPX_ERR_IN_CALLBACK);
  if (strcmp(target, "tcpx::plugin") == 0) ++*from_plugin;
}

int main(int argc, char **argv) {
  int from_plugin = 0;
  tcpx_session session = {0};
  int silent;
  TRUE(argc == 2);
  silent = strcmp(argv[1], "silent") == 0;
  TRUE(silent || strcmp(argv[1], "loud") == 0);
  OK(tcpx_set_log_callback(count_line, &from_plugin, TCPX_LOG_TRACE));
  OK(tcpx_set_plugin_log_level(silent ? TCPX_LOG_INFO : TCPX_LOG_DEBUG));
  OK(tcpx_session_create(NULL, &session));
  OK(tcpx_session_destroy(session));
  OK(tcpx_set_log_callback(NULL, NULL, TCPX_LOG_OFF));
  TRUE((from_plugin > 0) == !silent);
  printf("PASSED\n");
  return 0;
}
