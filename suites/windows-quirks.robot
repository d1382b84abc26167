*** Settings ***
Documentation       How does a client take what an operating system, or a laptop that is carried about, does to its connections?
...
...                 ``refused``: no server listens; it must say so within a second more than the round trip (Windows repeats a
...                 refused SYN for two seconds). ``localhost``: the name needs no query. ``flap``: the link is down for a
...                 second in the middle of a download. ``address``: the host gets another address meanwhile, and the connection
...                 is dead. After the last two the content is intact, or there is an error within 60 s: never a short file with
...                 exit code 0, never a hang. All four need a Linux client: on Windows they are refused.
...
...                 Clock: virtual, except for a Windows program. When an error comes is up to the protocol and the client.
Metadata            Study    windows-quirks
Library             lab.robot.library.LabLibrary
Test Template       A Client Should Cope
Test Tags           study:windows-quirks
Test Timeout        15 minutes


*** Variables ***
${CLIENT}       ferry
${TOPOLOGY}     dsl-20
${SIZE}         8 MiB


*** Test Cases ***                             QUIRK
A Refused Connection Is Reported At Once       refused
Localhost Needs No Query                       localhost
The Link Flaps                                 flap
The Address Changes                            address


*** Keywords ***
A Client Should Cope
    [Documentation]    One answer: ``quirk`` happens to ``${CLIENT}`` on the link of ``${TOPOLOGY}``.
    [Arguments]    ${quirk}
    Check Quirk    ${quirk}    client=${CLIENT}    topology=${TOPOLOGY}    size=${SIZE}
