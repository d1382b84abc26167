"""Versions of curl from registries: what is verified, what is kept, and the messages. cargo and cmake are toys."""

from __future__ import annotations

import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from lab.assets import curl_build, curl_versions, engine, store
from lab.assets.curl_versions import VERSIONS, Package
from lab.assets.tools import Tool
from lab.model import files
from lab.model.errors import LabFault, UsageProblem

# Gives out what lies in `crates`, as cargo does: into its own home.
CARGO = """\
#!/bin/sh
echo "cargo $(sed -n 's/^\\([a-z0-9-]*\\) = {{ version.*/\\1/p' Cargo.toml)" >>{log}
mkdir -p {home}/registry/cache/index && cp {crates}/*.crate {home}/registry/cache/index/
{script}
"""
# Two calls: configure (keeps the prefix and the source's version), build (a library, or a program that says its version).
CMAKE = """\
#!/bin/sh
if [ "$1" = --build ]; then
    cd "$2" || exit 1
    echo "cmake $4" >>{log}
    {script}
    if [ "$4" = install ]; then mkdir -p "$(cat prefix)/lib" && echo x >"$(cat prefix)/lib/$(basename "$2").a"; exit; fi
    mkdir lib && echo library >lib/libcurl.a
    mkdir src && printf '#!/bin/sh\\necho "curl %s (x86_64) {linked}"\\n' "$(cat version)" >src/curl && chmod 755 src/curl
    exit
fi
for word; do case "$word" in -DCMAKE_INSTALL_PREFIX=*) prefix=${{word#*=}} ;; esac; done
[ -e "$4/docs/examples/CMakeLists.txt" ] || [ -n "$prefix" ] || {{ echo "CMake Error: no docs"; exit 1; }}
echo "$*" >{log}.flags
mkdir -p "$6" && cp "$4/version" "$6/" && echo "$prefix" >"$6/prefix"
"""


