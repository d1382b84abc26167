*** Settings ***
Documentation       Does a limited transfer keep its promise where a limiter is easily wrong?
...
...                 The rows of `throttle` are all of one size, which is close to a multiple of their limits, one at a time,
...                 and judged by the mean. Sizes in this suite are not multiples (1,999,999 B and 1,500,000 B at 1 MB/s: a
...                 limiter that gives a second's worth away is twice and half again too fast), four transfers share a
...                 connection and each has the limit, and besides the mean the fastest 100 ms on the wire once the transfer
...                 has begun (``burst``, at most 1.5 times the limit) and the CPU (``cpu``, at most half a core) are judged.
...
...                 Clock: virtual, for the reason that `throttle` gives; the rows about CPU run in real time.
Metadata            Study    throttle
Library             lab.robot.library.LabLibrary
Test Template       A Limited Transfer Should Keep Its Promise
Test Tags           study:throttle    extended
Test Timeout        15 minutes


*** Variables ***
${CLIENT}       ferry
${TOPOLOGY}     dsl-50
${LIMIT}        1 MB/s
${TOLERANCE}    5 %


*** Test Cases ***           PROTOCOL    DIRECTION    FILES    SIZE         PROMISE
H1 Put Of 1999999 B          http1       put          1        1999999 B    limit
H1 Get Of 1999999 B          http1       get          1        1999999 B    limit
H1 Put Of 1500000 B          http1       put          1        1500000 B    limit
H1 Get Of 1500000 B          http1       get          1        1500000 B    limit
H2 Put Of 1999999 B          h2          put          1        1999999 B    limit
H2 Get Of 1999999 B          h2          get          1        1999999 B    limit
SFTP Put Of 1999999 B        sftp        put          1        1999999 B    limit
SFTP Get Of 1999999 B        sftp        get          1        1999999 B    limit
Four Limited H2 Streams      h2          get          4        5 MiB        limit
Four Limited H1 Gets         http1       get          4        5 MiB        limit
Burst Of An H1 Get           http1       get          1        5 MiB        burst
Burst Of An H1 Put           http1       put          1        5 MiB        burst
Burst Of An H2 Get           h2          get          1        5 MiB        burst
CPU Of An H1 Get             http1       get          1        5 MiB        cpu
CPU Of Four H2 Streams       h2          get          4        5 MiB        cpu


*** Keywords ***
A Limited Transfer Should Keep Its Promise
    [Documentation]    One cell: ``files`` of ``size`` at once by ``${CLIENT}``, each at ``${LIMIT}``.
    [Arguments]    ${protocol}    ${direction}    ${files}    ${size}    ${promise}
    Judge Limited Transfer
    ...    client=${CLIENT}
    ...    topology=${TOPOLOGY}
    ...    protocol=${protocol}
    ...    direction=${direction}
    ...    files=${files}
    ...    size=${size}
    ...    limit=${LIMIT}
    ...    promise=${promise}
    ...    tolerance=${TOLERANCE}
