# On Windows: every PowerShell script of the project parses, and those that need neither a link nor an administrator print what the
# lab reads. Run it with powershell (5.1) and with pwsh. Written without a Windows to try it on.
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'

$root = Split-Path -Parent $PSScriptRoot
$wrong = @()
foreach ($folder in 'lab', 'images', '.ci') {
    foreach ($file in Get-ChildItem -LiteralPath (Join-Path $root $folder) -Recurse -Filter *.ps1) {
        $tokens = $null
        $errors = $null
        [void][System.Management.Automation.Language.Parser]::ParseFile($file.FullName, [ref]$tokens, [ref]$errors)
        foreach ($each in $errors) {
            $wrong += "$($file.Name):$($each.Extent.StartLineNumber): $($each.Message)"
        }
        "parsed $($file.Name)"
    }
}

$scripts = Join-Path $root 'lab\hosts\windows'
$found = & (Join-Path $scripts 'identify.ps1') -Program 'curl' | ConvertFrom-Json
if ($found.sha256 -notmatch '^[0-9a-f]{64}$') { $wrong += 'identify.ps1 found no curl' }
"curl is $($found.path)"

$score = & (Join-Path $scripts 'score.ps1') -Rounds 1
if ($score -notmatch '^sha256 [0-9.]+$') { $wrong += "score.ps1 printed $score" }
"$score MB/s"

$facts = & (Join-Path $scripts 'facts.ps1') | ConvertFrom-Json
if ($facts.cores -lt 1) { $wrong += 'facts.ps1 counted no cores' }
"$($facts.caption) $($facts.version) $($facts.build)"

foreach ($line in $wrong) { "::error::$line" }
exit [int]($wrong.Count -gt 0)
