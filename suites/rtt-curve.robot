*** Settings ***
Documentation       What share of the line does a transfer without a limit take, from no round trip to 600 ms?
...
...                 A row is one transfer over 50 Mbit/s at one round trip; the rows of a protocol and a direction are its curve.
...                 A row passes when the body's mean rate is shown to reach ``${FLOOR}`` of what TCP can carry over that link.
...                 The table has the share itself. A longer line takes longer to get up to speed, so its file is larger.
...                 `lab search rtt` finds the round trip at which a client falls below a share.
...
...                 Clock: virtual.
Metadata            Study    rtt-curve
Library             lab.robot.library.LabLibrary
Test Template       A Transfer Should Take A Share Of The Line
Test Tags           study:rtt-curve
Test Timeout        1 hour


*** Variables ***
${CLIENT}       ferry
${FLOOR}        0.5


*** Test Cases ***      TOPOLOGY     PROTOCOL    DIRECTION    SIZE
H1 Get, 0 ms            rtt-0        http1       get          30 MB
H1 Get, 10 ms           rtt-10       http1       get          30 MB
H1 Get, 30 ms           rtt-30       http1       get          30 MB
H1 Get, 100 ms          rtt-100      http1       get          60 MB
H1 Get, 300 ms          rtt-300      http1       get          100 MB
H1 Get, 600 ms          rtt-600      http1       get          200 MB
H1 Put, 0 ms            rtt-0        http1       put          30 MB
H1 Put, 10 ms           rtt-10       http1       put          30 MB
H1 Put, 30 ms           rtt-30       http1       put          30 MB
H1 Put, 100 ms          rtt-100      http1       put          60 MB
H1 Put, 300 ms          rtt-300      http1       put          100 MB
H1 Put, 600 ms          rtt-600      http1       put          200 MB
H3 Get, 0 ms            rtt-0        h3          get          30 MB
H3 Get, 10 ms           rtt-10       h3          get          30 MB
H3 Get, 30 ms           rtt-30       h3          get          30 MB
H3 Get, 100 ms          rtt-100      h3          get          60 MB
H3 Get, 300 ms          rtt-300      h3          get          100 MB
H3 Get, 600 ms          rtt-600      h3          get          200 MB
H3 Put, 0 ms            rtt-0        h3          put          30 MB
H3 Put, 10 ms           rtt-10       h3          put          30 MB
H3 Put, 30 ms           rtt-30       h3          put          30 MB
H3 Put, 100 ms          rtt-100      h3          put          60 MB
H3 Put, 300 ms          rtt-300      h3          put          100 MB
H3 Put, 600 ms          rtt-600      h3          put          200 MB
SFTP Get, 0 ms          rtt-0        sftp        get          30 MB
SFTP Get, 10 ms         rtt-10       sftp        get          30 MB
SFTP Get, 30 ms         rtt-30       sftp        get          30 MB
SFTP Get, 100 ms        rtt-100      sftp        get          60 MB
SFTP Get, 300 ms        rtt-300      sftp        get          100 MB
SFTP Get, 600 ms        rtt-600      sftp        get          200 MB
SFTP Put, 0 ms          rtt-0        sftp        put          30 MB
SFTP Put, 10 ms         rtt-10       sftp        put          30 MB
SFTP Put, 30 ms         rtt-30       sftp        put          30 MB
SFTP Put, 100 ms        rtt-100      sftp        put          60 MB
SFTP Put, 300 ms        rtt-300      sftp        put          100 MB
SFTP Put, 600 ms        rtt-600      sftp        put          200 MB


*** Keywords ***
A Transfer Should Take A Share Of The Line
    [Documentation]    ``size`` by ``${CLIENT}`` over the link of ``topology``, judged by the share of the link that it takes.
    [Arguments]    ${topology}    ${protocol}    ${direction}    ${size}
    Judge Bound
    ...    client=${CLIENT}
    ...    topology=${topology}
    ...    kind=fill
    ...    size=${size}
    ...    bound=${FLOOR}
    ...    protocol=${protocol}
    ...    direction=${direction}
