/* Writes, reads and notifications between two sessions whose target does nothing but look; and everything about them
 * that is wrong. */
#include <limits.h>
#include <poll.h>

#include "expect.h"

enum { WAIT_MS = 60000, BYTES = 300000, BLOCK = 1000, NOTES = 4 };

typedef struct {
  two_sessions sessions;
  unsigned char *left, *right; /* BYTES of memory each */
  uint64_t left_id, right_id;
  unsigned char key[TCPX_REMOTE_KEY_BYTES]; /* of all of right's memory */
} ends;

static char notes[TCPX_MAX_NOTIFICATION_BYTES];

static void fill(unsigned char *bytes, unsigned seed) {
  size_t i;
  for (i = 0; i < BYTES; ++i) bytes[i] = (unsigned char)(i * 7 + i / 251 + seed);
}

static ends connect_ends(void) {
  tcpx_session_options options;
  tcpx_export_options export_options = {sizeof export_options, 0, 0, TCPX_ACCESS_READ | TCPX_ACCESS_WRITE, 0};
  size_t size = 0;
  ends ends;
  OK(tcpx_session_options_init(&options, sizeof options));
  options.plugin = "soft";
  options.progress_thread = 1; /* no thread of this program drives the target */
  options.close_timeout_ms = WAIT_MS;
  ends.sessions = connect_sessions_with(&options, &options);
  ends.left = malloc(BYTES);
  ends.right = malloc(BYTES);
  TRUE(ends.left != NULL && ends.right != NULL);
  OK(tcpx_session_register_memory(ends.sessions.left, ends.left, BYTES, TCPX_PTR_HOST, 1, &ends.left_id));
  OK(tcpx_session_register_memory(ends.sessions.right, ends.right, BYTES, TCPX_PTR_HOST, 1, &ends.right_id));
  OK(tcpx_export(ends.sessions.right, ends.right_id, &export_options, ends.key, sizeof ends.key, &size));
  TRUE(size == sizeof ends.key);
  return ends;
}

static void disconnect_and_destroy(ends ends) {
  destroy_sessions(ends.sessions);
  free(ends.left);
  free(ends.right);
}

static tcpx_pair pair_of(const ends *ends, uint64_t offset, uint64_t remote_offset, uint64_t bytes) {
  tcpx_pair pair;
  pair.memory = ends->left_id;
  pair.offset = offset;
  pair.key = ends->key;
  pair.key_bytes = sizeof ends->key;
  pair.remote_offset = remote_offset;
  pair.bytes = bytes;
  return pair;
}

static tcpx_operation prepare(const ends *ends, int32_t kind, const tcpx_pair *pairs, size_t count) {
  tcpx_operation operation = {0};
  OK(tcpx_operation_prepare(ends->sessions.left, "right", kind, pairs, sizeof *pairs, count, &operation));
  TRUE(operation.id != 0);
  return operation;
}

static void expect_state(tcpx_operation operation, int32_t wanted, tcpx_status wanted_error) {
  int32_t state = -1;
  tcpx_status error = TCPX_ERR_INTERNAL;
  char text[1024];
  size_t size = 0;
  OK(tcpx_operation_status(operation, &state, NULL));
  TRUE(state == wanted);
  OK(tcpx_operation_status(operation, &state, &error));
  TRUE(state == wanted && error == wanted_error);
  OK(tcpx_operation_error(operation, &error, text, sizeof text, &size));
  TRUE(error == wanted_error && strlen(text) + 1 == size && (size > 1) == (error != TCPX_OK));
}

/* Waits until the session's descriptor is readable. What it was readable for before has been looked at. */
static void await(tcpx_session session) {
  struct pollfd descriptor = {0};
  int32_t number = -1;
  OK(tcpx_session_event_fd(session, &number));
  descriptor.fd = number;
  descriptor.events = POLLIN;
  TRUE(poll(&descriptor, 1, WAIT_MS) == 1);
}

