import numpy as np
from numba.core.dispatcher import Dispatcher

from rhino_actors import exploration, planning
from rhino_actors.config import ExplorerConfig, PatrolConfig, RobotConfig
from rhino_actors.exploration import (
    frontier,
    patrol_due,
    patrol_order,
    patrol_points,
    patrol_routers,
    patrol_sites,
    patrol_stations,
    tour,
    travel,
    views,
    visitation,
)
from rhino_actors.messages.grid import GridGeometry, MapSnapshot
from rhino_actors.messages.missions import PatrolPoint, PatrolRequest, PatrolRouter
from rhino_actors.planning import astar, coarse, guided, jps, path, search


def compiled():
    modules = (search, astar, jps, guided, coarse, path, frontier, travel, views, tour)
    modules += (
        visitation,
        patrol_routers,
        patrol_points,
        patrol_sites,
        patrol_stations,
        patrol_order,
        patrol_due,
    )
    kernels = [k for module in modules for k in vars(module).values() if isinstance(k, Dispatcher)]
    assert len(kernels) > 8
    return {(k.__module__, k.__name__): len(k.signatures) for k in kernels}


def test_nothing_is_left_to_compile_after_the_warm_up():
    planning.warm_up()
    exploration.warm_up()
    before = compiled()
    costmap = np.zeros((9, 7), np.uint8)
    costmap[0, 0] = 7
    for array in (costmap, costmap.copy(order="F"), costmap[::2, ::2]):
        array.flags.writeable = False
        geometry = GridGeometry(0.1, (0.0, 0.0), array.shape)
        plan = planning.plan_path(array, (0, 0), np.array([3, 2]), cost_weight=999.123456)
        field = planning.cost_to_go(array, np.array([[0, 0]], np.int64))
        planner, first = planning.GuidedPlanner(), planning.CoarsePlanner()
        planner.set_map(array)
        planner.set_goal((2, 1))
        planner.rebuild()
        cheaper = np.where(array == 7, 0, array).astype(np.uint8)
        cheaper.flags.writeable = False
        planner.update(cheaper, (0, 2, 0, 2))
        planner.plan((0, 0))
        planner.adopt(planning.build_field(array, (2, 1)))
        first.update(array)
        first.plan((0, 0), (2, 1))
        poses = planning.poses_from_cells(plan.cells, array, geometry, spacing=0.1)
        planning.path_is_blocked(array, poses, geometry)
        clusters = exploration.find_frontiers(array.astype(np.int8), min_cells=1, start=(1, 1))
        assert clusters
        for area in ((), ((-1.0, -1.0), (3.0, -1.0), (3.0, 3.0), (-1.0, 3.0))):
            mission = exploration.ExploreMission(ExplorerConfig(), RobotConfig(), area)
            known = np.zeros(array.shape, np.int8, order="F")
            known.flags.writeable = False
            snapshot = MapSnapshot(1, 1, 0.0, geometry, known, array, 1.0)
            choice = mission.choose(snapshot, (0.3, 0.3, 0.0), field, 0.0)
            assert (choice.target is None) == bool(area)
            changed = known.copy()
            changed[2, 2] = -1
            snapshot = MapSnapshot(1, 2, 1.0, geometry, changed, array, 1.0)
            mission.choose(snapshot, (0.3, 0.3, 0.0), None, 1.0)
        for router in PatrolRouter:
            points = (PatrolPoint(0.3, 0.3),) if router is PatrolRouter.POINTS else ()
            request = PatrolRequest(router=router, points=points)
            for rounds in (False, True):
                config = PatrolConfig(rounds=rounds)
                patrol = exploration.PatrolMission(request, config, RobotConfig())
                for seq, x in ((3, 0.2), (4, 0.3)):
                    snapshot = MapSnapshot(1, seq, 1.0, geometry, known, array, 1.0)
                    patrol.choose(snapshot, (x, 0.3, 0.0), field, float(seq))
    assert compiled() == before
