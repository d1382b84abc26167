# frozen_string_literal: true

require 'vagrant/util/subprocess'

module Roughwater
  # Calls the lab to shape the link of machines that are up: it measures their own delay, plans, applies and reads back.
  module Link
    # The lab sets ROUGHWATER_LINK=no when it brings machines up itself.
    WANTED = ENV['ROUGHWATER_LINK'] != 'no'
    MACHINES = %w[router server linux].freeze
    PAGE = 'docs/how-to/windows.md'
    ELSEWHERE = "The link is not shaped: the lab runs on Linux, and this host is another. See #{PAGE}#a-windows-host.".freeze

    module_function

    # The last machine of `vagrant up`, and the router: a link does not outlive a router's boot.
    def shape_after_boot(config, topology)
      return unless WANTED

      config.trigger.after %i[up reload provision] do |trigger|
        trigger.name = "the link of #{topology}"
        trigger.only_on = %w[router linux]
        trigger.ruby { |env, machine| shape(env, machine, topology) }
      end
    end

    def shape(env, machine, topology)
      lacking = MACHINES.reject { |name| running?(env, machine, name) }
      return env.ui.info("The link is shaped when #{lacking.join(' and ')} run too.") if lacking.any?
      return env.ui.warn(ELSEWHERE) unless RbConfig::CONFIG['host_os'].include?('linux')

      words = [program, 'link', topology.given, '--backend', 'vagrant']
      done = Vagrant::Util::Subprocess.execute(*words, notify: %i[stdout stderr]) { |_, text| env.ui.detail(text.chomp) }
      raise Problem, "the link is not shaped: `lab link` ended with #{done.exit_code}" unless done.exit_code.zero?
    end

    # A checkout's own lab, else the one on PATH.
    def program
      own = File.expand_path('../../.venv/bin/lab', __dir__)
      places = [ENV.fetch('ROUGHWATER_LAB', nil), own, Vagrant::Util::Which.which('lab')]
      found = places.compact.find { |path| File.executable?(path) }
      found || raise(Problem, 'the link is not shaped: this host has no lab (make setup, or ROUGHWATER_LINK=no to do without)')
    end

    def running?(env, machine, name)
      return true if machine.name.to_s == name

      provider = env.active_machines.to_h[name.to_sym]
      !provider.nil? && env.machine(name.to_sym, provider).state.id == :running
    end
  end
end
