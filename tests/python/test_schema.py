"""docs/profile.schema.json says what the profile reader takes, and docs/profile.md names every field of it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hawkeye
import pytest

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: the schema is not tested")

ROOT = Path(__file__).resolve().parents[2]
SCHEMA: dict[str, Any] = json.loads((ROOT / "docs" / "profile.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def reader_takes(document: Any) -> bool:
    try:
        hawkeye.profile(json.dumps(document))
    except hawkeye.ProfileError:
        return False
    return True


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_profile_of_the_catalogue() -> None:
    catalogue = hawkeye.profiles()
    assert len(catalogue) > 80
    for profile in catalogue:
        VALIDATOR.validate(profile.to_dict())


@pytest.mark.parametrize("path", sorted((ROOT / "core" / "profile" / "catalogue").glob("*.json")), ids=lambda p: p.stem)
def test_every_catalogue_file(path: Path) -> None:
    for document in json.loads(path.read_text(encoding="utf-8")):
        VALIDATOR.validate(document)


def test_every_row_of_the_step_catalogue() -> None:
    step = jsonschema.Draft202012Validator({"$ref": "#/$defs/step", "$defs": SCHEMA["$defs"]})
    rows = json.loads((ROOT / "core" / "step" / "catalogue.json").read_text(encoding="utf-8"))
    assert len(rows) > 60
    for row in rows:
        step.validate(row["step"])


def test_every_example_of_the_page() -> None:
    page = (ROOT / "docs" / "profile.md").read_text(encoding="utf-8")
    examples = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    whole = [e for e in examples if "schema_version" in e]
    assert len(whole) >= 3
    for example in whole:
        VALIDATOR.validate(example)
        assert reader_takes(example)


# ---- what both take, and both refuse --------------------------------------------------------------------------------

FUSED: dict[str, Any] = {
    "schema_version": 1,
    "step": {
        "kind": "fused",
        "a": "bf16",
        "b": "bf16",
        "group": 16,
        "fraction_bits": 25,
        "align": "toward-zero",
        "exponent_floor": -133,
        "result": "f32",
        "result_rounding": "toward-zero",
    },
    "plan": {"chain": {}},
    "epilogue": {"out": "bf16", "form": "add"},
    "provenance": {"source": "test"},
}
MERGE = {"partial": "f32", "sum": "f32"}
CHAIN: dict[str, Any] = {"chain": {}}
LANES: dict[str, Any] = {"count": 4, "run": 2, "of": CHAIN, "folds": [{"to": 2}, {"to": 1}], "merge": MERGE}
SERIAL: dict[str, Any] = {"slices": 3, "grain": 64, "of": CHAIN}
FMA = {"kind": "fma", "a": "f32", "b": "f32", "group": 1, "result": "f32", "result_rounding": "nearest-even"}
LEAF = {"chain": [{"start": 0, "stop": 4}]}
REMOVED = object()


def changed(*changes: tuple[str, Any]) -> dict[str, Any]:
    """FUSED with values put at dotted paths."""
    document = copy.deepcopy(FUSED)
    for path, value in changes:
        *parents, last = path.split(".")
        at = document
        for name in parents:
            at = at[name]
        if value is REMOVED:
            del at[last]
        else:
            at[last] = value
    return document


GOOD = {
    "as it is": changed(),
    "step by name": changed(("step", "hopper/bf16")),
    "no provenance": changed(("provenance", REMOVED)),
    "tf32 from f32": changed(("step.a", "tf32"), ("step.b", "tf32"), ("step.input_rounding", "nearest-even")),
    "f16 accumulator": changed(("step.result", "f16"), ("epilogue.out", "f16"), ("epilogue.form", "half")),
    "residue": changed(("plan", {"chain": {"residue": "first", "tile": 32}})),
    "split": changed(("plan", {"split": {"slices": 3, "grain": 64, "of": CHAIN, "merge": MERGE}})),
    "promoted": changed(("plan", {"promote": {"interval": 128, "of": CHAIN, "merge": {**MERGE, "from_zero": True}}})),
    "tree": changed(("plan", {"tree": {"k": 4, "root": {"sum": [LEAF], "merge": MERGE}}})),
    "partial tree": changed(("plan", {"tree": {"k": 9, "partial": True, "root": LEAF}})),
    "strided tree": changed(
        ("plan", {"tree": {"k": 4, "root": {"chain": [{"start": i, "stop": 4, "step": 2, "pad": 1} for i in (0, 1)]}}})
    ),
    "lanes": changed(("plan", {"lanes": LANES})),
    "whole lanes": changed(("plan", {"lanes": {**LANES, "whole": True}})),
    "one lane": changed(("plan", {"lanes": {**LANES, "count": 1, "folds": [{"to": 1}]}})),
    "neighbours": changed(("plan", {"lanes": {**LANES, "folds": [{"to": n, "adjacent": True} for n in (2, 1)]}})),
    "buffers": changed(("plan", {"lanes": {**LANES, "folds": [{"to": 1}], "buffers": 2}})),
    "lanes of lanes": changed(("plan", {"lanes": {**LANES, "of": {"lanes": {**LANES, "of": {"lanes": LANES}}}}})),
    "lanes in a split": changed(("plan", {"split": {**SERIAL, "of": {"lanes": LANES}, "merge": MERGE}})),
    "serial": changed(("plan", {"serial": SERIAL})),
    "serial lanes": changed(("plan", {"serial": {**SERIAL, "of": {"lanes": LANES}}})),
    "serial tree": changed(("plan", {"tree": {"k": 4, "root": {"serial": True, "sum": [LEAF, {}]}}})),
    "alpha in a": changed(("step", FMA), ("epilogue.form", "alpha-in-a")),
    "nan": changed(("step.nan", "0x7fc00000")),
    "scaling": changed(("epilogue.scaling", "row")),
    "alpha of 0": changed(("epilogue.zero_alpha", "skip")),
    "plus zero": changed(("epilogue.plus_zero", True)),
    "product": changed(("step", FMA), ("epilogue.form", "product-b")),
}

BAD = {
    "unknown field": changed(("extra", 1)),
    "unknown field of the step": changed(("step.extra", 1)),
    "unknown field of the plan": changed(("plan.extra", {})),
    "unknown field of the epilogue": changed(("epilogue.extra", 1)),
    "unknown field of the provenance": changed(("provenance.extra", "")),
    "another version": changed(("schema_version", 2)),
    "no version": changed(("schema_version", REMOVED)),
    "no step": changed(("step", REMOVED)),
    "no plan": changed(("plan", REMOVED)),
    "no epilogue": changed(("epilogue", REMOVED)),
    "unknown format": changed(("step.a", "fp16")),
    "a scale as an operand": changed(("step.a", "e8m0")),
    "an integer as an operand": changed(("step.b", "s8")),
    "no group": changed(("step.group", REMOVED)),
    "group of zero": changed(("step.group", 0)),
    "huge group": changed(("step.group", 5000)),
    "fractional group": changed(("step.group", 16.5)),
    "text for a number": changed(("step.group", "16")),
    "no fraction": changed(("step.fraction_bits", REMOVED)),
    "huge fraction": changed(("step.fraction_bits", 513)),
    "unknown rounding": changed(("step.align", "nearest")),
    "no rounding": changed(("step.result_rounding", REMOVED)),
    "unknown kind": changed(("step.kind", "fused2")),
    "what does not apply": changed(("step.via", "f16")),
    "scale of a plain step": changed(("step.scale", "e8m0")),
    "fma with a group": changed(("step", {**FUSED["step"], "kind": "fma"})),
    "integer step with a float result": changed(
        ("step", {"kind": "integer", "a": "s8", "b": "s8", "group": 32, "result": "f32"})
    ),
    "floor far out": changed(("step.exponent_floor", -20000)),
    "input rounding without tf32": changed(("step.input_rounding", "nearest-even")),
    "pairs without an instruction": changed(("step.order", "pairs")),
    "pairs of an odd instruction": changed(("step.order", "pairs"), ("step.group", 1), ("step.instruction_k", 18)),
    "fraction of the result": changed(("step.result_fraction_bits", 23)),
    "nan without digits": changed(("step.nan", "0x")),
    "nan in decimal": changed(("step.nan", "7")),
    "keep_nan of a fused step": changed(("step.keep_nan", True)),
    "empty plan": changed(("plan", {})),
    "two plans": changed(("plan", {"chain": {}, "promote": {"interval": 1, "of": CHAIN, "merge": MERGE}})),
    "tile without residue": changed(("plan", {"chain": {"tile": 32}})),
    "residue without tile": changed(("plan", {"chain": {"residue": "last"}})),
    "unknown residue": changed(("plan", {"chain": {"residue": "middle", "tile": 32}})),
    "no slices": changed(("plan", {"split": {"slices": 0, "grain": 64, "of": CHAIN, "merge": MERGE}})),
    "split without merge": changed(("plan", {"split": {"slices": 2, "grain": 64, "of": CHAIN}})),
    "split of nothing": changed(("plan", {"split": {"slices": 2, "grain": 64, "merge": MERGE}})),
    "tree inside a rule": changed(
        ("plan", {"promote": {"interval": 4, "of": {"tree": {"k": 4, "root": LEAF}}, "merge": MERGE}})
    ),
    "sum kept in bf16": changed(
        ("plan", {"promote": {"interval": 4, "of": CHAIN, "merge": {"partial": "f32", "sum": "bf16"}}})
    ),
    "tree without a root": changed(("plan", {"tree": {"k": 4}})),
    "node of both kinds": changed(("plan", {"tree": {"k": 4, "root": {**LEAF, "sum": [LEAF], "merge": MERGE}}})),
    "sum without merge": changed(("plan", {"tree": {"k": 4, "root": {"sum": [LEAF]}}})),
    "leaf with merge": changed(("plan", {"tree": {"k": 4, "root": {**LEAF, "merge": MERGE}}})),
    "range that starts early": changed(("plan", {"tree": {"k": 4, "root": {"chain": [{"start": -1, "stop": 4}]}}})),
    "negative k": changed(("plan", {"tree": {"k": -1, "root": {"chain": []}}})),
    "lanes without folds": changed(("plan", {"lanes": {**LANES, "folds": []}})),
    "lanes without a run": changed(("plan", {"lanes": {k: v for k, v in LANES.items() if k != "run"}})),
    "no lanes": changed(("plan", {"lanes": {**LANES, "count": 0}})),
    "too many lanes": changed(("plan", {"lanes": {**LANES, "count": 1 << 21}})),
    "fold to nothing": changed(("plan", {"lanes": {**LANES, "folds": [{"to": 0}, {"to": 1}]}})),
    "fold with more": changed(("plan", {"lanes": {**LANES, "folds": [{"to": 1, "by": 2}]}})),
    "fold without to": changed(("plan", {"lanes": {**LANES, "folds": [{}]}})),
    "buffers of a tree": changed(("plan", {"lanes": {**LANES, "buffers": 2}})),
    "buffers of neighbours": changed(
        ("plan", {"lanes": {**LANES, "folds": [{"to": 1, "adjacent": True}], "buffers": 2}})
    ),
    "negative buffers": changed(("plan", {"lanes": {**LANES, "folds": [{"to": 1}], "buffers": -1}})),
    "tree inside lanes": changed(("plan", {"lanes": {**LANES, "of": {"tree": {"k": 4, "root": LEAF}}}})),
    "serial inside lanes": changed(("plan", {"lanes": {**LANES, "of": {"serial": SERIAL}}})),
    "serial inside serial": changed(("plan", {"serial": {**SERIAL, "of": {"serial": SERIAL}}})),
    "serial with a merge": changed(("plan", {"serial": {**SERIAL, "merge": MERGE}})),
    "serial with scales": changed(("plan", {"serial": SERIAL}), ("epilogue.scaling", "row")),
    "serial leaf": changed(("plan", {"tree": {"k": 4, "root": {**LEAF, "serial": True}}})),
    "serial root with a merge": changed(
        ("plan", {"tree": {"k": 4, "root": {"serial": True, "sum": [LEAF], "merge": MERGE}}})
    ),
    "serial below the root": changed(
        ("plan", {"tree": {"k": 4, "root": {"sum": [{"serial": True, "sum": [LEAF]}], "merge": MERGE}}})
    ),
    "alpha in a of a fused step": changed(("epilogue.form", "alpha-in-a")),
    "unknown form": changed(("epilogue.form", "fma")),
    "product of a fused step": changed(("epilogue.form", "product-a")),
    "unknown treatment of an alpha of 0": changed(("epilogue.zero_alpha", "ignore")),
    "nan_first without keep_nan": changed(("step", {**FMA, "nan_first": "b"})),
    "no form": changed(("epilogue.form", REMOVED)),
    "unknown scaling": changed(("epilogue.scaling", "block")),
    "output in tf32": changed(("epilogue.out", "tf32")),
    "a list": [FUSED],
}


@pytest.mark.parametrize("name", GOOD)
def test_both_take(name: str) -> None:
    VALIDATOR.validate(GOOD[name])
    assert reader_takes(GOOD[name])
    VALIDATOR.validate(hawkeye.profile(json.dumps(GOOD[name])).to_dict())


@pytest.mark.parametrize("name", BAD)
def test_both_refuse(name: str) -> None:
    assert not VALIDATOR.is_valid(BAD[name])
    assert not reader_takes(BAD[name])


# ---- names ----------------------------------------------------------------------------------------------------------


def fields(source: str, struct: str) -> set[str]:
    """The JSON names of a Go struct's fields."""
    text = (ROOT / "core" / source).read_text(encoding="utf-8")
    body = re.search(rf"^type {struct} struct {{\n(.*?)^}}", text, re.DOTALL | re.MULTILINE)
    assert body is not None, f"{source} has no struct {struct}"
    return set(re.findall(r'`json:"(\w+)', body.group(1)))


