# Where a program is, and its sha256, as one line of JSON; null where it does not exist. Names are looked for on the PATH.
param([string]$Program = '')
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

# Applications only: `curl` is an alias of Invoke-WebRequest.
$found = @(Get-Command -Name $Program -CommandType Application -ErrorAction SilentlyContinue)
if ($found.Count -eq 0) {
    'null'
} else {
    $path = [string]$found[0].Path
    $sum = (Get-FileHash -LiteralPath $path -Algorithm SHA256).Hash.ToLowerInvariant()
    [ordered]@{ path = $path; sha256 = $sum } | ConvertTo-Json -Compress
}
