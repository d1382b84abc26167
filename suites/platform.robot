*** Settings ***
Documentation       What does the same work cost on this host, and what would it cost on another?
...
...                 200 MB are downloaded over a link that is not shaped, to a file and thrown away: the difference is what the
...                 file costs. Before and after each test the host's CPU score is measured (64 MiB of SHA-256, five times). The
...                 result has MB/s, CPU seconds per GB, and those times the score: the MB this processor would hash in that
...                 time, which can be compared between hosts. Run it on both, then `lab compare A B`.
...
...                 Clock: real. The question is what the work costs on this machine.
Metadata            Study    platform
Library             lab.robot.library.LabLibrary
Test Template       The Same Work
Test Tags           study:platform
Test Timeout        15 minutes


*** Variables ***
${CLIENT}       ferry
${TOPOLOGY}     link-local
${SIZE}         200 MB


*** Test Cases ***        PROTOCOL    DISCARD
H2 To A File              h2          no
H2 Discarded              h2          yes
H1 To A File              http1       no
H1 Discarded              http1       yes
SFTP To A File            sftp        no
SFTP Discarded            sftp        yes


*** Keywords ***
The Same Work
    [Documentation]    One cell: a download of ``${SIZE}`` by ``${CLIENT}``, between two CPU scores.
    [Arguments]    ${protocol}    ${discard}
    Measure Platform Work
    ...    client=${CLIENT}
    ...    topology=${TOPOLOGY}
    ...    protocol=${protocol}
    ...    size=${SIZE}
    ...    discard=${discard}
