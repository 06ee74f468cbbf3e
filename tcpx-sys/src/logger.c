/* Stable Rust cannot define a C-variadic function, so the plugin's printf arguments are formatted
   here. */
#include <stdarg.h>
#include <stdio.h>

typedef int enabled_fn(int level);
typedef void line_fn(int level, unsigned long flags, const char *function, int line,
                     const char *text);

static enabled_fn *log_enabled;
static line_fn *log_line;

/* Called once, before the callback is handed out. */
void tcpx_sys_log_install(enabled_fn *enabled, line_fn *line) {
  log_enabled = enabled;
  log_line = line;
}

/* One line of log; longer ones are cut. On the stack, so that any number of threads may log at
   once. */
enum { TCPX_LOG_BYTES = 2048 };

void tcpx_sys_log_callback(int level, unsigned long flags, const char *function, int line,
                           const char *format, ...) {
  if (!log_enabled(level)) return;
  char text[TCPX_LOG_BYTES];
  text[0] = '\0';
  if (format != NULL) {
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(text, sizeof text, format, arguments) < 0) text[0] = '\0';
    va_end(arguments);
  }
  log_line(level, flags, function, line, text);
}