/* Takes notifications out. If there is none, the descriptor is readable when one has come. */
static size_t poll_notifications(tcpx_session session, tcpx_notification *entries, size_t capacity, char *buffer, size_t bytes) {
  tcpx_completion completion;
  size_t count = 99;
  OK(tcpx_session_poll_completions(session, &completion, sizeof completion, 0, &count));
  OK(tcpx_poll_notifications(session, entries, sizeof *entries, capacity, buffer, bytes, &count));
  return count;
}

static void expect_note(tcpx_session session, const char *peer, const void *bytes, size_t count) {
  tcpx_notification entry;
  while (poll_notifications(session, &entry, 1, notes, sizeof notes) == 0) await(session);
  TRUE(entry.size == sizeof entry && entry.offset == 0 && entry.bytes == count);
  TRUE(strcmp(entry.peer, peer) == 0 && (count == 0 || memcmp(notes, bytes, count) == 0));
}

static void expect_no_note(tcpx_session session) {
  tcpx_notification entry;
  size_t found = 99;
  OK(tcpx_poll_notifications(session, &entry, sizeof entry, 1, notes, sizeof notes, &found));
  TRUE(found == 0);
}

/* The whole memory there and back, more than once, with a note each time and one that is empty. */
static void transfer_whole(const ends *ends) {
  tcpx_pair pair = pair_of(ends, 0, 0, BYTES);
  tcpx_operation write = prepare(ends, TCPX_WRITE, &pair, 1);
  tcpx_operation read = prepare(ends, TCPX_READ, &pair, 1);
  tcpx_completion completion;
  size_t count = 99;
  unsigned round;
  expect_state(write, TCPX_OPERATION_IDLE, TCPX_OK);
  OK(tcpx_operation_wait(write, 0));
  OK(tcpx_operation_report_completions(write, 5));
  for (round = 0; round < 3; ++round) {
    fill(ends->left, round);
    OK(tcpx_operation_post(write, &round, round == 0 ? 0 : sizeof round));
    OK(tcpx_operation_wait(write, round == 0 ? TCPX_WAIT_FOREVER : WAIT_MS));
    expect_state(write, TCPX_OPERATION_DONE, TCPX_OK);
    TRUE(memcmp(ends->left, ends->right, BYTES) == 0);
    expect_note(ends->sessions.right, "left", &round, round == 0 ? 0 : sizeof round);

    fill(ends->right, round + 100);
    OK(tcpx_operation_post(read, NULL, 0));
    OK(tcpx_operation_wait(read, WAIT_MS));
    TRUE(memcmp(ends->left, ends->right, BYTES) == 0);
  }
  expect_no_note(ends->sessions.right);
  OK(tcpx_session_poll_completions(ends->sessions.left, &completion, sizeof completion, 1, &count));
  TRUE(count == 1 && completion.context == 5 && completion.rounds == 3 && completion.status == TCPX_OK);
  OK(tcpx_operation_release(write));
  OK(tcpx_operation_release(read));
  EXPECT(TCPX_ERR_HANDLE, tcpx_operation_wait(write, 0));
}

/* A post with a note and ample time, and one that has hardly any: it goes well, or has expired. */
static void expire(const ends *ends) {
  tcpx_pair pair = pair_of(ends, 0, 0, BYTES);
  tcpx_operation write = prepare(ends, TCPX_WRITE, &pair, 1);
  tcpx_operation_options options = {0};
  tcpx_status outcome;
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_operation_post_with(write, &options)); /* it has no size */
  options.size = sizeof options;
  options.notification_bytes = 1;
  EXPECT(TCPX_ERR_NULL, tcpx_operation_post_with(write, &options));
  options.notification = "timed";
  options.notification_bytes = 5;
  options.timeout_ms = WAIT_MS;
  OK(tcpx_operation_post_with(write, &options));
  OK(tcpx_operation_wait(write, WAIT_MS));
  expect_note(ends->sessions.right, "left", "timed", 5);
  OK(tcpx_operation_post_with(write, NULL));
  OK(tcpx_operation_wait(write, WAIT_MS));
  options.notification = NULL;
  options.notification_bytes = 0;
  options.timeout_ms = 1;
  OK(tcpx_operation_post_with(write, &options));
  outcome = tcpx_operation_wait(write, WAIT_MS);
  TRUE(outcome == TCPX_OK || outcome == TCPX_ERR_EXPIRED);
  OK(tcpx_operation_release(write));
}

