# The command tcpx:                                   docker build --tag tcpx .
# The same, and a Python with NIXL and its backend:   docker build --tag tcpx-nixl --target nixl .
# Google's plugin, RxDM and the CUDA driver are not in it: they come from the host, see tools/deploy/gke.
FROM rust:1.88-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends cmake python3
WORKDIR /tcpx
COPY . .
RUN cargo xtask package --out /packages && cargo xtask wheel --out /packages

FROM python:3.12-slim-bookworm AS nixl
COPY --from=build /packages /packages
# Without what NIXL depends on: torch and CUDA's libraries, of some GB, which the backend does not use.
RUN apt-get update \
    && apt-get install -y --no-install-recommends /packages/*.deb \
    && pip install --no-cache-dir --no-deps nixl==1.5.1 nixl-cu12==1.5.1 /packages/*.whl \
    && pip install --no-cache-dir numpy \
    && python -m nixl_tcpx install \
    && rm -r /packages /var/lib/apt/lists/*

FROM debian:bookworm-slim AS command
COPY --from=build /packages/*.deb /packages/
# What the doctor's cures are typed with.
RUN apt-get update \
    && apt-get install -y --no-install-recommends /packages/*.deb ethtool iproute2 \
    && rm -r /packages /var/lib/apt/lists/*
ENTRYPOINT ["tcpx"]
