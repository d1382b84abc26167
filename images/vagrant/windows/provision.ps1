<#
.SYNOPSIS
    What a Windows machine of the lab needs: OpenSSH's server, the lab's key, a work folder that Defender does not scan.
.DESCRIPTION
    Run it as often as you like, as an administrator: it changes only what is missing, and tells in one line of JSON what it found.
    Vagrant runs it (Vagrantfile); on a laptop without Vagrant run it by hand (docs/how-to/windows.md).
.PARAMETER PublicKey
    A line for the administrators' authorized_keys; left out where the machine's maker has put one there.
#>
param(
    [string]$WorkFolder = 'C:\roughwater',
    [string]$PublicKey = ''
)
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

$changed = @()

if (-not (Test-Path -LiteralPath $WorkFolder)) {
    New-Item -ItemType Directory -Path $WorkFolder | Out-Null
    $changed += 'work folder'
}

if (-not (Get-Service -Name 'sshd' -ErrorAction SilentlyContinue)) {
    $capability = Get-WindowsCapability -Online -Name 'OpenSSH.Server*' | Select-Object -First 1
    if (-not $capability) {
        throw 'roughwater: this Windows offers no OpenSSH.Server; it needs Windows 10 1809, Server 2019, or later'
    }
    Add-WindowsCapability -Online -Name $capability.Name | Out-Null
    $changed += 'OpenSSH server'
}
$service = Get-Service -Name 'sshd'
if ($service.StartType -ne 'Automatic') {
    Set-Service -Name 'sshd' -StartupType Automatic
    $changed += 'start of sshd'
}
if ($service.Status -ne 'Running') {
    Start-Service -Name 'sshd'
    $changed += 'sshd'
}
if (-not (Get-NetFirewallRule -Name 'OpenSSH-Server-In-TCP' -ErrorAction SilentlyContinue)) {
    New-NetFirewallRule -Name 'OpenSSH-Server-In-TCP' -DisplayName 'OpenSSH server' -Direction Inbound -Protocol TCP -LocalPort 22 -Action Allow | Out-Null
    $changed += 'firewall rule'
}

if ($PublicKey) {
    # Administrators' keys are in one file, which sshd reads only if no other account may write it.
    $keys = Join-Path $env:ProgramData 'ssh\administrators_authorized_keys'
    $known = @()
    if (Test-Path -LiteralPath $keys) {
        $known = @(Get-Content -LiteralPath $keys)
    }
    if ($known -notcontains $PublicKey) {
        Add-Content -LiteralPath $keys -Value $PublicKey -Encoding Ascii
        # By their well-known numbers: in another language these groups have other names.
        & icacls.exe $keys /inheritance:r /grant '*S-1-5-32-544:F' /grant '*S-1-5-18:F' | Out-Null
        $changed += 'key'
    }
}

# Scanning what a client writes would be measured as the client's. Where policy forbids the exclusion the lab says so in its results.
$excluded = $false
if (Get-Command -Name 'Get-MpPreference' -ErrorAction SilentlyContinue) {
    try {
        $excluded = @((Get-MpPreference).ExclusionPath) -contains $WorkFolder
        if (-not $excluded) {
            Add-MpPreference -ExclusionPath $WorkFolder
            $excluded = @((Get-MpPreference).ExclusionPath) -contains $WorkFolder
            $changed += 'Defender exclusion'
        }
    } catch {
        $excluded = $false
    }
}

[pscustomobject]@{ changed = $changed; workFolder = $WorkFolder; defenderExcluded = $excluded } | ConvertTo-Json -Compress
