# A static binary in an empty image: no shell, no root.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /ndrbridge ./cmd/ndrbridge
RUN mkdir /state

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /ndrbridge /ndrbridge
COPY --from=build --chown=65532:65532 /state /var/lib/ndrbridge
USER 65532:65532
ENV NDRBRIDGE_STATE=/var/lib/ndrbridge/ndrbridge.db
VOLUME /var/lib/ndrbridge
# To be reached from outside, set NDRBRIDGE_ADMIN_LISTEN=:9600 and
# NDRBRIDGE_ADMIN_TOKEN_FILE: by itself it listens on loopback.
EXPOSE 9600
ENTRYPOINT ["/ndrbridge"]
CMD ["run"]
