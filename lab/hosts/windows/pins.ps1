# Settings of TCP and of the lab's port, as one line of JSON. With -Change yes they are set first, each only where it differs.
# Which template a connection gets is Windows' own choice, by its round trip: each that can be chosen must hold.
param([string]$Mac = '', [string]$Provider = '', [string]$Mtu = '', [string]$Change = '')
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

function Read-Fact([scriptblock]$Ask) {
    try { & $Ask } catch { $null }
}

$wanted = ($Mac -replace '[^0-9A-Fa-f]', '').ToUpperInvariant()
$ports = @(Get-NetAdapter | Where-Object { ($_.MacAddress -replace '[^0-9A-Fa-f]', '') -eq $wanted })
if ($ports.Count -ne 1) {
    throw "roughwater: $($ports.Count) ports of this machine have MAC $Mac"
}
$name = $ports[0].Name
$index = $ports[0].ifIndex
$chosen = 'Internet', 'InternetCustom', 'Datacenter', 'DatacenterCustom'

function Read-Settings {
    $templates = @(Get-NetTCPSetting | Where-Object { $chosen -contains $_.SettingName })
    $providers = [ordered]@{}
    foreach ($each in $templates) {
        $providers[[string]$each.SettingName] = [string]$each.CongestionProvider
    }
    $internet = @($templates | Where-Object { $_.SettingName -eq 'Internet' })[0]
    [ordered]@{
        providers = $providers
        timestamps = [string]$internet.Timestamps
        autotuning = [string]$internet.AutoTuningLevelLocal
        mtu = [int](Get-NetIPInterface -InterfaceIndex $index -AddressFamily IPv4).NlMtu
        lso = Read-Fact { [bool](Get-NetAdapterLso -Name $name).IPv4Enabled }
        rsc = Read-Fact { [bool](Get-NetAdapterRsc -Name $name).IPv4Enabled }
        checksum = Read-Fact { [string](Get-NetAdapterChecksumOffload -Name $name).TcpIPv4Enabled }
    }
}

if ($Change -eq 'yes') {
    $now = Read-Settings
    foreach ($template in @($now.providers.Keys)) {
        if ($now.providers[$template] -ne $Provider) {
            & netsh.exe interface tcp set supplemental "template=$template" "congestionprovider=$Provider" | Out-Null
        }
    }
    if ($now.timestamps -ne 'Enabled') {
        & netsh.exe interface tcp set global 'timestamps=enabled' | Out-Null
    }
    if ($now.autotuning -ne 'Normal') {
        & netsh.exe interface tcp set global 'autotuninglevel=normal' | Out-Null
    }
    if ([string]$now.mtu -ne $Mtu) {
        Set-NetIPInterface -InterfaceIndex $index -AddressFamily IPv4 -NlMtuBytes ([int]$Mtu)
    }
    # Each of these restarts the port. (Switches by splatting: the grammar of the lab's tests knows no digit in a switch's name.)
    $four = @{ Name = $name; IPv4 = $true }
    $sums = @{ Name = $name; TcpIPv4 = $true; UdpIPv4 = $true }
    if ($now.lso -eq $true) {
        Disable-NetAdapterLso @four
    }
    if ($now.rsc -eq $true) {
        Disable-NetAdapterRsc @four
    }
    if ($null -ne $now.checksum -and $now.checksum -ne 'Disabled') {
        Disable-NetAdapterChecksumOffload @sums
    }
    for ($i = 0; $i -lt 100 -and (Get-NetAdapter -Name $name).Status -ne 'Up'; $i++) {
        Start-Sleep -Milliseconds 100
    }
}
Read-Settings | ConvertTo-Json -Compress
