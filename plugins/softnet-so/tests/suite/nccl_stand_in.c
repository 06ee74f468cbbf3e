/* NCCL's use of a network plugin, within one process: it finds the newest table that
   it knows, calls init with a logger of its own, and lets a message of each of some lengths go
   through a connection to itself. A library with ncclGetVersion, so that a plugin sees NCCL.

   int stand_in(const char *plugin, int table, int rounds): 0, or the number of the line that found
   something wrong. What the plugin's lines say goes to standard output. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void (*Logger)(int level, unsigned long flags, const char *file, int line, const char *format,
                       ...);

/* Which release this stands for. */
int ncclGetVersion(int *version) {
  const char *asked = getenv("STAND_IN_VERSION");
  *version = asked ? atoi(asked) : 22809;
  return 0;
}

static void say(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
  va_list arguments;
  (void)flags, (void)file, (void)line;
  if (level > 3) return;
  va_start(arguments, format);
  printf("%s: ", level == 2 ? "WARN" : "INFO");
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
}

struct DeviceHandle {
  int type, version;
  void *handle;
  size_t size;
  int needs_proxy_progress;
};

/* Members by their place in the table. */
enum { INIT, DEVICES, PROPERTIES, LISTEN, CONNECT, ACCEPT, REG_MR, REG_DMA_BUF, DEREG_MR, ISEND, IRECV,
       IFLUSH, TEST, CLOSE_SEND, CLOSE_RECV, CLOSE_LISTEN, DEVICE_MR, CONSUMED, MAKE_VDEVICE };
struct Table {
  const char *name;
  void *members[19];
};

/* The properties that matter, wherever a version of the table has them. */
struct Properties {
  int pointers, receives, device_type, device_version, devices;
  size_t longest;
};

static struct Table *table;
static int version;

#define MEMBER(index, result, ...) ((result(*)(__VA_ARGS__))table->members[index])

static int init(void) {
  if (version >= 10) return MEMBER(INIT, int, Logger, void *)(say, NULL);
  return MEMBER(INIT, int, Logger)(say);
}

static int properties(struct Properties *out) {
  unsigned char bytes[256];
  /* Where ptrSupport, maxRecvs, netDeviceType and netDeviceVersion lie, by the table's version. */
  size_t at[4] = {24, 44, 48, 52};
  int i, values[4];
  if (version == 8) at[1] = 48, at[2] = 52, at[3] = 56;
  if (version >= 9) at[1] = 52, at[2] = 56, at[3] = 60;
  memset(bytes, 0x5a, sizeof bytes);
  i = MEMBER(PROPERTIES, int, int, void *)(0, bytes);
  if (i) return i;
  for (i = 0; i < 4; ++i) memcpy(&values[i], bytes + at[i], sizeof values[i]);
  out->pointers = values[0], out->receives = values[1];
  out->device_type = values[2], out->device_version = values[3];
  out->devices = 1, out->longest = 1 << 30;
  if (version >= 9) memcpy(&out->devices, bytes + 64, 4), memcpy(&out->longest, bytes + 88, 8);
  /* Nothing is written behind the struct. */
  for (i = version == 7 ? 56 : version == 8 ? 64 : 104; i < (int)sizeof bytes; ++i)
    if (bytes[i] != 0x5a) return -1;
  return 0;
}

static int connect_to(void *handle, void **comm) {
  struct DeviceHandle *none = NULL;
  int config = -1;
  if (version >= 10)
    return MEMBER(CONNECT, int, int, void *, void *, void **, struct DeviceHandle **)(0, &config, handle,
                                                                                     comm, &none);
  return MEMBER(CONNECT, int, int, void *, void **, struct DeviceHandle **)(0, handle, comm, &none);
}

static int reg(void *comm, void *data, size_t bytes, void **mhandle) {
  if (version >= 8)
    return MEMBER(REG_MR, int, void *, void *, size_t, int, void **)(comm, data, bytes, 1, mhandle);
  return MEMBER(REG_MR, int, void *, void *, int, int, void **)(comm, data, (int)bytes, 1, mhandle);
}

