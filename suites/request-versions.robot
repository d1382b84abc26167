*** Settings ***
Documentation       What do two versions of curl, or two ways to discard, cost on the same requests?
...
...                 50,000 requests for 10 KB by each, one run of each per round, interleaved. A test passes when every answer
...                 arrived; its result has requests per second, CPU seconds per 1000 requests and peak memory, with ratios to
...                 the first. What becomes of the answers: null (the null device), none (curl's --out-null), files (a file
...                 each). Client and server share one host and its loopback, and in one row a router is between them.
...                 --flamegraph and --syscalls add one run more of each under perf, which is not counted.
...                 Versions that have not been built are skipped: `make clients` builds them.
...
...                 Origin: two posts about curl's requests per second, before and after 8.15.0, which no longer
...                 checks every socket for pending data, and with --out-null (8.16.0 and later).
...
...                 Clock: real. The processor is what limits requests per second, and in virtual time it takes none.
Metadata            Study    requests
Library             lab.robot.library.LabLibrary
Test Template       Same Requests
Test Tags           study:requests
Test Timeout        1 hour


*** Variables ***
${SIZE}         10 kB
${REQUESTS}     50000
${ROUNDS}       7


*** Test Cases ***                         TOPOLOGY      PROTOCOL    PARALLEL    ANSWERS              CLIENTS
The Pending Check, H2                      same-host     h2          100         null                 curl@8.14.1    curl@8.15.0
The Pending Check, H2, Through A Router    link-local    h2          100         null                 curl@8.14.1    curl@8.15.0
The Pending Check, H1 Over TLS             same-host     https1      100         null                 curl@8.14.1    curl@8.15.0
The Pending Check, H2, 6 At Once           same-host     h2          6           null                 curl@8.14.1    curl@8.15.0
Three Ways To Discard, First Version       same-host     h2          100         null, none, files    curl@8.17.0
Three Ways To Discard, Last Version        same-host     h2          100         null, none, files    curl@8.22.0


*** Keywords ***
Same Requests
    [Documentation]    One answer: ``${REQUESTS}`` for ``${SIZE}`` by each of ``clients``, ``${ROUNDS}`` times, interleaved.
    [Arguments]    ${topology}    ${protocol}    ${parallel}    ${answers}    @{clients}
    Compare Requests
    ...    ${topology}
    ...    ${protocol}
    ...    ${REQUESTS}
    ...    ${parallel}
    ...    ${ROUNDS}
    ...    ${answers}
    ...    @{clients}
    ...    size=${SIZE}
