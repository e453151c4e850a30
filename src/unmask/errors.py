"""The two ways in which unmask says no.

Every message is one clear line: what was expected, what came, and how to mend it. The command line turns
`UsageError` into exit code 2 and `RunError` into exit code 1; a library user catches `UnmaskError` for both.
"""

LONGEST_MESSAGE = 1500
LONGEST_QUOTE = 200


def one_line(message: str) -> str:
    """Return a message as one line that any terminal can print, whatever is quoted in it.

    Line breaks become spaces; control characters, marks that turn the direction of writing and lone
    surrogates are written as escapes. A very long message, which quotes something long, loses its middle.
    """
    line = " ".join(message.split())
    if not line.isprintable():
        line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    half = LONGEST_MESSAGE // 2
    return line if len(line) <= LONGEST_MESSAGE else f"{line[:half]} … {line[-half:]}"


def first_line(error: object) -> str:
    """Return what another library's error says first, or else what kind it is."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:LONGEST_QUOTE]


class UnmaskError(Exception):
    """Base of all errors that unmask raises on purpose."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class UsageError(UnmaskError, ValueError):
    """The call asks for something that cannot be: mend the call."""

    exit_code = 2


class RunError(UnmaskError, RuntimeError):
    """The call was fair, but the work could not be done: a damaged file, missing memory, a full disk."""

    exit_code = 1
