set -x
id; uname -r; python3 --version; date
tc qdisc add dev lo root netem delay 1ms seed 3 && tc qdisc show dev lo; lsmod | grep netem; ping -c3 -i0.2 127.0.0.1 | tail -2; tc qdisc del dev lo root
sysctl net.core.rmem_max net.core.default_qdisc net.ipv4.ping_group_range kernel.unprivileged_userns_clone user.max_user_namespaces net.ipv4.conf.all.rp_filter
unshare -Urn sh -c 'id -u; tc qdisc add dev lo root netem delay 1ms; tc qdisc show dev lo'
cat /sys/devices/system/clocksource/clocksource0/current_clocksource
df -h /; free -m; git -C . rev-parse HEAD; ls
nginx -v; ssh -V; iperf3 -v | head -1
time python3 -c 'import scipy.stats, pydantic'
time lab --help | head -3
