/* The parameters of the backend: options of tcpx's session, by name. */
#ifndef TCPX_NIXL_PARAMETERS_HPP
#define TCPX_NIXL_PARAMETERS_HPP

#include <string>

#include "nixl_abi.hpp"
#include "tcpx_p2p.h"

namespace tcpx_nixl {

/* The backend's own name. NIXL calls it by the name of its file, which may be another's. */
inline constexpr const char* kBackend = "TCPX";

/* Every parameter, without a value: what the environment says, or else tcpx's default. */
nixl_b_params_t parameterNames();

/*
 * Puts parameters into options. A parameter has the name of its option, or of its variable
 * ("channels", "TCPX_CHANNELS"); an empty value says nothing. `options` points into `parameters`.
 * `backend` is the name that NIXL loaded this backend under: under another than its own, parameters
 * that do not exist are ignored, with a line each in the log.
 * Throws std::invalid_argument, which names the parameter, for one that does not exist, is given
 * twice or is no number.
 */
void applyParameters(const nixl_b_params_t& parameters, const std::string& backend,
                     tcpx_session_options& options);

}  // namespace tcpx_nixl

#endif
