"""``python -m hawkeye.record -o run.hawk [options] train.py [arguments]``: records a script as it is."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

from . import record


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hawkeye.record",
        description="Run a Python script and record its matrix multiplications into a trace.",
    )
    parser.add_argument("-o", "--output", metavar="FOLDER", help="the trace, such as run.hawk")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="sample one step in N (default 1)")
    parser.add_argument(
        "--fraction", type=float, default=1.0, metavar="F", help="of a sampled step's calls (default 1)"
    )
    parser.add_argument("--seed", default="0", help="key of the sampling (default 0)")
    parser.add_argument(
        "--modules", action="append", metavar="PATTERN", help="record calls of these module paths alone; repeatable"
    )
    parser.add_argument("--outputs", choices=("hash", "samples", "full"), default="hash", help="(default hash)")
    parser.add_argument("--kernels", action="store_true", help="names and launches of kernels too, by torch's profiler")
    parser.add_argument("--max-bytes", type=int, metavar="N", help="of the trace")
    parser.add_argument("--when-full", choices=("wait", "drop"), default="wait", help="(default wait)")
    parser.add_argument("--estimate", action="store_true", help="keep nothing; say how large the trace would be")
    parser.add_argument(
        "--commit", action="store_true", help="write hashes alone: what an auditor asks for is added by --answer"
    )
    parser.add_argument(
        "--answer", metavar="KEY", help="run again for a trace that is there, and add the tensors that the key chooses"
    )
    parser.add_argument("--sample", type=float, metavar="F", help="the part of the calls that --answer is for")
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="of the script")
    return parser


def main() -> None:
    """Run the command line. The script's exit status is kept; 1 where the script ended well and recording failed."""
    parser = _parser()
    options = parser.parse_args()
    if options.output is None and not options.estimate:
        parser.error("-o FOLDER is missing: where the trace goes (or --estimate)")
    if (options.answer is None) != (options.sample is None):
        parser.error("--answer KEY and --sample F belong together, as the auditor gave them")
    recorder = record(
        options.output or "",
        every=options.every,
        fraction=options.fraction,
        seed=options.seed,
        modules=options.modules,
        outputs=options.outputs,
        kernels=options.kernels,
        max_bytes=options.max_bytes,
        when_full=options.when_full,
        commit=options.commit,
        answer=None if options.answer is None else (options.answer, options.sample),
        estimate=options.estimate,
    )
    sys.argv = [options.script, *options.arguments]
    with recorder:
        if options.module:
            runpy.run_module(options.script, run_name="__main__", alter_sys=True)
        else:
            if not getattr(sys.flags, "safe_path", False):
                sys.path[0] = str(Path(options.script).resolve().parent)  # as python SCRIPT has it
            runpy.run_path(options.script, run_name="__main__")
    if recorder.failure is not None:
        sys.exit(1)


if __name__ == "__main__":
    main()