/* Every second block, backwards, in entries that are larger than this library's. */
static void lists(const ends *ends) {
  enum { BLOCKS = BYTES / BLOCK / 2 };
  struct {
    tcpx_pair known;
    uint64_t more;
  } pairs[BLOCKS];
  tcpx_operation write = {0};
  size_t i, j;
  for (i = 0; i < BLOCKS; ++i) {
    pairs[i].known = pair_of(ends, 2 * i * BLOCK, (BLOCKS - 1 - i) * 2 * BLOCK, BLOCK);
    pairs[i].more = 0;
  }
  fill(ends->left, 1);
  memset(ends->right, 9, BYTES);
  OK(tcpx_operation_prepare(ends->sessions.left, "right", TCPX_WRITE, &pairs[0].known, sizeof pairs[0], BLOCKS, &write));
  OK(tcpx_operation_post(write, NULL, 0));
  OK(tcpx_operation_wait(write, WAIT_MS));
  for (i = 0; i < BLOCKS; ++i) {
    const unsigned char *block = ends->right + (BLOCKS - 1 - i) * 2 * BLOCK;
    TRUE(memcmp(block, ends->left + 2 * i * BLOCK, BLOCK) == 0);
    for (j = BLOCK; j < 2 * BLOCK; ++j) TRUE(block[j] == 9);
  }
  OK(tcpx_operation_release(write));
  pairs[BLOCKS - 1].more = 1; /* a member that this library does not know must not be passed over */
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_operation_prepare(ends->sessions.left, "right", TCPX_WRITE, &pairs[0].known,
                                                   sizeof pairs[0], BLOCKS, &write));
}

/* A few at once, as many as there are entries and room for in the buffer. The sender gets
 * TCPX_ERR_AGAIN when the program takes none. */
static void notifications(const ends *ends) {
  static char buffer[3 * TCPX_MAX_NOTIFICATION_BYTES];
  tcpx_notification entries[NOTES];
  tcpx_session sender = ends->sessions.right, receiver = ends->sessions.left;
  size_t count = 0, taken = 0, sent = 0, i;
  tcpx_status status;
  memset(buffer, 'x', sizeof buffer);
  OK(tcpx_notify(sender, "left", "a\0b", 3));
  OK(tcpx_notify(sender, "left", NULL, 0));
  OK(tcpx_notify(sender, "left", buffer, TCPX_MAX_NOTIFICATION_BYTES));
  expect_note(receiver, "right", "a\0b", 3);
  expect_note(receiver, "right", "", 0);
  expect_note(receiver, "right", buffer, TCPX_MAX_NOTIFICATION_BYTES);
  while ((status = tcpx_notify(sender, "left", buffer, 1 + sent % TCPX_MAX_NOTIFICATION_BYTES)) == TCPX_OK) {
    sent += 5000;
    TRUE(sent < 100000000);
  }
  EXPECT(TCPX_ERR_AGAIN, status);
  while (taken < sent) {
    count = poll_notifications(receiver, entries, NOTES, buffer, sizeof buffer);
    TRUE(count <= NOTES);
    for (i = 0; i < count; ++i, taken += 5000) {
      TRUE(entries[i].bytes == 1 + taken % TCPX_MAX_NOTIFICATION_BYTES);
      TRUE(entries[i].offset == (i == 0 ? 0 : entries[i - 1].offset + entries[i - 1].bytes));
      TRUE(strcmp(entries[i].peer, "right") == 0);
    }
    if (count == 0) await(receiver);
  }
  expect_no_note(receiver);
  OK(tcpx_notify(sender, "left", "z", 1)); /* there is room again */
  expect_note(receiver, "right", "z", 1);
}

