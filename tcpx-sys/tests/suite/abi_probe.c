/* The v7 ABI, and the tables from v8 to v10, in C's own words, member for member in the order of the
   plugin's headers. Prints one line per type ("NAME size align") and one per member ("NAME.member
   offset size"). */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum { ncclSuccess = 0, ncclInProgress = 7 } ncclResult_t;
typedef void (*ncclDebugLogger_t)(int level, unsigned long flags, const char *file, int line,
                                  const char *fmt, ...);

typedef struct {
  char *name;
  char *pciPath;
  uint64_t guid;
  int ptrSupport;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  int netDeviceType;
  int netDeviceVersion;
} ncclNetProperties_v7_t;

typedef struct {
  int netDeviceType;
  int netDeviceVersion;
  void *handle;
  size_t size;
  int needsProxyProgress;
} ncclNetDeviceHandle_v7_t;

typedef struct {
  const char *name;
  ncclResult_t (*init)(ncclDebugLogger_t logFunction);
  ncclResult_t (*devices)(int *ndev);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v7_t *props);
  ncclResult_t (*listen)(int dev, void *handle, void **listenComm);
  ncclResult_t (*connect)(int dev, void *handle, void **sendComm,
                          ncclNetDeviceHandle_v7_t **sendDevComm);
  ncclResult_t (*accept)(void *listenComm, void **recvComm, ncclNetDeviceHandle_v7_t **recvDevComm);
  ncclResult_t (*regMr)(void *comm, void *data, int size, int type, void **mhandle);
  ncclResult_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset,
                              int fd, void **mhandle);
  ncclResult_t (*deregMr)(void *comm, void *mhandle);
  ncclResult_t (*isend)(void *sendComm, void *data, int size, int tag, void *mhandle,
                        void **request);
  ncclResult_t (*irecv)(void *recvComm, int n, void **data, int *sizes, int *tags,
                        void **mhandles, void **request);
  ncclResult_t (*iflush)(void *recvComm, int n, void **data, int *sizes, void **mhandles,
                         void **request);
  ncclResult_t (*test)(void *request, int *done, int *sizes);
  ncclResult_t (*closeSend)(void *sendComm);
  ncclResult_t (*closeRecv)(void *recvComm);
  ncclResult_t (*closeListen)(void *listenComm);
  ncclResult_t (*getDeviceMr)(void *comm, void *mhandle, void **dptr_mhandle);
  ncclResult_t (*irecvConsumed)(void *recvComm, int n, void *request);
} ncclNet_v7_t;

typedef ncclResult_t (*ncclProfilerCallback_t)(void **event, int kind, void *parent,
                                               int64_t plugin, void *data);

typedef struct {
  char *name;
  char *pciPath;
  uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  int netDeviceType;
  int netDeviceVersion;
} ncclNetProperties_v8_t;

typedef struct {
  int ndevs;
  int devs[4];
} ncclNetVDeviceProps_v9_t;

typedef struct {
  char *name;
  char *pciPath;
  uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int forceFlush;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  int netDeviceType;
  int netDeviceVersion;
  ncclNetVDeviceProps_v9_t vProps;
  size_t maxP2pBytes;
  size_t maxCollBytes;
} ncclNetProperties_v9_t;

typedef struct {
  int trafficClass;
} ncclNetCommConfig_v10_t;

/* What the three later tables have in common stands here once; what differs is an argument. */
#define LATER_TABLE(NAME, INIT, PROPERTIES, CONFIG, BYTES, PROFILED, PROFILEDS, LAST)              \
  typedef struct {                                                                                 \
    const char *name;                                                                              \
    ncclResult_t(*init) INIT;                                                                      \
    ncclResult_t (*devices)(int *ndev);                                                            \
    ncclResult_t (*getProperties)(int dev, PROPERTIES *props);                                     \
    ncclResult_t (*listen)(int dev, void *handle, void **listenComm);                              \
    ncclResult_t (*connect)(int dev, CONFIG void *handle, void **sendComm,                         \
                            ncclNetDeviceHandle_v7_t **sendDevComm);                               \
    ncclResult_t (*accept)(void *listenComm, void **recvComm,                                      \
                           ncclNetDeviceHandle_v7_t **recvDevComm);                                \
    ncclResult_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);          \
    ncclResult_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset,    \
                                int fd, void **mhandle);                                           \
    ncclResult_t (*deregMr)(void *comm, void *mhandle);                                            \
    ncclResult_t (*isend)(void *sendComm, void *data, BYTES size, int tag, void *mhandle,          \
                          PROFILED void **request);                                                \
    ncclResult_t (*irecv)(void *recvComm, int n, void **data, BYTES *sizes, int *tags,             \
                          void **mhandles, PROFILEDS void **request);                              \
    ncclResult_t (*iflush)(void *recvComm, int n, void **data, int *sizes, void **mhandles,        \
                           void **request);                                                        \
    ncclResult_t (*test)(void *request, int *done, int *sizes);                                    \
    ncclResult_t (*closeSend)(void *sendComm);                                                     \
    ncclResult_t (*closeRecv)(void *recvComm);                                                     \
    ncclResult_t (*closeListen)(void *listenComm);                                                 \
    ncclResult_t (*getDeviceMr)(void *comm, void *mhandle, void **dptr_mhandle);                   \
    ncclResult_t (*irecvConsumed)(void *recvComm, int n, void *request);                           \
    LAST                                                                                           \
  } NAME

