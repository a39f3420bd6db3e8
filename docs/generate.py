"""Write the reference pages from the code: keys of files, verbs with options, public names, findings with causes.

`python docs/generate.py` writes docs/reference/*.md, as the build of the site does (docs/conf.py). They are not kept
in the repository.
"""

import ast
import html
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import excitor
from excitor.design.constraints.registry import CONSTRAINTS
from excitor.experiments.campaign import Campaign
from excitor.experiments.cli import app
from excitor.robots.files.schema import Description

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
UNITS = {  # endings of keys, the longest first
    "_rad_s2": "rad/s²", "_rad_s3": "rad/s³",
    "_deg_s2": "°/s²", "_deg_s3": "°/s³", "_m_s2": "m/s²", "_m_s3": "m/s³",
    "_rad_s": "rad/s", "_deg_s": "°/s", "_m_s": "m/s", "_percent": "%", "_minutes": "min",
    "_rad": "rad", "_deg": "°", "_hz": "Hz",
    "_kg": "kg", "_m": "m", "_s": "s",
}  # fmt: skip
SI = {
    "mass": "kg",
    "center": "m",
    "inertia": "kg m²",
    "gravity": "m/s²",
    "radius": "m",
    "torque": "N m (N)",
    "xyz": "m",
}
WORDS = {float: "number", int: "whole number", str: "text", bool: "true or false"}
FINDINGS = ("identify", "experiments")
LEVELS = {
    "unusable": "refused",
    "doubtful": "a doubt in the verdict",
    "note": "a note",
    "error": "refused",
    "warning": "a doubt",
}


def escape(text: str) -> str:
    """Escape what Markdown would take for markup outside of `code`."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([\\*_\[\]|<>~#$])", r"\\\1", html.unescape(part)) for part in parts
    )


def cell(text: str) -> str:
    """Write one cell of a table."""
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def table(header: list[str], rows: list[list[str]]) -> str:
    """Write a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(cell, line)) + " |" for line in lines) + "\n"


# ---- files -----------------------------------------------------------------------------------------------------------


def comments(model: type[BaseModel]) -> dict[str, str]:
    """Find what the code says of each field: the comment behind it, or the lines of comment above."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if not (issubclass(kind, BaseModel) and kind.__module__.startswith("excitor.")):
            continue
        source = inspect.getsource(kind)
        said = {
            token.start[0]: (
                token.string.lstrip("# "),
                source.splitlines()[token.start[0] - 1].lstrip().startswith("#"),
            )
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT
        }
        for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                above = []
                line = node.lineno - 1
                while line in said and said[line][1]:
                    above.insert(0, said[line][0])
                    line -= 1
                inside = [said[k][0] for k in range(node.lineno, (node.end_lineno or node.lineno) + 1) if k in said]
                text = " ".join(above + inside)
                if text:
                    found[node.target.id] = text
    return found


def unwrap(kind: Any) -> list[Any]:
    """List the alternatives of an annotation, without `None` and constraints."""
    if get_origin(kind) is Annotated:
        return unwrap(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [inner for part in get_args(kind) if part is not type(None) for inner in unwrap(part)]
    return [kind]


def models(kind: Any) -> Iterator[tuple[type[BaseModel], str]]:
    """Find the tables below an annotation, and how their headings are written."""
    for part in unwrap(kind):
        origin, inner = get_origin(part), get_args(part)
        if isinstance(part, type) and issubclass(part, BaseModel):
            yield part, "[{}]"
        elif origin is list:
            yield from ((found, "[[{}]]") for found, _ in models(inner[0]))
        elif origin is dict:
            yield from ((found, "[{}.NAME]") for found, _ in models(inner[1]))


def type_words(kind: Any) -> str:
    """Describe a type as its users write it."""
    said = []
    for part in unwrap(kind):
        origin, inner = get_origin(part), get_args(part)
        if origin is Literal:
            said += [f'`"{value}"`' if isinstance(value, str) else f"`{value}`" for value in inner]
        elif origin is list:
            said.append(f"list of: {type_words(inner[0])}")
        elif origin is dict:
            said.append(f"table, by name: {type_words(inner[1])}")
        else:
            said.append(WORDS.get(part, "table" if isinstance(part, type) and issubclass(part, BaseModel) else "any"))
    return ", ".join(dict.fromkeys(said))


def toml(value: Any) -> str:
    """Write a default as TOML would."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    return "[" + ", ".join(map(toml, value)) + "]" if isinstance(value, list) else repr(value)


