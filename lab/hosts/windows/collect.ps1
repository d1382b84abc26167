# Size and sha256 of a file, which is gone afterwards, as one line of JSON.
param([string]$Path = '')
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

$size = 0
$sum = ''
if (Test-Path -LiteralPath $Path -PathType Leaf) {
    $size = [long](Get-Item -LiteralPath $Path -Force).Length
    $sum = (Get-FileHash -LiteralPath $Path -Algorithm SHA256).Hash.ToLowerInvariant()
    Remove-Item -LiteralPath $Path -Force
}
[ordered]@{ size = $size; sha256 = $sum } | ConvertTo-Json -Compress
