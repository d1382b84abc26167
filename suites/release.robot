*** Settings ***
Documentation       What is a release put through before it goes out?
...
...                 A row is a cell without its client, called by its name, with the reason why it is in the set (WHY) and, where
...                 one transfer is made with several sizes of the client's buffer, those sizes. `lab qualify CANDIDATE` runs all
...                 rows tagged ``full`` and comes to one verdict; with ``--baseline`` each cell is interleaved with the
...                 baseline's, and if only speed is asked the candidate may not be slower. ``--quick`` takes the rows
...                 tagged ``quick``. `lab run release` runs the rows of one client as they stand.
...
...                 The rows on ``4g-bad``, ``dsl-bloated`` and ``wifi-roaming`` are the bad networks: the link stalls, loses
...                 in bursts and queues for long, and the file must arrive all the same, or the limit be kept.
...
...                 Links follow each other, so that in real time a calibration serves two cells.
...
...                 Clock: virtual, except for rows about CPU and memory of an unshaped link.
Metadata            Study    release
Library             lab.robot.library.LabLibrary
Test Template       A Release Should Pass
Test Tags           study:release    full
Test Timeout        1 hour


*** Variables ***
${CLIENT}       ferry


*** Test Cases ***                             WHY                                                                       BUFFERS
dsl-50--http1-get-5MiB-at-2MBps                the limit is kept on a line of 20 ms
dsl-50--http1-put-5MiB-at-2MBps                the limit is kept on a line of 20 ms
dsl-50--h2-get-5MiB-at-2MBps                   the limit is kept on a line of 20 ms
dsl-50--h2-put-5MiB-at-2MBps                   the limit is kept on a line of 20 ms
dsl-50--sftp-get-5MiB-at-2MBps                 the limit is kept on a line of 20 ms
dsl-50--sftp-put-5MiB-at-2MBps                 the limit is kept on a line of 20 ms
dsl-50--http1-get-5MiB-at-2MBps-chunked        the limit is kept on a line of 20 ms, size not announced
dsl-50--h2-get-5MiB-at-2MBps-chunked           the limit is kept on a line of 20 ms, size not announced
dsl-20--http1-get-5MiB-at-2MBps                the limit is kept on a line that carries hardly more
dsl-20--http1-put-5MiB-at-2MBps                the limit is kept on a line that carries hardly more
dsl-20--h2-get-5MiB-at-2MBps                   the limit is kept on a line that carries hardly more
dsl-20--h2-put-5MiB-at-2MBps                   the limit is kept on a line that carries hardly more
dsl-20--sftp-get-5MiB-at-2MBps                 the limit is kept on a line that carries hardly more
dsl-20--sftp-put-5MiB-at-2MBps                 the limit is kept on a line that carries hardly more
dsl-20--http1-get-5MiB-at-2MBps-chunked        the limit is kept on a line that carries hardly more, size not announced
dsl-20--h2-get-5MiB-at-2MBps-chunked           the limit is kept on a line that carries hardly more, size not announced
link-local--http1-get-5MiB-at-2MBps            the limit is kept where nothing else slows the client down
link-local--http1-put-5MiB-at-2MBps            the limit is kept where nothing else slows the client down
link-local--h2-get-5MiB-at-2MBps               the limit is kept where nothing else slows the client down
link-local--h2-put-5MiB-at-2MBps               the limit is kept where nothing else slows the client down
link-local--sftp-get-5MiB-at-2MBps             the limit is kept where nothing else slows the client down
link-local--sftp-put-5MiB-at-2MBps             the limit is kept where nothing else slows the client down
link-local--http1-get-5MiB-at-2MBps-chunked    the limit is kept where nothing else slows the client down, size not announced
link-local--h2-get-5MiB-at-2MBps-chunked       the limit is kept where nothing else slows the client down, size not announced
dsl-50--http1-put-1999999B-at-1MBps            a size that is not a multiple of the limit: curl since 8.19 takes 62 % of the time
    [Tags]    quick
