"""Help as plain text, the same with every version of typer: what it does, its options, examples as written."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


class VerbHelp(TyperCommand):
    """The help of one command; its epilog holds examples, a line each."""

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        words = ["[OPTIONS]", *(_word(argument) for argument in _arguments(self))]
        formatter.write_usage(ctx.command_path, " ".join(words))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _parameters(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _examples(self.epilog, formatter)


class SectionHelp(TyperGroup):
    """The list of commands under the headings of their ``rich_help_panel``, in the order they were added."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        width = max(len(name) for name in self.commands)
        for name, command in self.commands.items():
            heading = str(getattr(command, "rich_help_panel", None) or "Commands")
            sections.setdefault(heading, []).append((name.ljust(width), command.get_short_help_str(limit=80)))
        for heading, lines in sections.items():
            with formatter.section(heading):
                formatter.write_dl(lines)
        _parameters(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _examples(self.epilog, formatter)


def _arguments(command: Any) -> list[Any]:
    return [parameter for parameter in command.params if parameter.param_type_name == "argument"]


def _word(argument: Any) -> str:
    """``VIEW``, ``[VIEW]`` or ``[VIEW]...``."""
    name = str(argument.metavar or argument.name.upper())
    name = name if argument.required else f"[{name}]"
    return name if argument.nargs == 1 else f"{name}..."


def _parameters(command: Any, ctx: Any, formatter: Any) -> None:
    arguments = [(_word(argument), argument.help or "") for argument in _arguments(command)]
    if arguments:
        with formatter.section("Arguments"):
            formatter.write_dl(arguments)
    options = []
    for option in command.get_params(ctx):
        if option.param_type_name == "option" and not option.hidden:
            names = ", ".join(sorted((*option.opts, *option.secondary_opts), key=len))
            value = "" if option.is_flag else f" {option.metavar or option.name.upper()}"
            options.append((names + value, option.help or ""))
    with formatter.section("Options"):
        formatter.write_dl(options)


def _examples(text: str | None, formatter: Any) -> None:
    if text:
        formatter.write(
            "\nExamples:\n" + "".join(f"  {line}".rstrip() + "\n" for line in text.strip("\n").splitlines())
        )