static int isend(void *comm, void *data, size_t bytes, void *mhandle, void **request) {
  if (version >= 10)
    return MEMBER(ISEND, int, void *, void *, size_t, int, void *, void *, void **)(comm, data, bytes, 7,
                                                                                  mhandle, NULL, request);
  if (version == 9)
    return MEMBER(ISEND, int, void *, void *, size_t, int, void *, void **)(comm, data, bytes, 7, mhandle,
                                                                          request);
  return MEMBER(ISEND, int, void *, void *, int, int, void *, void **)(comm, data, (int)bytes, 7, mhandle,
                                                                     request);
}

static int irecv(void *comm, void *data, size_t bytes, void *mhandle, void **request) {
  size_t wide = bytes;
  int narrow = (int)bytes, tag = 7;
  void *profiler = NULL;
  /* What NCCL writes there when it does not wait for the receive to end. */
  *request = (void *)1;
  if (version >= 10)
    return MEMBER(IRECV, int, void *, int, void **, size_t *, int *, void **, void **,
                  void **)(comm, 1, &data, &wide, &tag, &mhandle, &profiler, request);
  if (version == 9)
    return MEMBER(IRECV, int, void *, int, void **, size_t *, int *, void **,
                  void **)(comm, 1, &data, &wide, &tag, &mhandle, request);
  return MEMBER(IRECV, int, void *, int, void **, int *, int *, void **,
                void **)(comm, 1, &data, &narrow, &tag, &mhandle, request);
}

static int until(time_t seconds) { return time(NULL) < seconds; }

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) return printf("line %d: %s\n", __LINE__, #condition), __LINE__;              \
  } while (0)

/* One message of `bytes` bytes, into a receive that has room for more. */
static int message(void *sender, void *receiver, size_t bytes, char *from, char *to, void *mfrom,
                   void *mto) {
  void *sent = NULL, *received = NULL;
  int sent_done = 0, received_done = 0, size = -1, i;
  time_t limit = time(NULL) + 60;
  for (i = 0; i < (int)bytes; ++i) from[i] = (char)(i * 31 + (int)bytes);
  memset(to, 0x77, bytes + 64);
  CHECK(irecv(receiver, to, bytes + 64, mto, &received) == 0 && received > (void *)1);
  CHECK(isend(sender, from, bytes, mfrom, &sent) == 0 && sent != NULL);
  while ((!sent_done || !received_done) && until(limit)) {
    if (!sent_done) CHECK(MEMBER(TEST, int, void *, int *, int *)(sent, &sent_done, NULL) == 0);
    if (!received_done)
      CHECK(MEMBER(TEST, int, void *, int *, int *)(received, &received_done, &size) == 0);
  }
  CHECK(sent_done && received_done);
  CHECK(size == (int)bytes);
  CHECK(memcmp(from, to, bytes) == 0 && to[bytes] == 0x77);
  CHECK(MEMBER(CONSUMED, int, void *, int, void *)(receiver, 1, received) == 0);
  return 0;
}

/* More posts than there is room for: a post without room returns no request. */
static int crowd(void *sender, void *receiver, char *from, char *to, void *mfrom, void *mto) {
  void *sent[64], *received[64], *request;
  int posted = 0, done, size, i;
  time_t limit = time(NULL) + 60;
  for (;; ++posted) {
    CHECK(posted < 64);
    CHECK(irecv(receiver, to, 8, mto, &received[posted]) == 0);
    CHECK(isend(sender, from, 8, mfrom, &sent[posted]) == 0);
    CHECK(!received[posted] == !sent[posted]);
    if (!sent[posted]) break;
  }
  CHECK(posted >= 8);
  for (i = 0; i < 2 * posted; ++i) {
    request = i % 2 ? received[i / 2] : sent[i / 2];
    for (done = 0; !done && until(limit);) {
      CHECK(MEMBER(TEST, int, void *, int *, int *)(request, &done, &size) == 0);
      /* The other end moves as well. */
      if (!done && i % 2 == 0) {
        int other = 0;
        CHECK(MEMBER(TEST, int, void *, int *, int *)(received[i / 2], &other, &size) == 0);
        if (other) received[i / 2] = NULL;
      }
    }
    CHECK(done);
    if (i % 2 == 0 && !received[i / 2]) ++i;
  }
  return 0;
}

