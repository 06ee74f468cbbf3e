#!/usr/bin/env bash
# Checks tools/deploy/gke without a cluster: against the schema of Kubernetes, and that what the manifests say fits together.
#   tools/scripts/manifests-test.sh install           a Python with the schemas, whose path is printed: a few MB to download
#   tools/scripts/manifests-test.sh [PYTHON [TCPX]]   TCPX: the command whose flags they use (default: that of a debug build)
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}

install() {
    local environment=$target/kubernetes-validate
    local python=$environment/bin/python
    if ! "$python" -c 'import kubernetes_validate' 2>/dev/null; then
        rm -rf "$environment"
        python3 -m venv "$environment" >&2 || return
        "$python" -m pip install -q --retries 1 --timeout 10 'kubernetes-validate==1.37.*' >&2 || return
    fi
    echo "$python"
}

if [[ ${1:-} == install ]]; then
    install
    exit
fi
python=${1:-$(install)}
exec "$python" tools/scripts/manifests_test.py "${2:-$target/debug/tcpx}"
