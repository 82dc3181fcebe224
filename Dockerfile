# Static binaries in empty images: no shell, no root.
#   docker build -t ndrbridge .
#   docker build -t ndrappliance --target appliance .
FROM --platform=$BUILDPLATFORM golang:1.26.8@sha256:0f063af2d465d8dcae54cce04278ada488b96f77b42449c8d071e47d016cc65a AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION=dev REVISION="" DATE=""
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION -X main.commit=$REVISION -X main.date=$DATE" -o /out/ ./cmd/ndrbridge ./cmd/ndrappliance \
    && mkdir /state
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    go run ./deploy/licences ./cmd/ndrbridge ./cmd/ndrappliance > /out/THIRD_PARTY_LICENSES.txt

# The stand-in appliance of deploy/compose.
FROM scratch AS appliance
COPY --from=build /out/ndrappliance /ndrappliance
COPY --from=build /src/LICENSE /out/THIRD_PARTY_LICENSES.txt /licenses/
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/ndrappliance"]
CMD ["--listen", ":8080"]

FROM scratch AS bridge
ARG VERSION=dev REVISION=unknown
LABEL org.opencontainers.image.title="ndrbridge" \
      org.opencontainers.image.description="Delivers what a network detection appliance shows to Kafka, NATS, webhooks, syslog and files" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/ndrbridge /ndrbridge
COPY --from=build /src/LICENSE /out/THIRD_PARTY_LICENSES.txt /licenses/
COPY --from=build --chown=65532:65532 --chmod=0700 /state /var/lib/ndrbridge
USER 65532:65532
ENV NDRBRIDGE_STATE=/var/lib/ndrbridge/ndrbridge.db
VOLUME /var/lib/ndrbridge
# To be reached from outside, set NDRBRIDGE_ADMIN_LISTEN=:9600 and
# NDRBRIDGE_ADMIN_TOKEN_FILE: by itself it listens on loopback.
EXPOSE 9600
# What stops it must wait longer than shutdown_timeout, which is 20s by default:
# docker stop --time 30.
STOPSIGNAL SIGTERM
# It needs to know the configuration by NDRBRIDGE_CONFIG, or admin.listen by its variable.
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 CMD ["/ndrbridge", "status", "--exit-code"]
ENTRYPOINT ["/ndrbridge"]
CMD ["run"]
