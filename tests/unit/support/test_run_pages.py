"""The runner of the pages' commands, on pages made for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import run_pages


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run_pages, "ROOT", tmp_path)
    return tmp_path / "page.md"


def run(page: Path, text: str) -> list[str]:
    page.write_text(text, encoding="utf-8")
    return [*run_pages.problems_of_form(page), *run_pages.run(page, page.parent)]


@pytest.mark.parametrize(
    "text",
    [
        "```console\n$ echo 'took 3.5 s'\ntook 4.25 s\n```\n",
        "```console\n$ printf 'a\\nb\\nc\\n'\na\n...\nc\n```\n",
        "```console\n$ echo one \\\n    two\none two\n```\n",
        "<!-- exit: 3 -->\n```console\n$ true\n$ exit 3\n```\n",
        "<!-- file: a/b.txt -->\n```yaml\nx: 1\n```\n\n```console\n$ cat a/b.txt\nx: 1\n```\n",
        "<!-- not run: no such program -->\n```sh\nsuch-a-program\n```\n",
    ],
)
def test_a_page_that_is_right(page: Path, text: str) -> None:
    assert run(page, text) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```console\n$ false\n```\n", "page.md:2: `false`: exit code 1"),
        ("```console\n$ echo a\nb\n```\n", "the page shows: b\nit printed: a"),
        ("```sh\nls\n```\n", "page.md:1: no line begins"),
        ("```sh\n$ ls\n```\n", "stand in ```console"),
    ],
)
def test_a_page_that_is_wrong(page: Path, text: str, said: str) -> None:
    assert said in "\n".join(run(page, text))


def test_a_block_that_is_skipped_has_its_reason(page: Path) -> None:
    run(page, "<!-- not run: needs Docker -->\n```sh\ndocker ps\n```\n")
    assert run_pages.skipped(page) == ["page.md:2: needs Docker"]


TABLE = """\
mine--dsl-50--http1-get
  #  limit   time s    bytes  deviation
  1  2 MB/s   2.483  5242880    +5.57 %
  2  2 MB/s   2.434        -          -
  wire         longest gap 290 ms, 140 retransmits
  verdict      FAIL: mean +8.10 %, 97.7 % interval +5.02 to +11.28 %, n = 2

0 PASS, 1 FAIL, 0 INCONCLUSIVE
results: results/20261128T054725-cells-267e
"""
# The same run elsewhere: other figures, more samples, a note, a verdict that goes on in the next line, another folder.
ELSEWHERE = """\
mine--dsl-50--http1-get
   #   limit   time s    bytes  deviation
   1   2 MB/s   12.48  5242880   +15.57 %
   2   2 MB/s   2.434  5242880    +5.57 %
   3   2 MB/s   2.434        -          -
  wire         longest gap 9 ms, 1 retransmits
  note         bimodal: 2 samples around +8.85 % and 1 around +32.67 %: a mean
               describes neither
  verdict      FAIL: 3 of 3 transfers outside ±5 %, whatever their mean +13.25 %, 97.7 % interval +4.98 to
               +23.12 %, n = 3

0 PASS, 1 FAIL, 0 INCONCLUSIVE
results: /tmp/x/results/20261128T101010-cells-0001
"""


def shown_and_printed(page: Path, printed: str, *, code: int = 1) -> list[str]:
    (page.parent / "printed").write_text(printed, encoding="utf-8")
    return run(page, f"<!-- exit: 1 -->\n```console\n$ cat printed; exit {code} # a client\n{TABLE}```\n")


def test_figures_and_the_number_of_samples_may_differ(page: Path) -> None:
    assert shown_and_printed(page, TABLE) == []
    assert shown_and_printed(page, ELSEWHERE) == []


@pytest.mark.parametrize("code", [0, 2, 3, 4])
def test_another_exit_code_is_found(page: Path, code: int) -> None:
    assert f"exit code {code}, the page says 1" in "\n".join(shown_and_printed(page, ELSEWHERE, code=code))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("verdict      FAIL:", "verdict      PASS:"),
        ("verdict      FAIL:", "verdict      INCONCLUSIVE:"),
        ("1 FAIL", "2 FAIL"),
        ("0 INCONCLUSIVE", "1 INCONCLUSIVE"),
        ("    bytes", ""),
        ("  deviation", "  deviation  retries"),
        ("  5242880", ""),
        ("   3   2 MB/s   2.434        -          -\n", ""),
        ("  wire", "  4  2 MB/s  2.434  5242880  +5.57 %\n  wire"),
        ("   1   2 MB/s   12.48  5242880   +15.57 %\n", ""),
        ("MB/s", "kB/s"),
        ("  wire         longest gap 9 ms, 1 retransmits\n", ""),
        ("0 PASS, 1 FAIL, 0 INCONCLUSIVE\n", ""),
        ("results:", "1 skipped\nresults:"),
        ("mine--dsl-50--http1-get\n", "mine--dsl-50--http1-put\n"),
    ],
)
def test_another_verdict_or_another_shape_of_the_table_is_found(page: Path, old: str, new: str) -> None:
    assert old in ELSEWHERE
    assert shown_and_printed(page, ELSEWHERE.replace(old, new)) != []


def test_a_page_that_contradicts_itself_is_found(page: Path) -> None:
    page.write_text(f"```console\n$ cat page.md\n...\n{TABLE.replace('n = 2', 'n = 5')}...\n```\n", encoding="utf-8")
    assert "2 rows of samples" in "\n".join(run_pages.run(page, page.parent))


def test_only_dots_stand_for_lines_that_a_page_leaves_out(page: Path) -> None:
    assert "it printed: b" in "\n".join(run(page, "```console\n$ printf 'a\\nb\\nc\\n'\na\nc\n```\n"))
    assert "it printed: b" in "\n".join(run(page, "```console\n$ printf 'a\\nb\\n'\na\n```\n"))
    assert run(page, "```console\n$ printf 'a\\nb\\n'\na\n...\n```\n") == []
    assert run(page, "```console\n$ printf 'a\\nb\\n'\n```\n") == []


ONE_CELL = """\
mine--dsl-50--http1-get
  #  limit   time s    bytes  deviation
  1  2 MB/s   2.483  5242880    +5.57 %
  link before  goodput down -0.002 % of ideal; RTT +0.0001 ms of 20 ms asked
  digest       {digest} of all that counts: lab, seed
  verdict      PASS: mean +5.57 %, n = 1
"""


@pytest.mark.parametrize(
    ("digest", "figure", "right"),
    [("a0b1a0b1a0b1", "5.57", True), ("a0b1a0b1a0b1", "5.58", False), ("c2d3c2d3c2d3", "5.58", True)],
)
def test_figures_are_compared_where_the_digest_is_the_same(page: Path, digest: str, figure: str, right: bool) -> None:
    """The link's certificate is not what the digest stands for."""
    printed = ONE_CELL.format(digest="a0b1a0b1a0b1")
    (page.parent / "printed").write_text(printed)
    shown = ONE_CELL.format(digest=digest).replace("5.57", figure).replace("+0.0001", "-0.0004")
    assert (run(page, f"```console\n$ cat printed\n{shown}```\n") == []) is right
