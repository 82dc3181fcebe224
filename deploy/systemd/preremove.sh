#!/bin/sh
# An upgrade calls it with "upgrade" (deb) or 1 (rpm) and must not stop the service.
case "$1" in remove | 0) ;; *) exit 0 ;; esac
[ -d "$DPKG_ROOT/run/systemd/system" ] || exit 0
systemctl disable --now ndrbridge.service
