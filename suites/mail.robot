*** Settings ***
Documentation       Does an application on libcurl keep its limit as the mail of December 2023 reports it?
...
...                 The mail's own six cells: 5 MiB at 8 and 16 Mbit/s on networks of 700, 50 and 20 Mbit/s. It reports -19 to
...                 -22 % at 8 Mbit/s on the first two and -9 % on the third, up to +11 % at 16 Mbit/s on the second, for 8.4.0
...                 and for the master of that week (between 8.4.0 and 8.5.0), and less than 1 % for 7.84.0. It is about an
...                 application on Windows, not about curl's tool, and does not say how that application uses libcurl.
...
...                 Clients are applications on libcurl: `--client libcurl@8.5.0`, or an application from a YAML file,
...                 `--client mail-app@8.5.0`, which has the easy interface and a receive window of 1.4 MB.
...                 Rows tagged ``far-from-the-line`` take one line and limits from a fiftieth of it to three quarters: the mail
...                 says that the deviation grows as the limit gets far from the line.
...
...                 The mail divides all bytes by the complete time of the run, connection included: the figure ``total``. A
...                 verdict is about the body's rate, as everywhere; `-v PROMISE:overall` judges the mail's figure instead: it
...                 must be at least 0.95 of the limit. Above the limit it can only be where the body's rate is too.
...
...                 Clock: virtual.
Metadata            Study    mail
Library             lab.robot.library.LabLibrary
Test Template       A Limited Download Should Keep To Its Limit
Test Tags           study:mail
Test Timeout        15 minutes


*** Variables ***
${CLIENT}           mail-app@8.5.0
${SIZE_KNOWN}       yes
${SIZE}             5 MiB
${TOLERANCE}        5 %
${PROMISE}          limit


*** Test Cases ***                        TOPOLOGY    PROTOCOL    LIMIT
Local Network, H2, 8 Mbit/s               lan-700     h2          8 Mbit/s
    [Tags]    mail
Local Network, H2, 16 Mbit/s              lan-700     h2          16 Mbit/s
    [Tags]    mail
Local Network, H1 Over TLS, 8 Mbit/s      lan-700     https1      8 Mbit/s
    [Tags]    mail
Local Network, H1 Over TLS, 16 Mbit/s     lan-700     https1      16 Mbit/s
    [Tags]    mail
50 Mbit/s, H2, 8 Mbit/s                   lan-50      h2          8 Mbit/s
    [Tags]    mail
50 Mbit/s, H2, 16 Mbit/s                  lan-50      h2          16 Mbit/s
    [Tags]    mail
50 Mbit/s, H1 Over TLS, 8 Mbit/s          lan-50      https1      8 Mbit/s
    [Tags]    mail
50 Mbit/s, H1 Over TLS, 16 Mbit/s         lan-50      https1      16 Mbit/s
    [Tags]    mail
20 Mbit/s, H2, 8 Mbit/s                   lan-20      h2          8 Mbit/s
    [Tags]    mail
20 Mbit/s, H2, 16 Mbit/s                  lan-20      h2          16 Mbit/s
    [Tags]    mail
20 Mbit/s, H1 Over TLS, 8 Mbit/s          lan-20      https1      8 Mbit/s
    [Tags]    mail
20 Mbit/s, H1 Over TLS, 16 Mbit/s         lan-20      https1      16 Mbit/s
    [Tags]    mail
A Fiftieth Of The Line                    lan-50      https1      1 Mbit/s
    [Tags]    far-from-the-line
A Twenty-Fifth Of The Line                lan-50      https1      2 Mbit/s
    [Tags]    far-from-the-line
A Twelfth Of The Line                     lan-50      https1      4 Mbit/s
    [Tags]    far-from-the-line
Half The Line                             lan-50      https1      24 Mbit/s
    [Tags]    far-from-the-line
Three Quarters Of The Line                lan-50      https1      36 Mbit/s
    [Tags]    far-from-the-line


*** Keywords ***
A Limited Download Should Keep To Its Limit
    [Documentation]    One cell: ``${SIZE}`` from the server by ``${CLIENT}``, itself limited to ``limit``.
    [Arguments]    ${topology}    ${protocol}    ${limit}
    Judge Limited Transfer
    ...    client=${CLIENT}
    ...    topology=${topology}
    ...    protocol=${protocol}
    ...    limit=${limit}
    ...    size=${SIZE}
    ...    size_known=${SIZE_KNOWN}
    ...    tolerance=${TOLERANCE}
    ...    promise=${PROMISE}
