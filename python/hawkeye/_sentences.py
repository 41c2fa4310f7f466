"""What there is to say of verdicts, of a case, and of a set or trace as a whole: one sentence each, without markup."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from ._sets import RecordedSet, Verdict

VERDICTS = ("exact", "undecided", "wrong")

# What a terminal obeys instead of showing: control characters, and those that turn the direction of writing.
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Text of a trace or set as it may be shown: it is anybody's, and may not write what looks like our verdict."""
    return _UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def inexact(verdicts: list[Verdict]) -> list[Verdict]:
    """The cases that are not exact, wrong ones first."""
    return [v for name in ("wrong", "undecided") for v in verdicts if v.verdict == name]


def reason(v: Verdict) -> str:
    """Why a case is not exact, without a full stop."""
    return (v.reason or "no reason was given").rstrip(".")


def tried(v: Verdict) -> str:
    """What was tried of a case that is not exact, where that is known: " Tried: 343 plans; the last …"."""
    plans = int(v.details.get("plans_tried") or 0)
    if v.verdict == "exact" or not plans:
        return ""
    text = f" Tried: {plans} plan{'' if plans == 1 else 's'}"
    if v.plan:
        text += f"; found: {v.plan.rstrip('.')}"
    bits = float(v.details.get("evidence_bits") or 0.0)
    if bits > 0:
        text += f"; evidence {bits:.1f} bits"
    return text + "."


def dtypes(v: Verdict) -> str:
    """The operands' formats and, where it differs, the output's."""
    return v.dtype if v.out in ("", v.dtype) else f"{v.dtype} -> {v.out}"


def story(v: Verdict, case: dict[str, Any]) -> str:
    """One case in one sentence; ``case`` is its line in the set."""
    sizes = [case[name] for name in ("m", "k", "n") if name in case]
    size = f", {sizes[0]}x{sizes[1]} by {sizes[1]}x{sizes[2]}" if len(sizes) == 3 else ""
    if int(case.get("batch") or 1) > 1:
        size += f" in a batch of {case['batch']}"
    what = plain(f"{v.id} ({v.op} of {dtypes(v)}{size})")
    if v.verdict != "exact":
        return plain(f"{what} is {v.verdict}: {reason(v)}.")
    plans = int(v.details.get("plans_tried") or 0)
    plan = (v.plan or "its plan").rstrip(".")
    known = "name and launch say" if case.get("launches") else "name says"
    how = f"with the plan its kernel's {known}"
    if plans > 1:
        how = f"with the one of {plans} plans tried that fits"
    elif v.details.get("discovered"):
        how = f"with the profile {v.details['discovered']}, which was found by probing"
    elif v.family in ("unnamed", "unknown"):
        how = "with the one plan known for products like it"
    compared = v.details.get("compared")
    proof = f" ({compared})" if compared else ""
    noted = "".join(f" Note: {note.rstrip('.')}." for note in v.notes)
    return plain(f"{what} is reproduced to the last bit{proof} {how}: {plan}.{noted}")


#: how core/verify notes that a part of an output stands for nothing else
NO_HASH = "the hash of the whole output was not compared"
#: how core/verify notes that the record is of another version of the library than the rules
OTHER_LIBRARY = "recorded with cuBLAS "
#: how core/verify notes that a discovered profile gives the bits
DISCOVERED = "by the profile discovered/"
#: of discovered profiles so many are told one by one
MOST_DISCOVERED = 20


def own_notes(v: Verdict) -> list[str]:
    """The notes of a verdict without those that it shares with others of its set (``in_common``)."""
    elsewhere = v.details.get("elsewhere")
    shared = (NO_HASH, OTHER_LIBRARY, DISCOVERED, *([str(elsewhere)] if elsewhere else []))
    return [note for note in v.notes if not note.startswith(shared)]


def in_common(verdicts: list[Verdict]) -> list[str]:
    """A line for each note that many verdicts have: on the device they were recorded on, and on what was compared."""
    return [*_elsewhere(verdicts), *_libraries(verdicts), *_discovered(verdicts), *_parts(verdicts)]


def _libraries(verdicts: list[Verdict]) -> list[str]:
    found = Counter(note for v in verdicts for note in v.notes if note.startswith(OTHER_LIBRARY))
    return [f"Note: {note} ({count} case{'' if count == 1 else 's'})." for note, count in found.items()]


def _discovered(verdicts: list[Verdict]) -> list[str]:
    found = Counter(note for v in verdicts for note in v.notes if note.startswith(DISCOVERED))
    lines = [
        plain(f"Note: {count} exact {note}.") if count > 1 else plain(f"Note: an exact case {note}.")
        for note, count in found.most_common(MOST_DISCOVERED)
    ]
    if rest := len(found) - len(lines):
        lines.append(f"Note: … and by {rest} more profiles that were discovered: --json has all of them.")
    return lines


def _parts(verdicts: list[Verdict]) -> list[str]:
    count = sum(" elements, in " in str(v.details.get("compared") or "") for v in verdicts if v.verdict == "exact")
    what = "an exact case" if count == 1 else f"{count} exact cases"
    return [f"Note: of {what} some rows alone were compared, and no hash of an output."] if count else []


