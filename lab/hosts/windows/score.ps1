# How quick the processor is: lines `sha256 MB/S`, over the CPU time that 64 MiB took, by Windows' own SHA-256 (CNG).
param([string]$Rounds = '5')
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

Add-Type -AssemblyName System.Core
$data = New-Object byte[] (1 -shl 26)
$hash = New-Object System.Security.Cryptography.SHA256Cng
$process = [Diagnostics.Process]::GetCurrentProcess()
for ($i = 0; $i -lt [int]$Rounds; $i++) {
    $process.Refresh()
    $before = $process.TotalProcessorTime.TotalSeconds
    [void]$hash.ComputeHash($data)
    $process.Refresh()
    # The processor's time is counted in ticks of 15.6 ms.
    $seconds = [Math]::Max($process.TotalProcessorTime.TotalSeconds - $before, 0.0156)
    'sha256 ' + ($data.Length / 1e6 / $seconds).ToString('F3', [Globalization.CultureInfo]::InvariantCulture)
}
