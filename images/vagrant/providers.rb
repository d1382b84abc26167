# frozen_string_literal: true

module Roughwater
  # Settings of each provider: memory, processors, firmware, and lab ports where Vagrant's own networks cannot make them.
  module Providers
    # Debian's own boxes are for VirtualBox and libvirt only.
    OTHER_DEBIAN = { box: 'generic/debian12', version: '4.3.12' }.freeze
    # From Debian's package ovmf. Windows boxes for libvirt boot by UEFI only; their own Vagrantfile reads the variable.
    OVMF = ENV.fetch('ROUGHWATER_OVMF', '/usr/share/OVMF/OVMF_CODE_4M.fd')
    ENV['VAGRANT_LIBVIRT_OVMF_CODE'] ||= OVMF

    module_function

    def add(node, machine, ports)
      virtualbox(node, machine)
      libvirt(node, machine)
      hyperv(node, machine)
      vmware(node, machine, ports)
    end

    def virtualbox(node, machine)
      node.vm.provider 'virtualbox' do |virtualbox|
        virtualbox.linked_clone = true
        virtualbox.memory = machine[:memory]
        virtualbox.cpus = 2
        virtualbox.default_nic_type = 'virtio' if machine[:os] == :linux
      end
    end

    def libvirt(node, machine)
      node.vm.provider 'libvirt' do |libvirt|
        libvirt.memory = machine[:memory]
        libvirt.cpus = 2
        # `qemu` where there is no KVM: everything is emulated, and slow.
        libvirt.driver = ENV.fetch('ROUGHWATER_LIBVIRT_DRIVER', 'kvm')
        libvirt.loader = OVMF if machine[:os] == :windows
      end
      require_firmware(node) if machine[:os] == :windows
    end

    # libvirt's own message is a page of XML.
    def require_firmware(node)
      node.trigger.before :up do |trigger|
        trigger.name = 'firmware'
        trigger.ruby do |_, machine|
          next if machine.provider_name != :libvirt || File.exist?(OVMF)

          raise Problem, "Windows on libvirt needs UEFI, and there is no #{OVMF} (install ovmf, or set ROUGHWATER_OVMF)"
        end
      end
    end

    # Vagrant gives a machine of Hyper-V one port, the management's; images/vagrant/hyperv.rb adds the lab's.
    def hyperv(node, machine)
      node.vm.provider 'hyperv' do |hyperv, override|
        hyperv.linked_clone = true
        hyperv.memory = machine[:memory]
        hyperv.cpus = 2
        hyperv.enable_automatic_checkpoints = false
        override.vm.network 'public_network', bridge: 'Default Switch'
        other_box(override, machine)
      end
    end

    # Lab ports are on LAN segments, which the host has no port on; a MAC outside VMware's range needs `checkMACAddress`.
    def vmware(node, machine, ports)
      node.vm.provider 'vmware_desktop' do |vmware, override|
        vmware.linked_clone = true
        vmware.vmx['memsize'] = machine[:memory].to_s
        vmware.vmx['numvcpus'] = '2'
        ports.each.with_index(1) { |port, number| vmware_port(vmware.vmx, "ethernet#{number}", port, machine) }
        other_box(override, machine)
      end
    end

    def vmware_port(vmx, key, port, machine)
      vmx["#{key}.present"] = 'TRUE'
      vmx["#{key}.connectionType"] = 'pvn'
      vmx["#{key}.pvnID"] = "54 4c 00 00 00 00 00 00-00 00 00 00 00 00 00 0#{port[:network]}"
      vmx["#{key}.virtualDev"] = machine[:os] == :linux ? 'vmxnet3' : 'e1000e'
      vmx["#{key}.addressType"] = 'static'
      vmx["#{key}.address"] = port[:mac]
      vmx["#{key}.checkMACAddress"] = 'FALSE'
    end

    def other_box(override, machine)
      return unless machine[:os] == :linux

      override.vm.box = OTHER_DEBIAN[:box]
      override.vm.box_version = OTHER_DEBIAN[:version]
    end
  end
end
