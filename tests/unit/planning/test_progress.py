from rhino_actors.planning import ProgressChecker


def test_robot_that_drives_is_never_stuck():
    checker = ProgressChecker(0.15, 5.0)
    for i in range(400):
        assert not checker.is_stuck(0.01 * i, 0.0, 0.1 * i)


def test_robot_that_stands_or_trembles_is_stuck_after_the_time_and_not_before():
    checker = ProgressChecker(0.15, 5.0)
    stuck = [t for t in range(100) if checker.is_stuck(0.05 * (t % 3), 0.02, 1e6 + 0.1 * t)]
    assert 50 <= stuck[0] <= 51
    assert stuck == list(range(stuck[0], 100))


def test_a_wait_does_not_count():
    checker = ProgressChecker(0.15, 5.0)
    assert not checker.is_stuck(0.0, 0.0, 0.0)
    assert not checker.is_stuck(0.0, 0.0, 4.0)
    checker.reset()
    assert not checker.is_stuck(0.0, 0.0, 60.0)
    assert not checker.is_stuck(0.0, 0.0, 64.9)
    assert checker.is_stuck(0.0, 0.0, 65.0)


def test_progress_after_being_stuck_starts_the_clock_anew():
    checker = ProgressChecker(0.15, 5.0)
    checker.is_stuck(0.0, 0.0, 0.0)
    assert checker.is_stuck(0.0, 0.1, 5.0)
    assert not checker.is_stuck(0.0, 0.2, 5.1)
    assert not checker.is_stuck(0.0, 0.2, 10.0)


def test_a_clock_that_goes_back_is_survived():
    checker = ProgressChecker(0.15, 5.0)
    checker.is_stuck(0.0, 0.0, 100.0)
    assert not checker.is_stuck(0.0, 0.0, 3.0)
    assert checker.is_stuck(0.0, 0.0, 8.0)
