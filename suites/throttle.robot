*** Settings ***
Documentation       Does a transfer limited by the client keep to its limit, on every network it may meet?
...
...                 A client's rate limit is a promise about body bytes per second, from the first body byte to the last;
...                 it is the same promise down and up, over HTTP/1.1, h2, h3 and SFTP, whether or not the size is known.
...                 Every cell takes five complete transfers, and more while the interval straddles the band; it passes when the
...                 interval of the mean deviation lies inside 5 %. The link is calibrated before and after every cell.
...                 Tests tagged ``demo`` are one of each kind; `make demo` runs them on ferry and on the system's curl.
...                 Those tagged ``mail`` are the mail's own: two limits on three networks.
...
...                 Origin: the mail of December 2023 (limits of 8 and 16 Mbit/s on three networks).
...
...                 Clock: virtual. A limit is a matter of the client and the link, and a busy machine does not count there.
Metadata            Study    throttle
Library             lab.robot.library.LabLibrary
Test Template       A Limited Transfer Should Keep To Its Limit
Test Tags           study:throttle
Test Timeout        15 minutes


*** Variables ***
${CLIENT}       ferry
${SIZE}         5 MiB
${TOLERANCE}    5 %


*** Test Cases ***                               TOPOLOGY      PROTOCOL    DIRECTION    SIZE-KNOWN    LIMIT
Link-Local, H1 Get, 8 Mbit/s                     link-local    http1       get          yes           8 Mbit/s
    [Tags]    mail
Link-Local, H1 Get, 16 Mbit/s                    link-local    http1       get          yes           16 Mbit/s
    [Tags]    mail    demo
Link-Local, H1 Get Of Unknown Size, 16 Mbit/s    link-local    http1       get          no            16 Mbit/s
Link-Local, H1 Put, 16 Mbit/s                    link-local    http1       put          yes           16 Mbit/s
Link-Local, H2 Get, 16 Mbit/s                    link-local    h2          get          yes           16 Mbit/s
Link-Local, H2 Get Of Unknown Size, 16 Mbit/s    link-local    h2          get          no            16 Mbit/s
Link-Local, H2 Put, 16 Mbit/s                    link-local    h2          put          yes           16 Mbit/s
Link-Local, H3 Get, 16 Mbit/s                    link-local    h3          get          yes           16 Mbit/s
Link-Local, H3 Get Of Unknown Size, 16 Mbit/s    link-local    h3          get          no            16 Mbit/s
Link-Local, H3 Put, 16 Mbit/s                    link-local    h3          put          yes           16 Mbit/s
Link-Local, SFTP Get, 8 Mbit/s                   link-local    sftp        get          yes           8 Mbit/s
Link-Local, SFTP Get, 16 Mbit/s                  link-local    sftp        get          yes           16 Mbit/s
Link-Local, SFTP Put, 8 Mbit/s                   link-local    sftp        put          yes           8 Mbit/s
Link-Local, SFTP Put, 16 Mbit/s                  link-local    sftp        put          yes           16 Mbit/s
DSL 50, H1 Get, 8 Mbit/s                         dsl-50        http1       get          yes           8 Mbit/s
    [Tags]    mail
DSL 50, H1 Get, 16 Mbit/s                        dsl-50        http1       get          yes           16 Mbit/s
    [Tags]    mail
DSL 50, H1 Get Of Unknown Size, 16 Mbit/s        dsl-50        http1       get          no            16 Mbit/s
DSL 50, H1 Put, 16 Mbit/s                        dsl-50        http1       put          yes           16 Mbit/s
DSL 50, H2 Get, 16 Mbit/s                        dsl-50        h2          get          yes           16 Mbit/s
DSL 50, H2 Get Of Unknown Size, 16 Mbit/s        dsl-50        h2          get          no            16 Mbit/s
    [Tags]    demo
DSL 50, H2 Put, 16 Mbit/s                        dsl-50        h2          put          yes           16 Mbit/s
    [Tags]    demo