def unit(key: str) -> str:
    """Find a key's unit: by its ending, else by its name."""
    found = next((words for ending, words in UNITS.items() if key.endswith(ending)), "")
    return found or SI.get(key, "")


def rows(model: type[BaseModel]) -> Iterator[tuple[str, list[str]]]:
    """Write a row for each key of a table."""
    said = comments(model)
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        bare = "" if default is PydanticUndefined else "none" if default is None else f"`{toml(default)}`"
        shown = "**required**" if field.is_required() else "a table" if isinstance(default, BaseModel) else bare
        yield name, [f"`{name}`", type_words(field.annotation), shown, unit(name), escape(said.get(name, ""))]


def tables(model: type[BaseModel], path: str = "", form: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """List a file's tables with their headings, the outermost first."""
    yield form.format(path) if path else "", model
    for name, field in model.model_fields.items():
        for inner, heading in models(field.annotation):
            below = f"{path}.{name}" if path else name
            yield from tables(inner, below, heading)


def file_page(title: str, model: type[BaseModel], about: str) -> str:
    """Write the reference of a file's format."""
    parts = [f"# {title}\n", about + "\n"]
    shown: dict[type[BaseModel], str] = {}
    for heading, kind in tables(model):
        parts.append(f"## {f'`{heading}`' if heading else 'Top of the file'}\n")
        if kind in shown:
            parts.append(f"The same keys as `{shown[kind]}`.\n")
            continue
        shown[kind] = heading
        parts.append(escape(inspect.cleandoc(kind.__doc__ or "")) + "\n")
        parts.append(table(["key", "type", "default", "unit", "meaning"], [row for _, row in rows(kind)]))
    return "\n".join(parts)


def constraint_page() -> str:
    """Write the tables of `[[constraint]]`."""
    parts = ["\n## Kinds of `[[constraint]]`\n"]
    for kind in CONSTRAINTS.values():
        parts.append(f"### `{kind.name}`\n\n{escape(inspect.cleandoc(kind.table.__doc__ or ''))}\n")
        parts.append(table(["key", "type", "default", "unit", "meaning"], [row for _, row in rows(kind.table)]))
    return "\n".join(parts)


# ---- command line ----------------------------------------------------------------------------------------------------


def verbs() -> dict[str, Any]:
    """Find every verb of the command line."""
    return dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def choices_of(name: str) -> dict[str, tuple[str, ...]]:
    """Find the values that a verb's options choose from."""
    callbacks = {
        (item.callback.__name__.partition("_")[0]): item.callback for item in app.registered_commands if item.callback
    }
    found = {}
    for key, parameter in inspect.signature(callbacks[name]).parameters.items():
        part = unwrap(parameter.annotation)[0]
        part = unwrap(get_args(part)[0])[0] if get_origin(part) is list else part
        if get_origin(part) is Literal:
            found[key] = get_args(part)
        elif isinstance(part, type) and issubclass(part, Enum):
            found[key] = tuple(item.value for item in part)
    return found


def verb_page(name: str, command: Any) -> str:
    """Write a verb: what it does, arguments and options, examples."""
    text, _, examples = inspect.cleandoc(command.help or "").replace("\b", "").partition("Example")
    examples = inspect.cleandoc(examples.partition(":")[2]).strip("\n")
    listed, chosen = [], choices_of(name)
    for option in command.params:
        words = ", ".join(f"`{word}`" for word in (*option.opts, *option.secondary_opts))
        if option.param_type_name == "argument":
            words = f"`{option.metavar or option.name.upper()}`"
        choices = ", ".join(f"`{value}`" for value in chosen.get(option.name, ()))
        default = "required" if option.required else "" if option.default in (None, False, (), []) else option.default
        shown = (
            f"`{default}`" if default != "" and default != "required" and not callable(default) else str(default or "")
        )
        listed.append([words, choices or escape(option.metavar or ""), shown, escape(option.help or "")])
    lines = "\n".join(line.strip() for line in examples.splitlines() if line.strip())
    block = f"\n```\n{lines}\n```\n" if lines else ""
    header = ["argument or option", "values", "default", "meaning"]
    return f"## `excitor {name}`\n\n{escape(text.strip())}\n\n{table(header, listed)}{block}"


# ---- Python ----------------------------------------------------------------------------------------------------------


def prose(text: str) -> str:
    """Write a docstring: paragraphs, lists of arguments, examples."""
    parts = []
    for block in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        first = block.splitlines()[0]
        if block.startswith(">>>"):
            parts.append(f"```python\n{block}\n```")
        elif re.fullmatch(r"(Args|Returns|Raises|Attributes|Yields):", first):
            items = inspect.cleandoc("\n".join(block.splitlines()[1:]))
            items = re.sub(r"^(\w+(?:, \w+)*):", r"* `\1`:", re.sub(r"\n\s+", " ", items), flags=re.MULTILINE)
            parts.append(
                f"{first}\n\n" + "\n".join(escape(row).replace("\\* `", "* `", 1) for row in items.splitlines())
            )
        elif all(line.startswith("    ") for line in block.splitlines()):
            parts.append(f"```text\n{block}\n```")
        else:
            parts.append(escape(block))
    return "\n\n".join(parts)


class Raw:
    """An annotation that is shown as written."""

    def __init__(self, kind: Any) -> None:
        text = kind if isinstance(kind, str) else inspect.formatannotation(kind)
        if "_array_like" in text:  # numpy's ArrayLike, spelt out
            text = "ArrayLike" + " | None" * ("NoneType" in text)
        text = re.sub(r"numpy\.ndarray\[tuple\[Any, \.\.\.\], numpy\.dtype\[[^\]]*(\[[^\]]*\])?\]\]", "ndarray", text)
        self.text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])", "", text)

    def __repr__(self) -> str:
        return self.text


