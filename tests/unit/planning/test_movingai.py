"""Plans against the optimal lengths that the MovingAI benchmark states, on maps kept outside the repository."""

import os
from pathlib import Path

import numpy as np
import pytest

from rhino_actors.planning import Planner, path_cost
from rhino_actors.planning.jps import JumpPointSearch
from rhino_actors.planning.search import Limits, Workspace, run

SHARED = Path(os.environ.get("RHINO_SHARED") or Path(__file__).resolve().parents[4] / "shared")
MAPS = SHARED / "data" / "maps" / "movingai"
NAMES = sorted(path.stem for path in MAPS.glob("*.map"))


def read_map(path):
    """Return the costmap, row 0 the file's first line: rows and columns as the scenarios count them."""
    lines = path.read_text().splitlines()
    drawn = lines[lines.index("map") + 1 :]
    letters = np.array([list(line) for line in drawn if line])
    return np.where(np.isin(letters, [".", "G", "S"]), 0, 254).astype(np.uint8)


def read_scenarios(path):
    rows = [line.split() for line in path.read_text().splitlines()[1:] if line.strip()]
    return [((int(r[5]), int(r[4])), (int(r[7]), int(r[6])), float(r[8])) for r in rows]


def test_the_benchmark_s_maps_are_there():
    if not NAMES:
        pytest.skip(
            f"NOT TESTED against MovingAI: no maps in {MAPS}; RHINO_SHARED names the folder"
        )
    assert len(NAMES) >= 6


@pytest.mark.parametrize("name", NAMES)
def test_lengths_are_those_of_the_benchmark(name):
    costmap = read_map(MAPS / f"{name}.map")
    scenarios = read_scenarios(MAPS / f"{name}.map.scen")
    assert len(scenarios) >= 200
    planner = Planner()
    for start, goal, optimum in scenarios:
        path = planner.plan_path(costmap, start, goal, cost_weight=0.0)
        assert path.cost == pytest.approx(optimum, rel=1e-4, abs=0.006), (start, goal)


@pytest.mark.parametrize("name", NAMES)
def test_jump_points_and_buckets_agree(name):
    costmap = read_map(MAPS / f"{name}.map")
    jumps, space = JumpPointSearch(), Workspace()
    jumps.load(costmap, 0.0, True)
    space.load(costmap, 0.0, True)
    for start, goal, _ in read_scenarios(MAPS / f"{name}.map.scen")[::20]:
        if start == goal:
            continue
        cells, _ = jumps.search(start, goal, Limits())
        assert run(space, [start], goal, Limits())
        lengths = [path_cost(costmap, found, 0.0) for found in (cells, space.path())]
        assert lengths[0] == pytest.approx(lengths[1], rel=1e-4)


@pytest.mark.parametrize("name", NAMES[:2])
def test_one_field_has_the_lengths_to_its_goal(name):
    costmap = read_map(MAPS / f"{name}.map")
    planner = Planner()
    for start, goal, optimum in read_scenarios(MAPS / f"{name}.map.scen")[::40]:
        field = planner.cost_to_go(costmap, [goal], cost_weight=0.0)
        assert field[start] == pytest.approx(optimum, rel=1e-3, abs=0.01)
