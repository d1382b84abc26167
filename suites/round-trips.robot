*** Settings ***
Documentation       Does a transfer without a limit fill the line, near and far?
...
...                 A row is one transfer over 200 Mbit/s at one round trip; the rows of a protocol and a direction are its curve.
...                 A row passes when the body's mean rate is shown to reach 80 % of what TCP can carry over that link. The table
...                 has the share itself. A longer line takes longer to get up to speed, so its file is larger.
...
...                 Clock: virtual.
Metadata            Study    round-trips
Library             lab.robot.library.LabLibrary
Test Template       A Transfer Should Fill The Line
Test Tags           study:round-trips
Test Timeout        1 hour


*** Variables ***
${CLIENT}       ferry
${FLOOR}        0.8


*** Test Cases ***      TOPOLOGY     PROTOCOL    DIRECTION    SIZE
H1 Get, 20 ms           metro-200    http1       get          30 MB
H1 Get, 50 ms           coast-200    http1       get          60 MB
H1 Get, 100 ms          far-200      http1       get          100 MB
H1 Put, 20 ms           metro-200    http1       put          30 MB
H1 Put, 50 ms           coast-200    http1       put          60 MB
H1 Put, 100 ms          far-200      http1       put          100 MB
H2 Get, 20 ms           metro-200    h2          get          30 MB
H2 Get, 50 ms           coast-200    h2          get          60 MB
H2 Get, 100 ms          far-200      h2          get          100 MB
H2 Put, 20 ms           metro-200    h2          put          30 MB
H2 Put, 50 ms           coast-200    h2          put          60 MB
H2 Put, 100 ms          far-200      h2          put          100 MB
SFTP Get, 20 ms         metro-200    sftp        get          30 MB
SFTP Get, 50 ms         coast-200    sftp        get          60 MB
SFTP Get, 100 ms        far-200      sftp        get          100 MB
SFTP Put, 20 ms         metro-200    sftp        put          30 MB
SFTP Put, 50 ms         coast-200    sftp        put          60 MB
SFTP Put, 100 ms        far-200      sftp        put          100 MB


*** Keywords ***
A Transfer Should Fill The Line
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
