/* Lists of memory: all of it is registered, or none. */
#include <stddef.h>

#include "expect.h"

enum { RANGES = 5, RANGE_BYTES = 1000 };

/* What a later version of the header might have. */
typedef struct {
  tcpx_registration known;
  uint64_t unknown;
} newer_registration;

static unsigned char memory[RANGES][RANGE_BYTES];

static void fill(tcpx_registration *list) {
  int i;
  for (i = 0; i < RANGES; ++i) {
    list[i].address = memory[i];
    list[i].bytes = RANGE_BYTES;
    list[i].ptr_type = i % 2 ? TCPX_PTR_HOST : TCPX_PTR_CUDA;
    list[i].is_recv = i < 3;
  }
}

/* Nothing below an id is registered. */
static void expect_no_registrations(tcpx_session session) {
  tcpx_memory_info info = {sizeof info, 0, 0, 0, 0, 0};
  uint64_t id = 0;
  OK(tcpx_session_register_memory(session, memory, 1, TCPX_PTR_HOST, 0, &id));
  OK(tcpx_session_deregister_memory(session, id));
  for (; id > 0; --id) EXPECT(TCPX_ERR_UNKNOWN_MEMORY, tcpx_session_memory_info(session, id, &info));
}

static void refused(tcpx_session session, tcpx_status wanted, const tcpx_registration *list, const char *words) {
  uint64_t ids[RANGES] = {7, 7, 7, 7, 7};
  int i;
  EXPECT(wanted, tcpx_session_register_memory_list(session, list, sizeof *list, RANGES, ids));
  TRUE(strstr(tcpx_last_error(), words) != NULL);
  for (i = 0; i < RANGES; ++i) TRUE(ids[i] == 7);
  expect_no_registrations(session);
}

static void invalid_ranges(tcpx_session session) {
  tcpx_registration list[RANGES];
  fill(list);
  list[2].address = NULL;
  refused(session, TCPX_ERR_NULL, list, "list[2]: address is NULL");
  fill(list);
  list[2].ptr_type = 3;
  refused(session, TCPX_ERR_ARGUMENT, list, "list[2]: ptr_type is 3");
  fill(list);
  list[4].is_recv = 2;
  refused(session, TCPX_ERR_ARGUMENT, list, "list[4]: is_recv is 2");
  fill(list);
  list[2].bytes = 0;
  refused(session, TCPX_ERR_MEMORY, list, "range 2 of the list");
  fill(list);
  list[0].bytes = UINT64_MAX;
  refused(session, TCPX_ERR_MEMORY, list, "range 0 of the list");
}

static void invalid_arrays(tcpx_session session) {
  tcpx_session invalid = {0};
  tcpx_registration list[RANGES];
  uint64_t ids[RANGES];
  fill(list);
  EXPECT(TCPX_ERR_NULL, tcpx_session_register_memory_list(session, NULL, sizeof *list, RANGES, ids));
  EXPECT(TCPX_ERR_NULL, tcpx_session_register_memory_list(session, list, sizeof *list, RANGES, NULL));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_register_memory_list(session, list, 23, RANGES, ids));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_register_memory_list(session, list, 0, RANGES, ids));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_register_memory_list(session, list, sizeof *list, TCPX_MAX_BATCH + 1, ids));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_register_memory_list(session, list, sizeof *list, SIZE_MAX, ids));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_register_memory_list(invalid, list, sizeof *list, RANGES, ids));
  OK(tcpx_session_register_memory_list(session, NULL, sizeof *list, 0, NULL));
  expect_no_registrations(session);
}

static void valid_lists(tcpx_session session) {
  newer_registration newer[RANGES];
  tcpx_registration list[RANGES];
  uint64_t ids[RANGES + 1] = {0, 0, 0, 0, 0, 7};
  int i;
  fill(list);
  OK(tcpx_session_register_memory_list(session, list, sizeof *list, RANGES, ids));
  TRUE(ids[RANGES] == 7);
  for (i = 0; i < RANGES; ++i) {
    tcpx_memory_info info = {sizeof info, 0, 0, 0, 0, 0};
    OK(tcpx_session_memory_info(session, ids[i], &info));
    TRUE(info.id == ids[i] && info.address == (uint64_t)(uintptr_t)memory[i] && info.bytes == RANGE_BYTES);
    TRUE(info.ptr_type == list[i].ptr_type && info.is_recv == list[i].is_recv);
    OK(tcpx_session_deregister_memory(session, ids[i]));
  }
  memset(newer, 0, sizeof newer);
  for (i = 0; i < RANGES; ++i) newer[i].known = list[i];
  OK(tcpx_session_register_memory_list(session, &newer[0].known, sizeof *newer, RANGES, ids));
  for (i = 0; i < RANGES; ++i) OK(tcpx_session_deregister_memory(session, ids[i]));
  newer[3].unknown = 1;
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_register_memory_list(session, &newer[0].known, sizeof *newer, RANGES, ids));
  expect_no_registrations(session);
}

int main(void) {
  tcpx_session session = {0};
  OK(tcpx_session_create(NULL, &session));
  invalid_ranges(session);
  invalid_arrays(session);
  valid_lists(session);
  OK(tcpx_session_destroy(session));
  puts("PASSED");
  return 0;
}
