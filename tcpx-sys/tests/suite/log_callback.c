/* Logs as the plugin does: printf arguments behind the format, NULL strings, from several threads
   at once. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef void (*logger)(int level, unsigned long flags, const char *file, int line, const char *fmt,
                       ...);
enum { WARN = 2, INFO = 3, TRACE = 5 };
#define NET 16ul

/* Out of the compiler's sight: it would warn about a NULL string, which the original passes all the
   same. */
static const char *volatile no_string;
static const char *volatile no_format;

void log_arguments(logger log) {
  log(WARN, ~0ul, "int tcpxConnect(int, void *)", 42, "NET/TCPX : %s has %d of %lu, %.2f and %s",
      "eth1", -7, 18446744073709551615ul, 0.25, no_string);
}

void log_no_format(logger log) { log(WARN, NET, "f", 1, no_format); }

void log_no_function(logger log) { log(WARN, NET, no_string, 2, "no function\n"); }

void log_levels(logger log) {
  log(WARN, NET, "f", 1, "level warn");
  log(INFO, NET, "f", 2, "level info");
  log(TRACE, NET, "f", 3, "level trace");
}

void log_long(logger log, unsigned long bytes) {
  static char text[1 << 16];
  if (bytes >= sizeof text) return;
  memset(text, 'x', bytes);
  text[bytes] = '\0';
  log(WARN, NET, "f", 1, "%s", text);
}

struct job {
  logger log;
  int thread, lines;
};

static void *log_lines(void *argument) {
  const struct job *job = argument;
  for (int i = 0; i < job->lines; i++)
    job->log(WARN, NET, "f", i, "thread %d line %d of %lu", job->thread, i, 99ul);
  return NULL;
}

/* Returns 0, or the error of a thread that could not be started or joined. */
int log_from_threads(logger log, int threads, int lines) {
  pthread_t ids[16];
  struct job jobs[16];
  if (threads > 16) return -1;
  for (int i = 0; i < threads; i++) {
    jobs[i] = (struct job){log, i, lines};
    int error = pthread_create(&ids[i], NULL, log_lines, &jobs[i]);
    if (error != 0) return error;
  }
  for (int i = 0; i < threads; i++) {
    int error = pthread_join(ids[i], NULL);
    if (error != 0) return error;
  }
  return 0;
}