def _elsewhere(verdicts: list[Verdict]) -> list[str]:
    found = Counter(
        str(v.details["elsewhere"]) for v in verdicts if v.details.get("elsewhere") and not v.details.get("discovered")
    )
    return [
        f"Note: {text} ({count} case{'' if count == 1 else 's'}). None is called wrong; an exact one has the bits of a "
        "plan that was measured elsewhere."
        for text, count in found.items()
    ]


def about_line(recorded: RecordedSet) -> str:
    """Where the set comes from, in one line."""
    about = recorded.about.get("about")
    cases = f"{len(recorded)} recorded case{'' if len(recorded) == 1 else 's'}"
    if not isinstance(about, dict) or not about:
        return f"{recorded.path.name}: {cases}"
    machine = f"an {about['gpu']}" if "gpu" in about else f"a CPU, {about['cpu']}" if "cpu" in about else "an ?"
    if about.get("emulated"):
        machine += ", emulated on a CPU"
    versions = ", ".join(f"{k} {v}" for k, v in about.items() if k in ("torch", "cuda", "nvidia-cublas"))
    return plain(f"{recorded.path.name}: {cases} of {machine}" + (f" ({versions})" if versions else ""))


def problems(recorded: RecordedSet, most: int = 20) -> list[str]:
    """A line for each place where a trace is not as it was written."""
    trace = recorded.trace or {}
    count = int(trace.get("problem_count") or 0)
    lines = [plain(f"Broken: {place(p)}: {p['text']}.") for p in (trace.get("problems") or [])[:most]]
    return [*lines, f"Broken: {count - len(lines)} more places."] if count > len(lines) else lines


def remarks(recorded: RecordedSet) -> list[str]:
    """What else there is to say of a trace as a whole."""
    trace = recorded.trace
    if trace is None:
        return []
    lines = [sampling(trace)]
    lines += [plain(f"Note: {place(p)}: {p['text']}.") for p in trace.get("torn") or []]
    if not trace["sealed"]:
        lines.append(
            "Note: the trace is not sealed: recording did not end, and whether lines are missing at the end is open."
        )
    return [line for line in lines if line]


def sampling(trace: dict[str, Any]) -> str:
    """What of the program is in a trace, as the recorder says it; "" where it does not."""
    settings, coverage = trace.get("settings"), trace.get("coverage")
    if not isinstance(settings, dict) or not isinstance(coverage, dict):
        return ""
    every, fraction, modules = settings.get("every", "?"), settings.get("fraction", "?"), settings.get("modules")
    text = "Recorded: " + ("all steps" if every == 1 else f"one step in {every}")
    text += "" if fraction == 1 else f", {fraction} of their calls"
    text += f", of modules {', '.join(map(str, modules))} alone" if isinstance(modules, list) and modules else ""
    skipped = coverage.get("skipped")
    reasons = skipped if isinstance(skipped, dict) else {}
    left = ", ".join(f"{name}: {count}" for name, count in list(reasons.items())[:20] if name != "fraction")
    text += f"; {coverage.get('recorded', '?')} multiplications recorded, skipped {left or 'none'}"
    missed = coverage.get("missed", "?")
    unmeasured = " (recording with kernels counts them)" if missed == "not measured" else ""
    return plain(f"{text}, dropped {coverage.get('dropped', '?')}, kernels missed: {missed}{unmeasured}.")


def device_of(line: dict[str, Any]) -> str:
    """What a line's own device is called, which counts for it before the manifest's; "" where it names none."""
    device = line.get("device")
    if not isinstance(device, dict):
        return ""
    name = str(device.get("gpu") or device.get("cpu") or "?")
    return f"{name}, emulated on a CPU" if device.get("emulated") else name


def devices(found: Counter[str]) -> list[str]:
    """A note for each device that lines name as their own."""
    return [plain(f"Note: {count} lines name a device of their own: {name}.") for name, count in found.items()]


def unrevealed(verdicts: list[Verdict], most: int = 3) -> tuple[list[Verdict], list[str]]:
    """The verdicts to tell one by one, and a line for the others: of many lines whose tensors are simply not there."""
    lacking = [v for v in verdicts if "the file is not there" in str((v.details.get("broken") or {}).get("text"))]
    if len(lacking) <= most:
        return verdicts, []
    text = f"Broken: {len(lacking)} lines have no tensors here, {lacking[0].id} the first. A trace that commits, or of "
    text += "which a part was revealed, holds those of chosen lines alone: verify it with the sample and the key that "
    text += "chose them."
    gone = {id(v) for v in lacking}
    return [v for v in verdicts if id(v) not in gone], [text]


def place(problem: dict[str, Any]) -> str:
    """Where in a trace something is: "rank-0000.jsonl, line 3 (r0-000002), a.file"."""
    where = str(problem["file"])
    if problem.get("line"):
        where += f", line {problem['line']}"
    if problem.get("id"):
        where += f" ({problem['id']})"
    return f"{where}, {problem['field']}" if problem.get("field") else where
