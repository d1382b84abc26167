# By which way packets leave for another host, as one line of JSON: the route, and what became of probes that live one hop and two.
param([string]$Mac = '', [string]$Remote = '')
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

$wanted = ($Mac -replace '[^0-9A-Fa-f]', '').ToUpperInvariant()
$adapters = @(Get-NetAdapter)
$port = @($adapters | Where-Object { ($_.MacAddress -replace '[^0-9A-Fa-f]', '') -eq $wanted })
if ($port.Count -ne 1) {
    throw "roughwater: $($port.Count) ports of this machine have MAC $Mac"
}
# An address and a route come back; the route is the object with a next hop.
$way = @(Find-NetRoute -RemoteIPAddress $Remote | Where-Object { $_.PSObject.Properties['NextHop'] })
$ping = New-Object System.Net.NetworkInformation.Ping
$data = New-Object byte[] 32

function Send-Probe([int]$Hops) {
    $options = New-Object System.Net.NetworkInformation.PingOptions -ArgumentList $Hops, $true
    $ping.Send($Remote, 2000, $data, $options)
}

$one = Send-Probe 1
$through = @(1..5 | ForEach-Object { Send-Probe 2 })
[ordered]@{
    port = [int]$port[0].ifIndex
    route_port = if ($way.Count -gt 0) { [int]$way[0].InterfaceIndex } else { $null }
    next_hop = if ($way.Count -gt 0) { [string]$way[0].NextHop } else { $null }
    one_hop = [string]$one.Status
    one_hop_from = [string]$one.Address
    two_hops = [string]$through[0].Status
    whole_ms = @($through | Where-Object { $_.Status -eq 'Success' } | ForEach-Object { [int]$_.RoundtripTime })
    other_ports = @($adapters | Where-Object { $_.Status -eq 'Up' -and $_.ifIndex -ne $port[0].ifIndex } | ForEach-Object { $_.InterfaceDescription })
} | ConvertTo-Json -Compress
