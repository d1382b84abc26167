# Ends every process whose program, or a word of whose command line, is in a folder; tells how many, as one line of JSON.
# Windows does not let a process look into another process's environment, by which Linux knows them.
param([string]$Folder = '')
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

$left = @(Get-CimInstance -ClassName Win32_Process | Where-Object {
        $_.ProcessId -ne $PID -and "$($_.ExecutablePath) $($_.CommandLine)".IndexOf($Folder, [StringComparison]::OrdinalIgnoreCase) -ge 0
    })
foreach ($each in $left) {
    try { Stop-Process -Id $each.ProcessId -Force } catch { Write-Verbose 'It has ended by itself.' }
}
[ordered]@{ ended = $left.Count } | ConvertTo-Json -Compress
