*** Settings ***
Documentation       Do uploads over SFTP gain and downloads collapse when the caller's buffer grows, as reported in 2011?
...
...                 The report is of libcurl 7.22.0 with libssh2 1.3.0: one static buffer for both directions, four sets of files,
...                 up and then down, near a server with OpenSSH. Uploads went from 450 kB/s with 16 kB to 25 MB/s with 16 MB;
...                 downloads of 100 x 1 MB from 18 s to 45 minutes, or ended with an error.
...                 A test is one cell: a set in one direction with one buffer. Nothing is promised but that every file arrives;
...                 rates, times, CPU seconds and failures are in the result. The set of one large file has 180 MB instead of
...                 1.8 GB.
...
...                 A buffer is CURLOPT_BUFFERSIZE of a download and CURLOPT_UPLOAD_BUFFERSIZE of an upload. A libcurl whose
...                 buffer was fixed when it was compiled has one client per buffer: ``--include default``, with the size in
...                 its name. libssh2 before 1.9 needs ``--old-ssh``.
...
...                 Clock: virtual for what waits cost; real where the processor is the limit, as in downloads that collapse.
Metadata            Study    sftp-buffers
Library             lab.robot.library.LabLibrary
Test Template       A Set Of Files Should Arrive With Any Buffer
Test Tags           study:sftp-buffers
Test Timeout        4 hours


*** Variables ***
${CLIENT}       libcurl@8.5.0
${TOPOLOGY}     lan-700


*** Test Cases ***               DIRECTION    SET          BUFFER
Put 1 x 180 MB, The Default      put          180MB        ${EMPTY}
    [Tags]    put    set-180MB    default
Put 1 x 180 MB, 16 KiB           put          180MB        -buf16KiB
    [Tags]    put    set-180MB    sized
Put 1 x 180 MB, 64 KiB           put          180MB        -buf64KiB
    [Tags]    put    set-180MB    sized
Put 1 x 180 MB, 512 KiB          put          180MB        -buf512KiB
    [Tags]    put    set-180MB    sized
Put 1 x 180 MB, 1 MiB            put          180MB        -buf1MiB
    [Tags]    put    set-180MB    sized
Put 1 x 180 MB, 2 MiB            put          180MB        -buf2MiB
    [Tags]    put    set-180MB    sized
Put 10 x 12 MB, The Default      put          10x12MB      ${EMPTY}
    [Tags]    put    set-10x12MB    default
Put 10 x 12 MB, 16 KiB           put          10x12MB      -buf16KiB
    [Tags]    put    set-10x12MB    sized
Put 10 x 12 MB, 64 KiB           put          10x12MB      -buf64KiB
    [Tags]    put    set-10x12MB    sized
Put 10 x 12 MB, 512 KiB          put          10x12MB      -buf512KiB
    [Tags]    put    set-10x12MB    sized
Put 10 x 12 MB, 1 MiB            put          10x12MB      -buf1MiB
    [Tags]    put    set-10x12MB    sized
Put 10 x 12 MB, 2 MiB            put          10x12MB      -buf2MiB
    [Tags]    put    set-10x12MB    sized
Put 100 x 1 MB, The Default      put          100x1MB      ${EMPTY}
    [Tags]    put    set-100x1MB    default
Put 100 x 1 MB, 16 KiB           put          100x1MB      -buf16KiB
    [Tags]    put    set-100x1MB    sized
Put 100 x 1 MB, 64 KiB           put          100x1MB      -buf64KiB
    [Tags]    put    set-100x1MB    sized
Put 100 x 1 MB, 512 KiB          put          100x1MB      -buf512KiB
    [Tags]    put    set-100x1MB    sized
Put 100 x 1 MB, 1 MiB            put          100x1MB      -buf1MiB
    [Tags]    put    set-100x1MB    sized
Put 100 x 1 MB, 2 MiB            put          100x1MB      -buf2MiB
    [Tags]    put    set-100x1MB    sized
Put 1000 x 20 kB, The Default    put          1000x20kB    ${EMPTY}
    [Tags]    put    set-1000x20kB    default
Put 1000 x 20 kB, 16 KiB         put          1000x20kB    -buf16KiB
    [Tags]    put    set-1000x20kB    sized
Put 1000 x 20 kB, 64 KiB         put          1000x20kB    -buf64KiB
    [Tags]    put    set-1000x20kB    sized
Put 1000 x 20 kB, 512 KiB        put          1000x20kB    -buf512KiB
    [Tags]    put    set-1000x20kB    sized
