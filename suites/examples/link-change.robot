*** Settings ***
Documentation       What happens to a transfer when the link changes under it? An example of tests that are written in steps.
...
...                 Each test starts a lab of its own, changes its link between transfers or in the middle of one, and says what
...                 it expects. Single transfers are judged, so expect only what is far from the edge; for a verdict with an
...                 interval use a question keyword, as the other suites do.
...
...                 Clock: virtual, like all that is not about the machine.
Library             lab.robot.library.LabLibrary
Test Tags           example
Test Timeout        5 minutes


*** Variables ***
${CLIENT}       ferry


*** Test Cases ***
A Slower Link Slows The Next Transfer Down
    [Documentation]    The link changes between two transfers, and is calibrated as it is then.
    Start Lab    dsl-20
    ${before} =    Run Transfer    client=${CLIENT}    size=2 MiB
    Throughput Should Be At Least    ${before}    12 Mbit/s
    Change Link    rate=5 Mbit/s
    Calibrate Link
    ${after} =    Run Transfer    client=${CLIENT}    size=2 MiB
    Throughput Should Be At Most    ${after}    5 Mbit/s
    Stop Lab

A Link That Goes Down At Half Time Does Not Break A Download
    [Documentation]    One second without a link in the middle of two.
    Start Lab    dsl-20
    Interrupt Link    1 s    after=1 s
    ${sample} =    Run Transfer    client=${CLIENT}    size=5 MiB
    Transfer Should Have Completed    ${sample}
    Duration Should Be At Most    ${sample}    10 s

A Limit Is Kept When The Link Becomes Slower
    [Documentation]    The link still carries twice the limit.
    Start Lab    dsl-50
    Change Link    rate=20 Mbit/s    after=1 s
    ${sample} =    Run Transfer    client=${CLIENT}    size=3 MiB    limit=1 MB/s
    Deviation Should Be Within    ${sample}    5 %
