#!/bin/sh
# The folder of the state, for checks before the first start, at which systemd adopts it. dpkg
# sets DPKG_ROOT if it installs elsewhere.
[ -d "$DPKG_ROOT/var/lib/ndrbridge" ] || mkdir -m 0700 "$DPKG_ROOT/var/lib/ndrbridge"
# The first install does not start the service: it must be configured first.
[ -d "$DPKG_ROOT/run/systemd/system" ] || exit 0
systemctl daemon-reload
systemctl try-restart ndrbridge.service || true # the package is installed even if the service fails
