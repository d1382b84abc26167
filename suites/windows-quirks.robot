*** Settings ***
Documentation       How does a client take what an operating system, or a laptop that is carried about, does to its connections?
...
...                 ``refused``: no server listens; it must say so within a second more than the round trip (Windows repeats a
...                 refused SYN for two seconds). ``silent``: the server drops every SYN; how long until the client gives up, with
...                 its own connect time-out of 5 s and without.
...                 ``fallback``: localhost is ::1 and 127.0.0.1, and only one of them serves; it must be used within 2 s, as
...                 RFC 8305 recommends. This row is asked on one host that is client and server. ``localhost``: the name
...                 needs no query. ``flap``: the link is down for a second in the middle of a download. ``address``: the host
...                 gets another address meanwhile, and the connection is dead. After the last two the content is intact, or
...                 there is an error within 60 s: never a short file with
...                 exit code 0, never a hang. All of them need a Linux client: on Windows they are refused.
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
A Silent Server Is Given Up                    silent
Localhost Needs No Query                       localhost
Localhost Has Another Address                  fallback       topology=same-host
The Link Flaps                                 flap
The Address Changes                            address


*** Keywords ***
A Client Should Cope
    [Documentation]    One answer: ``quirk`` happens to ``${CLIENT}`` on the link of ``${TOPOLOGY}``.
    [Arguments]    ${quirk}    ${topology}=${TOPOLOGY}
    Check Quirk    ${quirk}    client=${CLIENT}    topology=${topology}    size=${SIZE}
