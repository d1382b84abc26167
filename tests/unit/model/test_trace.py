"""Traces: files of mahimahi and CSV become frames per millisecond, and every bad file gets one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lab.model.errors import UsageProblem
from lab.model.load import load_topology
from lab.model.topology import Topology
from lab.model.trace import MOST_FRAMES, Trace, TraceDirection, packed, unpacked
from lab.model.trace_file import frames_of, is_pensieve, parse_csv, parse_mahimahi, parse_pensieve
from tests.support.command import lab, one_line
from tests.support.made_trace import made

FRAME_BITS = 1514 * 8
TOPOLOGY = "name: mine\ndescription: A test.\nlink:\n  rtt: 30 ms\nschedule:\n  trace: {}\n"
CSV = "time_s,down_mbit_s,up_mbit_s,rtt_ms\n0,12,3,40\n1,24,6,40\n2,6,3,60\n"


@given(st.lists(st.integers(0, MOST_FRAMES), min_size=1, max_size=2000))
def test_what_is_packed_is_unpacked(frames: list[int]) -> None:
    assert list(unpacked(packed(frames))) == frames


@given(st.one_of(st.text(), st.binary().map(lambda data: data.decode("latin-1"))))
def test_a_damaged_trace_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="a trace is damaged"):
        unpacked(text)


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=300).map(sorted).filter(lambda times: times[-1] > 0))
def test_every_opportunity_of_mahimahi_is_in_its_millisecond(times: list[int]) -> None:
    counts = parse_mahimahi("".join(f"{time}\n" for time in times), "a file")
    assert len(counts) == times[-1]
    assert sum(counts) == len(times)
    # The last line is where the trace begins again.
    assert all(counts[time % len(counts)] for time in times)


@given(
    st.lists(st.tuples(st.integers(1, 50_000_000), st.integers(0, 10**9)), min_size=1, max_size=8),
    st.integers(0, 60),
    st.integers(0, 60),
)
def test_every_span_of_a_series_is_right_to_a_frame(spans: list[tuple[int, int]], first: int, second: int) -> None:
    at, rates = 0, []
    for length, bit_s in spans:
        rates.append((at, bit_s))
        at += length
    counts = frames_of(rates, at, FRAME_BITS)
    assert len(counts) == at // 1_000_000
    begin, end = sorted((min(first, len(counts)), min(second, len(counts))))

    def carried(ms: int) -> float:
        edges = [
            (start, bit_s, min(ms * 1_000_000, stop))
            for (start, bit_s), stop in zip(rates, [*(r[0] for r in rates[1:]), at], strict=True)
        ]
        return sum(bit_s * max(0, stop - start) for start, bit_s, stop in edges) / 1e9

    assert abs(sum(counts[begin:end]) - (carried(end) - carried(begin)) / FRAME_BITS) < 1 + 1e-6


@pytest.mark.parametrize("parse", [parse_mahimahi, parse_pensieve, parse_csv])
@given(text=st.text(alphabet=st.sampled_from('0123456789.,-+eE#"\n\r\t abtimersdownuprt_s\x00é'), max_size=120))
def test_any_text_is_a_trace_or_one_line(parse: Callable[[str, str], object], text: str) -> None:
    for each in (text, f"time_ms,rate_mbit_s\n{text}"):
        said = problem_of(lambda each=each: parse(each, "a file"))
        assert not said or (said.startswith("a file") and "\n" not in said)


def problem_of(work: Callable[[], object]) -> str:
    """What the UsageProblem says that it ends in; empty where it does not."""
    try:
        work()
    except UsageProblem as problem:
        return problem.message
    return ""


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "a trace needs lines with milliseconds"),
        ("0\n0\n", "a trace needs lines with milliseconds"),
        ("1\nx\n", "x.down:2: 'x' is not a time in milliseconds"),
        ("1\n-2\n", "x.down:2: '-2' is not a time"),
        ("1\n2.5\n", "x.down:2: '2.5' is not a time"),
        ("5\n4\n", "x.down:2: 4 is before 5"),
        ("9999999\n", "x.down:1: '9999999' is not a time in milliseconds of at most 3600000"),
    ],
)
def test_a_bad_file_of_mahimahi_says_where(text: str, wrong: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        parse_mahimahi(text, "x.down")
    assert wrong in caught.value.message


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "an empty trace"),
        ("# only\n", "an empty trace"),
        ("time_s,speed\n0,1\n1,1\n", "x.csv:1: 'speed' is not a column of a trace"),
        ("time_s,rate_mbit_s,rate_bit_s\n", "x.csv:1: two columns of rate"),
        ("time_s,down_mbit_s\n0,1\n1,1\n", "x.csv:1: columns are missing"),
        ("time_s,rate_mbit_s,up_mbit_s\n0,1,1\n1,1,1\n", "x.csv:1: columns are missing, or too many"),
        ("rate_mbit_s\n1\n1\n", "x.csv:1: columns are missing"),
        ("time_s,rate_mbit_s\n0,1\n", "a trace needs two rows"),
        ("time_s,rate_mbit_s\n0,1\n\n# note\n1\n", "x.csv:5: 1 columns, and the header has 2"),
        ("time_s,rate_mbit_s\n0,1\n0,1\n", "x.csv:3: its time is not after"),
        ("time_s,rate_mbit_s\n0,-1\n", "x.csv:2: -1 is negative"),
        ("time_s,rate_mbit_s\n0,nan\n", "x.csv:2: 'nan' is not a number"),
        ("time_s,rate_mbit_s\n0,1e400\n", "x.csv:2: '1e400' is not a number"),
        ("time_s,rate_mbit_s\n0,1e6\n", "x.csv:2: a rate above 10 Gbit/s"),
        ("time_s,rate_mbit_s\n0,1\n9999,1\n", "it lasts 19998 s"),
        ("time_s,rate_mbit_s,rtt_ms\n0,1,99999\n", "x.csv:2: a round trip above 10000 ms"),
    ],
)
def test_a_bad_table_says_where(text: str, wrong: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        parse_csv(text, "x.csv")
    assert wrong in caught.value.message


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "a trace needs two rows"),
        ("0.0\t4\n", "a trace needs two rows"),
        ("0 4\n1 4 4\n", "x:2: 3 columns"),
        ("0 4\n\n1\n", "x:3: 1 columns"),
        ("1 4\n1 4\n", "x:2: its time is not after"),
        ("0 4\n1 fast\n", "x:2: 'fast' is not a number"),
        ("0 4\n1 -4\n", "x:2: -4 is negative"),
        ("0 4\n1 10001\n", "x:2: a rate above 10 Gbit/s"),
        ("0 4\n1e30 4\n", "x:2: its time is too late"),
        ("0 4\n9999 4\n", "it lasts 9999 s"),
    ],
)
def test_a_bad_file_of_pensieve_says_where(text: str, wrong: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        parse_pensieve(text, "x")
    assert wrong in caught.value.message


def test_a_rate_of_pensieve_is_that_of_the_time_before_its_line() -> None:
    # The first line's own rate belongs to a time that the file does not have.
    found = parse_pensieve("5.0\t99\n6.5\t3\n7.0\t0.5\n", "x")
    assert [(row.at_ns, row.down_bit_s, row.up_bit_s) for row in found.rows] == [
        (0, 3_000_000, 3_000_000),
        (1_500_000_000, 500_000, 500_000),
    ]
    assert found.end_ns == 2_000_000_000


@pytest.mark.parametrize(("text", "which"), [("0.0\t4.03\n", True), ("\n0 4\n", True), ("17\n18\n", False), ("", False)])
def test_two_columns_are_pensieves(text: str, which: bool) -> None:
    assert is_pensieve(text) is which


def test_a_topology_follows_a_file_of_pensieve(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(TOPOLOGY.format("bus"), encoding="utf-8")
    (tmp_path / "bus").write_text("0.0\t1\n1.0\t4\n2.0\t8\n", encoding="utf-8")
    trace = trace_of(load_topology(str(tmp_path / "mine.yaml")))
    counts = trace.down.counts
    assert [sum(counts[:1000]), sum(counts[1000:])] == pytest.approx([4e6 / FRAME_BITS, 8e6 / FRAME_BITS], abs=1)
    assert trace.rtts == ()


def trace_of(topology: Topology) -> Trace:
    assert topology.schedule is not None
    assert isinstance(topology.schedule.trace, Trace)
    return topology.schedule.trace


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(TOPOLOGY.format("here.csv"), encoding="utf-8")
    (tmp_path / "here.csv").write_text(CSV, encoding="utf-8")
    return path


def test_a_table_gives_both_directions_and_round_trips(file: Path) -> None:
    found = load_topology(str(file))
    trace = trace_of(found)
    assert [trace.direction(way).per_second() * FRAME_BITS / 1e6 for way in ("down", "up")] == pytest.approx([14, 4], abs=0.01)
    assert [(entry.at.s, entry.rtt.ms) for entry in trace.rtts] == [(0, 40), (2, 60)]
    # A link without a rate gets the mean, for its calibration.
    assert [round(rate.bit_s / 1e6, 1) for side in (found.link.down, found.link.up) if side and (rate := side.rate)] == [
        14.0,
        4.0,
    ]
    assert Topology.model_validate_json(found.model_dump_json()) == found


def test_a_file_for_each_direction_is_found_by_its_name_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    (tmp_path / "far").mkdir()
    monkeypatch.setenv("ROUGHWATER_TRACES", str(tmp_path / "far"))
    (tmp_path / "far/line.up").write_text("10\n20\n", encoding="utf-8")
    file.write_text(TOPOLOGY.format("{down: here.csv, up: line.up}"), encoding="utf-8")
    trace = trace_of(load_topology(str(file)))
    assert trace.direction("down").per_second() * FRAME_BITS / 1e6 == pytest.approx(14, abs=0.01)
    assert trace.direction("up").counts == (1, *[0] * 9, 1, *[0] * 9)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (("trace: here.csv", "trace: gone.csv"), "no trace 'gone.csv'"),
        (("trace: here.csv", "trace: here.csv\n  repeat: 5 s"), "a trace begins again at its end"),
        (("trace: here.csv", "trace: here.csv\n  steps:\n    - at: 1 s\n      outage: 1 s"), "either `steps` or a `trace`"),
        (("  rtt: 30 ms", "  rtt: 30 ms\n  rate: 5 Mbit/s"), "the link has a rate"),
        (("  rtt: 30 ms", "  rtt: 30 ms\n  rate: 5 Mbit/s\n  queue:\n    kind: fq_codel"), "a trace needs a plain queue"),
        (("  rtt: 30 ms", "  rtt: 60 ms\n  jitter: 25 ms"), "jitter 25 ms is more than the one-way delay 20 ms"),
        (("trace: here.csv", "trace: {down: here.csv}"), "up is missing"),
    ],
)
def test_a_topology_whose_trace_cannot_be_is_one_line(file: Path, change: tuple[str, str], wrong: str) -> None:
    file.write_text(file.read_text().replace(*change), encoding="utf-8")
    with pytest.raises(UsageProblem) as caught:
        load_topology(str(file))
    assert wrong in caught.value.message
    assert "\n" not in caught.value.message


def test_a_command_with_a_bad_trace_ends_in_one_line(file: Path) -> None:
    (file.parent / "here.csv").write_text("time_s,rate_mbit_s\n0,fast\n", encoding="utf-8")
    done = lab("shell", "--topology", str(file), "--", "true", timeout=60)
    assert done.returncode == 2
    assert "here.csv:2: 'fast' is not a number" in one_line(done)


def test_a_direction_in_which_nothing_passes_is_refused() -> None:
    with pytest.raises(ValidationError, match="carries nothing"):
        TraceDirection(file="x", sha256="", frames=packed([0, 0]))


def test_the_shipped_series_is_what_its_script_makes() -> None:
    from lab.model.paths import shipped_topologies_dir

    assert (shipped_topologies_dir() / "traces/made-lte.csv").read_text(encoding="utf-8") == made()


DRIVE = "Timestamp,Speed,DL_bitrate,UL_bitrate\n2019.11.28_07.27.53,3,8000,500\n2019.11.28_07.27.54,4,4000,-0\n"
PLAIN = "time_s,down_kbit_s,up_kbit_s\n0,8000,500\n1,4000,0\n"


@pytest.mark.parametrize(
    ("columns", "table"),
    [
        ("every_s=1, down_kbit_s=DL_bitrate, up_kbit_s=UL_bitrate", DRIVE.replace("-0", "0")),
        ("every_ms = 1000 ,down_kbit_s = DL_bitrate,up_kbit_s=UL_bitrate", DRIVE.replace("-0", "0")),
        ("time_s=at, down_kbit_s=DL, up_kbit_s=UL", "x,at,DL,UL\n9,0,8000,500\n9,1,4000,0\n"),
        ("time_ms=at, down_kbit_s=DL, up_kbit_s=UL", "UL,at,DL\n500,0,8000\n0,1000,4000\n"),
    ],
)
def test_columns_may_be_named_by_a_line_of_the_file(columns: str, table: str) -> None:
    for text in (f"# columns: {columns}\n{table}", f"# a drive\n{table}#columns:{columns}\n"):
        assert parse_csv(text, "x.csv") == parse_csv(PLAIN, "x.csv")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("down_kbit_s=DL_bitrate, up_kbit_s=UL_bitrate", "x.csv:2: columns are missing"),
        ("every_s=1, time_s=Timestamp, rate_kbit_s=DL_bitrate", "x.csv:2: columns are missing, or too many"),
        ("every_s=1, rate_kbit_s=DL_bitrat", "x.csv:2: no column 'DL_bitrat'; did you mean 'DL_bitrate'"),
        ("every_s=1, speed=Speed", "x.csv:2: 'speed' is not a column of a trace"),
        ("every_s=soon, rate_kbit_s=DL_bitrate", "x.csv:1: 'soon' is not a number"),
        ("every_s=1, DL_bitrate", "x.csv:1: 'DL_bitrate' names no column"),
        ("rate_kbit_s=DL_bitrate, rate_kbit_s=UL_bitrate", "names no column"),
        ("time_s=Timestamp, rate_kbit_s=DL_bitrate", "x.csv:3: '2019.11.28_07.27.53' is not a number"),
    ],
)
def test_a_line_that_names_columns_wrongly_is_one_line(columns: str, message: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        parse_csv(f"# columns: {columns}\n{DRIVE}", "x.csv")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
