/* What a host of plugins does: opens the library by name, uses it, closes it while its threads still run. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "tcpx_p2p.h"

#define REQUIRE(condition)                                                      \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                                 \
    }                                                                           \
  } while (0)

typedef tcpx_status create_function(const tcpx_session_options *, tcpx_session *);
typedef tcpx_status progress_function(tcpx_session, bool *);
typedef tcpx_status init_function(tcpx_session_options *, size_t);

int main(void) {
  char name[64];
  void *library;
  create_function *create = NULL;
  progress_function *progress = NULL;
  init_function *init = NULL;
  tcpx_session session = {0};
  tcpx_session_options options;
  snprintf(name, sizeof name, "libtcpx_p2p.so.%d", TCPX_ABI_VERSION);
  library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != NULL);
  *(void **)&init = dlsym(library, "tcpx_session_options_init");
  *(void **)&create = dlsym(library, "tcpx_session_create");
  *(void **)&progress = dlsym(library, "tcpx_session_progress");
  REQUIRE(init != NULL && create != NULL && progress != NULL);
  REQUIRE(init(&options, sizeof options) == TCPX_OK);
  options.progress_thread = 1;
  REQUIRE(create(&options, &session) == TCPX_OK);
  REQUIRE(dlclose(library) == 0);
  REQUIRE(progress(session, NULL) == TCPX_OK); /* still there, and so is its thread's code */
  printf("PASSED\n");
  return 0;
}
