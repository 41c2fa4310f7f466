"""Builds the wheel: the Go library beside the Python package, tagged with the oldest glibc it runs on.

All metadata stands in pyproject.toml; here is only what setuptools has no words for. One wheel serves every Python,
because the library is reached through ctypes: its tag is py3-none-manylinux_2_X_<machine>, X being measured.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel as BdistWheel
from setuptools.command.build_py import build_py as BuildPy

ROOT = Path(__file__).resolve().parent
GO_MINIMUM = (1, 24)
LIBRARY = Path("hawkeye", "_lib", "libhawkeye.so")
GOLDENS = ("h200-torch2.11.jsonl", "h200-torch2.11.bin", "h200-torch2.11.expected")


# ---- the library --------------------------------------------------------------------------------------------------


def refuse_what_cannot_work() -> None:
    """Stops with one sentence where the build, or what it builds, could not work here."""
    if not sys.platform.startswith("linux"):
        raise SystemExit(f"Hawkeye's library is built for Linux with glibc, and this is {sys.platform}.")
    if is_musl():
        raise SystemExit(
            "Hawkeye's library needs glibc and this Python runs on musl (Alpine Linux), where a Go library cannot be "
            "loaded: use an image based on Debian, Ubuntu or Fedora."
        )
    go = os.environ.get("GO", "go")
    wanted = ".".join(map(str, GO_MINIMUM))
    if shutil.which(go) is None:
        raise SystemExit(
            f"Hawkeye is built with Go, and {go!r} was not found: install Go {wanted} or newer, from your package "
            "manager or https://go.dev/dl, and install Hawkeye again."
        )
    found = subprocess.run([go, "env", "GOVERSION"], cwd=ROOT, capture_output=True, text=True)
    version = re.match(r"go(\d+)\.(\d+)", found.stdout.strip())
    if version is None or tuple(map(int, version.groups())) < GO_MINIMUM:
        said = found.stdout.strip() or found.stderr.strip().splitlines()[-1:] or "of an unknown version"
        raise SystemExit(
            f"Hawkeye needs Go {wanted} or newer, and this Go is {said}: install a newer one from https://go.dev/dl."
        )
    compiler = os.environ.get("CC", "cc").split()[0]
    if shutil.which(compiler) is None:
        raise SystemExit(
            f"Hawkeye's C interface is built with a C compiler, and {compiler!r} was not found: install gcc (Debian, "
            "Ubuntu: apt install gcc; Fedora: dnf install gcc), or name another compiler with CC=."
        )


def is_musl() -> bool:
    """Whether this Python runs on musl, by the loader in its memory map."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return any("/ld-musl-" in line or "/libc.musl-" in line for line in maps)
    except OSError:
        return False


def build_library(output: Path) -> None:
    """Builds the shared library; capi/build.sh is the one place that knows how."""
    refuse_what_cannot_work()
    output.parent.mkdir(parents=True, exist_ok=True)
    result = subprocess.run(["sh", str(ROOT / "capi" / "build.sh"), "shared", str(output.resolve())], cwd=ROOT)
    if result.returncode != 0:
        raise SystemExit("Hawkeye's library was not built; what the Go compiler said stands above.")


# ---- its tag ------------------------------------------------------------------------------------------------------

SHT_GNU_VERNEED = 0x6FFFFFFE


def glibc_needed(library: Path) -> tuple[int, int]:
    """The newest GLIBC_x.y among the symbol versions a 64-bit little-endian ELF file needs."""
    data = library.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise SystemExit(f"{library} is not a 64-bit little-endian ELF file.")
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
    newest = (0, 0)
    for _name, kind, _flags, _address, start, _size, link, entries, _align, _entry in sections:
        if kind != SHT_GNU_VERNEED:
            continue
        strings = sections[link][4]
        at = start
        for _ in range(entries):  # Verneed: one a library, each followed by its Vernaux: one a version
            _version, names, _file, first, following = struct.unpack_from("<HHIII", data, at)
            aux = at + first
            for _ in range(names):
                _hash, _flags, _other, name, step = struct.unpack_from("<IHHII", data, aux)
                text = data[strings + name : data.index(b"\0", strings + name)].decode("ascii")
                found = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", text)
                if found:
                    newest = max(newest, (int(found[1]), int(found[2])))
                aux += step
            at += following
    if newest == (0, 0):
        raise SystemExit(f"{library} names no glibc version: it was not linked against glibc.")
    return newest


