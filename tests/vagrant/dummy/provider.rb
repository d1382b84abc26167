# frozen_string_literal: true

# A provider without machines, under the name of a real one: Vagrant itself runs the real Vagrantfile's triggers and hooks.
module Dummy
  NAME = ENV.fetch('DUMMY_PROVIDER', 'dummy').to_sym

  # Makes a machine, and prints what Vagrant would run on it.
  class Make
    def initialize(app, _env)
      @app = app
    end

    def call(env)
      machine = env[:machine]
      machine.id = 'an-id' unless machine.id
      scripts = machine.config.vm.provisioners.select { |each| each.type == :shell }
      scripts.each { |each| puts "provision #{each.name}: #{each.config.args.inspect}" }
      @app.call(env)
    end
  end

  # A machine that has an id runs.
  class Provider < Vagrant.plugin('2', :provider)
    def initialize(machine)
      super
      @machine = machine
    end

    def action(name)
      return unless %i[up reload].include?(name)

      Vagrant::Action::Builder.new.tap do |steps|
        steps.use Make
        steps.use VagrantPlugins::HyperV::Action::StartInstance if NAME == :hyperv
      end
    end

    def state
      state = @machine.id ? :running : :not_created
      Vagrant::MachineState.new(state, state.to_s, state.to_s)
    end

    def ssh_info
      { host: '127.0.0.1', port: 22, username: 'vagrant' } if @machine.id
    end
  end

  # What Vagrant finds it by.
  class Plugin < Vagrant.plugin('2')
    name 'dummy'
    provider(NAME, box_optional: true, priority: 1) { Provider }
  end

  # The step that starts a machine, without Hyper-V.
  module Start
    def call(env)
      env[:ui].info("start #{env[:machine].name}")
      @app.call(env)
    end
  end

  # PowerShell: printed, not run.
  module Printed
    def execute(path, *words, **)
      puts "powershell #{File.basename(path)} #{words.join(' ')}"
      Vagrant::Util::Subprocess::Result.new(ENV.fetch('DUMMY_CODE', '0').to_i, '', "it refuses\nat line 7")
    end
  end
end

if Dummy::NAME == :hyperv
  VagrantPlugins::HyperV::Action::StartInstance.prepend(Dummy::Start)
  Vagrant::Util::PowerShell.singleton_class.prepend(Dummy::Printed)
end