/* What was taken back is refused, and nothing moves; so is what goes past the end of what is exported. */
static void refused(ends *ends) {
  tcpx_pair pair = pair_of(ends, 0, 0, 100);
  tcpx_pair past = pair_of(ends, 0, BYTES - 99, 100);
  tcpx_operation write = prepare(ends, TCPX_WRITE, &pair, 1);
  tcpx_operation other = {0};
  tcpx_export_options options = {sizeof options, 100, 50, TCPX_ACCESS_READ, 0};
  tcpx_remote_memory memory = {0};
  size_t size = 0;
  EXPECT(TCPX_ERR_REMOTE_MEMORY,
         tcpx_operation_prepare(ends->sessions.left, "right", TCPX_WRITE, &past, sizeof past, 1, &other));
  OK(tcpx_unexport(ends->sessions.right, ends->key, sizeof ends->key));
  EXPECT(TCPX_ERR_REMOTE_MEMORY, tcpx_unexport(ends->sessions.right, ends->key, sizeof ends->key));
  EXPECT(TCPX_ERR_REMOTE_MEMORY, tcpx_unexport(ends->sessions.left, ends->key, sizeof ends->key));
  memset(ends->left, 1, 100);
  memset(ends->right, 2, 100);
  OK(tcpx_operation_post(write, "late", 4));
  EXPECT(TCPX_ERR_REMOTE_MEMORY, tcpx_operation_wait(write, WAIT_MS));
  expect_state(write, TCPX_OPERATION_FAILED, TCPX_ERR_REMOTE_MEMORY);
  TRUE(ends->right[0] == 2 && ends->right[99] == 2);
  expect_no_note(ends->sessions.right);
  OK(tcpx_operation_release(write));

  /* Another range, for reading only. */
  OK(tcpx_export(ends->sessions.right, ends->right_id, &options, ends->key, sizeof ends->key, &size));
  memory.size = sizeof memory;
  OK(tcpx_remote_key_info(ends->key, sizeof ends->key, &memory));
  TRUE(memory.address == (uint64_t)(uintptr_t)ends->right + 100 && memory.bytes == 50);
  TRUE(memory.ptr_type == TCPX_PTR_HOST && memory.access == TCPX_ACCESS_READ);
  EXPECT(TCPX_ERR_REMOTE_MEMORY,
         tcpx_operation_prepare(ends->sessions.left, "right", TCPX_WRITE, &pair, sizeof pair, 1, &other));
  pair.bytes = 51;
  EXPECT(TCPX_ERR_REMOTE_MEMORY,
         tcpx_operation_prepare(ends->sessions.left, "right", TCPX_READ, &pair, sizeof pair, 1, &other));
  pair.bytes = 50;
  fill(ends->right, 3);
  other = prepare(ends, TCPX_READ, &pair, 1);
  OK(tcpx_operation_post(other, NULL, 0));
  OK(tcpx_operation_wait(other, WAIT_MS));
  TRUE(memcmp(ends->left, ends->right + 100, 50) == 0);
  OK(tcpx_session_deregister_memory(ends->sessions.right, ends->right_id)); /* takes the key back too */
  OK(tcpx_operation_post(other, NULL, 0));
  EXPECT(TCPX_ERR_REMOTE_MEMORY, tcpx_operation_wait(other, WAIT_MS));
  OK(tcpx_operation_cancel(other)); /* it has ended already */
  expect_state(other, TCPX_OPERATION_FAILED, TCPX_ERR_REMOTE_MEMORY);
  OK(tcpx_operation_release(other));
}

