*** Settings ***
Documentation       The rows that planted regressions are looked for in (benchmarks/planted): short, one for each kind of figure.
...
...                 Clock: virtual.
Metadata            Study    planted
Library             lab.robot.library.LabLibrary
Test Timeout        1 hour


*** Variables ***
${CLIENT}       ferry
${SEEDS}        50


*** Test Cases ***
dsl-50--http1-get-3MiB-at-2MBps
    [Tags]    limit
    Judge Release Row    ${TEST NAME}    client=${CLIENT}    why=the limit is kept
dsl-50--http1-get-1MiB
    [Tags]    free
    Judge Release Row    ${TEST NAME}    client=${CLIENT}    why=time to complete
far-50--http1-get-300kB
    [Tags]    far
    Judge Release Row    ${TEST NAME}    client=${CLIENT}    why=round trips
Connection Closed
    [Tags]    fault
    Exit Code Should Be True    fin    http1    get    client=${CLIENT}    topology=dsl-20    size=300 KiB    seeds=${SEEDS}
