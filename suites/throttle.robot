*** Settings ***
Documentation       Does a download limited by the client keep to its limit, on every network it may meet?
...
...                 A client's rate limit is a promise about body bytes per second, from the first body byte to the last.
...                 Every cell takes five whole transfers, and more while the interval straddles the band; it passes when the
...                 interval of the mean deviation lies inside 5 %. The link is calibrated before and after every cell.
...
...                 Origin: the mail of December 2023 (limits of 8 and 16 Mbit/s on three networks).
Metadata            Study    throttle
Library             lab.keywords.library.LabLibrary
Test Template       A Limited Download Should Keep To Its Limit
Test Tags           study:throttle    direction:get
Test Timeout        15 minutes


*** Variables ***
${CLIENT}       curl
${SIZE}         5 MiB
${TOLERANCE}    5 %
${PROTOCOL}     http1


*** Test Cases ***                       TOPOLOGY      LIMIT
Link-Local, 8 Mbit/s                     link-local    8 Mbit/s
Link-Local, 16 Mbit/s                    link-local    16 Mbit/s
DSL 50 Mbit/s, Limited To 8 Mbit/s       dsl-50        8 Mbit/s
DSL 50 Mbit/s, Limited To 16 Mbit/s      dsl-50        16 Mbit/s
DSL 20 Mbit/s, Limited To 8 Mbit/s       dsl-20        8 Mbit/s
DSL 20 Mbit/s, Limited To 16 Mbit/s      dsl-20        16 Mbit/s


*** Keywords ***
A Limited Download Should Keep To Its Limit
    [Documentation]    One cell: ``${SIZE}`` by ``${CLIENT}`` at ``limit`` over the link of ``topology``.
    [Arguments]    ${topology}    ${limit}
    Judge Limited Transfer
    ...    client=${CLIENT}
    ...    topology=${topology}
    ...    limit=${limit}
    ...    size=${SIZE}
    ...    tolerance=${TOLERANCE}
    ...    protocol=${PROTOCOL}