def signature(name: str, thing: Any) -> str:
    """Write how a function or class is called, without where its types are defined."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    empty = inspect.Parameter.empty
    parameters = [
        item if item.annotation is empty else item.replace(annotation=Raw(item.annotation))
        for item in found.parameters.values()
    ]
    after = empty if inspect.isclass(thing) or found.return_annotation is empty else Raw(found.return_annotation)
    text = name + re.sub(r"<[^>]*>", "...", str(found.replace(parameters=parameters, return_annotation=after)))
    if len(text) > 100:
        head, _, tail = text.partition("(")
        inside, _, end = tail.rpartition(")")
        text = f"{head}(\n    " + re.sub(r", (?=\*{0,2}\w+(?::|=)|\*,|/,)", ",\n    ", inside) + f",\n){end}"
    return text


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """List the public methods and properties that a class documents itself, and none that another public name has."""
    public = {getattr(excitor, name) for name in excitor.__all__} - {kind}
    elsewhere = {name for base in kind.__mro__ if base in public for name in vars(base)}
    for base in kind.__mro__:
        for name, value in vars(base).items() if base.__module__.startswith("excitor.") else ():
            wrapped = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__func__", value)
            if not name.startswith("_") and name not in elsewhere and inspect.isfunction(wrapped) and wrapped.__doc__:
                yield name, wrapped


def name_page(name: str) -> str:
    """Write a public name."""
    thing = getattr(excitor, name)
    if isinstance(thing, str):
        return f"## `{name}`\n\nThe installed version, as text.\n"
    called = signature(f"excitor.{name}", thing)
    parts = [f"## `{name}`\n", f"```python\n{called}\n```\n", prose(thing.__doc__ or "") + "\n"]
    seen = set()
    for method, value in members(thing) if inspect.isclass(thing) else ():
        if method not in seen:
            seen.add(method)
            parts.append(f"### `{name}.{method}`\n\n{prose(value.__doc__)}\n")
    return "\n".join(parts)


# ---- findings --------------------------------------------------------------------------------------------------------


def texts(node: ast.AST | None, scope: ast.AST, depth: int = 0) -> list[str]:
    """Find what an expression may say: constants, f-strings with `…` for figures, names assigned there."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return ["".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)]  # type: ignore[misc]
    if isinstance(node, ast.IfExp):
        return texts(node.body, scope, depth) + texts(node.orelse, scope, depth)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = texts(node.left, scope, depth), texts(node.right, scope, depth)
        return [a + b for a in left or ["… "] for b in right or ["…"]][:3]
    if isinstance(node, ast.Name) and depth < 3:
        found = []
        for step in ast.walk(scope):
            if isinstance(step, ast.Assign):
                for target in step.targets:
                    pairs = [(target, step.value)]
                    if isinstance(target, ast.Tuple) and isinstance(step.value, ast.Tuple):
                        pairs = list(zip(target.elts, step.value.elts, strict=False))
                    found += [value for to, value in pairs if isinstance(to, ast.Name) and to.id == node.id]
        return [text for value in found for text in texts(value, scope, depth + 1)]
    return []


