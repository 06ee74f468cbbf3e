/*
 * Shared definitions of the classes TcpxSession, TcpxTransfer and TcpxMemoryDescriptor: the C
 * interface, and NCCL's numbers for kinds of memory. docs/c-api/plugin-api.md describes the
 * classes.
 */
#ifndef TCPX_TYPES_H
#define TCPX_TYPES_H

#include "tcpx_p2p.h"

/* Named as in NCCL's own header, so that it may be included before or after. */
#ifndef NCCL_PTR_HOST
#define NCCL_PTR_HOST 0x1
#endif
#ifndef NCCL_PTR_CUDA
#define NCCL_PTR_CUDA 0x2
#endif

#ifdef __cplusplus
static_assert(NCCL_PTR_HOST == TCPX_PTR_HOST && NCCL_PTR_CUDA == TCPX_PTR_CUDA,
              "NCCL and this library number kinds of memory alike");
#endif

#endif /* TCPX_TYPES_H */
