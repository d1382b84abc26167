# Tells this machine's clock, in nanoseconds, once for every line of standard input: the clock of runner.ps1.
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'

while ($null -ne [Console]::In.ReadLine()) {
    $now = [long]([Diagnostics.Stopwatch]::GetTimestamp() * (1e9 / [Diagnostics.Stopwatch]::Frequency))
    [Console]::Out.Write("$now`n")
    [Console]::Out.Flush()
}
