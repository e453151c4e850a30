"""The two ways in which unmask says no.

Every message is one clear line: what was expected, what came, and how to mend it. The command line turns
`UsageError` into exit code 2 and `RunError` into exit code 1; a library user catches `UnmaskError` for both.
"""


class UnmaskError(Exception):
    """Base of all errors that unmask raises on purpose."""

    exit_code = 1


class UsageError(UnmaskError, ValueError):
    """The call asks for something that cannot be: mend the call."""

    exit_code = 2


class RunError(UnmaskError, RuntimeError):
    """The call was fair, but the work could not be done: a damaged file, missing memory, a full disk."""

    exit_code = 1
