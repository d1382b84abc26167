*** Settings ***
Documentation       Does a file arrive intact from and at every server that is described as data?
...
...                 A row is an endpoint, a protocol and a direction: five transfers over a 20 Mbit/s line, each compared with
...                 the source by size and SHA-256, on the server for an upload. No speed is promised. A client that does not
...                 speak the protocol skips the row, with the reason. ``lab endpoints`` lists the servers; their packages are
...                 downloaded at their first use.
...                 ``--client aws --userland client=debian:13+awscli`` and the like give clients that this machine does not have.
...
...                 Clock: virtual. Endpoints run in no other.
Metadata            Study    endpoints
Library             lab.robot.library.LabLibrary
Test Template       A File Should Arrive Intact
Test Tags           study:endpoints
Test Timeout        1 hour


*** Variables ***
${CLIENT}       curl
${NETWORK}      dsl-20
${SIZE}         5MiB


*** Test Cases ***          ENDPOINT        PROTOCOL    DIRECTION
Vsftpd FTP Get              vsftpd          ftp         get
    [Tags]    ci
Vsftpd FTP Put              vsftpd          ftp         put
    [Tags]    ci
Vsftpd FTPS Get             vsftpd          ftps        get
Vsftpd FTPS Put             vsftpd          ftps        put
Proftpd FTP Get             proftpd         ftp         get
Proftpd FTP Put             proftpd         ftp         put
Proftpd FTPS Get            proftpd         ftps        get
Proftpd FTPS Put            proftpd         ftps        put
Proftpd SFTP Get            proftpd         sftp        get
Proftpd SFTP Put            proftpd         sftp        put
Pyftpdlib FTP Get           pyftpdlib       ftp         get
Pyftpdlib FTP Put           pyftpdlib       ftp         put
Asyncssh SFTP Get           asyncssh        sftp        get
Asyncssh SFTP Put           asyncssh        sftp        put
Apache HTTP Get             apache-dav      http1       get
Apache HTTP Put             apache-dav      http1       put
Apache HTTPS Get            apache-dav      https1      get
Apache HTTPS Put            apache-dav      https1      put
Apache WebDAV Get           apache-dav      webdav      get
Apache WebDAV Put           apache-dav      webdav      put
Lighttpd HTTP Get           lighttpd        http1       get
Lighttpd HTTP Put           lighttpd        http1       put
Lighttpd HTTPS Get          lighttpd        https1      get
Lighttpd HTTPS Put          lighttpd        https1      put
Lighttpd HTTP 2 Get         lighttpd        h2          get
Lighttpd HTTP 2 Put         lighttpd        h2          put
Lighttpd WebDAV Get         lighttpd        webdav      get
Lighttpd WebDAV Put         lighttpd        webdav      put
Caddy HTTPS Get             caddy           https1      get
Caddy HTTP 2 Get            caddy           h2          get
Caddy HTTP 3 Get            caddy           h3          get
Moto S3 Get                 moto            s3          get
Moto S3 Put                 moto            s3          put
Registry OCI Get            registry        oci         get
Registry OCI Put            registry        oci         put
Rsyncd Rsync Get            rsyncd          rsync       get
Rsyncd Rsync Put            rsyncd          rsync       put


*** Keywords ***
A File Should Arrive Intact
    [Documentation]    One cell: ``${SIZE}`` between ``${CLIENT}`` and the endpoint, over the link of ``${NETWORK}``.
    [Arguments]    ${endpoint}    ${protocol}    ${direction}
    Judge Cell    client--${NETWORK}@${endpoint}--${protocol}-${direction}-${SIZE}    client=${CLIENT}
