<#
.SYNOPSIS
    Gives a machine of Hyper-V, which is off, one of the lab's ports.
.DESCRIPTION
    On the host, as an administrator; idempotent. The switch is private: neither the host nor any other network is on it. Tells
    in one line of JSON what it changed.
.PARAMETER Id
    Hyper-V's id of the machine.
.PARAMETER Mac
    Of the port, 12 hexadecimal digits.
.PARAMETER Switch
    The name of the network.
#>
param(
    [Parameter(Mandatory = $true)][string]$Id,
    [Parameter(Mandatory = $true)][string]$Mac,
    [Parameter(Mandatory = $true)][string]$Switch
)
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

$changed = @()
if (-not (Get-VMSwitch -Name $Switch -ErrorAction SilentlyContinue)) {
    New-VMSwitch -Name $Switch -SwitchType Private | Out-Null
    $changed += 'switch'
}
$machine = Get-VM -Id $Id
if (-not @(Get-VMNetworkAdapter -VM $machine | Where-Object { $_.MacAddress -eq $Mac })) {
    Add-VMNetworkAdapter -VM $machine -Name $Switch -SwitchName $Switch -StaticMacAddress $Mac
    $changed += 'port'
}

[pscustomobject]@{ changed = $changed; machine = $machine.Name; switch = $Switch; mac = $Mac } | ConvertTo-Json -Compress