static void wrong_exports(const ends *ends) {
  tcpx_session session = ends->sessions.right;
  tcpx_export_options options = {sizeof options, 0, 0, TCPX_ACCESS_READ, 0};
  tcpx_remote_memory memory = {sizeof memory, 0, 0, 0, 0};
  unsigned char key[TCPX_REMOTE_KEY_BYTES + 1];
  uint64_t to_send = 0;
  size_t size = 77;
  memset(key, 9, sizeof key);
  EXPECT(TCPX_ERR_NULL, tcpx_export(session, ends->right_id, NULL, key, sizeof key, &size));
  EXPECT(TCPX_ERR_NULL, tcpx_export(session, ends->right_id, &options, key, sizeof key, NULL));
  EXPECT(TCPX_ERR_UNKNOWN_MEMORY, tcpx_export(session, 0, &options, key, sizeof key, &size));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_export(session, ends->right_id, &options, key, SIZE_MAX, &size));
  TRUE(size == 77);
  OK(tcpx_export(session, ends->right_id, &options, NULL, 0, &size));
  TRUE(size == TCPX_REMOTE_KEY_BYTES);
  EXPECT(TCPX_ERR_BUFFER_TOO_SMALL, tcpx_export(session, ends->right_id, &options, key, size - 1, &size));
  EXPECT(TCPX_ERR_UNKNOWN_MEMORY, tcpx_export(session, 99, &options, key, sizeof key, &size));
  TRUE(key[0] == 9);
#define REFUSED(status, member, value)                                                             \
  options.member = (value);                                                                        \
  EXPECT(status, tcpx_export(session, ends->right_id, &options, key, sizeof key, &size)); \
  options.size = sizeof options, options.offset = options.bytes = 0, options.access = TCPX_ACCESS_READ, options.is_stable = 0
  REFUSED(TCPX_ERR_ARGUMENT, size, 0);
  REFUSED(TCPX_ERR_ARGUMENT, size, SIZE_MAX);
  REFUSED(TCPX_ERR_MEMORY, offset, BYTES);
  REFUSED(TCPX_ERR_MEMORY, offset, UINT64_MAX);
  REFUSED(TCPX_ERR_MEMORY, bytes, BYTES + 1);
  REFUSED(TCPX_ERR_MEMORY, bytes, UINT64_MAX);
  REFUSED(TCPX_ERR_ARGUMENT, access, 0);
  REFUSED(TCPX_ERR_ARGUMENT, access, 4);
  REFUSED(TCPX_ERR_ARGUMENT, is_stable, 2);
  TRUE(key[0] == 9);
  OK(tcpx_session_register_memory(session, ends->right, 10, TCPX_PTR_HOST, 0, &to_send));
  options.access = TCPX_ACCESS_WRITE;
  EXPECT(TCPX_ERR_MEMORY, tcpx_export(session, to_send, &options, key, sizeof key, &size));
  OK(tcpx_session_deregister_memory(session, to_send));

  EXPECT(TCPX_ERR_NULL, tcpx_unexport(session, NULL, TCPX_REMOTE_KEY_BYTES));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_unexport(session, ends->key, SIZE_MAX));
  EXPECT(TCPX_ERR_DESCRIPTOR, tcpx_unexport(session, ends->key, 0));
  EXPECT(TCPX_ERR_DESCRIPTOR, tcpx_unexport(session, ends->key, TCPX_REMOTE_KEY_BYTES - 1));
  EXPECT(TCPX_ERR_NULL, tcpx_remote_key_info(NULL, TCPX_REMOTE_KEY_BYTES, &memory));
  EXPECT(TCPX_ERR_NULL, tcpx_remote_key_info(ends->key, TCPX_REMOTE_KEY_BYTES, NULL));
  memory.size = 0;
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_remote_key_info(ends->key, TCPX_REMOTE_KEY_BYTES, &memory));
  memcpy(key, ends->key, TCPX_REMOTE_KEY_BYTES);
  key[40] ^= 1;
  EXPECT(TCPX_ERR_DESCRIPTOR, tcpx_unexport(session, key, TCPX_REMOTE_KEY_BYTES));
}

