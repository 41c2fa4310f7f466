"""Verify what discover_signatures.py recorded by the profiles that it found: on any machine, without a GPU or torch.

    python tests/gpu/verify_discovered.py STATE            a table, a line a signature
    python tests/gpu/verify_discovered.py STATE --json OUT.json

Each fresh case is replayed three times: by the discovered profile alone, by the rule table alone, and as hawkeye.verify
does, which tries the discovered profile where the rules leave the case open. The exit status is 1 where a case is not
exact by its discovered profile.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if importlib.util.find_spec("hawkeye") is None:
    sys.path.insert(0, str(ROOT / "python"))
import hawkeye  # noqa: E402


def verdicts(recorded: Any, ids: list[str], **how: Any) -> tuple[Counter[str], list[str]]:
    """How many of the cases came to what, and the sentences of those that are not exact."""
    tally: Counter[str] = Counter()
    told = []
    for name in ids:
        verdict = recorded.replay(name, **how)
        tally[verdict.verdict] += 1
        if verdict.verdict != "exact":
            told.append(f"{name}: {verdict.verdict}: {verdict.reason}")
    return tally, told


def short(tally: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(tally.items())) or "-"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("state", type=Path, help="the folder that discover_signatures.py wrote")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the table as JSON")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N cases of a signature")
    options = parser.parse_args()
    found = [json.loads(line) for line in (options.state / "found.jsonl").read_text(encoding="utf-8").splitlines()]
    recorded = hawkeye.open_set(options.state / "cases.jsonl")
    ids: dict[str, list[str]] = {}
    for case in recorded.cases():
        ids.setdefault(str(case["signature"]), []).append(str(case["id"]))
    rows: list[dict[str, Any]] = []
    wrong = 0
    for line in found:
        name, mine = line["name"], ids.get(line["name"], [])[: options.limit]
        row: dict[str, Any] = {"name": name, "certified": bool(line.get("certified")), "cases": len(mine)}
        if not row["certified"]:
            row["reason"] = line.get("refused") or line.get("reason")
            print(f"{name}: not certified: {row['reason']}")
            rows.append(row)
            continue
        profile = hawkeye.profile(line["profile"])
        by_profile, told = verdicts(recorded, mine, profile=profile)
        by_rules, _ = verdicts(recorded, mine)
        both, _ = verdicts(recorded, mine, suspects=[profile])
        row |= {
            "profile": profile.id,
            "by_profile": by_profile,
            "by_rules": by_rules,
            "by_both": both,
            "not_exact": told,
        }
        rows.append(row)
        wrong += len(told)
        print(f"{name}: discovered {short(by_profile)}; rules {short(by_rules)}; both {short(both)}")
        for sentence in told:
            print(f"  {sentence}")
    certified = [row for row in rows if row["certified"]]
    cases = sum(row["cases"] for row in certified)
    print(
        f"{len(certified)} of {len(rows)} signatures are certified; {cases - wrong} of their {cases} fresh cases are "
        "exact by the discovered profile"
    )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
