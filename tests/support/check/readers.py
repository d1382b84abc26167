"""Which unit tests read which files that are not Python: found by watching what `tests/unit` opens."""

from __future__ import annotations

from fnmatch import fnmatchcase

ALL = ("tests/unit",)

# A pattern's `*` takes slashes too. Every row that matches counts. Rooms have their own rule (selection.py).
READERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    # They decide how all tests run.
    ("pyproject.toml", ALL),
    ("requirements-test.lock", ALL),
    ("tests/conftest.py", ALL),
    ("tests/unit/conftest.py", ALL),
    # Texts of any folder.
    ("*.md", ("docs/test_links.py",)),
    ("*.sh", ("ci/test_scripts.py",)),
    ("*.ps1", ("hosts/test_ssh_windows.py", "ci/test_scripts.py")),
    ("docs/*", ("docs",)),
    ("docs/how-to/ci.md", ("ci",)),
    ("docs/reference/*", ("robot/test_libdoc.py", "store/test_results_page.py", "store/test_result_schemas.py")),
    ("docs/studies/*", ("reports/test_studies.py",)),
    ("topologies/*", ("model", "robot", "cli", "benchmarks", "hosts/test_compose_inside.py", "run/test_settings.py")),
    ("topologies/*", ("run/test_qualify.py", "run/test_which_userland.py", "guest/test_vm_proof.py")),
    ("suites/*", ("robot", "run/test_settings.py", "run/test_lock.py", "run/test_qualify.py", "run/test_reproduce.py")),
    ("suites/*", ("guest/test_vm_proof.py",)),
    ("lab/clients/descriptions/*", ("clients", "cli/test_client_command.py", "robot")),
    ("lab/assets/*", ("assets", "ci/test_scripts.py", "cli/test_client_command.py")),
    # The page of the commands is made of them, and most tests of a command import its module alone.
    ("lab/cli/*", ("docs/test_reference.py",)),
    ("lab/store/history/*", ("history",)),
    ("reports/*", ("reports", "history/test_every_figure.py")),
    ("images/*", ("hosts", "assets/test_images.py", "ci/test_scripts.py")),
    ("images/guest/*", ("guest",)),
    ("images/vagrant/*", ("guest",)),
    ("images/kernel/*", ("kernel", "assets/test_assets_store.py", "run/test_crew.py", "run/test_doctor_backends.py")),
    ("tools/*", ("support/test_openings.py",)),
    ("docker-compose.yml", ("hosts/test_compose_file.py", "hosts/test_compose_inside.py", "assets/test_images.py")),
    ("Vagrantfile", ("hosts", "guest")),
    (".ci/*", ("ci", "hosts/test_ssh_windows.py")),
    (".github/*", ("ci",)),
    ("action.yml", ("ci",)),
    ("Makefile", ("ci", "guest/test_vm_proof.py")),
    ("requirements.lock", ("assets", "hosts/test_dockerfiles.py")),
    ("CHANGELOG.md", ("assets/test_release.py",)),
    ("LICENSE", ("assets/test_release.py",)),
    (".rubocop.yml", ("hosts/test_vagrant_machines.py",)),
    (".dockerignore", ("hosts/test_dockerfiles.py", "assets/test_images.py")),
    (".gitignore", ("docs/test_links.py", "hosts/test_dockerfiles.py")),
    ("engine/*", ("test_engine_arrows.py",)),
    ("engine/Cargo.toml", ("assets", "run/test_doctor_backends.py")),
    # Their names and markers are checked by the budget of skips, their texts by the counts of this folder.
    ("tests/*", ("support/test_skips.py",)),
    ("tests/*.txt", ("support", "testing")),
    ("tests/data/*", ("store", "reports", "clients/test_windows_by_os.py")),
    ("tests/docs/*", ("ci/test_schemas.py",)),
)


def readers(path: str) -> frozenset[str]:
    """Files and folders of tests/unit; empty for a path that no row knows."""
    found = {each for pattern, tests in READERS if fnmatchcase(path, pattern) for each in tests}
    return frozenset(each if each.startswith("tests/") else f"tests/unit/{each}" for each in found)
