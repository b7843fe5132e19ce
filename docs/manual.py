"""Pages of a manual, one for each command, made of what `--help` prints. Used by site.py."""

import html
import re
from typing import Any

import typer

from regard.app.cli.main import app

PROGRAM: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = PROGRAM.commands
EXAMPLES = "Examples:"


def manual_page(name: str) -> str:
    """What a command does, its synopsis and examples, and tables of its arguments and options."""
    command = COMMANDS[name]
    parameters = command.get_params(command.context_class(command, info_name=f"regard {name}"))
    kinds = {kind: [one for one in parameters if one.param_type_name == kind] for kind in ("argument", "option")}
    first, examples, rest = told(command.help)
    words = " ".join(["regard", name, "[OPTIONS]", *map(_synopsis, kinds["argument"])])
    parts = [f"# regard {name}", in_words(first), f"```text\n{words}\n```"]
    parts += [f"## Examples\n\n```bash\n{examples}\n```"] if examples else []
    parts += [f"## Description\n\n{in_words(rest)}"] if rest else []
    parts += [f"## {kind.title()}s\n\n{_table(rows)}" for kind, rows in kinds.items() if rows]
    parts += ["All of them: [Commands](../commands.md)."]
    return "\n\n".join(parts) + "\n"


def told(text: str) -> tuple[str, str, str]:
    """A help text's first paragraph, its examples one a line, and what follows them."""
    first, *paragraphs = text.split("\n\n")
    if EXAMPLES not in paragraphs:
        return first, "", "\n\n".join(paragraphs)
    at = paragraphs.index(EXAMPLES) + 1
    end = next((n for n in range(at, len(paragraphs)) if not paragraphs[n].startswith("    ")), len(paragraphs))
    examples = [re.sub(r"^ {4}", "", one, flags=re.MULTILINE) for one in paragraphs[at:end]]
    return first, "\n".join(examples), "\n\n".join([*paragraphs[1 : at - 1], *paragraphs[end:]])


def in_words(text: str) -> str:
    """Text of a help, in which < and > are signs and --flags are code; its indented lines are code already."""
    parts = re.split(r"(`[^`]*`|^ {4}.*$)", text, flags=re.MULTILINE)
    return "".join(part if part.startswith(("`", "    ")) else _outside_code(part) for part in parts)


def _outside_code(text: str) -> str:
    text = html.escape(text, quote=False).replace("*", "\\*").replace("_", "\\_")
    return re.sub(r"(?<![\w-])--?[a-z](?:[\w-]*\w)?", r"`\g<0>`", text)


def _synopsis(argument: Any) -> str:
    word = argument.metavar.strip("[].") or argument.name.upper()
    many = "..." if argument.nargs != 1 else ""
    return f"{word}{many}" if argument.required else f"[{word}]{many}"


def _table(parameters: list[Any]) -> str:
    is_option = parameters[0].param_type_name == "option"
    head = "| option | meaning | default |\n|---|---|---|" if is_option else "| argument | meaning |\n|---|---|"
    return "\n".join([head, *(_row(one, is_option) for one in parameters)])


def _row(parameter: Any, is_option: bool) -> str:
    meaning = " ".join([in_words(parameter.help or ""), *_further(parameter)]).replace("|", "\\|")
    if not is_option:
        return f"| `{_synopsis(parameter)}` | {meaning} |"
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    value = " `" + parameter.metavar.replace("|", "` or `") + "`" if parameter.metavar else ""
    return f"| {names}{value} | {meaning} | {_default(parameter)} |"


def _further(parameter: Any) -> list[str]:
    """What --help puts in brackets."""
    place = parameter if hasattr(parameter, "min") else getattr(parameter, "type", None)  # of older typers
    limits = [(word, getattr(place, end, None)) for word, end in (("least", "min"), ("most", "max"))]
    said = [f"At {word} {limit:,}." for word, limit in limits if limit is not None]
    return said + ([f"Or `${parameter.envvar}`."] if parameter.envvar else [])


def _default(parameter: Any) -> str:
    if parameter.is_flag and not parameter.secondary_opts:
        return ""
    if parameter.required:
        return "must be given"
    if isinstance(parameter.default, bool):
        return f"`{(parameter.opts if parameter.default else parameter.secondary_opts)[0]}`"
    return f"`{parameter.default}`" if parameter.show_default and parameter.default not in (None, "") else ""


def with_commands(markdown: str) -> str:
    """The table of commands, each with a link to its page."""
    return re.sub(
        r"^\| `(\w+)` \|",
        lambda row: f"| [`{row[1]}`](commands/{row[1]}.md) |" if row[1] in COMMANDS else row[0],
        markdown,
        flags=re.MULTILINE,
    )