class Registry:
    """Toy registries and toy tools; `log` is what they were asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.crates = folder / "crates"
        self.crates.mkdir()
        self.log_file = folder / "log"
        self.patch = monkeypatch
        monkeypatch.setenv("CARGO_HOME", str(folder / "cargo"))
        monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")
        monkeypatch.setattr(engine, "find_cargo", lambda: folder / "bin" / "cargo")
        monkeypatch.setattr(curl_build, "BUILD_TOOLS", (Tool("cmake", "cmake", ""),))
        monkeypatch.setattr(curl_build, "NGHTTP2", self.crate("libnghttp2-sys", "0.1.0", "1.68.1", "nghttp2"))
        libssh2s = {
            holds: self.crate("libssh2-sys", crate, f"{holds}_DEV", "libssh2")
            for crate, holds in (("0.3.0", "1.10.1"), ("0.3.4", "1.11.2"))
        }
        monkeypatch.setattr(curl_build, "LIBSSH2", libssh2s["1.11.2"])
        monkeypatch.setattr(curl_build, "LIBSSH2S", libssh2s)
        table = {
            holds: self.crate("curl-sys", f"0.4.{at}+curl-{holds}", holds, "curl") for at, holds in enumerate(("8.4.0", "8.5.0"))
        }
        monkeypatch.setattr(curl_build, "VERSIONS", table)
        self.table = table
        self.tool("cargo", CARGO)
        self.tool("cmake", CMAKE)

    def crate(self, name: str, version: str, holds: str, inside: str) -> Package:
        source = self.folder / "sources" / f"{name}-{version}" / inside
        source.mkdir(parents=True)
        (source / "version").write_text(holds)
        (source / "CMakeLists.txt").write_text(f"option({'CURL' if holds != '8.5.0' else 'CMAKE'}_USE_OPENSSL)")
        (source / "include" / "curl").mkdir(parents=True)
        (source / "include" / "curl" / "curl.h").write_text(f"#define VERSION {holds}")
        path = self.crates / f"{name}-{version}.crate"
        with tarfile.open(path, "w:gz") as archive:
            archive.add(source.parent, f"{name}-{version}")
        return Package(name, version, files.digest(path), holds)

    def tool(self, name: str, text: str, script: str = "", linked: str = "libssh2/1.11.2_DEV nghttp2/1.68.1") -> None:
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        words = {"log": self.log_file, "crates": self.crates, "home": self.folder / "cargo", "script": script, "linked": linked}
        path.write_text(text.format(**words))
        path.chmod(0o755)

    def log(self) -> list[str]:
        lines = self.log_file.read_text().splitlines() if self.log_file.exists() else []
        self.log_file.unlink(missing_ok=True)
        return lines


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def registry(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    del cache
    return Registry(tmp_path, monkeypatch)


def quiet(_: str) -> None:
    pass


def kept(cache: Path) -> list[str]:
    """The files that a failed build leaves behind."""
    return sorted(path.name for path in cache.iterdir() if path.is_dir())


LIBRARIES = ["cargo libnghttp2-sys", "cmake install", "cargo libssh2-sys", "cmake install"]
CURL = ["cargo curl-sys", "cmake curl"]


def test_a_version_is_built_once_and_its_libraries_once_for_all(registry: Registry) -> None:
    assert curl_build.find("8.4.0") is None
    program = curl_build.build("8.4.0", quiet)
    assert registry.log() == LIBRARIES + CURL
    assert subprocess.check_output([program], text=True).startswith("curl 8.4.0 (x86_64) ")
    assert curl_build.find("8.4.0") == curl_build.build("8.4.0", quiet) == program
    assert registry.log() == []
    assert curl_build.build("8.5.0", quiet) != program
    assert registry.log() == CURL


OTHER = "8.4.0-libssh2-1.10.1"
OTHERS_LIBRARIES = "libssh2/1.10.1_DEV nghttp2/1.68.1"


def test_another_libssh2_is_a_program_of_its_own(registry: Registry) -> None:
    plain = curl_build.build("8.4.0", quiet)
    registry.log()
    registry.tool("cmake", CMAKE, linked=OTHERS_LIBRARIES)
    assert curl_build.find(OTHER) is None
    program = curl_build.build(OTHER, quiet)
    assert registry.log() == LIBRARIES + CURL
    assert program.parent.name.startswith(f"curl-{OTHER}-")
    assert subprocess.check_output([program], text=True) == f"curl 8.4.0 (x86_64) {OTHERS_LIBRARIES}\n"
    assert (curl_build.find(OTHER), curl_build.find("8.4.0")) == (program, plain)
    curl_build.build("8.5.0-libssh2-1.10.1", quiet)
    assert registry.log() == CURL


def test_a_curl_is_built_against_the_libssh2_it_names(registry: Registry, cache: Path) -> None:
    curl_build.build("8.4.0", quiet)
    first = set(kept(cache))
    registry.tool("cmake", CMAKE, linked=OTHERS_LIBRARIES)
    curl_build.build(OTHER, quiet)
    (libraries,) = (name for name in set(kept(cache)) - first if name.startswith("curl-libraries-"))
    flags = registry.log_file.with_name("log.flags").read_text().split()
    assert f"-DCMAKE_PREFIX_PATH={cache / libraries}" in flags
    assert store.load(cache / libraries) == {
        "packages": ["libnghttp2-sys 0.1.0 of crates.io", "libssh2-sys 0.3.0 of crates.io"],
        "files": store.digests(cache / libraries),
    }


def test_naming_the_default_libssh2_changes_nothing(registry: Registry) -> None:
    assert curl_build.build("8.4.0-libssh2-1.11.2", quiet) == curl_build.build("8.4.0", quiet)
    assert registry.log() == LIBRARIES + CURL


def test_a_program_with_another_libssh2_than_asked_for_is_not_kept(registry: Registry) -> None:
    with pytest.raises(LabFault, match=r"curl 8\.4\.0-libssh2-1\.10\.1 was built, but prints: curl 8\.4\.0 .*1\.11\.2"):
        curl_build.build(OTHER, quiet)
    assert curl_build.find(OTHER) is None


def test_a_libssh2_that_cannot_be_built_is_one_line_that_names_it(registry: Registry, cache: Path) -> None:
    script = 'case "$PWD" in */libssh2) echo "a.c:1:1: error: no EVP_PKEY"; exit 2 ;; esac'
    registry.tool("cmake", CMAKE, script=script)
    with pytest.raises(LabFault, match=r"^libssh2 1\.10\.1_DEV cannot be built: a\.c:1:1: error: no EVP_PKEY") as caught:
        curl_build.build(OTHER, quiet)
    assert "\n" not in str(caught.value)
    assert kept(cache) == []


def test_a_curl_that_refuses_a_libssh2_is_one_line_that_names_both(registry: Registry) -> None:
    script = 'case "$PWD" in */curl) echo "b.c:1:1: error: libssh2 is too old"; exit 2 ;; esac'
    registry.tool("cmake", CMAKE, script=script)
    with pytest.raises(LabFault, match=r"^curl 8\.4\.0 with libssh2 1\.10\.1_DEV cannot be built: b\.c.* too old"):
        curl_build.build(OTHER, quiet)


@pytest.mark.parametrize(
    ("version", "folder"),
    [("8.4.0", "curl-8.4.0-91151a2145ff"), ("8.22.0", "curl-8.22.0-13096dbc894c"), ("7.83.1", "curl-7.83.1-34df0cbd03b5")],
)
def test_what_was_built_before_there_was_a_choice_is_still_found(cache: Path, version: str, folder: str) -> None:
    """A change of the recipe on purpose changes these; a change of how a recipe is written down must not."""
    assert curl_build.place(version) == cache / folder


@pytest.mark.parametrize(("version", "prefix"), [("8.4.0", "CURL_USE_"), ("8.5.0", "CMAKE_USE_")])
def test_options_bear_the_names_of_their_time(registry: Registry, version: str, prefix: str) -> None:
    curl_build.build(version, quiet)
    flags = registry.log_file.with_name("log.flags").read_text()
    assert re.findall(r"-D(\w+_USE_)(?:OPENSSL|LIBSSH2)=ON", flags) == [prefix, prefix]


def test_a_damaged_program_is_built_again(registry: Registry) -> None:
    program = curl_build.build("8.4.0", quiet)
    program.write_text("#!/bin/sh\necho curl 8.4.0 other\n")
    assert curl_build.find("8.4.0") is None
    registry.log()
    assert curl_build.build("8.4.0", quiet) == program
    assert registry.log() == CURL
    assert curl_build.find("8.4.0") == program


def test_a_build_without_its_library_is_made_again_for_who_needs_it(registry: Registry) -> None:
    program = curl_build.build("8.4.0", quiet)
    folder = program.parent
    assert (folder / "include" / "curl" / "curl.h").read_text() == "#define VERSION 8.4.0"
    first, *others = curl_build.static_libraries("8.4.0")
    assert first.read_text() == "library\n"
    assert [path.name for path in others] == ["libnghttp2.a", "libssh2.a"]
    registry.log()
    curl_build.build("8.4.0", quiet, with_library=True)
    assert registry.log() == []
    first.unlink()
    store.write_manifest(folder, {}, store.digests(folder))
    curl_build.build("8.4.0", quiet)
    assert registry.log() == []
    curl_build.build("8.4.0", quiet, with_library=True)
    assert registry.log() == CURL
    assert first.exists()


def test_another_recipe_does_not_find_this_build(registry: Registry) -> None:
    curl_build.build("8.4.0", quiet)
    registry.patch.setattr(curl_build, "_CURL_FLAGS", (*curl_build._CURL_FLAGS, "-DNEW=ON"))
    assert curl_build.find("8.4.0") is None


def test_a_crate_with_another_checksum_is_not_unpacked(registry: Registry, cache: Path) -> None:
    (registry.crates / "curl-sys-0.4.0+curl-8.4.0.crate").write_bytes(b"not a tar file either")
    with pytest.raises(LabFault, match=r"checksum of curl-sys-0\.4\.0\+curl-8\.4\.0\.crate"):
        curl_build.build("8.4.0", quiet)
    assert [name for name in kept(cache) if "libraries" not in name] == []


def test_a_program_of_another_version_is_not_kept(registry: Registry, cache: Path) -> None:
    registry.tool("cmake", CMAKE, script="echo 8.4.10 >version")
    with pytest.raises(LabFault, match=r"curl 8\.4\.0 was built, but prints: curl 8\.4\.10"):
        curl_build.build("8.4.0", quiet)
    assert [name for name in kept(cache) if "libraries" not in name] == []


@pytest.mark.parametrize("linked", ["libssh2/1.11.2_DEV", "nghttp2/1.68.1", "libssh2/1.10.0 nghttp2/1.68.1"])
def test_a_program_without_the_libraries_is_not_kept(registry: Registry, linked: str) -> None:
    """cmake only warns of a library that it does not find, or takes the machine's."""
    registry.tool("cmake", CMAKE, linked=linked)
    with pytest.raises(LabFault, match=linked):
        curl_build.build("8.4.0", quiet)
    assert curl_build.find("8.4.0") is None


