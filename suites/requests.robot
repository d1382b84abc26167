*** Settings ***
Documentation       How many small requests per second does a client make, and what do they cost it?
...
...                 50,000 requests for 10 KB, over h2 on one connection, over HTTP/1.1 on as many as are under way; what is
...                 downloaded is thrown away. Nothing is promised but that all of it arrives, so that a test passes when it
...                 does; requests per second, CPU and memory are figures of the result. The link is not shaped. Meant for
...                 ``--client ferry --client curl --client h2load``. --flamegraph and --syscalls add one run more of the client
...                 under perf, which is not counted. What versions of curl cost each other: request-versions.
...
...                 Clock: real. The processor is what limits requests per second, and in virtual time it takes none.
Metadata            Study    requests
Library             lab.robot.library.LabLibrary
Test Template       Many Small Requests
Test Tags           study:requests
Test Timeout        1 hour


*** Variables ***
${CLIENT}       ferry
${TOPOLOGY}     link-local
${SIZE}         10 kB


*** Test Cases ***                       PROTOCOL    REQUESTS    PARALLEL
50000 Requests, 100 At Once, H2          h2          50000       100
50000 Requests, 6 At Once, H2            h2          50000       6
50000 Requests, 100 At Once, H1          http1       50000       100
50000 Requests, 6 At Once, H1            http1       50000       6


*** Keywords ***
Many Small Requests
    [Documentation]    One cell: ``requests`` for ``${SIZE}`` by ``${CLIENT}``, ``parallel`` at once.
    [Arguments]    ${protocol}    ${requests}    ${parallel}
    Measure Requests
    ...    client=${CLIENT}
    ...    topology=${TOPOLOGY}
    ...    protocol=${protocol}
    ...    requests=${requests}
    ...    size=${SIZE}
    ...    parallel=${parallel}
