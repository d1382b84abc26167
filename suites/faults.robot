*** Settings ***
Documentation    Is exit code 0 always a complete and identical file, whatever happens to the transfer?
...
...              Each row is ``${SEEDS}`` transfers with one fault, at a byte that the seed draws. It passes when every run
...              with exit code 0 left the identical file where it belongs. Another exit code is right as such. A client that
...              has not ended after 20 minutes fails. The answer has what was left behind, how long the client took to end
...              after the fault, and how often it connected.
...
...              ``corrupt`` changes bits behind TCP's checksum. Over plain HTTP nothing in the protocol can notice it; TLS
...              and SSH do, and QUIC throws such datagrams away. Faults of HTTP answers over h2 and h3 come from a faulty
...              server behind nginx. No SFTP server lies.
...
...              Rows that a client cannot do are skipped. `-v SEEDS:15` takes 15 of each; `--seed 2` draws others.
...
...              Clock: virtual.
Metadata         Study    faults

Library          lab.robot.library.LabLibrary

Test Timeout     1 hour
Test Template    A Client Should Tell The Truth

Test Tags        study:faults


*** Variables ***
${CLIENT}      ferry
${TOPOLOGY}    dsl-20
${SIZE}        300 KiB
${SEEDS}       3


*** Test Cases ***                          FAULT           PROTOCOL    DIRECTION
Connection Closed, HTTP Down                fin             http1       get
Connection Closed, HTTP Up                  fin             http1       put
Connection Closed, H2 Down                  fin             h2          get
Connection Closed, H2 Up                    fin             h2          put
Connection Closed, SFTP Down                fin             sftp        get
Connection Closed, SFTP Up                  fin             sftp        put
Connection Reset, HTTP Down                 rst             http1       get
Connection Reset, HTTP Up                   rst             http1       put
Connection Reset, H2 Down                   rst             h2          get
Connection Reset, H2 Up                     rst             h2          put
Connection Reset, SFTP Down                 rst             sftp        get
Connection Reset, SFTP Up                   rst             sftp        put
Bits Changed, HTTP Down                     corrupt         http1       get
Bits Changed, HTTP Up                       corrupt         http1       put
Bits Changed, H2 Down                       corrupt         h2          get
Bits Changed, H2 Up                         corrupt         h2          put
Bits Changed, H3 Down                       corrupt         h3          get
Bits Changed, H3 Up                         corrupt         h3          put
Bits Changed, SFTP Down                     corrupt         sftp        get
Bits Changed, SFTP Up                       corrupt         sftp        put
Bits Changed, HTTPS Down                    corrupt         https1      get
Bits Changed, HTTPS Up                      corrupt         https1      put
Server Killed, HTTP Down                    killed          http1       get
Server Killed, HTTP Up                      killed          http1       put
Server Killed, H2 Down                      killed          h2          get
Server Killed, H2 Up                        killed          h2          put
Server Killed, SFTP Down                    killed          sftp        get
Server Killed, SFTP Up                      killed          sftp        put
Link Down 1 s, HTTP Down                    down-1s         http1       get
Link Down 1 s, HTTP Up                      down-1s         http1       put
Link Down 1 s, H2 Down                      down-1s         h2          get
Link Down 1 s, H2 Up                        down-1s         h2          put
Link Down 1 s, H3 Down                      down-1s         h3          get
Link Down 1 s, H3 Up                        down-1s         h3          put
Link Down 1 s, SFTP Down                    down-1s         sftp        get
Link Down 1 s, SFTP Up                      down-1s         sftp        put
Link Down 5 s, HTTP Down                    down-5s         http1       get
Link Down 5 s, HTTP Up                      down-5s         http1       put
Link Down 5 s, H2 Down                      down-5s         h2          get
Link Down 5 s, H2 Up                        down-5s         h2          put
Link Down 5 s, H3 Down                      down-5s         h3          get
Link Down 5 s, H3 Up                        down-5s         h3          put
Link Down 5 s, SFTP Down                    down-5s         sftp        get
Link Down 5 s, SFTP Up                      down-5s         sftp        put
Link Down 30 s, HTTP Down                   down-30s        http1       get
Link Down 30 s, HTTP Up                     down-30s        http1       put
Link Down 30 s, H2 Down                     down-30s        h2          get
Link Down 30 s, H2 Up                       down-30s        h2          put
Link Down 30 s, H3 Down                     down-30s        h3          get
Link Down 30 s, H3 Up                       down-30s        h3          put
Link Down 30 s, SFTP Down                   down-30s        sftp        get
Link Down 30 s, SFTP Up                     down-30s        sftp        put
Address Changed, HTTP Down                  address         http1       get
Address Changed, HTTP Up                    address         http1       put
Address Changed, H2 Down                    address         h2          get
Address Changed, H2 Up                      address         h2          put
Address Changed, H3 Down                    address         h3          get
Address Changed, H3 Up                      address         h3          put
Address Changed, SFTP Down                  address         sftp        get
Address Changed, SFTP Up                    address         sftp        put
Port Of The NAT Changed, H3 Down            rebind          h3          get
Port Of The NAT Changed, H3 Up              rebind          h3          put
Error Before The Answer, HTTP Down          http-error      http1       get
Error Before The Answer, HTTP Up            http-error      http1       put
Error Before The Answer, H2 Down            http-error      h2          get
Error Before The Answer, H2 Up              http-error      h2          put
Error Before The Answer, H3 Down            http-error      h3          get
Error Before The Answer, H3 Up              http-error      h3          put
Connection Ends In An Error, HTTP Down      error-cut       http1       get
Connection Ends In An Error, HTTP Up        error-cut       http1       put
Connection Ends In An Error, H2 Down        error-cut       h2          get
Connection Ends In An Error, H2 Up          error-cut       h2          put
Connection Ends In An Error, H3 Down        error-cut       h3          get
Connection Ends In An Error, H3 Up          error-cut       h3          put
Length Too Long, HTTP Down                  length-long     http1       get
Length Too Long, H2 Down                    length-long     h2          get
Length Too Long, H3 Down                    length-long     h3          get
Length Too Short, HTTP Down                 length-short    http1       get
Chunked Body Cut, HTTP Down                 chunked-cut     http1       get
Chunked Body Cut, H2 Down                   chunked-cut     h2          get
Chunked Body Cut, H3 Down                   chunked-cut     h3          get
Another Range Than Asked, HTTP Down         wrong-range     http1       get
Another Range Than Asked, H2 Down           wrong-range     h2          get
Another Range Than Asked, H3 Down           wrong-range     h3          get
Range Ignored, HTTP Down                    ignored-range   http1       get
Range Ignored, H2 Down                      ignored-range   h2          get
Range Ignored, H3 Down                      ignored-range   h3          get
Success Before The End, HTTP Up             early-success   http1       put


*** Keywords ***
A Client Should Tell The Truth
    [Documentation]    One answer: ``fault`` in transfers of ``${CLIENT}`` on the link of ``${TOPOLOGY}``.
    [Arguments]    ${fault}    ${protocol}    ${direction}
    Exit Code Should Be True
    ...    ${fault}
    ...    ${protocol}
    ...    ${direction}
    ...    client=${CLIENT}
    ...    topology=${TOPOLOGY}
    ...    size=${SIZE}
    ...    seeds=${SEEDS}
