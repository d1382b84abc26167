#!/bin/sh
# Puts the lab's ports of this machine into a network namespace of their own, `lab`, and routes them. Idempotent; needs root.
# usage: wire.sh client|server MAC        the port becomes eth0, its way out is the router
#        wire.sh router MAC MAC           towards the client, towards the server: to-client and to-server
# The management port stays outside: from `lab` only the router can be reached.
# Addresses and MACs are those of lab/hosts/wiring.py, whose tests compare them.
set -eu

fail() {
    echo "roughwater: $*" >&2
    exit 1
}

# lab COMMAND...: in the namespace.
lab() {
    ip netns exec lab "$@"
}

# port_by_mac MAC [ip's options]: its name, empty where it is not. A namespace has no /sys of its own here.
port_by_mac() {
    wanted=$1
    shift
    ip "$@" -o link | awk -v mac="$wanted" 'index(tolower($0), "link/ether " mac " ") { sub(/[:@].*/, "", $2); print $2; exit }'
}

# take MAC NAME ADDRESS: the port into the namespace, named and addressed.
take() {
    outside=$(port_by_mac "$1")
    if [ -n "$outside" ]; then
        # Down first: a port that is up can be neither renamed nor quietly moved.
        ip link set "$outside" down
        ip address flush dev "$outside"
        ip link set "$outside" netns lab name "$2"
    fi
    [ "$(port_by_mac "$1" -n lab)" = "$2" ] || fail "no port of this machine has MAC $1 (is it on the lab's network?)"
    ip -n lab address replace "$3/24" dev "$2"
    ip -n lab link set "$2" up
}

# leaf NUMBER MAC: client (1) or server (2). Permanent neighbours: ARP at the wrong moment would shift what a seed drops.
leaf() {
    take "$2" eth0 "10.77.$1.2"
    ip -n lab neighbour replace "10.77.$1.1" lladdr "02:54:4c:0$1:00:01" nud permanent dev eth0
    # Only where it is missing: the lab pins more on it.
    [ -n "$(ip -n lab route show default)" ] || ip -n lab route add default via "10.77.$1.1" dev eth0
}

# hosts_line NAME ADDRESS: in /etc/hosts once, in place of earlier lines for the name.
hosts_line() {
    grep -qx "$2 $1" /etc/hosts && return
    sed "/[[:space:]]$1\$/d" /etc/hosts >/etc/hosts.roughwater
    echo "$2 $1" >>/etc/hosts.roughwater
    # Not a rename: in a container the file is a mount.
    cat /etc/hosts.roughwater >/etc/hosts
    rm /etc/hosts.roughwater
}

role=${1:-}
case $role:$# in
    client:2 | server:2 | router:3) ;;
    *) fail "usage: wire.sh client|server MAC | router MAC MAC" ;;
esac

id lab >/dev/null 2>&1 || useradd --create-home --shell /bin/bash lab
[ -e /run/netns/lab ] || ip netns add lab
# shellcheck disable=SC2016 # for the other shell
lab sh -c 'for f in all default; do echo 1 >/proc/sys/net/ipv6/conf/$f/disable_ipv6; done' 2>/dev/null || :
ip -n lab link set lo up
case $role in
    client) leaf 1 "$2" ;;
    server) leaf 2 "$2" ;;
    router)
        take "$2" to-client 10.77.1.1
        take "$3" to-server 10.77.2.1
        ip -n lab neighbour replace 10.77.1.2 lladdr 02:54:4c:01:00:02 nud permanent dev to-client
        ip -n lab neighbour replace 10.77.2.2 lladdr 02:54:4c:02:00:02 nud permanent dev to-server
        lab sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
        ;;
esac
# The lab's servers and clients are ordinary users; they take port 80 and ping.
lab sh -c 'echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start; echo "0 2147483647" >/proc/sys/net/ipv4/ping_group_range'
hosts_line client 10.77.1.2
hosts_line router 10.77.1.1
hosts_line server 10.77.2.2
echo "roughwater: the $role is wired"
