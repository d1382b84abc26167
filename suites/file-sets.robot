*** Settings ***
Documentation       Does a set of files arrive whole, and the thousandth file as fast as the first?
...
...                 One run of the client over SFTP takes the whole set; every file is compared with what was sent, and when each
...                 was complete is in the result. In a set of 200 files and more the last hundred must take no longer, each, than
...                 the first hundred: it passes when the interval of the mean ratio ends at or below 1.05. Smaller sets only have
...                 to arrive whole, five times.
...                 Tests tagged ``slow`` take six minutes each at the line's own speed: leave them out with
...                 ``--exclude slow``. Those tagged ``ci`` take less than a minute together on a client that fills the line.
...
...                 Clock: virtual. What slows a set down are round trips, and its writes to a disk are no part of the question.
Metadata            Study    file-sets
Library             lab.keywords.library.LabLibrary
Test Template       A Set Of Files Should Arrive Whole And Steadily
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
A Set Of Files Should Arrive Whole And Steadily
    [Documentation]    One cell: ``files`` of ``size`` each, in one run of ``${CLIENT}`` over the link of ``${TOPOLOGY}``.
    [Arguments]    ${direction}    ${files}    ${size}
    Judge File Set
    ...    client=${CLIENT}
    ...    topology=${TOPOLOGY}
    ...    direction=${direction}
    ...    files=${files}
    ...    size=${size}
    ...    tolerance=${TOLERANCE}
