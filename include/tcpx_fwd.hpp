/*
 * Declarations of the classes of tcpx_p2p.hpp, for headers that only name them. C++17.
 *
 * The two ways to report errors are different classes to the linker. So a source file includes this
 * with the same TCPX_P2P_NO_EXCEPTIONS, or -fno-exceptions, as it includes tcpx_p2p.hpp.
 */
#ifndef TCPX_FWD_HPP
#define TCPX_FWD_HPP

#include <cstdint>

#if !defined(TCPX_P2P_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define TCPX_P2P_NO_EXCEPTIONS 1
#endif

#ifdef TCPX_P2P_NO_EXCEPTIONS
#define TCPX_P2P_ERRORS codes
#else
#define TCPX_P2P_ERRORS exceptions
#endif

namespace tcpx {
inline namespace TCPX_P2P_ERRORS {

class Error;
class Session;
class Transfer;
class Operation;
struct MemoryDescriptor;
struct RemoteKey;
struct Notification;
enum class PeerState : std::int32_t;
enum class OperationState : std::int32_t;
enum class OperationKind : std::int32_t;

}  // namespace TCPX_P2P_ERRORS
}  // namespace tcpx

#undef TCPX_P2P_ERRORS

#endif /* TCPX_FWD_HPP */
