*** Settings ***
Documentation       Does a file arrive soon where the server has two addresses, one of them leads nowhere, or its name takes time?
...
...                 A row is 1 MB over 20 Mbit/s with a round trip of 60 ms, from the start of the program to its end. That takes
...                 0.6 s over either family. A client that tries IPv6, waits and then tries IPv4 (RFC 8305) adds some 0.2 s where
...                 the path is dead; a client that waits for the kernel adds two minutes. A row passes within ``within``
...                 seconds: five, but where a resolver stays silent and the system's own asks for fifteen (resolv.conf(5)).
...
...                 Clock: virtual.
Metadata            Study    dual-stack
Library             lab.robot.library.LabLibrary
Test Template       A File Should Arrive Soon
Test Tags           study:dual-stack
Test Timeout        1 hour


*** Variables ***
${CLIENT}       ferry
${SIZE}         1 MB


*** Test Cases ***                      TOPOLOGY                PROTOCOL    DIRECTION    WITHIN
IPv6 Alone, H1 Get                      ipv6-20                 http1       get     5
IPv6 Alone, H1 Put                      ipv6-20                 http1       put     5
IPv6 Alone, H2 Get                      ipv6-20                 h2          get     5
IPv6 Alone, SFTP Put                    ipv6-20                 sftp        put     5
Both, H1 Get                            dual-20                 http1       get     5
Both, SFTP Get                          dual-20                 sftp        get     5
IPv6 Dead, H1 Get                       dual-dead-20            http1       get     5
IPv6 Dead, H1 Put                       dual-dead-20            http1       put     5
IPv6 Dead, H2 Get                       dual-dead-20            h2          get     5
IPv6 Dead, SFTP Get                     dual-dead-20            sftp        get     5
IPv6 Dead, SFTP Put                     dual-dead-20            sftp        put     5
IPv6 Unreachable, H1 Get                dual-unreachable-20     http1       get     5
IPv6 Unreachable, SFTP Get              dual-unreachable-20     sftp        get     5
IPv6 Slow, H1 Get                       dual-slow-20            http1       get     5
IPv6 Slow, SFTP Get                     dual-slow-20            sftp        get     5
AAAA Late, H1 Get                       dns-slow-20             http1       get     5
AAAA Silent, H1 Get                     dns-silent-20           http1       get     20
AAAA Silent, SFTP Get                   dns-silent-20           sftp        get     20
AAAA Failing, H1 Get                    dns-failing-20          http1       get     5


*** Keywords ***
A File Should Arrive Soon
    [Documentation]    ``${SIZE}`` by ``${CLIENT}`` over ``topology``, judged by the time from the program's start to its end.
    [Arguments]    ${topology}    ${protocol}    ${direction}    ${within}
    Judge Bound
    ...    client=${CLIENT}
    ...    topology=${topology}
    ...    kind=wall
    ...    size=${SIZE}
    ...    bound=${within}
    ...    protocol=${protocol}
    ...    direction=${direction}
