# Tells this machine's clock, in nanoseconds, once for every line of standard input: the one that runner.ps1 has.
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'

while ($null -ne [Console]::In.ReadLine()) {
    $now = [long]([Diagnostics.Stopwatch]::GetTimestamp() * (1e9 / [Diagnostics.Stopwatch]::Frequency))
    [Console]::Out.Write("$now`n")
    [Console]::Out.Flush()
}
