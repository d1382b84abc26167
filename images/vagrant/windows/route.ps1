<#
.SYNOPSIS
    Puts the lab's port of a Windows machine on the client's network and routes the server's network through the router.
.DESCRIPTION
    Idempotent, as an administrator. The port is chosen by its MAC; address and route are in both stores, so that they outlive
    a boot. The profile becomes Private, because a Public one takes no answer to a ping. Tells in one line of JSON what holds.
.PARAMETER Mac
    Of the lab's port, in any notation.
.PARAMETER Network
    1: the client's network, 10.77.1.0/24.
.PARAMETER Address
    The last number of this machine's address there.
#>
param(
    [Parameter(Mandatory = $true)][string]$Mac,
    [Parameter(Mandatory = $true)][int]$Network,
    [Parameter(Mandatory = $true)][int]$Address
)
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

$wanted = ($Mac -replace '[^0-9A-Fa-f]', '').ToUpperInvariant()
$port = @(Get-NetAdapter | Where-Object { ($_.MacAddress -replace '[^0-9A-Fa-f]', '') -eq $wanted })
if ($port.Count -ne 1) {
    throw "roughwater: $($port.Count) ports of this machine have MAC $Mac; the lab's is one (is it on the lab's network?)"
}
$index = $port[0].ifIndex
$own = "10.77.$Network.$Address"
$gateway = "10.77.$Network.1"
$beyond = '10.77.2.0/24'
$changed = @()

if ((Get-NetIPInterface -InterfaceIndex $index -AddressFamily IPv4).Dhcp -ne 'Disabled') {
    Set-NetIPInterface -InterfaceIndex $index -AddressFamily IPv4 -Dhcp Disabled
    $changed += 'dhcp'
}
# Below any other port's: what the lab's network can carry must not go elsewhere.
if ((Get-NetIPInterface -InterfaceIndex $index -AddressFamily IPv4).InterfaceMetric -ne 5) {
    Set-NetIPInterface -InterfaceIndex $index -AddressFamily IPv4 -InterfaceMetric 5
    $changed += 'metric'
}
$addresses = @(Get-NetIPAddress -InterfaceIndex $index -AddressFamily IPv4 -ErrorAction SilentlyContinue)
$strangers = @($addresses | Where-Object { $_.IPAddress -ne $own })
if ($strangers.Count -gt 0) {
    $strangers | Remove-NetIPAddress -Confirm:$false
    $changed += 'other addresses'
}
if (@($addresses | Where-Object { $_.IPAddress -eq $own }).Count -eq 0) {
    New-NetIPAddress -InterfaceIndex $index -AddressFamily IPv4 -IPAddress $own -PrefixLength 24 | Out-Null
    $changed += 'address'
}

foreach ($store in 'PersistentStore', 'ActiveStore') {
    $routes = @(Get-NetRoute -DestinationPrefix $beyond -PolicyStore $store -ErrorAction SilentlyContinue)
    $wrong = @($routes | Where-Object { $_.NextHop -ne $gateway -or $_.ifIndex -ne $index })
    if ($wrong.Count -gt 0) {
        $wrong | Remove-NetRoute -Confirm:$false
        $changed += "wrong route in $store"
    }
    $right = @($routes | Where-Object { $_.NextHop -eq $gateway -and $_.ifIndex -eq $index })
    if ($right.Count -eq 0) {
        New-NetRoute -DestinationPrefix $beyond -InterfaceIndex $index -NextHop $gateway -RouteMetric 1 -PolicyStore $store | Out-Null
        $changed += "route in $store"
    }
}

$profiles = @(Get-NetConnectionProfile -InterfaceIndex $index -ErrorAction SilentlyContinue)
foreach ($each in $profiles) {
    if ($each.NetworkCategory -eq 'Public') {
        Set-NetConnectionProfile -InterfaceIndex $index -NetworkCategory Private
        $changed += 'firewall profile'
    }
}

$hosts = Join-Path $env:SystemRoot 'System32\drivers\etc\hosts'
$line = '10.77.2.2 server'
if (@(Get-Content -LiteralPath $hosts) -notcontains $line) {
    Add-Content -LiteralPath $hosts -Value $line -Encoding Ascii
    $changed += 'hosts'
}

[pscustomobject]@{ changed = $changed; port = $port[0].Name; address = $own; gateway = $gateway } | ConvertTo-Json -Compress
