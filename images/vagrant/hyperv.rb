# frozen_string_literal: true

require 'vagrant/util/powershell'

module Roughwater
  # Hyper-V gives a port only to a machine that is off, and Vagrant starts a machine in the step in which it makes it.
  # So this goes in between, as a step of Vagrant's own plan for `up`.
  class HyperVPorts
    SCRIPT = File.expand_path('windows/hyperv.ps1', __dir__)

    # Machine -> its lab ports: MAC and name of the network. The Vagrantfile fills it in.
    def self.ports
      @ports ||= {}
    end

    def initialize(app, _env)
      @app = app
    end

    def call(env)
      machine = env[:machine]
      self.class.ports.fetch(machine.name.to_s, []).each { |port| add(machine.id, port) }
      @app.call(env)
    end

    private

    def add(id, port)
      done = Vagrant::Util::PowerShell.execute(SCRIPT, '-Id', id, '-Mac', port[:mac].delete(':'), '-Switch', port[:name])
      raise Problem, "no port on #{port[:name]}: #{done.stderr.strip.lines.first}" unless done.exit_code.zero?
    end
  end

  # Vagrant knows steps of plugins only. Other providers' plans have no such step, and are left alone.
  class HyperVPlugin < Vagrant.plugin('2')
    name 'roughwater'

    action_hook(:roughwater_ports, :machine_action_up) do |hook|
      hook.before(VagrantPlugins::HyperV::Action::StartInstance, HyperVPorts)
    end
  end
end
