"""The exceptions Hawkeye raises, one a status of the C interface, all of them ``hawkeye.Error``.

Each also derives from the built-in exception a caller would expect (a wrong shape is a ``ValueError``), so that code
which does not know Hawkeye handles it properly. ``str(error)`` is one sentence that says what is wrong and what to do.
"""

from __future__ import annotations


class Error(Exception):
    """Whatever Hawkeye refuses or fails at."""

    #: the ``hawkeye_status`` of include/hawkeye.h this class stands for; 0 where only Python raises it
    status: int = 0


class ArgumentError(Error, ValueError):
    """An argument is out of range or makes no sense together with the others."""

    status = 1


class HandleError(Error):
    """A profile or set was used after it was freed."""

    status = 2


class ProfileError(Error, ValueError):
    """No profile of that name, or the JSON is not a profile; the message names the field."""

    status = 3


class ShapeError(Error, ValueError):
    """Shapes or strides do not fit together."""

    status = 4


class FormatError(Error, TypeError):
    """An operand's number format is not one that the profile, or Hawkeye, takes."""

    status = 5


class OverlapError(Error, ValueError):
    """The output overlaps an operand or itself."""

    status = 6


class UnsupportedError(Error, NotImplementedError):
    """A case whose arithmetic is not known: declined, never guessed."""

    status = 7


class Cancelled(Error):  # noqa: N818  what asyncio and grpc call theirs too
    """The progress callback asked to stop by returning False."""

    status = 8


class FileError(Error, OSError):
    """A file could not be read or written."""

    status = 10


class ForkError(Error, RuntimeError):
    """Called in a forked child of the process that loaded the library: the Go runtime does not survive fork()."""

    status = 11


class InternalError(Error, RuntimeError):
    """A fault of Hawkeye itself; please report the message."""

    status = 12


class GPUError(Error, RuntimeError):
    """No driver, no GPU of that number, one without the instruction, or one that failed."""

    status = 13


class DeviceError(Error, TypeError):
    """An operand is not in this machine's memory."""


class LibraryError(Error, ImportError):
    """The shared library is missing, does not load, or is of another version than this package."""


_BY_STATUS: dict[int, type[Error]] = {
    cls.status: cls
    for cls in (
        ArgumentError,
        HandleError,
        ProfileError,
        ShapeError,
        FormatError,
        OverlapError,
        UnsupportedError,
        Cancelled,
        FileError,
        ForkError,
        InternalError,
        GPUError,
    )
}


def from_status(status: int, message: str) -> Error:
    """The exception for a status other than HAWKEYE_OK."""
    cls = _BY_STATUS.get(status, InternalError)
    return cls(message or f"Hawkeye's library returned status {status} without a message.")
