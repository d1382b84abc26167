*** Settings ***
Documentation       Does throughput hold whatever buffer the caller chose, near and far?
...
...                 A client's buffer is a setting of its caller, who does not know the round trips. If it is also the amount the
...                 client dares to have unacknowledged, a small one starves a long line: 16 KiB over 100 ms is 160 KB/s.
...                 A test is one client on one link in one direction: a transfer with each buffer in turn, round by round, five
...                 rounds and more while the interval straddles the floor. It passes when the slowest buffer's mean is shown to
...                 reach 90 % of the fastest's. Round trips: none (link-local), 20 ms (metro-200), 100 ms (far-200).
...                 Buffers that a client cannot be given are left out and named in its verdict.
...
...                 Origin: uploads over SFTP that slowed down with the caller's buffer.
...
...                 Clock: virtual; the rows without delay run in real time, because only the machine limits them.
Metadata            Study    upload-buffers
Library             lab.robot.library.LabLibrary
Test Template       Throughput Should Hold Across Buffer Sizes
Test Tags           study:upload-buffers
Test Timeout        4 hours


*** Variables ***
${CLIENT}       ferry
${PROTOCOL}     sftp
${BUFFERS}      16 KiB, 64 KiB, 256 KiB, 1 MiB, 4 MiB, 16 MiB
${FLOOR}        90 %


*** Test Cases ***         TOPOLOGY      PROTOCOL       DIRECTION    SIZE
Put, No Delay              link-local    ${PROTOCOL}    put          256 MiB
Get, No Delay              link-local    ${PROTOCOL}    get          256 MiB
Put, 20 ms                 metro-200     ${PROTOCOL}    put          64 MiB
Get, 20 ms                 metro-200     ${PROTOCOL}    get          64 MiB
Put, 100 ms                far-200       ${PROTOCOL}    put          64 MiB
Get, 100 ms                far-200       ${PROTOCOL}    get          64 MiB
H1 Put, No Delay           link-local    http1          put          256 MiB
H1 Get, No Delay           link-local    http1          get          256 MiB
H1 Put, 20 ms              metro-200     http1          put          16 MiB
H1 Get, 20 ms              metro-200     http1          get          16 MiB
H1 Put, 100 ms             far-200       http1          put          16 MiB
H1 Get, 100 ms             far-200       http1          get          16 MiB
H2 Put, No Delay           link-local    h2             put          256 MiB
H2 Get, No Delay           link-local    h2             get          256 MiB
H2 Put, 20 ms              metro-200     h2             put          16 MiB
H2 Get, 20 ms              metro-200     h2             get          16 MiB
H2 Put, 100 ms             far-200       h2             put          16 MiB
H2 Get, 100 ms             far-200       h2             get          16 MiB
H3 Put, 20 ms              metro-200     h3             put          16 MiB
H3 Get, 20 ms              metro-200     h3             get          16 MiB
H3 Put, 100 ms             far-200       h3             put          16 MiB
H3 Get, 100 ms             far-200       h3             get          16 MiB


*** Keywords ***
Throughput Should Hold Across Buffer Sizes
    [Documentation]    One study: ``size`` by ``${CLIENT}`` over the link of ``topology``, with every one of ``${BUFFERS}``.
    [Arguments]    ${topology}    ${protocol}    ${direction}    ${size}
    Judge Buffer Sizes
    ...    client=${CLIENT}
    ...    topology=${topology}
    ...    protocol=${protocol}
    ...    direction=${direction}
    ...    size=${size}
    ...    buffers=${BUFFERS}
    ...    floor=${FLOOR}