DSL 50, H3 Get, 16 Mbit/s                        dsl-50        h3          get          yes           16 Mbit/s
DSL 50, H3 Get Of Unknown Size, 16 Mbit/s        dsl-50        h3          get          no            16 Mbit/s
DSL 50, H3 Put, 16 Mbit/s                        dsl-50        h3          put          yes           16 Mbit/s
DSL 50, SFTP Get, 8 Mbit/s                       dsl-50        sftp        get          yes           8 Mbit/s
DSL 50, SFTP Get, 16 Mbit/s                      dsl-50        sftp        get          yes           16 Mbit/s
DSL 50, SFTP Put, 8 Mbit/s                       dsl-50        sftp        put          yes           8 Mbit/s
DSL 50, SFTP Put, 16 Mbit/s                      dsl-50        sftp        put          yes           16 Mbit/s
DSL 20, H1 Get, 8 Mbit/s                         dsl-20        http1       get          yes           8 Mbit/s
    [Tags]    mail    demo
DSL 20, H1 Get, 16 Mbit/s                        dsl-20        http1       get          yes           16 Mbit/s
    [Tags]    mail
DSL 20, H1 Get Of Unknown Size, 16 Mbit/s        dsl-20        http1       get          no            16 Mbit/s
DSL 20, H1 Get Of Unknown Size, 8 Mbit/s         dsl-20        http1       get          no            8 Mbit/s
DSL 20, H1 Put, 16 Mbit/s                        dsl-20        http1       put          yes           16 Mbit/s
    [Tags]    demo
DSL 20, H1 Put, 8 Mbit/s                         dsl-20        http1       put          yes           8 Mbit/s
DSL 20, H2 Get, 16 Mbit/s                        dsl-20        h2          get          yes           16 Mbit/s
DSL 20, H2 Get, 8 Mbit/s                         dsl-20        h2          get          yes           8 Mbit/s
DSL 20, H2 Get Of Unknown Size, 16 Mbit/s        dsl-20        h2          get          no            16 Mbit/s
DSL 20, H2 Get Of Unknown Size, 8 Mbit/s         dsl-20        h2          get          no            8 Mbit/s
DSL 20, H2 Put, 16 Mbit/s                        dsl-20        h2          put          yes           16 Mbit/s
DSL 20, H2 Put, 8 Mbit/s                         dsl-20        h2          put          yes           8 Mbit/s
DSL 20, H3 Get, 16 Mbit/s                        dsl-20        h3          get          yes           16 Mbit/s
DSL 20, H3 Get, 8 Mbit/s                         dsl-20        h3          get          yes           8 Mbit/s
DSL 20, H3 Get Of Unknown Size, 16 Mbit/s        dsl-20        h3          get          no            16 Mbit/s
DSL 20, H3 Get Of Unknown Size, 8 Mbit/s         dsl-20        h3          get          no            8 Mbit/s
DSL 20, H3 Put, 16 Mbit/s                        dsl-20        h3          put          yes           16 Mbit/s
DSL 20, H3 Put, 8 Mbit/s                         dsl-20        h3          put          yes           8 Mbit/s
Aioquic 20, H3 Get, 8 Mbit/s                     aioquic-20    h3          get          yes           8 Mbit/s
Aioquic 20, H3 Put, 8 Mbit/s                     aioquic-20    h3          put          yes           8 Mbit/s
DSL 20, SFTP Get, 8 Mbit/s                       dsl-20        sftp        get          yes           8 Mbit/s
DSL 20, SFTP Get, 16 Mbit/s                      dsl-20        sftp        get          yes           16 Mbit/s
DSL 20, SFTP Put, 8 Mbit/s                       dsl-20        sftp        put          yes           8 Mbit/s
DSL 20, SFTP Put, 16 Mbit/s                      dsl-20        sftp        put          yes           16 Mbit/s
    [Tags]    demo


*** Keywords ***
A Limited Transfer Should Keep To Its Limit
    [Documentation]    One cell: ``${SIZE}`` by ``${CLIENT}`` at ``limit`` over the link of ``topology``.
    [Arguments]    ${topology}    ${protocol}    ${direction}    ${size_known}    ${limit}
    Judge Limited Transfer
    ...    client=${CLIENT}
    ...    topology=${topology}
    ...    protocol=${protocol}
    ...    direction=${direction}
    ...    size_known=${size_known}
    ...    limit=${limit}
    ...    size=${SIZE}
    ...    tolerance=${TOLERANCE}
