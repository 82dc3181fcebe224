#!/bin/sh
# The first install does not start the service: it must be configured first.
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl try-restart ndrbridge.service
