*** Settings ***
Documentation       Are the known bugs where they were reported, and nowhere else?
...
...                 A row is one bug: the cell that shows it, the clients that are said to have it (BAD) and not to have it
...                 (GOOD), a link to the report where there is one, and what was reported. A row passes when every bad client
...                 FAILs and every good one PASSes its cell. A bad client whose transfer fails does not reproduce a figure
...                 that is off: that is another bug. A row is skipped when a verdict stays open, or where a version has not
...                 been built (`lab repro --list` says which).
...
...                 `lab repro` runs all rows or some by name; its exit code says whether all is as it was reported, while that of
...                 `lab run repros` counts the bad clients' FAILs. `lab bisect ROW --good ... --bad ...` finds the first bad
...                 version. Your own bugs: a suite of this form anywhere, `lab repro mine.robot`.
...
...                 TRANSFER is that part of a cell's name. EXPECT is what the good ones keep, with its bound where the default
...                 does not apply. Clients are written as `lab run --client` takes them. Rows of one link follow each other,
...                 which saves a calibration in real time.
...
...                 Clock: virtual, except for ``busy-wait``, which is about CPU.
Metadata            Study    repros
Library             lab.robot.library.LabLibrary
Test Template       A Bug Should Be Where It Was Reported
Test Tags           study:repros
Test Timeout        1 hour


*** Test Cases ***      TOPOLOGY    TRANSFER    EXPECT    BAD    GOOD    REPORT    SYMPTOM
burst
    dsl-50    http1-get-5MiB-at-2MBps    burst    curl@8.4.0, curl@8.22.0    curl@8.8.0    none
    ...    A mean that is exact hides bursts: at 2 MB/s curl 8.19.0 and later take 2.6 MB at the line's own rate and are then
    ...    silent for 1.3 s, 7.88.1 to 8.5.0 took 1.65 MB. 8.8.0 was smooth to 20 ms. It hurts those who limit a transfer to
    ...    leave others room.

busy-wait
    # Between the two on this link: 0.3 (next to other work) to 0.7 of a core, and 0.05. Set after a first look at both.
    dsl-50    h2-get-4x5MiB-at-1MBps-p4    cpu at most 0.15    curl@7.86.0    curl@8.22.0    none
    ...    Four limited downloads on one h2 connection keep 7.86.0 busy all the time that it should wait: 4.8 CPU seconds in
    ...    4.8 seconds.

chunked-limit
    # Not 8.17.0, which is some 7 % too fast: since 8.16.0 it reads a quarter of the limit at once.
    dsl-50    http1-get-5MiB-at-2MBps-chunked    limit    curl@8.22.0    curl@8.8.0    https://github.com/curl/curl/pull/18454
    ...    The download that is like upload-limit: without a length known beforehand the steps of the limit are not tuned either.
    ...    8.19.0 to 8.23.0: 5 MiB at 2 MB/s are 31 % too fast.

h1-limit
    dsl-50    http1-get-5MiB-at-2MBps    limit    curl@7.88.1, curl@8.4.0    curl@7.83.1, curl@8.8.0
    ...    https://github.com/curl/curl/pull/13050
    ...    December 2023, curl's mailing list: downloads limited to 8 and 16 Mbit/s miss their limit by up to 19 %, 7.84 did not.
    ...    Since 7.88.0 (71b7e01610) the receive loop goes on for as long as the socket has data; fixed in 8.7.0. 8.4.0 at 2 MB/s
    ...    on a line of 50 Mbit/s: +10.3 % in virtual time.

h2-limit
    dsl-50    h2-get-5MiB-at-2MBps    limit    curl@8.4.0    curl@8.17.0    none
    ...    The mail of December 2023 also reports transfers that are too slow. Over h2 limited downloads of 8.1.2 to 8.6.0 are:
    ...    8.4.0 at 2 MB/s was up to 25 % below its limit on the loopback in real time; on lan-700 in virtual time it is +1.4 %,
    ...    over this line it is too fast. 8.8.0 to 8.17.0 are exact.

upload-limit
    # No multiple of the limit: what a step of one second leaves over is then nearly a complete step. curl's own tests upload
    # multiples.
    dsl-50    http1-put-1999999B-at-1MBps    limit    curl@8.22.0    curl@8.17.0    https://github.com/curl/curl/pull/20228
    ...    Since 8.18.0 (24b36fdd15, lib/ratelimit.c) a limit is a bucket that is filled once a second. Curl_client_read() starts
    ...    it without the total, so that uploads never get the finer steps that 8.19.0 gave to downloads. 8.19.0 to 8.23.0:
    ...    1,999,999 bytes at 1 MB/s are 67 % too fast in virtual time. No report of it was found in curl's tracker (August 2026).

sftp-upload-window
    # Half the line, not 80 %: 8 MB are 1.3 s of it, and TCP needs half a second to open.
    far-50    sftp-put-8MB    fill at least 0.5    curl@8.22.0    ferry    https://github.com/curl/curl/issues/11804
    ...    The report of 2011, what is left of it: libssh2 keeps one buffer of an upload in flight, curl's is 64 KiB and its tool
    ...    has no option for it, so at 100 ms it makes 0.64 MB/s whatever the line.

sftp-download-window
    # On a line of 50 Mbit/s it would pass: 4 MB/s are two thirds of that. TCP needs three quarters of a second to open.
    far-200    sftp-get-20MB    fill at least 0.35    curl@8.22.0    ferry    none
    ...    The same downwards: libssh2 reads ahead four buffers of the tool's 100 KB each, so at 100 ms curl makes 4 MB/s
    ...    whatever the line.

h2-parallel-limits
    # Unshaped: on a line of 50 Mbit/s a stream that keeps to no limit has no room to show it. One stream of 8.17.0 was reported
    # to be 35 % and more too fast by a program that drives libcurl; curl's tool keeps to it.
    link-local    h2-get-4x5MiB-at-1MBps-p4    limit    curl@8.8.0    curl@8.17.0, curl@8.22.0
    ...    https://github.com/curl/curl/pull/14326
    ...    Four downloads on one h2 connection, each limited to 1 MB/s: 8.8.0 does not keep to it, because what reads for one
    ...    stream takes in what the others' windows of 10 MB let through.


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