def test_a_failed_build_is_one_line_and_a_log(registry: Registry, cache: Path) -> None:
    script = "echo '[ 3%] CC'; echo 'a.c:3:9: error: no such thing'; echo '   3 | thing'; echo 'make: *** [all] Error 2'; exit 2"
    registry.tool("cmake", CMAKE, script=script)
    with pytest.raises(LabFault, match=r"a\.c:3:9: error: no such thing") as caught:
        curl_build.build("8.4.0", quiet)
    assert "\n" not in str(caught.value)
    log = re.search(r"full output: (\S+\.log)", caught.value.remedy)
    assert log
    assert "[ 3%] CC" in Path(log[1]).read_text()
    assert kept(cache) == []


def test_missing_tools_are_reported_before_a_download(registry: Registry) -> None:
    lacking = (Tool("cmake", "cmake", ""), Tool("a.h", "liba-dev", "", file="/no/such/a.h"), Tool("no-such-cc", "gcc", ""))
    registry.patch.setattr(curl_build, "BUILD_TOOLS", lacking)
    with pytest.raises(UsageProblem, match=r"without a\.h, no-such-cc") as caught:
        curl_build.build("8.4.0", quiet)
    assert caught.value.remedy == "make clients, or sudo apt-get install liba-dev gcc"
    assert registry.log() == []


