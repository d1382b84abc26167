*** Settings ***
Documentation       Are the known bugs where they were reported, and nowhere else?
...
...                 A row is a scenario of ``suites/repros/``: one file each that says what was reported, the cell that shows
...                 it, and the clients that are said to have it and not to. A row passes when every bad one FAILs and every good
...                 one PASSes its cell; it is skipped when a verdict stays open, or where a version has not been built
...                 (`lab repro --list` says which). The exit code of `lab run repros` speaks of the cells, the bad ones' FAIL
...                 among them; that of `lab repro` says whether all is as it was reported.
...                 Rows of the same link follow each other, which spares a calibration.
...
...                 Clock: virtual, but for ``busy-wait``, which is about CPU.
Metadata            Study    repros
Library             lab.keywords.library.LabLibrary
Test Template       Reproduce Scenario
Test Tags           study:repros
Test Timeout        1 hour


*** Test Cases ***                                         SCENARIO
Burst Behind An Exact Mean                                 burst
Busy Loop Of Limited H2 Streams                            busy-wait
Limited H1 Download Of Unknown Size                        chunked-limit
Limited H1 Download                                        h1-limit
Limited H2 Download                                        h2-limit
Four Limited Downloads On One H2 Connection                h2-parallel-limits
Limited Upload Of No Multiple Of The Limit                 upload-limit
SFTP Download Over A Long Way                              sftp-download-window
SFTP Upload Over A Long Way                                sftp-upload-window
