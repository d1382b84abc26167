*** Settings ***
Documentation       What does the operating system's automatic send buffer do for uploads, near and far?
...
...                 The same upload with the send buffer of the client's host fixed at 64 KiB and automatic, in turn, five
...                 rounds. The only promise is that every upload is intact; the answer has the time of each, and the
...                 speed-up with its interval. On Linux the buffer is fixed by tcp_wmem of the host. On Windows the question is
...                 that of dynamic send buffering (ideal send backlog), which the client asks for: the tests ``By The Client``
...                 compare ferry's ``--sndbuf off`` and ``auto``, and keep what the system answered. Not run on Windows;
...                 under Wine the answer is Wine's, and the buffer Linux's.
...
...                 Clock: virtual, except for a Windows program: what a buffer costs follows from the round trip.
Metadata            Study    windows-uploads
Library             lab.robot.library.LabLibrary
Test Template       An Upload With Either Send Buffer
Test Tags           study:windows-uploads
Test Timeout        15 minutes


*** Variables ***
${CLIENT}       ferry
${SIZE}         4 MiB
${FIXED}        64 KiB
${ROUNDS}       5


*** Test Cases ***                   TOPOLOGY     PROTOCOL
H1 Put, 20 ms                        metro-200    http1
H1 Put, 50 ms                        coast-200    http1
H1 Put, 100 ms                       far-200      http1
H2 Put, 20 ms                        metro-200    h2
H2 Put, 50 ms                        coast-200    h2
H2 Put, 100 ms                       far-200      h2
H1 Put, 20 ms, By The Client         metro-200    http1       fixed=off
H1 Put, 50 ms, By The Client         coast-200    http1       fixed=off
H1 Put, 100 ms, By The Client        far-200      http1       fixed=off
SFTP Put, 100 ms, By The Client      far-200      sftp        fixed=off


*** Keywords ***
An Upload With Either Send Buffer
    [Documentation]    ``${SIZE}`` by ``${CLIENT}`` over the link of ``topology``, ``${ROUNDS}`` times with each send buffer.
    [Arguments]    ${topology}    ${protocol}    ${fixed}=${FIXED}
    Compare Send Buffers
    ...    client=${CLIENT}
    ...    topology=${topology}
    ...    protocol=${protocol}
    ...    size=${SIZE}
    ...    fixed=${fixed}
    ...    rounds=${ROUNDS}