Put 1000 x 20 kB, 1 MiB          put          1000x20kB    -buf1MiB
    [Tags]    put    set-1000x20kB    sized
Put 1000 x 20 kB, 2 MiB          put          1000x20kB    -buf2MiB
    [Tags]    put    set-1000x20kB    sized
Get 1 x 180 MB, The Default      get          180MB        ${EMPTY}
    [Tags]    get    set-180MB    default
Get 1 x 180 MB, 16 KiB           get          180MB        -buf16KiB
    [Tags]    get    set-180MB    sized
Get 1 x 180 MB, 64 KiB           get          180MB        -buf64KiB
    [Tags]    get    set-180MB    sized
Get 1 x 180 MB, 512 KiB          get          180MB        -buf512KiB
    [Tags]    get    set-180MB    sized
Get 1 x 180 MB, 1 MiB            get          180MB        -buf1MiB
    [Tags]    get    set-180MB    sized
Get 1 x 180 MB, 2 MiB            get          180MB        -buf2MiB
    [Tags]    get    set-180MB    sized
Get 1 x 180 MB, 10 MiB           get          180MB        -buf10MiB
    [Tags]    get    set-180MB    sized
Get 10 x 12 MB, The Default      get          10x12MB      ${EMPTY}
    [Tags]    get    set-10x12MB    default
Get 10 x 12 MB, 16 KiB           get          10x12MB      -buf16KiB
    [Tags]    get    set-10x12MB    sized
Get 10 x 12 MB, 64 KiB           get          10x12MB      -buf64KiB
    [Tags]    get    set-10x12MB    sized
Get 10 x 12 MB, 512 KiB          get          10x12MB      -buf512KiB
    [Tags]    get    set-10x12MB    sized
Get 10 x 12 MB, 1 MiB            get          10x12MB      -buf1MiB
    [Tags]    get    set-10x12MB    sized
Get 10 x 12 MB, 2 MiB            get          10x12MB      -buf2MiB
    [Tags]    get    set-10x12MB    sized
Get 10 x 12 MB, 10 MiB           get          10x12MB      -buf10MiB
    [Tags]    get    set-10x12MB    sized
Get 100 x 1 MB, The Default      get          100x1MB      ${EMPTY}
    [Tags]    get    set-100x1MB    default
Get 100 x 1 MB, 16 KiB           get          100x1MB      -buf16KiB
    [Tags]    get    set-100x1MB    sized
Get 100 x 1 MB, 64 KiB           get          100x1MB      -buf64KiB
    [Tags]    get    set-100x1MB    sized
Get 100 x 1 MB, 512 KiB          get          100x1MB      -buf512KiB
    [Tags]    get    set-100x1MB    sized
Get 100 x 1 MB, 1 MiB            get          100x1MB      -buf1MiB
    [Tags]    get    set-100x1MB    sized
Get 100 x 1 MB, 2 MiB            get          100x1MB      -buf2MiB
    [Tags]    get    set-100x1MB    sized
Get 100 x 1 MB, 10 MiB           get          100x1MB      -buf10MiB
    [Tags]    get    set-100x1MB    sized
Get 1000 x 20 kB, The Default    get          1000x20kB    ${EMPTY}
    [Tags]    get    set-1000x20kB    default
Get 1000 x 20 kB, 16 KiB         get          1000x20kB    -buf16KiB
    [Tags]    get    set-1000x20kB    sized
Get 1000 x 20 kB, 64 KiB         get          1000x20kB    -buf64KiB
    [Tags]    get    set-1000x20kB    sized
Get 1000 x 20 kB, 512 KiB        get          1000x20kB    -buf512KiB
    [Tags]    get    set-1000x20kB    sized
Get 1000 x 20 kB, 1 MiB          get          1000x20kB    -buf1MiB
    [Tags]    get    set-1000x20kB    sized
Get 1000 x 20 kB, 2 MiB          get          1000x20kB    -buf2MiB
    [Tags]    get    set-1000x20kB    sized
Get 1000 x 20 kB, 10 MiB         get          1000x20kB    -buf10MiB
    [Tags]    get    set-1000x20kB    sized


*** Keywords ***
A Set Of Files Should Arrive With Any Buffer
    [Documentation]    One cell: the ``files`` of a set in one run of ``${CLIENT}`` over the link of ``${TOPOLOGY}``.
    [Arguments]    ${direction}    ${files}    ${buffer}
    Judge Cell    any--${TOPOLOGY}--sftp-${direction}-${files}${buffer}    client=${CLIENT}
