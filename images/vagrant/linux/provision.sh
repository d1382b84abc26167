#!/bin/sh
# What a Debian machine of the lab needs. Run it as often as you like: it installs only what is missing.
# usage: provision.sh
set -eu

packages='curl ethtool iperf3 iproute2 iputils-ping kmod nginx-light openssh-client openssh-server procps python3 tcpdump time'

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
    # A machine that has just started updates itself, for minutes.
    # shellcheck disable=SC2086 # a list of names
    apt-get -q -o DPkg::Lock::Timeout=600 install -y --no-install-recommends $missing
fi

# The lab starts its own nginx and iperf3, with its own files, in its own namespace.
now='--now'
# Before a machine's first boot (a chroot, an image that is being made) nothing runs, and systemctl can stop nothing.
[ -d /run/systemd/system ] || now=''
for service in nginx iperf3; do
    if systemctl is-enabled --quiet "$service" 2>/dev/null; then
        # shellcheck disable=SC2086 # an option, or none
        systemctl disable $now "$service"
    fi
done

# The kernel that runs; before the first boot it is another machine's, and the newest that is installed will be this one's.
kernel=$(uname -r)
if [ ! -d "/lib/modules/$kernel" ]; then
    kernel=$(find /lib/modules -mindepth 1 -maxdepth 1 -printf '%f\n' 2>/dev/null | sort -V | tail -n 1)
fi
if ! modinfo -k "${kernel:-none}" sch_netem >/dev/null 2>&1; then
    echo "roughwater: kernel ${kernel:-$(uname -r)} has no sch_netem here: the router needs linux-image-amd64" >&2
    exit 1
fi
echo 'roughwater: packages are there'
