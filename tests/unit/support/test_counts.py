"""The counts of the code, on a small tree whose counts are known."""

from __future__ import annotations

from pathlib import Path

from tests.support.counts import Tree


def tree(folder: Path, **files: str) -> Tree:
    for top in ("lab", "reports", "benchmarks", "images"):
        (folder / top).mkdir()
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Tree(folder)


def test_lines_without_blanks_comments_and_docstrings(tmp_path: Path) -> None:
    found = tree(
        tmp_path, lab__a='"""A module."""\n\n# Why.\nx = """one\n\ntwo"""\n\n\ndef f() -> int:\n    """One."""\n    return 1\n'
    )
    assert found.lines("lab") == (11, 5)


def test_a_table_of_figures_is_a_home(tmp_path: Path) -> None:
    found = tree(
        tmp_path,
        lab__table="FIGURES = {'burst': 1, 'cpu': 2}",
        reports__calls="FIGURES = (Figure('burst', 'x'), Figure(name='cpu'))",
        lab__other="x = {'burst': 1}",
    )
    assert found.homes() == ["lab/table.py", "reports/calls.py"]


def test_dialects_are_found_by_what_they_declare(tmp_path: Path) -> None:
    found = tree(
        tmp_path, lab__a="x = ['h2-get-5MiB', 'dsl-20--h2-put-5MiB']", benchmarks__b="Transfer(protocol='h2', size=Size(5))"
    )
    assert found.dialects() == ["Python in benchmarks", "Python tables in lab"]
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites/a.robot").write_text("", encoding="utf-8")
    assert "Robot suites" in found.dialects()


def test_asking_a_host_what_it_is_counts_with_its_callers(tmp_path: Path) -> None:
    found = tree(
        tmp_path,
        lab__a="def chores(host):\n    return getattr(host, 'chores', None)\n",
        lab__b="x = chores(host)\nif isinstance(y, SshHost): pass\nz = getattr(link, name)\n",
    )
    assert found.branches() == ["lab/a.py:2", "lab/b.py:1", "lab/b.py:2"]


def test_an_agent_runs_commands_on_request(tmp_path: Path) -> None:
    found = tree(
        tmp_path,
        lab__hosts__serve="from lab.hosts.spawn import fork_into\nclass Agent:\n    def _op_run(self): ...\n",
        lab__hosts__client="class Client:\n    def run(self): ...\n",
    )
    assert found.agents() == ["lab/hosts/serve.py"]