dsl-50--h2-put-1999999B-at-1MBps               a size that is not a multiple of the limit: curl since 8.19 takes 62 % of the time
dsl-50--sftp-put-1999999B-at-1MBps             a size that is not a multiple of the limit: curl since 8.19 takes 62 % of the time
dsl-50--http1-get-1999999B-at-1MBps            a size that is not a multiple of the limit
dsl-50--http1-get-5MiB-at-2MBps--burst         a mean can hide bursts: the fastest 100 ms on the wire
dsl-50--h2-get-5MiB-at-2MBps--burst            a mean can hide bursts: the fastest 100 ms on the wire
dsl-50--http1-put-5MiB-at-2MBps--burst         a mean can hide bursts: the fastest 100 ms on the wire
dsl-50--sftp-get-5MiB-at-2MBps--burst          a mean can hide bursts: the fastest 100 ms on the wire
dsl-50--http1-get-5MiB-at-2MBps--cpu           a limited transfer waits, it does not spin
dsl-50--h2-get-4x2MB-at-500kBps-p4             four limited streams on one connection: each keeps to its own limit
metro-200--http1-get-50MB--fill                fills a line of 20 ms
metro-200--http1-put-50MB--fill                fills a line of 20 ms
metro-200--h2-get-50MB--fill                   fills a line of 20 ms
metro-200--h2-put-50MB--fill                   fills a line of 20 ms
metro-200--sftp-get-50MB--fill                 fills a line of 20 ms
metro-200--sftp-put-50MB--fill                 fills a line of 20 ms
metro-200--sftp-put-20MB                       the caller's buffer makes no difference    16 KiB, 64 KiB, 256 KiB, 1 MiB, 4 MiB
metro-200--sftp-put-1000x20kB                  many small files: the last hundred as fast as the first
metro-200--sftp-get-200x20kB                   the same, downloaded
metro-200--sftp-put-100x1MB                    a set of medium-sized files arrives intact
metro-200--sftp-get-100x1MB                    the same, downloaded
far-50--http1-get-40MB--fill                   fills a line of 100 ms: what waits for answers does not
far-50--http1-put-40MB--fill                   fills a line of 100 ms: what waits for answers does not
far-50--h2-get-40MB--fill                      fills a line of 100 ms: what waits for answers does not
far-50--h2-put-40MB--fill                      fills a line of 100 ms: what waits for answers does not
far-50--sftp-get-40MB--fill                    fills a line of 100 ms: what waits for answers does not
far-50--sftp-put-40MB--fill                    fills a line of 100 ms: what waits for answers does not
link-local--http1-get-100MB                    as fast as the machine can, and every byte right
link-local--http1-put-100MB                    as fast as the machine can, and every byte right
link-local--h2-get-100MB                       as fast as the machine can, and every byte right
link-local--h2-put-100MB                       as fast as the machine can, and every byte right
link-local--sftp-get-100MB                     as fast as the machine can, and every byte right
link-local--sftp-put-100MB                     as fast as the machine can, and every byte right
4g-bad--http1-get-2MB                          a stall, losses in bursts and a long queue: the file arrives, and the transfer ends
4g-bad--h2-put-1MB                             a stall, losses in bursts and a long queue: the file arrives, and the transfer ends
4g-bad--sftp-put-500kB                         a stall, losses in bursts and a long queue: the file arrives, and the transfer ends
dsl-bloated--http1-put-1MB-at-200kBps          the limit is kept in front of a queue of 600 ms
dsl-bloated--h2-get-5MiB-at-1MBps              the limit is kept in front of a queue of 600 ms
dsl-bloated--sftp-put-1MB-at-200kBps           the limit is kept in front of a queue of 600 ms
wifi-roaming--http1-get-40MB                   another access point every 20 s: the file arrives, and the transfer ends
wifi-roaming--h2-put-40MB                      another access point every 20 s: the file arrives, and the transfer ends
wifi-roaming--sftp-put-40MB                    another access point every 20 s: the file arrives, and the transfer ends
link-local--h2-get-20x20MB-p20--memory         twenty streams at once do not pile up in memory
    [Tags]    quick
dsl-50--http1-get-3MiB-at-2MBps                the limit is kept
    [Tags]    quick    -full
dsl-50--h2-get-3MiB-at-2MBps-chunked           the limit is kept where the size is not known beforehand
    [Tags]    quick    -full
dsl-50--sftp-put-3MiB-at-2MBps                 the limit is kept by what goes over SSH
    [Tags]    quick    -full
dsl-50--http1-get-3MiB-at-2MBps--burst         a mean can hide bursts: the fastest 100 ms on the wire
    [Tags]    quick    -full
metro-200--sftp-put-15MB--fill                 fills a line of 20 ms
    [Tags]    quick    -full
far-50--h2-put-15MB--fill                      fills a line of 100 ms: what waits for answers does not
    [Tags]    quick    -full


*** Keywords ***
A Release Should Pass
    [Documentation]    The cell that the test is called by, on ``${CLIENT}``.
    [Arguments]    ${why}    ${buffers}=${EMPTY}
    Judge Release Row    ${TEST NAME}    client=${CLIENT}    why=${why}    buffers=${buffers}
