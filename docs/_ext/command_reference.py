"""The `command` directive: usage and options of one `unmask` command, read from the program at build time.

    ```{command} fill
    ```

gives what `unmask fill --help` says, as a table. `{command}` without a name gives the options that stand
before the command's name, and `{command} benchmark blimp` those of a command in a group. An unknown name is
a warning, and so an error: the page can't outlive the command.
`{other-commands}` with the names of those that have a place of their own shows the rest: none is missed.
"""

from __future__ import annotations

from typing import Any

import typer
from docutils import nodes
from docutils.parsers.rst import Directive


def command_help(name: str | None) -> tuple[str, str, list[tuple[str, str]]]:
    """Return a command's description, its usage line and its parameters with what they do."""
    from unmask.cli import app

    command: Any = typer.main.get_command(app)
    for part in (name or "").split():  # "wsd fit" is a command of the group "wsd"
        command = command.commands[part]
    context = command.context_class(command, info_name=f"unmask {name}" if name else "unmask")
    usage = " ".join(command.get_usage(context).removeprefix("Usage:").split())
    records = [p.get_help_record(context) for p in command.params]
    return (command.help or "").strip(), usage, [r for r in records if r]


class Command(Directive):
    """Draws the table."""

    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0] if self.arguments else None
        try:
            _, usage, records = command_help(name)
        except KeyError:
            raise self.error(f"unmask has no command '{name}'") from None
        return [nodes.literal_block(usage, usage, language="text"), _table(records)]


class OtherCommands(Directive):
    """Shows every command that is not named."""

    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        shown = set(" ".join(self.arguments).split())
        found: list[nodes.Node] = []
        for name in command_names():
            if name not in shown:
                does, usage, records = command_help(name)
                found += [nodes.rubric("", name), nodes.paragraph("", does)]
                found += [nodes.literal_block(usage, usage, language="text"), _table(records)]
        return found


def command_names() -> list[str]:
    """Return the names of all commands, in the order of `unmask --help`."""
    from unmask.cli import app

    root: Any = typer.main.get_command(app)
    return list(root.commands)


def _table(records: list[tuple[str, str]]) -> nodes.table:
    table = nodes.table(classes=["colwidths-given"])
    group = nodes.tgroup(cols=2)
    table += group
    for width in (35, 65):
        group += nodes.colspec(colwidth=width)
    body = nodes.tbody()
    group += body
    for flag, does in records:
        row = nodes.row()
        for child in (nodes.literal(flag, flag), nodes.Text(does)):
            entry = nodes.entry()
            entry += nodes.paragraph("", "", child)
            row += entry
        body += row
    return table


def setup(app: Any) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("command", Command)
    app.add_directive("other-commands", OtherCommands)
    return {"version": "1", "parallel_read_safe": True}
