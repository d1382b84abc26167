*** Settings ***
Documentation       Does a set of files arrive intact, and the thousandth file as fast as the first?
...
...                 One run of the client over SFTP moves the set; every file is compared with what was sent, and the result
...                 has the time when each was complete. In a set of 200 files and more the last hundred must take no longer,
...                 each, than the first hundred: it passes when the interval of the mean ratio ends at or below 1.05. Smaller
...                 sets only have to arrive intact, five times.
...                 Tests tagged ``slow`` take six minutes each at the line's own speed: leave them out with
...                 ``--exclude slow``. Those tagged ``ci`` take less than a minute together on a client that fills the line.
...
...                 Clock: virtual. Round trips slow a set down; writing to a disk is not the question.
Metadata            Study    file-sets
Library             lab.robot.library.LabLibrary
Test Template       A Set Of Files Should Arrive Intact And Steadily
Test Tags           study:file-sets
Test Timeout        4 hours


*** Variables ***
${CLIENT}       ferry
${TOPOLOGY}     metro-200
${TOLERANCE}    5 %


*** Test Cases ***    DIRECTION    FILES    SIZE
Put 1 x 1800 MB       put          1        1.8 GB
    [Tags]    slow
Get 1 x 1800 MB       get          1        1.8 GB
    [Tags]    slow
Put 10 x 12 MB        put          10       12 MB
Get 10 x 12 MB        get          10       12 MB
Put 100 x 1 MB        put          100      1 MB
Get 100 x 1 MB        get          100      1 MB
Put 1000 x 20 kB      put          1000     20 kB
    [Tags]    ci
Get 1000 x 20 kB      get          1000     20 kB
    [Tags]    ci


*** Keywords ***
A Set Of Files Should Arrive Intact And Steadily
    [Documentation]    One cell: ``files`` of ``size`` each, in one run of ``${CLIENT}`` over the link of ``${TOPOLOGY}``.
    [Arguments]    ${direction}    ${files}    ${size}
    Judge File Set
    ...    client=${CLIENT}
    ...    topology=${TOPOLOGY}
    ...    direction=${direction}
    ...    files=${files}
    ...    size=${size}
    ...    tolerance=${TOLERANCE}
