"""Results of explorations are kept, told and not run twice."""

import math
from pathlib import Path

import pytest

pytest.importorskip("mujoco")

from benchmarks import exploration
from benchmarks.coverage import LeftPlace
from benchmarks.exploration import BROKEN_OFF, Result, Setup, read_results, summary, to_json


def make_result(seed: int, **changes: object) -> Result:
    values: dict[str, object] = {
        "end": "complete",
        "coverage": 0.99,
        "length": 30.0,
        "tour": 20.0,
        "seconds": 80.0,
        "cpu": 20.0,
        "gaps": [0.2, 0.4],
        **changes,
    }
    return Result(Setup("maze", seed), **values)  # type: ignore[arg-type]


def test_a_result_survives_the_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    result = make_result(
        3,
        left=[LeftPlace(1.0, 2.0, 0.5)],
        failures={"NO_PATH": 2},
        way_to={"95": 12.5},
        skipped=[(1.0, 2.0, 9, "GAVE_UP")],
    )
    result.setup = Setup(
        "office", 3, "kinematic", drift="off", settings=("explorer.max_attempts=3",)
    )
    path.write_text(to_json(result) + "\n")
    assert read_results(path) == [result]


def test_a_line_cut_short_is_left_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.jsonl"
    whole = to_json(make_result(1))
    path.write_text(f"{whole}\n{whole[:40]}\n")
    assert [r.setup.seed for r in read_results(path)] == [1]
    assert "left out" in capsys.readouterr().out
    assert read_results(tmp_path / "none.jsonl") == []


def test_the_summary_tells_median_and_worst_and_counts_runs_without_an_end() -> None:
    runs = [
        make_result(0, coverage=0.99, length=30.0),
        make_result(1, coverage=0.95, length=20.0, persons=2),
        make_result(2, coverage=0.97, end=BROKEN_OFF, falls=1, gaps=[1.0]),
    ]
    text = summary(runs)
    assert "median 97.0 %, worst 95.0 %" in text
    assert "median 1.50, worst 1.50" in text
    assert "people 2" in text and "falls 1" in text and "without an end 1" in text
    assert "4.0 times real time" in text


def test_a_run_that_raises_has_no_end_and_says_what_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def explode(setup: Setup, pictures: Path | None) -> Result:
        raise ValueError("the wall fell")

    monkeypatch.setattr(exploration, "explore", explode)
    result = exploration.try_explore(Setup("maze", 1), None)
    assert (result.end, result.reason) == (BROKEN_OFF, "ValueError: the wall fell")
    assert math.isnan(result.ratio)


def test_seeds_are_a_range_or_a_list() -> None:
    assert exploration._seeds("2:5") == [2, 3, 4]
    assert exploration._seeds("7") == [7]
    assert exploration._seeds("3,9") == [3, 9]
