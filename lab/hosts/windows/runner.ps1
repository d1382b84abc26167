# Runs one command for the lab. Standard input: its request (a line of base64 of JSON), then its own input (a line of base64).
# Prints `roughwater-pid N` when it has started, and `roughwater-done BASE64` of JSON when it has ended.
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

$request = [Text.Encoding]::UTF8.GetString([Convert]::FromBase64String([Console]::In.ReadLine())) | ConvertFrom-Json
$stdin = [Convert]::FromBase64String([string][Console]::In.ReadLine())

function Get-Nanoseconds {
    [long]([Diagnostics.Stopwatch]::GetTimestamp() * (1e9 / [Diagnostics.Stopwatch]::Frequency))
}

function Write-Line([string]$Text) {
    [Console]::Out.Write($Text + "`n")
    [Console]::Out.Flush()
}

function Write-Done([hashtable]$Facts) {
    $json = $Facts | ConvertTo-Json -Compress
    Write-Line ('roughwater-done ' + [Convert]::ToBase64String([Text.Encoding]::UTF8.GetBytes($json)))
}

$start = New-Object System.Diagnostics.ProcessStartInfo
$start.FileName = $request.program
$start.Arguments = $request.arguments
$start.WorkingDirectory = $request.cwd
$start.UseShellExecute = $false
$start.CreateNoWindow = $true
$start.RedirectStandardInput = $true
$start.RedirectStandardOutput = $true
$start.RedirectStandardError = $true
foreach ($each in $request.env.PSObject.Properties) {
    $start.EnvironmentVariables[$each.Name] = [string]$each.Value
}

$process = New-Object System.Diagnostics.Process
$process.StartInfo = $start
$out = New-Object System.IO.MemoryStream
$err = New-Object System.IO.MemoryStream
$started = Get-Nanoseconds
try {
    [void]$process.Start()
} catch [System.ComponentModel.Win32Exception] {
    $code = if ($_.Exception.NativeErrorCode -in 2, 3) { 127 } else { 126 }
    $said = [Text.Encoding]::UTF8.GetBytes($request.program + ': ' + $_.Exception.Message)
    Write-Done @{ returncode = $code; started = $started; ended = (Get-Nanoseconds); user = 0; system = 0; peak = $null
        timedOut = $false; stdout = ''; stderr = [Convert]::ToBase64String($said); now = (Get-Nanoseconds) }
    exit 0
}
Write-Line "roughwater-pid $($process.Id)"
# Both at once, and next to the input: a pipe that fills up stops the command.
$copies = @($process.StandardOutput.BaseStream.CopyToAsync($out), $process.StandardError.BaseStream.CopyToAsync($err))
try {
    $process.StandardInput.BaseStream.Write($stdin, 0, $stdin.Length)
    $process.StandardInput.Close()
} catch [System.IO.IOException] {
    # The command does not read.
}

$peak = 0
$timedOut = $false
$limit = [long]([double]$request.timeout_s * 1e9)
while (-not $process.WaitForExit(50)) {
    # Asked while it lives: of a process that has ended Windows no longer tells.
    try { $process.Refresh(); $peak = [Math]::Max($peak, $process.PeakWorkingSet64) } catch [InvalidOperationException] { }
    if (-not $timedOut -and (Get-Nanoseconds) - $started -gt $limit) {
        $timedOut = $true
        & taskkill.exe /PID $process.Id /T /F | Out-Null
    }
}
$ended = $started + [long](($process.ExitTime - $process.StartTime).TotalMilliseconds * 1e6)
[void][System.Threading.Tasks.Task]::WaitAll([System.Threading.Tasks.Task[]]$copies, 5000)
Write-Done @{ returncode = $process.ExitCode; started = $started; ended = $ended
    user = $process.UserProcessorTime.TotalSeconds; system = $process.PrivilegedProcessorTime.TotalSeconds; peak = $peak
    timedOut = $timedOut; stdout = [Convert]::ToBase64String($out.ToArray()); stderr = [Convert]::ToBase64String($err.ToArray())
    now = (Get-Nanoseconds) }