def about(scope: ast.FunctionDef) -> str:
    """Find what a function does: its docstring's first line, else its name in words."""
    said = ast.get_docstring(scope)
    return said.splitlines()[0] if said else scope.name.strip("_").replace("_", " ").capitalize()


def findings() -> list[list[str]]:
    """List what the code finds in data: its name, what it leads to, the sentences and the remedies."""
    listed: dict[str, list[list[str]]] = {}
    for path in sorted(path for folder in FINDINGS for path in (ROOT / folder).rglob("*.py")):
        for scope in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(scope, ast.FunctionDef):
                continue
            for call in ast.walk(scope):
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Finding" and len(call.args) > 3:
                    level, what, sentence, remedy = (texts(part, scope) for part in call.args[:4])
                    for name in what:
                        row = listed.setdefault(name, [[], [], []])
                        row[0] += [LEVELS[word] for word in level if word in LEVELS]
                        row[1] += [*sentence] or [about(scope)]
                        row[2] += remedy
    return [
        [
            f"`{name}`" if name else "",
            *("<br>".join(escape(text) for text in dict.fromkeys(part) if text) for part in row),
        ]
        for name, row in sorted(listed.items())
    ]


def lint_findings() -> list[list[str]]:
    """List what the code finds in robot files: the check, and its sentences."""
    listed = []
    for scope in ast.parse((ROOT / "robots" / "lint.py").read_text("utf-8")).body:
        calls = [
            call
            for call in ast.walk(scope)
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Finding" and len(call.args) == 3
        ]
        if isinstance(scope, ast.FunctionDef) and calls:
            said = [text for call in calls for text in texts(call.args[2], scope)]
            levels = [LEVELS[word] for call in calls for word in texts(call.args[0], scope) if word in LEVELS]
            listed.append(
                [escape(about(scope)), ", ".join(dict.fromkeys(levels)), "<br>".join(map(escape, dict.fromkeys(said)))]
            )
    return listed


def findings_page() -> str:
    """Write the page of findings and refusals."""
    return (
        "# Findings and refusals\n\n"
        "`…` stands for a figure or a name. A refusal ends `excitor identify` with exit code 1 and this sentence; "
        "`--allow NAME`, or `allow` under `[identify]`, passes over it by its name, and the verdict keeps it as "
        "a doubt.\n\n"
        "## Of data\n\n"
        + table(["name", "what it leads to", "cause", "cure"], findings())
        + "\n## Of robot files\n\n`excitor robots FILE` shows them first; exit code 1 with an error.\n\n"
        + table(["check", "level", "what it says"], lint_findings())
    )


# ---- pages -----------------------------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """Write every page of the generated reference, by file name."""
    campaign = "Every table and key of `campaign.toml`, from the code. [Campaign](../campaign.md) explains them."
    robot = "Every table and key of a robot's TOML file, from the code. [Robot file](../robot-file.md) has examples."
    command = "Every verb with its options, from the code. [Command line](../command-line.md) has them at a glance."
    python = (
        "Every public name of `import excitor as ex`, in the order of a campaign. [Python](../python.md) has the chain."
    )
    return {
        "campaign-toml.md": file_page("campaign.toml", Campaign, campaign) + constraint_page(),
        "robot-toml.md": file_page("Robot file", Description, robot),
        "verbs.md": f"# Verbs\n\n{command}\n\n" + "\n".join(verb_page(*verb) for verb in verbs().items()),
        "api.md": f"# Public names\n\n{python}\n\n" + "\n".join(map(name_page, excitor.__all__)),
        "findings.md": findings_page(),
    }


def write() -> None:
    """Write the pages that have changed."""
    for name, text in pages().items():
        path = FOLDER / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


if __name__ == "__main__":
    write()
