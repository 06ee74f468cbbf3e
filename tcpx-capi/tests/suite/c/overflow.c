/* Lies about the size of a buffer. It must not end well: the test wants to see the sanitizer notice. */
#include "expect.h"

int main(void) {
  tcpx_session session = {0};
  size_t size = 0;
  char *buffer = (char *)malloc(8);
  TRUE(buffer != NULL);
  OK(tcpx_session_create(NULL, &session));
  OK(tcpx_session_listen(session, buffer, 4096, &size));
  printf("%d\n", buffer[0]);
  OK(tcpx_session_destroy(session));
  free(buffer);
  printf("PASSED\n");
  return 0;
}
