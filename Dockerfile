# syntax=docker/dockerfile:1

# MindRouter is one static binary: the gateway image holds it, certificates and nothing else. The second target, base for
# the GPU agent, has glibc because NVIDIA's driver library needs it.

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG VERSION=dev
ARG COMMIT=unknown
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath \
      -ldflags "-s -w -X mindrouter/internal/app.Version=${VERSION} -X mindrouter/internal/app.Commit=${COMMIT}" \
      -o /out/mindrouter ./cmd/mindrouter \
 && mkdir -p /out/data

# The same with glibc and a shell: for the GPU agent, which needs NVIDIA's library, and for set-up scripts.
FROM debian:bookworm-slim AS glibc
# Debian stable keeps versions apart from security updates, so none is pinned.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates openssl \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 65532 --user-group --home-dir /data mindrouter
COPY --from=build /out/mindrouter /usr/local/bin/mindrouter
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
WORKDIR /data
ENV MINDROUTER_DATA_DIR=/data MINDROUTER_ADDR=0.0.0.0:8080
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["/usr/local/bin/mindrouter", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/mindrouter"]
CMD ["serve"]

# The gateway. Run it with a read-only root: /data is the only place that is written.
FROM scratch AS gateway
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/mindrouter /mindrouter
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
WORKDIR /data
ENV MINDROUTER_DATA_DIR=/data MINDROUTER_ADDR=0.0.0.0:8080
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["/mindrouter", "healthcheck"]
ENTRYPOINT ["/mindrouter"]
CMD ["serve"]