static void wrong_operations(const ends *ends) {
  tcpx_session session = ends->sessions.left;
  tcpx_pair pair = pair_of(ends, 0, 0, 10), pairs[2];
  tcpx_operation operation = {0};
  tcpx_status error;
  int32_t state;
  size_t size = 0;
#define PREPARE(peer, kind, pairs, bytes, count) tcpx_operation_prepare(session, peer, kind, pairs, bytes, count, &operation)
  EXPECT(TCPX_ERR_NULL, PREPARE(NULL, TCPX_READ, &pair, sizeof pair, 1));
  EXPECT(TCPX_ERR_NULL, PREPARE("right", TCPX_READ, NULL, sizeof pair, 1));
  EXPECT(TCPX_ERR_NULL, tcpx_operation_prepare(session, "right", TCPX_READ, &pair, sizeof pair, 1, NULL));
  EXPECT(TCPX_ERR_ARGUMENT, PREPARE("", TCPX_READ, &pair, sizeof pair, 1));
  EXPECT(TCPX_ERR_UNKNOWN_PEER, PREPARE("absent", TCPX_READ, &pair, sizeof pair, 1));
  EXPECT(TCPX_ERR_ARGUMENT, PREPARE("right", 0, &pair, sizeof pair, 1));
  EXPECT(TCPX_ERR_ARGUMENT, PREPARE("right", INT_MIN, &pair, sizeof pair, 1));
  EXPECT(TCPX_ERR_ARGUMENT, PREPARE("right", TCPX_READ, &pair, 0, 1));
  EXPECT(TCPX_ERR_ARGUMENT, PREPARE("right", TCPX_READ, &pair, sizeof pair - 8, 1));
  EXPECT(TCPX_ERR_ARGUMENT, PREPARE("right", TCPX_READ, &pair, sizeof pair + 4, 1));
  EXPECT(TCPX_ERR_ARGUMENT, PREPARE("right", TCPX_READ, &pair, SIZE_MAX, 1));
  EXPECT(TCPX_ERR_ARGUMENT, PREPARE("right", TCPX_READ, &pair, sizeof pair, SIZE_MAX));
  EXPECT(TCPX_ERR_ARGUMENT, PREPARE("right", TCPX_READ, &pair, sizeof pair, (size_t)TCPX_MAX_PAIRS + 1));
  EXPECT(TCPX_ERR_ARGUMENT, PREPARE("right", TCPX_READ, (const tcpx_pair *)((const char *)&pair + 1), sizeof pair, 1));
  EXPECT(TCPX_ERR_REMOTE_MEMORY, PREPARE("right", TCPX_READ, NULL, sizeof pair, 0)); /* nothing to do */
#define WRONG(status, member, value)                                     \
  pairs[0] = pairs[1] = pair;                                            \
  pairs[1].member = (value);                                             \
  EXPECT(status, PREPARE("right", TCPX_READ, pairs, sizeof pairs[0], 2)); \
  TRUE(operation.id == 0)
  WRONG(TCPX_ERR_UNKNOWN_MEMORY, memory, 0);
  WRONG(TCPX_ERR_UNKNOWN_MEMORY, memory, UINT64_MAX);
  WRONG(TCPX_ERR_MEMORY, offset, BYTES);
  WRONG(TCPX_ERR_MEMORY, offset, UINT64_MAX);
  WRONG(TCPX_ERR_NULL, key, NULL);
  WRONG(TCPX_ERR_DESCRIPTOR, key, notes);
  WRONG(TCPX_ERR_DESCRIPTOR, key_bytes, 0);
  WRONG(TCPX_ERR_DESCRIPTOR, key_bytes, TCPX_REMOTE_KEY_BYTES - 1);
  WRONG(TCPX_ERR_ARGUMENT, key_bytes, SIZE_MAX);
  WRONG(TCPX_ERR_REMOTE_MEMORY, remote_offset, BYTES - 9);
  WRONG(TCPX_ERR_REMOTE_MEMORY, remote_offset, UINT64_MAX);
  WRONG(TCPX_ERR_REMOTE_MEMORY, bytes, UINT64_MAX);
  /* A key of another session than the peer's. */
  EXPECT(TCPX_ERR_REMOTE_MEMORY,
         tcpx_operation_prepare(ends->sessions.right, "left", TCPX_READ, &pair, sizeof pair, 1, &operation));

  operation = prepare(ends, TCPX_WRITE, &pair, 1);
  EXPECT(TCPX_ERR_NULL, tcpx_operation_post(operation, NULL, 1));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_operation_post(operation, notes, TCPX_MAX_NOTIFICATION_BYTES + 1));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_operation_post(operation, notes, SIZE_MAX));
  EXPECT(TCPX_ERR_NULL, tcpx_operation_status(operation, NULL, &error));
  EXPECT(TCPX_ERR_NULL, tcpx_operation_error(operation, NULL, NULL, 0, &size));
  EXPECT(TCPX_ERR_NULL, tcpx_operation_error(operation, &error, NULL, 0, NULL));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_operation_wait(operation, -2));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_operation_status(operation, (int32_t *)((char *)&state + 1), NULL));
  expect_state(operation, TCPX_OPERATION_IDLE, TCPX_OK);
  OK(tcpx_operation_release(operation));
}

