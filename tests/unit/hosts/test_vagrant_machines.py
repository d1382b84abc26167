"""Machines of the Vagrantfile as the backend finds them: Vagrant's reports and refusals, and which client needs which prober."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Never

import pytest

from lab.hosts.choose import BACKENDS, open_live, open_network
from lab.hosts.vagrant import machines, network
from lab.hosts.wiring import ROUTER_MACS, Addresses
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import project_root
from tests.support import fake_vagrant

CONFIG = (
    "Host router\n  HostName 127.0.0.1\n  User vagrant\n  Port 2222\nHost server\n  User vagrant\nHost linux\n  User vagrant\n"
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(machines.CONFIG_VARIABLE, raising=False)
    monkeypatch.delenv(machines.CLIENT_VARIABLE, raising=False)


@pytest.fixture
def vagrant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a stand-in on PATH: `status` holds the machines' states, `fails` how `up` fails, `calls` the commands."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "vagrant").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{fake_vagrant.__file__}" "{folder}" "$@"\n')
    (folder / "vagrant").chmod(0o755)
    (folder / "status").write_text("router running\nserver running\nlinux running\nwindows-11 not_created\n")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def test_it_is_a_backend() -> None:
    assert "vagrant" in BACKENDS


def test_a_uml_router_is_refused() -> None:
    with pytest.raises(UsageProblem, match="is a kernel's"):
        open_network("vagrant", router="uml")


def test_a_windows_machine_that_the_lab_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machines.CLIENT_VARIABLE, "windows-95")
    with pytest.raises(UsageProblem, match="windows-95, and the lab knows no such Windows machine") as caught:
        open_network("vagrant")
    assert caught.value.remedy == "use windows-2022 or windows-11"


def test_a_windows_client_needs_a_linux_prober(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def bring_up(names: tuple[str, ...]) -> Never:
        asked.append(names)
        raise LabFault("enough")

    monkeypatch.setattr(network, "bring_up", bring_up)
    for client in ("windows-2022", ""):
        monkeypatch.setenv(machines.CLIENT_VARIABLE, client)
        with pytest.raises(LabFault, match="enough"):
            open_network("vagrant")
    assert asked == [("router", "server", "linux", "windows-2022"), ("router", "server", "linux")]


def test_a_lab_to_work_in_is_refused_before_anything_is_brought_up(vagrant: Path) -> None:
    with pytest.raises(UsageProblem, match="ends with its command"):
        open_live("vagrant")
    assert not (vagrant / "calls").exists()


class TestStatus:
    def test_provider_and_state_by_machine(self) -> None:
        text = "1,,ui,info,x\n1,router,metadata,provider,libvirt\n1,router,provider-name,libvirt\n1,router,state,not_created\n"
        assert machines.parse_status(text) == {"router": ("libvirt", "not_created")}

    def test_nothing(self) -> None:
        assert machines.parse_status("") == {}


class TestBringUp:
    def test_machines_that_are_up_are_left_alone(self, vagrant: Path) -> None:
        found, facts = machines.bring_up(("router", "server", "linux"))
        assert [target.port for target in found.values()] == [2200, 2200, 2200]
        assert facts == {"vagrant": "2.3.4", "provider": "libvirt"}
        assert "up" not in (vagrant / "calls").read_text()

    def test_those_that_are_down_are_brought_up(self, vagrant: Path) -> None:
        (vagrant / "status").write_text("router running\nserver poweroff\nlinux not_created\n")
        machines.bring_up(("router", "server", "linux"))
        assert "up server linux\n" in (vagrant / "calls").read_text()

    @pytest.mark.usefixtures("vagrant")
    def test_a_machine_that_the_vagrantfile_lacks(self) -> None:
        with pytest.raises(UsageProblem, match="no machine called plan9") as caught:
            machines.bring_up(("router", "plan9"))
        assert "windows-11" in caught.value.remedy

    @pytest.mark.parametrize(
        ("said", "kind", "told"),
        [
            ("No usable default provider could be found for your system.", UsageProblem, "has no provider that works here"),
            (
                "Error while connecting to Libvirt: Error making a connection to qemu:///system:\nCall to virConnectOpen failed",
                UsageProblem,
                "has no provider that works here",
            ),
            (
                "The box 'gusztavvargadr/windows-11' could not be found or\ncould not be accessed in the remote catalog.",
                UsageProblem,
                "a box of the Vagrantfile cannot be had",
            ),
            (
                "The box you're attempting to add doesn't support the provider you requested.",
                UsageProblem,
                "a box of the Vagrantfile",
            ),
            ("Timed out while waiting for the machine to boot. This means that", UsageProblem, "a machine does not come up"),
            ("roughwater: no topology called 'nope' (there are: a)", UsageProblem, "^roughwater: no topology called 'nope'"),
            ("An unheard-of error.", LabFault, "`vagrant up linux` failed: An unheard-of error."),
        ],
    )
    def test_a_failure_is_one_line(self, vagrant: Path, said: str, kind: type[Exception], told: str) -> None:
        (vagrant / "status").write_text("router running\nserver running\nlinux poweroff\n")
        (vagrant / "fails").write_text(said)
        with pytest.raises(kind, match=told) as caught:
            machines.bring_up(("router", "server", "linux"))
        assert "\n" not in str(caught.value)

    def test_a_machine_readable_failure_is_read(self) -> None:
        said = (
            "17,,ui,error,The provider 'virtualbox' for\\n'router' isn't usable.\\n\\nVagrant could not detect VirtualBox! "
            "Make sure VirtualBox is properly installed%!(VAGRANT_COMMA) please.\n17,,error-exit,X,y"
        )
        told = machines.refusal("status", said).message
        assert told.endswith(
            "works here: Vagrant could not detect VirtualBox! Make sure VirtualBox is properly installed, please."
        )

    def test_no_vagrant(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(UsageProblem, match="vagrant is not installed"):
            machines.bring_up(("router",))

    def test_machines_that_something_else_has_made(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "config").write_text(CONFIG)
        monkeypatch.setenv(machines.CONFIG_VARIABLE, str(tmp_path / "config"))
        monkeypatch.setenv("PATH", str(tmp_path))
        found, _ = machines.bring_up(("router", "linux"))
        assert (list(found), found["router"].port) == (["router", "linux"], 2222)
        with pytest.raises(UsageProblem, match=r"no machine called windows-11 \(there are: router, server, linux\)"):
            machines.bring_up(("windows-11",))

    def test_a_config_that_is_not_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(machines.CONFIG_VARIABLE, "/no/such/file")
        with pytest.raises(UsageProblem, match="ROUGHWATER_SSH_CONFIG names /no/such/file: No such file"):
            machines.bring_up(("router",))


@pytest.mark.parametrize("text", ["x", "0", "-1", "1000", "nan"])
def test_a_patience_that_cannot_be(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machines.PATIENCE_VARIABLE, text)
    with pytest.raises(UsageProblem, match="give a number from 1 to 100"):
        machines.patience()


def test_a_machine_has_the_id_that_its_provider_gave_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VAGRANT_DOTFILE_PATH", raising=False)
    place = tmp_path / ".vagrant/machines/router/libvirt"
    place.mkdir(parents=True)
    (place / "id").write_text("abc\n")
    assert machines.machine_id("router", tmp_path) == "abc"
    assert machines.machine_id("server", tmp_path) == ""


def test_these_machines_are_one_labs_at_a_time() -> None:
    with network._lock(), pytest.raises(LabFault, match="another lab is using the virtual machines"):
        network._lock()


class TestOneDefinition:
    """The same addresses in Ruby, in sh and in Python."""

    def test_the_vagrantfiles_table(self) -> None:
        text = (project_root() / "Vagrantfile").read_text()
        ports = {
            name: int(number) for name, number in re.findall(r"^(\w+)_NET = \{ name: '[\w-]+', number: (\d)", text, re.MULTILINE)
        }
        assert ports == {"CLIENT": 1, "SERVER": 2}
        table = dict(re.findall(r"^  '([\w-]+)' => \{.*ports: (\[\[.*\]\])", text, re.MULTILINE))
        made = {
            name: tuple(
                f"02:54:4c:{ports[net]:02x}:00:{int(address):02x}" for net, address in re.findall(r"(\w+)_NET, (\d+)", row)
            )
            for name, row in table.items()
        }
        assert (made["router"], made["linux"], made["server"]) == tuple(
            network.MACS[role] for role in ("router", "client", "server")
        )
        for name, number in network.WINDOWS.items():
            assert made[name] == (f"02:54:4c:01:00:{number:02x}",)
        assert len({mac for macs in made.values() for mac in macs}) == 6

    def test_the_wiring_script(self) -> None:
        text = network.wire_script()
        addresses = Addresses()
        for address in (addresses.client, addresses.server, addresses.client_gateway, addresses.server_gateway):
            assert address in text
        assert network.MACS["client"][0] in text
        assert network.MACS["server"][0] in text
        assert [mac.replace(":01:00:", ":0$1:00:").replace(":02:00:", ":0$1:00:") in text for mac in ROUTER_MACS.values()] == [
            True,
            True,
        ]
        assert (network.PORTS.client in text, network.PORTS.server in text) == (True, True)
