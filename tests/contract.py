"""The whole API against its own description, by schemathesis: each operation with values right and wrong."""

from collections.abc import Iterator
from typing import Any

from schemathesis import engine
from schemathesis.config import (
    CoveragePhaseConfig,
    ExamplesPhaseConfig,
    FuzzingPhaseConfig,
    GenerationConfig,
    PhasesConfig,
    ProjectConfig,
    ProjectsConfig,
    SchemathesisConfig,
    StatefulPhaseConfig,
)
from schemathesis.engine import events

# Streams, which do not end: their own tests read them.
ENDLESS = "(/events|/camera/stream)$"
# What a schema cannot say: their values depend on each other, or on names that are known only while running.
FURTHER_RULES = (
    "/cmd/{command}",  # numbers are those of Pose and Euler
    "/explore/start",  # the corners enclose an area
    "/maps/import",  # the bytes must be a map
    "/maps/{map_id}/load",  # x and y, or neither
    "/patrol/start",  # the same, and points are for one router
    "/pois",  # x and y, or neither
    "/pois/{poi_id}",  # the same, and something must change
    "/pois/import",  # the text must be places
    "/sim/faults",  # the simulation has these faults
)


def configuration(robot: str, max_examples: int, *, stateful: bool = False) -> SchemathesisConfig:
    """Return how to test: the same cases at every run, every check on."""
    generation = GenerationConfig(max_examples=max_examples, deterministic=True, no_shrink=True)
    project = ProjectConfig(
        generation=generation,
        parameters={"path.robot": robot},
        phases=PhasesConfig(
            examples=ExamplesPhaseConfig(),
            coverage=CoveragePhaseConfig(),
            fuzzing=FuzzingPhaseConfig(),
            stateful=StatefulPhaseConfig(enabled=stateful),
        ),
    )
    return SchemathesisConfig(seed=1, projects=ProjectsConfig(default=project))


def failures(schema: Any, *, is_live: bool = False) -> tuple[int, list[str]]:
    """Run all phases. Return how many requests were made, and each failed check once.

    A live robot may rightly have no map or picture at that moment: then 503 and 504 are no failures, but 500 is.
    """
    requests, found = 0, {}
    for event in engine.from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            requests += len(event.recorder.interactions)
            for label, text in _failed(event, is_live):
                found.setdefault(label, text)
        elif isinstance(event, events.NonFatalError):
            found[f"{event.label}: error"] = str(event.value)
        elif isinstance(event, events.FatalError):
            found["fatal"] = str(event.exception)
    return requests, [f"{label}: {text}" for label, text in found.items()]


def _failed(event: events.ScenarioFinished, is_live: bool) -> Iterator[tuple[str, str]]:
    for case_id, checks in event.recorder.checks.items():
        case = event.recorder.cases[case_id].value
        for check in checks:
            by_rule = check.name == "positive_data_acceptance" and case.path.endswith(FURTHER_RULES)
            answer = event.recorder.interactions[case_id].response
            not_now = is_live and answer is not None and answer.status_code in (503, 504)
            not_yet = not_now and check.name == "not_a_server_error"
            if check.failure_info is not None and not by_rule and not not_yet:
                failure = check.failure_info.failure
                yield (
                    f"{case.operation.label} {check.name} {failure.title}",
                    f"{failure.message} {check.failure_info.code_sample}",
                )
