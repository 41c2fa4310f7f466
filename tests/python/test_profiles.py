"""Profiles by name, JSON, dict and file."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import hawkeye
import pytest
from hawkeye import FileError, ProfileError
from operands import random, same


def test_catalogue() -> None:
    listed = hawkeye.profiles()
    names = [p.name for p in listed]
    assert len(set(names)) == len(names)
    assert {"hopper/f16", "hopper/bf16", "hopper/tf32", "hopper/e4m3-fast", "ampere/f16", "hopper/f64"} <= set(names)
    for p in listed:
        assert p.source, f"{p.name} does not say where it is known from"
        assert p.summary
        assert p.describe()
        assert repr(p).startswith("<Profile ")
        assert hawkeye.profile(p.name) == p


def test_every_default_exists_and_fits_its_operands() -> None:
    from hawkeye import _profiles

    for (a, b), name in _profiles._DEFAULTS.items():
        p = hawkeye.profile(name)
        assert (p.a, p.b, p.runnable) == (a.name, b.name, True)
        wanted = {"e4m3": "bf16", "e5m2": "bf16", "s8": "s32", "u8": "s32"}.get(a.name, a.name)
        assert p.out == wanted


def test_identity_is_the_hash_of_the_arithmetic() -> None:
    p = hawkeye.profile("hopper/bf16")
    whole = p.to_dict()
    arithmetic = {name: whole[name] for name in ("schema_version", "step", "plan", "epilogue")}
    text = json.dumps(arithmetic, sort_keys=True, separators=(",", ":"))
    assert p.id == hashlib.sha256(text.encode()).hexdigest()
    assert whole["schema_version"] == 1
    assert hawkeye.profile({**whole, "name": "another"}) == p


def test_round_trips(tmp_path: Path) -> None:
    p = hawkeye.profile("hopper/bf16")
    file = tmp_path / "mine.json"
    file.write_text(p.json(), encoding="utf-8")
    for spec in (p, p.json(), p.to_dict(), file, str(file)):
        again = hawkeye.profile(spec)
        assert again == p
        assert hash(again) == hash(p)
    assert pickle.loads(pickle.dumps(p)) == p
    assert copy.deepcopy(p) == p
    assert p != hawkeye.profile("hopper/f16")
    assert p != "hopper/bf16"


def test_a_profile_of_ones_own() -> None:
    mine = hawkeye.profile("hopper/bf16").to_dict()
    mine["step"]["group"] = 8
    a, b = random("bf16", (4, 64), 1, "wide"), random("bf16", (64, 4), 2, "wide")
    grouped = hawkeye.matmul(a, b, profile=mine, out_dtype="f32")
    assert hawkeye.compare(grouped, hawkeye.matmul(a, b, profile="hopper/bf16", out_dtype="f32")).differing
    same(grouped, hawkeye.matmul(a, b, profile=json.dumps(mine), out_dtype="f32"))


def test_handles_are_freed() -> None:
    import gc

    text = hawkeye.profile("hopper/bf16").json()
    for _ in range(200):
        made = hawkeye.profile(text)
    handle = made._handle
    del made
    gc.collect()
    from hawkeye import HandleError, _native

    with pytest.raises(HandleError):
        _native.text("hawkeye_profile_json", handle)


@pytest.mark.parametrize(
    ("spec", "error", "says"),
    [
        ("hopper/nonsense", ProfileError, "hopper/nonsense"),
        ("", ProfileError, "profile"),
        ("{", ProfileError, "."),
        ("{}", ProfileError, "."),
        ({"schema_version": 1, "colour": "red"}, ProfileError, "colour"),
        (Path("nowhere.json"), FileError, "nowhere.json"),
        ("nowhere.json", FileError, "nowhere.json"),
        (3, ProfileError, "int"),
    ],
)
def test_refusals(spec: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        hawkeye.profile(spec)


def test_unknown_field_is_named() -> None:
    mine = hawkeye.profile("hopper/bf16").to_dict()
    mine["step"]["fraction_bit"] = 25
    with pytest.raises(ProfileError, match="fraction_bit"):
        hawkeye.profile(mine)
