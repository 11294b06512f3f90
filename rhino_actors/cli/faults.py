"""rhino fault: what goes wrong in the simulation, on demand."""

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from rhino_actors.cli.api import call, console, read_numbers

app = typer.Typer(no_args_is_help=True, help="Faults of the simulation, on demand.")


@app.command("list")
def fault_list() -> None:
    """List what is wrong on purpose, and what could be."""
    answer = call("GET", "/api/sim/faults")
    _print_faults(answer["faults"])
    table = Table("fault", "does", "numbers (default), and after= and duration= (s)")
    for kind in answer["kinds"]:
        numbers = [
            f"{number['name']} {number['low']:g} to {number['high']:g}"
            + (f" {number['unit']}" if number["unit"] else "")
            + (f" ({number['default']:g})" if number["default"] is not None else "")
            for number in kind["numbers"]
        ]
        needs = "; needs base: walking" if kind["needs_walking"] else ""
        table.add_row(kind["name"], Text(kind["does"] + needs), Text(", ".join(numbers)))
    console.print(table)


@app.command("add")
def fault_add(
    name: Annotated[str, typer.Argument(help="drop_lidar, push, ...: rhino fault list")],
    numbers: Annotated[
        list[str] | None, typer.Argument(help="key=number of this fault; after=, duration= [s]")
    ] = None,
) -> None:
    """Let something go wrong in the simulation.

    Examples:  rhino fault add drop_lidar share=0.3 duration=10  ·  rhino fault add push x=-20 after=2
    """
    values = read_numbers(numbers or [])
    times: dict[str, Any] = {key: values.pop(key) for key in ("after", "duration") if key in values}
    body = {"name": name, "values": values, **times}
    answer = call("POST", "/api/sim/faults", body)
    _print_faults(answer["faults"])


@app.command("clear")
def fault_clear(
    name: Annotated[str | None, typer.Argument(help="only this fault; default: all")] = None,
) -> None:
    """End faults: rhino fault clear, or rhino fault clear drop_lidar."""
    answer = call("DELETE", "/api/sim/faults" + (f"/{name}" if name else ""))
    _print_faults(answer["faults"])


def _print_faults(faults: list[dict[str, Any]]) -> None:
    if not faults:
        console.print("nothing is wrong on purpose")
    for fault in faults:
        numbers = "".join(f" {key}={value:g}" for key, value in fault["values"].items())
        start = f", begins in {fault['starts_in']:.1f} s" if fault["starts_in"] > 0.0 else ""
        end = "" if fault["ends_in"] is None else f", ends in {fault['ends_in']:.1f} s"
        console.print(f"fault {fault['name']}{numbers}{start}{end}", highlight=False)