def test_a_registry_out_of_reach(registry: Registry, cache: Path) -> None:
    registry.tool("cargo", CARGO, script='echo "error: failed to get curl-sys"; exit 101')
    with pytest.raises(LabFault, match="error: failed to get curl-sys"):
        curl_build.build("8.4.0", quiet)
    assert kept(cache) == []


def test_no_cargo(registry: Registry) -> None:
    registry.patch.setattr(engine, "find_cargo", lambda: None)
    with pytest.raises(UsageProblem, match="no cargo"):
        curl_build.build("8.4.0", quiet)


def test_the_table() -> None:
    """Every entry is complete, and every version has another file."""
    assert list(VERSIONS) == sorted(VERSIONS, key=curl_versions.order)
    assert {"7.83.1", "8.4.0", "8.17.0", "8.22.0"} <= set(VERSIONS)
    everything = curl_versions.LIBCURLS
    assert list(everything) == sorted(everything, key=curl_versions.order)
    assert [version for version in everything if version not in VERSIONS] == ["7.84.0", "8.16.0", "8.23.0"]
    assert all(package.is_wheel == (version not in VERSIONS) for version, package in everything.items())
    assert {"7.61.0", "7.62.0", "7.87.0", "8.7.1", "8.13.0"} <= set(curl_versions.MISSING)
    libssh2s = curl_versions.LIBSSH2S
    assert list(libssh2s) == sorted(libssh2s, key=curl_versions.order)
    assert [*libssh2s.values()][-1] == curl_versions.LIBSSH2
    assert all(package.holds == f"{version}_DEV" for version, package in libssh2s.items())
    packages = [*everything.values(), curl_versions.NGHTTP2, *libssh2s.values()]
    assert len({package.sha256 for package in packages}) == len(packages)
    assert all(re.fullmatch(r"[0-9a-f]{64}", package.sha256) for package in packages)
    for version, package in everything.items():
        assert package.holds == version
        assert package.is_wheel or package.version.endswith(f"+curl-{version}") or curl_versions.order(version) < (7, 68)
