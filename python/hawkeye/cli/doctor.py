"""``hawkeye doctor``: what is installed, what is used, and what is missing."""

import json
from typing import Annotated, Any

import typer


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="The same as one JSON object.")] = False,
) -> int:
    """Says whether everything is in place: versions, instruction sets, threads, and what is missing.

    The exit status is 1 where something that Hawkeye needs is missing.

    Example:

      hawkeye doctor
    """
    facts, missing, advice = examine()
    if as_json:
        typer.echo(json.dumps({**facts, "missing": missing, "advice": advice}, indent=1))
        return 1 if missing else 0
    width = max(map(len, facts))
    for name, said in facts.items():
        typer.echo(f"{name:<{width}}  {', '.join(said) if isinstance(said, list) else said}")
    for text in missing:
        typer.echo(f"\nMissing: {text}")
    for text in advice:
        typer.echo(f"\nNote: {text}")
    if not missing:
        typer.echo("\nEverything Hawkeye needs is in place.")
    return 1 if missing else 0


def examine() -> tuple[dict[str, Any], list[str], list[str]]:
    """Facts by name, what is missing, and what could be better. A broken part is reported, not raised."""
    import platform

    from .. import _native
    from .._errors import Error
    from .._version import version
    from ._machine import processor

    missing: list[str] = []
    advice: list[str] = []
    facts: dict[str, Any] = {
        "hawkeye": version(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": processor(),
        "library": str(_native.path()),
    }
    try:
        library = _native.version()
        facts["library version"] = library
        facts["ABI"] = str(_native.library().hawkeye_abi_version())
        facts["instruction set"] = _native.instruction_set()
        facts["instruction sets"] = _native.instruction_sets()
        facts["threads"] = str(_native.threads())
        if library != version():
            advice.append(f"The library says release {library} and the package {version()}: reinstall both together.")
        if facts["instruction set"] != facts["instruction sets"][0]:
            advice.append(
                f"HAWKEYE_ISA chose {facts['instruction set']}; the best here is {facts['instruction sets'][0]}."
            )
        elif facts["instruction set"] == "portable":
            advice.append("This processor has no AVX2: multiplications run in portable Go, many times slower.")
    except Error as error:
        missing.append(str(error))
    for name, purpose, needed in (
        ("numpy", "arrays", True),
        ("ml_dtypes", "bf16 and f8 arrays", True),
        ("rich", "the command line's tables", True),
        ("typer", "the command line", True),
        ("torch", "torch tensors as operands", False),
    ):
        installed = _installed(name)
        facts[name] = installed or "not installed"
        if installed is None and needed:
            missing.append(f"{name}, for {purpose}: pip install {name}")
        elif installed is None:
            advice.append(f"{name} is not installed; it is needed only for {purpose}.")
    from .._cache import default_folder
    from ._paths import golden_set

    kept = default_folder()
    facts["discovered profiles"] = f"{len(list(kept.glob('*.json')))} in {kept}"

    try:
        facts["golden set"] = str(golden_set())
    except Error as error:
        facts["golden set"] = "missing"
        missing.append(str(error))
    return facts, missing, advice


def _installed(name: str) -> Any:
    """A distribution's version without importing it: torch takes seconds."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None
