*** Settings ***
Documentation       Does HTTP/3 get through networks that treat UDP or its datagrams badly, as well as TCP does?
...
...                 A row is one transfer without a limit over a network with a small MTU, a policer, packets out of order, a
...                 policer or a firewall that only UDP meets, an MTU that the hosts do not know, or a queue that marks.
...                 HTTP/2 has the same rows as HTTP/3. A row passes when the body's mean rate is shown to reach ``${FLOOR}``
...                 of what TCP can carry over that link without losses, or UDP where it is policed alone.
...
...                 Where UDP is blocked only TCP gets through; ``--client ferry-fallback`` asks by HTTP/3 first. A black hole
...                 lets only HTTP/3 through, because Linux does not look for one by TCP (tcp_mtu_probing is 0).
...
...                 Clock: virtual.
Metadata            Study    quic-networks
Library             lab.robot.library.LabLibrary
Test Template       A Transfer Should Get Through
Test Tags           study:quic-networks
Test Timeout        1 hour


*** Variables ***
${CLIENT}       ferry
${SIZE}         10 MB
${FLOOR}        0.5


*** Test Cases ***            TOPOLOGY         PROTOCOL    DIRECTION
VPN, 1400 Bytes, H2 Get       office-vpn       h2          get
VPN, 1400 Bytes, H2 Put       office-vpn       h2          put
VPN, 1400 Bytes, H3 Get       office-vpn       h3          get
VPN, 1400 Bytes, H3 Put       office-vpn       h3          put
Tunnel, 1280 Bytes, H2 Get    tunnel-1280      h2          get
Tunnel, 1280 Bytes, H2 Put    tunnel-1280      h2          put
Tunnel, 1280 Bytes, H3 Get    tunnel-1280      h3          get
Tunnel, 1280 Bytes, H3 Put    tunnel-1280      h3          put
Policer, H2 Get               policed-20       h2          get
Policer, H2 Put               policed-20       h2          put
Policer, H3 Get               policed-20       h3          get
Policer, H3 Put               policed-20       h3          put
Reordering, H2 Get            reordering-20    h2          get
Reordering, H2 Put            reordering-20    h2          put
Reordering, H3 Get            reordering-20    h3          get
Reordering, H3 Put            reordering-20    h3          put

UDP Policed, H2 Get           udp-policed-20    h2         get
UDP Policed, H2 Put           udp-policed-20    h2         put
UDP Policed, H3 Get           udp-policed-20    h3         get
UDP Policed, H3 Put           udp-policed-20    h3         put
UDP Blocked, H2 Get           udp-blocked-20    h2         get
UDP Blocked, H2 Put           udp-blocked-20    h2         put
Black Hole, H3 Get            black-hole-20     h3         get
Black Hole, H3 Put            black-hole-20     h3         put
Queue With Marks, H2 Get      ecn-20            h2         get
Queue With Marks, H2 Put      ecn-20            h2         put
Queue With Marks, H3 Get      ecn-20            h3         get
Queue With Marks, H3 Put      ecn-20            h3         put


*** Keywords ***
A Transfer Should Get Through
    [Documentation]    ``${SIZE}`` by ``${CLIENT}`` over the link of ``topology``, judged by the share of the link that it takes.
    [Arguments]    ${topology}    ${protocol}    ${direction}
    Judge Bound
    ...    client=${CLIENT}
    ...    topology=${topology}
    ...    kind=fill
    ...    size=${SIZE}
    ...    bound=${FLOOR}
    ...    protocol=${protocol}
    ...    direction=${direction}
