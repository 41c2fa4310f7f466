"""What was discovered on an H200 (docs/discovered.md): the profiles, and recorded products that they must give."""

from __future__ import annotations

import json
from typing import Any

import hawkeye
import pytest
from conftest import GOLDENS

LINES: list[dict[str, Any]] = [
    json.loads(line) for line in (GOLDENS / "h200-discovered.profiles.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.fixture(scope="module")
def recorded() -> Any:
    return hawkeye.open_set(GOLDENS / "h200-discovered.jsonl")


def test_all_are_kept() -> None:
    assert len({line["name"] for line in LINES}) == len(LINES) == 40
    assert sum(line["certificate"]["elements"] for line in LINES) == 2_470_098
    assert sorted(line["calls"] for line in LINES)[-1] == 1514


@pytest.mark.parametrize("line", LINES, ids=lambda line: str(line["name"]))
def test_profile(line: dict[str, Any], recorded: Any) -> None:
    profile = hawkeye.profile(line["profile"])
    assert profile.name == f"discovered/{profile.id[:12]}"
    assert hawkeye.profile(profile.json()) == profile
    certificate = line["certificate"]
    assert certificate["elements"] == sum(certificate["kinds"].values())
    ids = [f"{line['name']}-{number}" for number in ("00", "16", "18")]
    if line["spec"]["k"] > 2048 or line["profile"]["step"]["kind"] == "converted" or line["spec"]["a"] == "f64":
        ids = ids[:1]  # a case takes seconds
    for name in ids:
        verdict = recorded.replay(name, profile=profile)
        assert verdict.verdict == "exact", f"{name}: {verdict.reason}"
