*** Settings ***
Documentation       How does a client take what an operating system, or a laptop that is carried about, does to its connections?
...
...                 ``refused``: no server listens; it must say so within a second more than the round trip (Windows repeats a
...                 refused SYN for two seconds). ``silent``: the server drops every SYN; how long until the client gives up, with
...                 its own connect time-out of 5 s and without.
...                 ``fallback``: localhost is ::1 and 127.0.0.1, and only one of them serves; it must be used within 2 s, as
...                 RFC 8305 recommends. This row is asked on one host that is client and server. ``localhost``: the name
...                 needs no query. ``flap``: the link is down for a second in the middle of a transfer. ``address``: the host
...                 gets another address meanwhile, and the connection is dead. After the last two, up and down over HTTP/1.1,
...                 h2 and SFTP, the content is intact, or there is an error within 60 s: never a short file with
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


*** Test Cases ***                             QUIRK        PROTOCOL    DIRECTION
A Refused Connection Is Reported At Once       refused
A Silent Server Is Given Up                    silent
Localhost Needs No Query                       localhost
Localhost Has Another Address                  fallback     topology=same-host
The Link Flaps, HTTP Down                      flap         http1       get
The Link Flaps, HTTP Up                        flap         http1       put
The Link Flaps, H2 Down                        flap         h2          get
The Link Flaps, H2 Up                          flap         h2          put
The Link Flaps, SFTP Down                      flap         sftp        get
The Link Flaps, SFTP Up                        flap         sftp        put
The Address Changes, HTTP Down                 address      http1       get
The Address Changes, HTTP Up                   address      http1       put
The Address Changes, H2 Down                   address      h2          get
The Address Changes, H2 Up                     address      h2          put
The Address Changes, SFTP Down                 address      sftp        get
The Address Changes, SFTP Up                   address      sftp        put


*** Keywords ***
A Client Should Cope
    [Documentation]    One answer: ``quirk`` happens to ``${CLIENT}`` on the link of ``${TOPOLOGY}``.
    [Arguments]    ${quirk}    ${protocol}=http1    ${direction}=get    ${topology}=${TOPOLOGY}
    Check Quirk    ${quirk}    ${protocol}    ${direction}    client=${CLIENT}    topology=${topology}    size=${SIZE}
