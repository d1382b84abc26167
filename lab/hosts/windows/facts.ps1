# What a Windows machine is, as one line of JSON; null for what cannot be read. Argument: the MAC of the lab's port.
param([string]$Mac = '', [string]$WorkFolder = '')
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

function Read-Fact([scriptblock]$Ask) {
    try { & $Ask } catch { $null }
}

function Find-First([scriptblock]$Ask, [string]$Property) {
    $found = @(& $Ask)
    if ($found.Count -eq 0) { '' } else { [string]$found[0].$Property }
}

$current = 'HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion'
$system = Read-Fact { Get-CimInstance -ClassName Win32_OperatingSystem }
$wanted = ($Mac -replace '[^0-9A-Fa-f]', '').ToUpperInvariant()
$port = Read-Fact { Get-NetAdapter | Where-Object { ($_.MacAddress -replace '[^0-9A-Fa-f]', '') -eq $wanted } | Select-Object -First 1 }
# Windows itself, among all that Microsoft licenses.
$filter = "ApplicationID='55c92734-d682-4d71-983e-d6ec3f16059f' AND PartialProductKey IS NOT NULL"
$licence = Read-Fact { Get-CimInstance -ClassName SoftwareLicensingProduct -Filter $filter | Select-Object -First 1 }

$facts = [ordered]@{
    caption = Read-Fact { $system.Caption }
    version = Read-Fact { $system.Version }
    build = Read-Fact { "$($system.BuildNumber).$((Get-ItemProperty -LiteralPath $current).UBR)" }
    edition = Read-Fact { (Get-ItemProperty -LiteralPath $current).EditionID }
    architecture = $env:PROCESSOR_ARCHITECTURE
    utc_ms = [DateTimeOffset]::UtcNow.ToUnixTimeMilliseconds()
    cpu = Read-Fact { (Get-CimInstance -ClassName Win32_Processor | Select-Object -First 1).Name.Trim() }
    cores = [Environment]::ProcessorCount
    memory_bytes = Read-Fact { [long]$system.TotalVisibleMemorySize * 1024 }
    nic = Read-Fact { $port.InterfaceDescription }
    nic_driver = Read-Fact { "$($port.DriverProvider) $($port.DriverVersion)" }
    nic_speed = Read-Fact { $port.LinkSpeed }
    large_send_offload = Read-Fact { [bool](Get-NetAdapterLso -Name $port.Name).IPv4Enabled }
    power_plan = Read-Fact { (& powercfg.exe /getactivescheme) -replace '^[^(]*\(|\)\s*$', '' }
    licence_status = Read-Fact { [int]$licence.LicenseStatus }
    licence_minutes_left = Read-Fact { [int]$licence.GracePeriodRemaining }
    firewall_profile = Read-Fact { [string](Get-NetConnectionProfile -InterfaceIndex $port.ifIndex).NetworkCategory }
    defender_on = Read-Fact { [bool](Get-MpComputerStatus).RealTimeProtectionEnabled }
    defender_excluded = Read-Fact { @((Get-MpPreference).ExclusionPath) -contains $WorkFolder }
    congestion_control = Read-Fact { [string](Get-NetTCPSetting -SettingName Internet).CongestionProvider }
    # What a person gets who types `curl` in this PowerShell, and the program behind the alias; empty where there is none.
    curl_alias = Read-Fact { Find-First { Get-Alias -Name curl -ErrorAction SilentlyContinue } 'Definition' }
    curl_program = Read-Fact { Find-First { Get-Command -Name curl -CommandType Application -ErrorAction SilentlyContinue } 'Path' }
    autotuning = Read-Fact { [string](Get-NetTCPSetting -SettingName Internet).AutoTuningLevelLocal }
}
$facts | ConvertTo-Json -Compress
