"""docker-compose.yml says what the code says: every fact that both need is compared here."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
from ruamel.yaml import YAML

from lab.hosts.agent.protocol import LAB_UID, RUN_DIR
from lab.hosts.compose import lab_image
from lab.hosts.compose.content import EVERY, ROLES
from lab.hosts.compose.images import image_name
from lab.hosts.compose.inside.entry import SHARED
from lab.hosts.compose.project import LAB_LABEL, OWNER_LABEL, PROFILE
from lab.hosts.linux_settings import SYSCTLS
from lab.hosts.wiring import Addresses
from lab.model.endpoints import CA_FILE
from lab.model.paths import project_root
from lab.run.container import CLIENT_HOME, DEFAULT_LINK, ContainerSetup
from tests.support.compose_versions import composes

FILE = project_root() / "docker-compose.yml"
DRIVEN = {
    "CLIENT_NET": "10.77.41",
    "SERVER_NET": "10.77.42",
    "LINK": "dsl-20",
    "ROUGHWATER_DRIVER": "lab",
    "ROUGHWATER_SHARED": "/tmp/shared",
    "ROUGHWATER_LAB": "one",
    "ROUGHWATER_OWNER": "1000",
    "ROUGHWATER_ROUTER": "uml",
    "ROUGHWATER_HEALTH_INTERVAL": "1h",
    "ROUGHWATER_CLIENT_IMAGE": "sha256:" + "0" * 64,
}


def resolved(environment: Mapping[str, str]) -> dict[str, Any]:
    """The file as Compose reads it: `:-` takes the default for an empty variable, too."""
    text = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: environment.get(found[1]) or found[2], FILE.read_text())
    data = YAML(typ="safe").load(text)
    assert isinstance(data, dict)
    return data


@pytest.fixture(params=[{}, DRIVEN], ids=["by-hand", "driven"])
def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    return dict(request.param)


@pytest.fixture
def file(environment: dict[str, str]) -> dict[str, Any]:
    return resolved(environment)


def real(data: Mapping[str, Any]) -> dict[str, Any]:
    """The three containers in real time, by role."""
    return {name: service for name, service in data["services"].items() if service.get("profiles") == [PROFILE]}


def texts(found: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in found.items()}


def test_neither_a_version_nor_a_fixed_name_nor_a_privilege() -> None:
    data = resolved({})
    assert "version" not in data
    for service in data["services"].values():
        assert not {"container_name", "privileged", "ports", "pid", "devices"} & set(service)
    for service in real(data).values():
        assert not {"user", "network_mode"} & set(service)


def test_no_service_can_be_anybody_elses_image() -> None:
    """It is built from this checkout, under a name that no public registry answers for, and Compose pulls nothing."""
    services = resolved({})["services"]
    assert tuple(sorted(services)) == tuple(sorted(EVERY))
    for role, service in services.items():
        assert service["image"] == image_name(role)
        assert service["image"].startswith("localhost/")
        assert service["pull_policy"] == "never"
        assert service["build"]["context"] == "."
        assert service["build"]["dockerfile"] == f"images/{role}/Dockerfile"
        assert set(service["build"]["args"]) == {"BASE"}


@pytest.mark.parametrize("role", EVERY)
def test_the_base_of_a_plain_build_is_that_of_the_labs(role: str) -> None:
    given = resolved({})["services"][role]["build"]["args"]["BASE"]
    dockerfile = (project_root() / "images" / role / "Dockerfile").read_text()
    assert f"\nARG BASE={given}\n" in dockerfile
    mine = {"BASE": "mine", "ROUTER_BASE": "mine-too", "BUILD_NETWORK": "host"}
    build = resolved(mine)["services"][role]["build"]
    assert build["args"]["BASE"] == ("mine-too" if role == "router" else "mine")
    assert build["network"] == "host"


def test_the_lab_in_virtual_time_may_do_nothing() -> None:
    service = resolved({})["services"][lab_image.ROLE]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["network_mode"] == "none"
    assert service["read_only"] is True
    assert not {"cap_add", "profiles", "sysctls", "networks"} & set(service)
    assert service["volumes"] == ["./results:/results", ".:/work:ro"]
    own = resolved({"ROUGHWATER_FOLDER": "/home/me/networks", "ROUGHWATER_USER": "1001:1001"})["services"][lab_image.ROLE]
    assert own["volumes"] == ["/home/me/networks/results:/results", "/home/me/networks:/work:ro"]
    assert own["user"] == "1001:1001"


@pytest.mark.parametrize("role", ["client", "server"])
def test_sysctls_are_the_pins(role: str) -> None:
    found = texts(resolved({})["services"][role]["sysctls"])
    assert {name: found.get(name) for name in SYSCTLS} == SYSCTLS
    assert set(found) - set(SYSCTLS) == {
        "net.ipv6.conf.all.disable_ipv6",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
    }
    # Others than the lab's group may not be mapped in a rootless engine's namespace, and then the kernel refuses the value.
    assert found["net.ipv4.ping_group_range"] == f"{LAB_UID} {LAB_UID}"


def test_the_router_forwards() -> None:
    assert texts(resolved({})["services"]["router"]["sysctls"])["net.ipv4.ip_forward"] == "1"


def test_capabilities_are_as_few_as_can_be() -> None:
    services = real(resolved({}))
    assert {role: service["cap_drop"] for role, service in services.items()} == {role: ["ALL"] for role in ROLES}
    assert {role: service["cap_add"] for role, service in services.items()} == {
        "client": ["NET_ADMIN"],
        "router": ["NET_ADMIN", "NET_RAW"],
        "server": ["NET_ADMIN"],
    }
    for service in services.values():
        assert service["read_only"] is True
        # It would void the file capabilities of the first process.
        assert "security_opt" not in service


def test_addresses_are_the_labs(file: dict[str, Any], environment: dict[str, str]) -> None:
    addresses = ContainerSetup.of(environment).addresses
    services = file["services"]
    assert services["client"]["networks"] == {"client_net": {"ipv4_address": addresses.client}}
    assert services["server"]["networks"] == {"server_net": {"ipv4_address": addresses.server}}
    assert services["client"]["extra_hosts"] == [f"server:{addresses.server}"]
    taken = {addresses.client, addresses.server, addresses.client_gateway, addresses.server_gateway}
    assert not taken & {entry["ipv4_address"] for entry in services["router"]["networks"].values()}
    gateways = {"client_net": addresses.client_gateway, "server_net": addresses.server_gateway}
    for name, gateway in gateways.items():
        (config,) = file["networks"][name]["ipam"]["config"]
        assert config == {"subnet": gateway.removesuffix(".1") + ".0/24", "gateway": gateway}
        assert services["router"]["networks"][name]["ipv4_address"].startswith(gateway.removesuffix("1"))


def test_no_bridge_takes_an_address_or_lets_anything_out() -> None:
    for network in resolved({})["networks"].values():
        assert network["driver_opts"] == {
            "com.docker.network.bridge.inhibit_ipv4": "true",
            "com.docker.network.bridge.enable_ip_masquerade": "false",
            "com.docker.network.bridge.gateway_mode_ipv4": "routed",
        }
        assert "internal" not in network


def test_everything_is_labelled(file: dict[str, Any], environment: dict[str, str]) -> None:
    wanted = {LAB_LABEL: environment.get("ROUGHWATER_LAB", "by-hand"), OWNER_LABEL: environment.get("ROUGHWATER_OWNER", "")}
    for kind in ("services", "networks", "volumes"):
        for name, entry in file[kind].items():
            assert entry["labels"] == wanted, f"{kind} {name}"


def test_images_and_roles(file: dict[str, Any], environment: dict[str, str]) -> None:
    services = real(file)
    assert tuple(sorted(services)) == tuple(sorted(ROLES))
    for role, service in services.items():
        assert service["image"] == environment.get(f"ROUGHWATER_{role.upper()}_IMAGE", image_name(role))
        assert service["environment"]["ROUGHWATER_ROLE"] == role
        assert service["healthcheck"]["test"][-2:] == ["lab.run.container_health", role]
        assert service["healthcheck"]["interval"] == environment.get("ROUGHWATER_HEALTH_INTERVAL", "2s")


def test_the_environment_reaches_what_reads_it(file: dict[str, Any], environment: dict[str, str]) -> None:
    for service in real(file).values():
        assert ContainerSetup.of(texts(service["environment"])) == ContainerSetup.of(environment)
        assert service["environment"]["ROUGHWATER_DRIVER"] == environment.get("ROUGHWATER_DRIVER", "hand")
    assert ContainerSetup.of({}).link == DEFAULT_LINK
    assert ContainerSetup.of({}).addresses == Addresses()


def test_the_clients_programs_find_their_credentials() -> None:
    found = resolved({})["services"]["client"]["environment"]
    assert found["HOME"] == CLIENT_HOME
    assert found["CURL_CA_BUNDLE"] == found["SSL_CERT_FILE"] == f"{CLIENT_HOME}/{CA_FILE}"


def test_the_shared_folder_is_memory_unless_a_lab_gives_one(file: dict[str, Any], environment: dict[str, str]) -> None:
    for service in real(file).values():
        assert service["volumes"] == [f"{environment.get('ROUGHWATER_SHARED', 'shared')}:{SHARED}"]
        assert f"{RUN_DIR}:exec,uid={LAB_UID},gid={LAB_UID},mode=755" in service["tmpfs"]
    shared = file["volumes"]["shared"]
    assert shared["driver_opts"] == {"type": "tmpfs", "device": "tmpfs", "o": f"uid={LAB_UID},gid={LAB_UID},mode=0700"}


def test_the_client_waits_for_the_others() -> None:
    services = resolved({})["services"]
    assert services["client"]["depends_on"] == {role: {"condition": "service_healthy"} for role in ("router", "server")}


@pytest.mark.parametrize("version", ["1.29", "2"])
def test_compose_takes_it(version: str, file: dict[str, Any], environment: dict[str, str]) -> None:
    words = composes().get(version)
    if words is None:
        pytest.skip(f"there is no Compose {version} on this machine")
    ours = ("ROUGHWATER_", "CLIENT_NET", "SERVER_NET", "LINK", "BASE", "ROUTER_BASE", "BUILD_NETWORK", "COMPOSE_")
    own = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        [*words, "--profile", PROFILE, "-f", str(FILE), "config"],
        capture_output=True,
        text=True,
        check=False,
        env={**own, **environment},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, "a clean file causes no warning"
    said = YAML(typ="safe").load(done.stdout)["services"]
    assert set(said) == set(EVERY)
    for role, service in file["services"].items():
        assert said[role]["image"] == service["image"]
        assert said[role].get("cap_add") == service.get("cap_add")
        assert said[role]["cap_drop"] == ["ALL"]
        assert said[role]["pull_policy"] == "never"
        assert said[role]["build"]["args"] == service["build"]["args"]
        assert texts(said[role].get("environment") or {}) == texts(service.get("environment", {}))
        assert texts(said[role].get("sysctls") or {}) == texts(service.get("sysctls", {}))
