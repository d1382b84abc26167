#!/bin/sh
# What a Debian machine of the lab needs. Run it as often as you like: it installs only what is missing.
# usage: provision.sh
set -eu

packages='curl ethtool iperf3 iproute2 iputils-ping nginx-light openssh-client openssh-server procps python3 tcpdump time'

is_there() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=''
for package in $packages; do
    is_there "$package" || missing="$missing $package"
done
if [ -n "$missing" ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get -q update
    # shellcheck disable=SC2086 # a list of names
    apt-get -q install -y --no-install-recommends $missing
fi

# The lab starts its own nginx and iperf3, with its own files, in its own namespace.
for service in nginx iperf3; do
    if systemctl is-enabled --quiet "$service" 2>/dev/null; then
        systemctl disable --now "$service"
    fi
done

if ! modinfo sch_netem >/dev/null 2>&1; then
    echo 'throughline: this kernel has no sch_netem: the router needs linux-image-amd64' >&2
    exit 1
fi
echo 'throughline: packages are there'
