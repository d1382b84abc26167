# frozen_string_literal: true

require 'yaml'

# The lab's topologies as Vagrant needs them. The lab checks them in full (lab/model/topology.py); here only what is used is.
module Roughwater
  TOPOLOGIES = File.expand_path('../../topologies', __dir__)

  # What is wrong, in one line, and no backtrace.
  class Problem < Vagrant::Errors::VagrantError
    def initialize(text)
      @text = text
      super({})
    end

    def error_message
      "roughwater: #{@text}"
    end
  end

  # A network as the machines must know it: its name for people, its MTU for the virtual cables; `given` is what the lab takes.
  Topology = Struct.new(:given, :name, :rate, :rtt, :mtu) do
    def to_s
      link = rate || rtt ? "#{rate || 'no limit'}, #{rtt || 'no delay'}" : 'an unshaped link'
      "#{name} (#{link})"
    end
  end

  module_function

  # By name in topologies/, or by the path of a YAML file, as the lab takes it.
  def topology(name)
    file = name.match?(/\.ya?ml\z/)
    path = file ? File.expand_path(name) : File.join(TOPOLOGIES, "#{name}.yaml")
    read(name, path, file ? path : name)
  end

  def read(name, path, given)
    found = YAML.safe_load(File.read(path))
    raise Problem, "#{path}: a topology has a name" unless found.is_a?(Hash) && found['name'].is_a?(String)

    link = found.fetch('link', nil) || {}
    raise Problem, "#{path}: link: it is not a list of settings" unless link.is_a?(Hash)

    Topology.new(given, found['name'], link['rate'], link['rtt'], mtu(path, link))
  rescue Errno::ENOENT
    raise Problem, "no topology called '#{name}' (ROUGHWATER_TOPOLOGY; there are: #{names.join(', ')})"
  rescue SystemCallError, Psych::Exception => e
    raise Problem, "#{path}: #{e.message.lines.first.strip}"
  end

  def mtu(path, link)
    found = link.fetch('mtu', 1500)
    raise Problem, "#{path}: link: mtu: #{found.inspect} is no number of bytes" unless found.is_a?(Integer) && found.positive?

    found
  end

  def names
    Dir[File.join(TOPOLOGIES, '*.yaml')].map { |path| File.basename(path, '.yaml') }.sort
  end
end