#define NOTHING
#define COMMA ,
#define MAKE_VDEVICE ncclResult_t (*makeVDevice)(int *d, ncclNetVDeviceProps_v9_t *props);
LATER_TABLE(ncclNet_v8_t, (ncclDebugLogger_t), ncclNetProperties_v8_t, NOTHING, int, NOTHING,
            NOTHING, NOTHING);
LATER_TABLE(ncclNet_v9_t, (ncclDebugLogger_t), ncclNetProperties_v9_t, NOTHING, size_t, NOTHING,
            NOTHING, MAKE_VDEVICE);
LATER_TABLE(ncclNet_v10_t, (ncclDebugLogger_t, ncclProfilerCallback_t), ncclNetProperties_v9_t,
            ncclNetCommConfig_v10_t *config COMMA, size_t, void *phandle COMMA,
            void **phandles COMMA, MAKE_VDEVICE);

struct loadMeta {
  uint32_t src_off;
  uint32_t len;
  uint64_t dst_off;
} __attribute__((aligned(16)));

struct netUnpackMeta {
  struct loadMeta mem[16][2048];
  uint64_t cnt[16];
};

struct unpackNetDeviceHandle {
  struct netUnpackMeta *meta;
  void *bounce_buf;
  uint64_t head;
};

#define TYPE(type, name) printf("%s %zu %zu\n", name, sizeof(type), _Alignof(type))
#define MEMBER(type, name, member) \
  printf("%s.%s %zu %zu\n", name, #member, offsetof(type, member), sizeof(((type *)0)->member))

int main(void) {
  TYPE(ncclResult_t, "result");
  TYPE(ncclDebugLogger_t, "logger");

#define T(member) MEMBER(ncclNet_v7_t, "table", member)
  TYPE(ncclNet_v7_t, "table");
  T(name), T(init), T(devices), T(getProperties), T(listen), T(connect), T(accept), T(regMr);
  T(regMrDmaBuf), T(deregMr), T(isend), T(irecv), T(iflush), T(test), T(closeSend), T(closeRecv);
  T(closeListen), T(getDeviceMr), T(irecvConsumed);

#define P(member) MEMBER(ncclNetProperties_v7_t, "properties", member)
  TYPE(ncclNetProperties_v7_t, "properties");
  P(name), P(pciPath), P(guid), P(ptrSupport), P(speed), P(port), P(latency), P(maxComms);
  P(maxRecvs), P(netDeviceType), P(netDeviceVersion);

#define H(member) MEMBER(ncclNetDeviceHandle_v7_t, "handle", member)
  TYPE(ncclNetDeviceHandle_v7_t, "handle");
  H(netDeviceType), H(netDeviceVersion), H(handle), H(size), H(needsProxyProgress);

#define L(member) MEMBER(struct loadMeta, "entry", member)
  TYPE(struct loadMeta, "entry");
  L(src_off), L(len), L(dst_off);

#define Q(member) MEMBER(struct netUnpackMeta, "queue", member)
  TYPE(struct netUnpackMeta, "queue");
  Q(mem), Q(mem[0]), Q(cnt);

#define U(member) MEMBER(struct unpackNetDeviceHandle, "unpack", member)
  TYPE(struct unpackNetDeviceHandle, "unpack");
  U(meta), U(bounce_buf), U(head);
#define LATER(type, table)                                                                         \
  TYPE(type, table);                                                                               \
  MEMBER(type, table, name), MEMBER(type, table, init), MEMBER(type, table, devices);              \
  MEMBER(type, table, getProperties), MEMBER(type, table, listen), MEMBER(type, table, connect);   \
  MEMBER(type, table, accept), MEMBER(type, table, regMr), MEMBER(type, table, regMrDmaBuf);       \
  MEMBER(type, table, deregMr), MEMBER(type, table, isend), MEMBER(type, table, irecv);            \
  MEMBER(type, table, iflush), MEMBER(type, table, test), MEMBER(type, table, closeSend);          \
  MEMBER(type, table, closeRecv), MEMBER(type, table, closeListen);                                \
  MEMBER(type, table, getDeviceMr), MEMBER(type, table, irecvConsumed)
  LATER(ncclNet_v8_t, "table8");
  LATER(ncclNet_v9_t, "table9");
  MEMBER(ncclNet_v9_t, "table9", makeVDevice);
  LATER(ncclNet_v10_t, "table10");
  MEMBER(ncclNet_v10_t, "table10", makeVDevice);

#define GROWN(type, label)                                                                         \
  TYPE(type, label);                                                                               \
  MEMBER(type, label, name), MEMBER(type, label, pciPath), MEMBER(type, label, guid);              \
  MEMBER(type, label, ptrSupport), MEMBER(type, label, regIsGlobal), MEMBER(type, label, speed);   \
  MEMBER(type, label, port), MEMBER(type, label, latency), MEMBER(type, label, maxComms);          \
  MEMBER(type, label, maxRecvs), MEMBER(type, label, netDeviceType);                               \
  MEMBER(type, label, netDeviceVersion)
  GROWN(ncclNetProperties_v8_t, "properties8");
  GROWN(ncclNetProperties_v9_t, "properties9");
#define N(member) MEMBER(ncclNetProperties_v9_t, "properties9", member)
  N(forceFlush), N(vProps), N(maxP2pBytes), N(maxCollBytes);
  TYPE(ncclNetVDeviceProps_v9_t, "virtual");
  MEMBER(ncclNetVDeviceProps_v9_t, "virtual", devs);
  TYPE(ncclNetCommConfig_v10_t, "config");
  TYPE(ncclProfilerCallback_t, "profiler");
  return 0;
}
