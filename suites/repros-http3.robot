*** Settings ***
Documentation       Two bugs of curl's HTTP/3 that others measured on links of known figures: are they where they were reported?
...
...                 As `repros`. No registry has a bad version with HTTP/3, so a row takes the program as a variable: a bad one
...                 by its path, and its libraries by ``--userland client=FOLDER``, which then is that of the good clients too.
...                 Without one, the good clients alone are asked: `lab run repros-http3`, or with a bad one
...                 `lab run repros-http3 --test h3-windows -v BAD_WINDOWS:curl-8.10.1=/opt/curl-8.10.1/curl
...                 -v GOOD:ferry --userland client=/srv/root`.
...
...                 Clock: virtual.
Metadata            Study    repros-http3
Library             lab.robot.library.LabLibrary
Test Template       A Bug Should Be Where It Was Reported
Test Tags           study:repros-http3
Test Timeout        1 hour


*** Variables ***
${GOOD}             curl@debian13, ferry
${BAD_WINDOWS}      none
${BAD_GIGABIT}      none


*** Test Cases ***      TOPOLOGY    TRANSFER    EXPECT    BAD    GOOD    REPORT    SYMPTOM
h3-windows
    # 10 MB in 0.6 s are 0.56 of what the line carries, in 6 s 0.06.
    line-250    h3-get-10MB    fill at least 0.3    ${BAD_WINDOWS}    ${GOOD}    https://github.com/curl/curl/issues/20030
    ...    December 2025, before 8.18.0: the new rate limits (24b36fdd15) crippled the windows of HTTP/3. 10 MB over 250 Mbit/s
    ...    with 30 ms took 6 s instead of 0.6. Fixed by 0f7b182f2f before a release had it.

h3-gigabit
    # 3 s and 100 s of the same file: a thirtieth. Not half of the line, which no client reached within 50 MB.
    line-1000    h3-get-50MB    fill at least 0.1    ${BAD_GIGABIT}    ${GOOD}    https://github.com/curl/curl/issues/15267
    ...    October 2024, 8.10: a download over 1 Gbit/s with 2 ms took 100 s instead of 3.


*** Keywords ***
A Bug Should Be Where It Was Reported
    [Documentation]    One cell on every client that is named, over ``topology``.
    [Arguments]    ${topology}    ${transfer}    ${expect}    ${bad}    ${good}    ${report}    @{symptom}
    Reproduce Bug
    ...    ${TEST NAME}
    ...    ${topology}
    ...    ${transfer}
    ...    ${expect}
    ...    ${bad}
    ...    ${good}
    ...    ${report}
    ...    @{symptom}