static void wrong_notifications(const ends *ends) {
  tcpx_session session = ends->sessions.left;
  tcpx_notification entry;
  size_t count = 77;
  OK(tcpx_notify(ends->sessions.right, "left", "stays", 5));
#define POLL(entries, entry_bytes, capacity, buffer, bytes) \
  tcpx_poll_notifications(session, entries, entry_bytes, capacity, buffer, bytes, &count)
  EXPECT(TCPX_ERR_NULL, POLL(NULL, sizeof entry, 1, notes, sizeof notes));
  EXPECT(TCPX_ERR_NULL, POLL(&entry, sizeof entry, 1, NULL, sizeof notes));
  EXPECT(TCPX_ERR_NULL, tcpx_poll_notifications(session, &entry, sizeof entry, 1, notes, sizeof notes, NULL));
  EXPECT(TCPX_ERR_ARGUMENT, POLL(&entry, 0, 1, notes, sizeof notes));
  EXPECT(TCPX_ERR_ARGUMENT, POLL(&entry, sizeof entry - 8, 1, notes, sizeof notes));
  EXPECT(TCPX_ERR_ARGUMENT, POLL(&entry, sizeof entry + 4, 1, notes, sizeof notes));
  EXPECT(TCPX_ERR_ARGUMENT, POLL(&entry, SIZE_MAX, 1, notes, sizeof notes));
  EXPECT(TCPX_ERR_ARGUMENT, POLL(&entry, sizeof entry, SIZE_MAX, notes, sizeof notes));
  EXPECT(TCPX_ERR_ARGUMENT, POLL(&entry, sizeof entry, 1, notes, TCPX_MAX_NOTIFICATION_BYTES - 1));
  EXPECT(TCPX_ERR_ARGUMENT, POLL(&entry, sizeof entry, 1, notes, SIZE_MAX));
  TRUE(count == 77);
  OK(POLL(NULL, sizeof entry, 0, NULL, 0));
  TRUE(count == 0);
  EXPECT(TCPX_ERR_NULL, tcpx_notify(session, NULL, notes, 1));
  EXPECT(TCPX_ERR_NULL, tcpx_notify(session, "right", NULL, 1));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_notify(session, "right", notes, TCPX_MAX_NOTIFICATION_BYTES + 1));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_notify(session, "right", notes, SIZE_MAX));
  EXPECT(TCPX_ERR_UNKNOWN_PEER, tcpx_notify(session, "absent", notes, 1));
  expect_note(session, "right", "stays", 5); /* nothing of that took it out */
}

int main(void) {
  ends ends = connect_ends();
  transfer_whole(&ends);
  lists(&ends);
  notifications(&ends);
  wrong_exports(&ends);
  wrong_operations(&ends);
  wrong_notifications(&ends);
  expire(&ends);
  refused(&ends);
  disconnect_and_destroy(ends);
  printf("PASSED\n");
  return 0;
}