static int exchange(void) {
  static char handle[128];
  void *listener = NULL, *sender = NULL, *receiver = NULL, *mfrom = NULL, *mto = NULL, *flushed;
  struct DeviceHandle *none = NULL;
  size_t lengths[] = {0, 1, 4096, 65536, 3 << 20};
  char *from = malloc(4 << 20), *to = malloc(4 << 20);
  int i, size = 8, line;
  void *data = to;
  time_t limit = time(NULL) + 60;
  memset(handle, 0, sizeof handle);
  CHECK(MEMBER(LISTEN, int, int, void *, void **)(0, handle, &listener) == 0 && listener);
  while ((!sender || !receiver) && until(limit)) {
    if (!sender) CHECK(connect_to(handle, &sender) == 0);
    if (!receiver)
      CHECK(MEMBER(ACCEPT, int, void *, void **, struct DeviceHandle **)(listener, &receiver, &none) == 0);
  }
  CHECK(sender && receiver && !none);
  CHECK(reg(sender, from, 4 << 20, &mfrom) == 0 && mfrom);
  CHECK(reg(receiver, to, 4 << 20, &mto) == 0 && mto);
  for (i = 0; i < 5; ++i)
    if ((line = message(sender, receiver, lengths[i], from, to, mfrom, mto))) return line;
  if ((line = crowd(sender, receiver, from, to, mfrom, mto))) return line;
  flushed = from;
  CHECK(MEMBER(IFLUSH, int, void *, int, void **, int *, void **, void **)(receiver, 1, &data, &size, &mto,
                                                                          &flushed) == 0);
  CHECK(flushed == NULL);
  CHECK(MEMBER(DEREG_MR, int, void *, void *)(sender, mfrom) == 0);
  CHECK(MEMBER(DEREG_MR, int, void *, void *)(receiver, mto) == 0);
  CHECK(MEMBER(CLOSE_SEND, int, void *)(sender) == 0);
  CHECK(MEMBER(CLOSE_RECV, int, void *)(receiver) == 0);
  CHECK(MEMBER(CLOSE_LISTEN, int, void *)(listener) == 0);
  free(from), free(to);
  return 0;
}

int stand_in(const char *plugin, int wanted, int rounds) {
  char symbol[32];
  struct Properties found;
  int count = -1, line, refused = getenv("STAND_IN_REFUSED") != NULL;
  version = wanted;
  snprintf(symbol, sizeof symbol, "ncclNetPlugin_v%d", version);
  for (; rounds > 0; --rounds) {
    static char handle[128];
    void *listener = NULL, *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
    table = dlsym(library, symbol);
    CHECK(table && strcmp(table->name, "TCPXSoft_v7") == 0);
    CHECK(init() == 0);
    CHECK(MEMBER(DEVICES, int, int *)(&count) == 0 && count > 0);
    CHECK(properties(&found) == 0);
    printf("pointers %d receives %d type %d version %d\n", found.pointers, found.receives,
           found.device_type, found.device_version);
    CHECK(found.devices == 1 && found.receives == 1 && found.longest == 1 << 30);
    if (refused) {
      CHECK(MEMBER(LISTEN, int, int, void *, void **)(0, handle, &listener) == 3);
    } else if (found.device_type == 0) {
      CHECK(found.pointers == 1 && found.device_version == 0);
      if ((line = exchange())) return line;
    }
    if (version >= 9) CHECK(table->members[MAKE_VDEVICE] == NULL);
    CHECK(table->members[REG_DMA_BUF] == NULL);
    /* As NCCL with its last communicator. */
    dlclose(library);
  }
  printf("done\n");
  fflush(stdout);
  return 0;
}
