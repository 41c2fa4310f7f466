"""``python -m hawkeye.record -o run.hawk [options] train.py [arguments]``: records a script as it is.

``hawkeye record`` is the same command.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from .._errors import Error
from . import record

BAD_INPUT = 3
_EPILOG = """examples:
  %(prog)s -o run.hawk train.py --epochs 3             every product of every step
  %(prog)s -o run.hawk --every 100 train.py            of one step in a hundred
  %(prog)s --estimate --every 100 train.py             how large that would be
  %(prog)s -o run.hawk --commit train.py               hashes alone, to publish the root
  %(prog)s -o run.hawk --answer KEY --sample 0.01 train.py   what an auditor asks for then

Then: hawkeye show run.hawk; hawkeye verify run.hawk --root ROOT. docs/record.md and docs/audit.md have more."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Like Hawkeye's other commands."""
        self.exit(BAD_INPUT, f"hawkeye: {message}. See '{self.prog} --help'.\n")


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=prog,
        description="Run a Python script and record its matrix multiplications into a trace, which anyone can verify.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
    parser.add_argument(
        "--max-bytes", type=int, metavar="N", help="the trace stays below it; what no longer fits is counted"
    )
    parser.add_argument("--when-full", choices=("wait", "drop"), default="wait", help="(default wait)")
    parser.add_argument("--estimate", action="store_true", help="keep nothing; say how large the trace would be")
    parser.add_argument(
        "--commit", action="store_true", help="write hashes alone: what an auditor asks for is added by --answer"
    )
    parser.add_argument(
        "--answer", metavar="KEY", help="run again for a trace that is there, and add the tensors that the key chooses"
    )
    parser.add_argument(
        "--sample", type=float, metavar="F", help="the part of the lines that --answer is for, such as 0.01"
    )
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", metavar="SCRIPT", help="the Python program to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="of the script")
    return parser


def main(arguments: Sequence[str] | None = None, prog: str = "python -m hawkeye.record") -> None:
    """Run the command line.

    The script's exit status is kept; 1 where the script ended well and recording failed, 3 for bad input.
    """
    parser = _parser(prog)
    options = parser.parse_args(arguments)
    if options.output is None and not options.estimate:
        parser.error("-o FOLDER is missing: where the trace goes (or --estimate)")
    if (options.answer is None) != (options.sample is None):
        parser.error("--answer KEY and --sample F belong together, as the auditor gave them")
    if not options.module and not Path(options.script).is_file():
        parser.error(f"there is no script {options.script}")
    try:
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
        recorder.__enter__()
    except Error as error:
        parser.exit(BAD_INPUT, f"hawkeye: {error}\n")
    sys.argv = [options.script, *options.arguments]
    try:
        if options.module:
            runpy.run_module(options.script, run_name="__main__", alter_sys=True)
        else:
            if not getattr(sys.flags, "safe_path", False):
                sys.path[0] = str(Path(options.script).resolve().parent)  # as python SCRIPT has it
            runpy.run_path(options.script, run_name="__main__")
    except BaseException:
        recorder.__exit__(*sys.exc_info())
        raise
    recorder.__exit__(None, None, None)
    if recorder.failure is not None:
        sys.exit(1)


if __name__ == "__main__":
    main()