def manylinux_tag(library: Path) -> str:
    """The platform tag of a wheel that holds the library."""
    machine = platform.machine()
    # The first glibc with a manylinux tag for every architecture; PEP 600 defines none older than 2.5.
    floor = (2, 5) if machine == "x86_64" else (2, 17)
    major, minor = max(glibc_needed(library), floor)
    return f"manylinux_{major}_{minor}_{machine}"


def measured_tag(wheel: Path) -> str | None:
    """What auditwheel makes of a wheel: its platform tag; None where auditwheel is not installed."""
    command = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    shown = subprocess.run(command, capture_output=True, text=True)
    if shown.returncode != 0:
        return None if "No module named" in shown.stderr else _stop(f"auditwheel cannot read {wheel}: {shown.stderr}")
    said = " ".join(shown.stdout.split())
    tag = re.search(r'consistent with the following platform tag: "([^"]+)"', said)
    return tag.group(1) if tag else _stop(f"auditwheel names no platform tag: {said}")


def _stop(message: str) -> str:
    raise SystemExit(message)


# ---- setuptools ---------------------------------------------------------------------------------------------------


class BuildLibrary(Command):
    """``python setup.py build_library``: builds the library in place, for working in a checkout."""

    description = "build the shared library into python/hawkeye/_lib"
    user_options: list[tuple[str, str, str]] = []

    def initialize_options(self) -> None:
        pass

    def finalize_options(self) -> None:
        pass

    def run(self) -> None:
        build_library(ROOT / "python" / LIBRARY)


class BuildPyWithLibrary(BuildPy):
    """Adds the library and the golden set to the package's files."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            build_library(ROOT / "python" / LIBRARY)
            return
        target = Path(self.build_lib)
        build_library(target / LIBRARY)
        goldens = target / "hawkeye" / "_goldens"
        goldens.mkdir(parents=True, exist_ok=True)
        for name in GOLDENS:
            shutil.copyfile(ROOT / "tests" / "goldens" / name, goldens / name)


class BdistWheelPlatform(BdistWheel):
    """One wheel for every Python, tagged with what its library needs, as auditwheel measures it."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        # Asked after the build; the library was just put there.
        for place in (Path(self.bdist_dir or ".") / LIBRARY, ROOT / "build" / "lib" / LIBRARY, *self._built()):
            if place.is_file():
                return "py3", "none", manylinux_tag(place)
        return "py3", "none", f"linux_{platform.machine()}"  # an editable install, which never leaves this machine

    def _built(self) -> list[Path]:
        command = self.get_finalized_command("build")
        return [Path(getattr(command, name)) / LIBRARY for name in ("build_lib", "build_purelib", "build_platlib")]

    def run(self) -> None:
        super().run()
        for _, _, name in self.distribution.dist_files:
            wheel = Path(name)
            if wheel.suffix != ".whl":
                continue
            computed, measured = wheel.stem.rsplit("-", 1)[1], measured_tag(wheel)
            if measured is not None and measured != computed:
                raise SystemExit(f"The wheel is tagged {computed}, and auditwheel measures {measured}: not shipped.")


class Platform(Distribution):
    """A distribution with compiled code in it, so that files go where such code belongs."""

    def has_ext_modules(self) -> bool:
        return True


if __name__ == "__main__":  # the tests import this file for its functions
    setup(
        distclass=Platform,
        cmdclass={"build_library": BuildLibrary, "build_py": BuildPyWithLibrary, "bdist_wheel": BdistWheelPlatform},
    )
