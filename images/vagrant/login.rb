# frozen_string_literal: true

require 'fileutils'
require 'vagrant/util/keypair'

module Roughwater
  # The key by which the lab logs in to Windows machines. The private key of their boxes is public.
  module Login
    module_function

    # The private key's path. Made once, in Vagrant's own folder for these machines.
    def private_key(root)
      folder = ENV.fetch('VAGRANT_DOTFILE_PATH', File.join(root, '.vagrant'))
      path = File.join(folder, 'roughwater', 'login')
      make(path) unless File.exist?(path)
      path
    rescue SystemCallError => e
      raise Problem, "no login key for Windows machines: #{e.message}"
    end

    def public_key(private_key)
      File.read("#{private_key}.pub").strip
    end

    # The box's own comes second: the first login is by that.
    def keys(private_key)
      [private_key, File.join(Vagrant.user_data_path, 'insecure_private_key')].select { |path| File.exist?(path) }
    end

    def make(path)
      _, secret, public_line = Vagrant::Util::Keypair.create
      FileUtils.mkdir_p(File.dirname(path))
      # The private key last, because it says that both are there.
      File.write("#{path}.pub", "#{public_line}\n")
      File.open("#{path}.new", 'w', 0o600) { |file| file.write(secret) }
      File.rename("#{path}.new", path)
    end
  end
end
