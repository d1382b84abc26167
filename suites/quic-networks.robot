*** Settings ***
Documentation       Does HTTP/3 get through networks that treat UDP or its datagrams badly, as well as TCP does?
...
...                 A row is one transfer without a limit over a network with a small MTU, a policer, or packets out of order.
...                 HTTP/2 has the same rows as HTTP/3. A row passes when the body's mean rate is shown to reach ``${FLOOR}``
...                 of what TCP can carry over that link without losses.
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