def properties(name: str) -> Iterator[str]:
    for part in [SCHEMA["$defs"][name], *SCHEMA["$defs"][name].get("oneOf", [])]:
        yield from part.get("properties", {})


@pytest.mark.parametrize(
    ("name", "source", "struct"),
    [
        ("step", "step/params.go", "Params"),
        ("plan", "plan/plan.go", "Plan"),
        ("chain", "plan/plan.go", "Chain"),
        ("split", "plan/plan.go", "Split"),
        ("promote", "plan/plan.go", "Promote"),
        ("lanes", "plan/lanes.go", "Lanes"),
        ("fold", "plan/lanes.go", "Fold"),
        ("serial", "plan/serial.go", "Serial"),
        ("tree", "plan/plan.go", "Fixed"),
        ("range", "plan/tree.go", "Range"),
        ("merge", "plan/tree.go", "Merge"),
        ("epilogue", "profile/epilogue.go", "Epilogue"),
        ("provenance", "profile/profile.go", "Provenance"),
    ],
)
def test_the_schema_has_the_fields_of_the_code(name: str, source: str, struct: str) -> None:
    assert set(properties(name)) == fields(source, struct)


def test_the_schema_has_the_fields_of_a_node() -> None:
    # The root may be of another kind than the nodes below it.
    assert {*properties("node"), *properties("serial_root")} == fields("plan/tree.go", "Tree")


def test_the_schema_has_the_fields_of_a_profile() -> None:
    assert set(SCHEMA["properties"]) == fields("profile/profile.go", "Profile")


def test_the_schema_has_the_formats_of_the_interface() -> None:
    header = (ROOT / "include" / "hawkeye.h").read_text(encoding="utf-8")
    listed = header.partition("typedef int32_t hawkeye_format;")[2].partition("};")[0]
    assert SCHEMA["$defs"]["format"]["enum"] == [n.lower() for n in re.findall(r"HAWKEYE_(\w+) = \d+", listed)]


def test_the_page_names_every_field() -> None:
    page = (ROOT / "docs" / "profile.md").read_text(encoding="utf-8")
    for name, definition in SCHEMA["$defs"].items():
        if definition.get("type") == "object" or "oneOf" in definition:
            for field in properties(name):
                assert f"`{field}`" in page, f"docs/profile.md says nothing of {name}.{field}"
