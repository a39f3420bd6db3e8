"""The documentation: its reference holds every key, verb, option, name and finding; its commands are valid."""

import ast
import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
import typer

import excitor
from excitor.experiments.campaign import Campaign
from excitor.experiments.cli import app
from excitor.robots.files.schema import Description

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if page.parent.name != "reference" or page.name == "index.md"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@cache
def generator():
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference():
    return generator().pages()


def blocks(*languages):
    return [
        pytest.param(text, id=f"{page.relative_to(ROOT)}:{page.read_text('utf-8')[: match.start()].count(chr(10)) + 1}")
        for page in PAGES
        for match in BLOCK.finditer(page.read_text("utf-8"))
        for language, text in [match.groups()]
        if language in languages
    ]


def sections_of(page):
    return dict(re.findall(r"^## `(?:excitor )?(\w+)`\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))


@cache
def verbs():
    return typer.main.get_command(app).commands


@cache
def keys_of(model):
    schema = model.model_json_schema()
    tables = [schema, *schema.get("$defs", {}).values()]
    return {key for table in tables for key in table.get("properties", {})}


@pytest.mark.parametrize(("model", "page"), [(Campaign, "campaign-toml.md"), (Description, "robot-toml.md")])
def test_every_key_stands_in_the_reference_with_a_meaning(model, page, reference):
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", reference[page].replace("\\|", "/"), re.MULTILINE)
    assert keys_of(model) <= {key for key, _ in rows}
    mute = [key for key, meaning in rows if not meaning.strip()]
    assert not mute, f"{page}: {mute} have no meaning; write a comment behind the field in the code"


def test_every_verb_and_option_stands_in_the_reference_with_its_help(reference):
    sections = dict(
        re.findall(r"^## `excitor (\w+)`\n(.*?)(?=^## |\Z)", reference["verbs.md"], re.DOTALL | re.MULTILINE)
    )
    commands = verbs()
    assert set(sections) == set(commands)
    for verb, command in commands.items():
        assert f"excitor {verb}" in sections[verb], f"excitor {verb} has no example"
        for option in command.params:
            assert option.help, f"excitor {verb}: {option.name} has no help"
            if option.param_type_name == "option":
                assert all(f"`{word}`" in sections[verb] for word in option.opts), f"excitor {verb}: {option.opts}"


def test_every_public_name_stands_in_the_reference_with_its_docstring(reference):
    sections = sections_of(reference["api.md"])
    assert list(sections) == excitor.__all__
    for name, text in sections.items():
        said = re.sub(r"```.*?```", "", text, flags=re.DOTALL).strip()
        assert len(said) > 10, f"excitor.{name} has no docstring"


def test_every_finding_stands_in_the_reference_with_its_cause(reference):
    rows = {}
    for row in reference["findings.md"].splitlines():
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        if len(cells) == 4 and cells[0].startswith("`"):
            rows[cells[0].strip("`")] = cells
    named = re.compile(r'Finding\(\s*"?[^",]*"?[^",()]*,\s*"([\w ]+)"')
    sources = [path.read_text("utf-8") for room in ("identify", "experiments") for path in (ROOT / room).rglob("*.py")]
    found = {name for text in sources for name in named.findall(text)}
    assert len(found) >= 20
    assert found <= set(rows)
    assert all(cells[2] for cells in rows.values())


def commands_of(text):
    for line in text.replace("\\\n", " ").splitlines():
        line = line.strip()
        found = re.match(r"(?:\$ )?(?:\S*/)?excitor( .*|$)", line)
        if found:
            yield re.split(r"\s{2,}| && |  ?# ", found[1].strip())[0]


def check_command(line):
    commands = verbs()
    verb, *words = [word for word in shlex.split(line) if word not in ("…", "...")]
    if verb in ("--version", "--help", "-h", "--install-completion"):
        return
    assert verb in commands, f"excitor has no verb {verb!r}"
    options = {word: item for item in commands[verb].params for word in item.opts if item.param_type_name == "option"}
    arguments = [item for item in commands[verb].params if item.param_type_name == "argument"]
    choices, n = generator().choices_of(verb), 0
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            n += 1
            continue
        word, _, value = word.partition("=")
        assert word in options or word == "--help", f"excitor {verb} has no option {word}"
        if word in options and not getattr(options[word], "is_flag", False):
            assert value or words, f"excitor {verb} {word} needs a value"
            value = value or words.pop(0)
            allowed = choices.get(options[word].name, ())
            assert not allowed or value in allowed or value.isupper(), (
                f"excitor {verb} {word}: {value!r}, expected {allowed}"
            )
    most = None if any(item.nargs == -1 for item in arguments) else len(arguments)
    assert most is None or n <= most, f"excitor {verb} takes {most} arguments"
    assert n >= sum(item.required for item in arguments), f"excitor {verb}: an argument is missing in {line!r}"


def test_a_wrong_command_is_seen():
    for line in (
        "desing my-cell",
        "design my-cell --speed 3",
        "robots tx40 --export fortran",
        "design",
        "status a b c",
    ):
        with pytest.raises(AssertionError):
            check_command(line)


@pytest.mark.parametrize("text", blocks("", "bash", "console", "sh"))
def test_commands_of_the_documentation_are_valid(text):
    for line in commands_of(text):
        check_command(line)


def test_commands_in_sentences_are_valid():
    for page in PAGES:
        text = BLOCK.sub("", page.read_text("utf-8"))
        for line in re.findall(r"`excitor ([^`]+)`", text):
            verb, *words = line.split()
            if not verb.isupper():
                command = verbs().get(verb)
                assert command, f"{page.relative_to(ROOT)}: excitor has no verb {verb!r}"
                known = {word for item in command.params for word in item.opts} | {"--help"}
                assert {word for word in words if word.startswith("--")} <= known, f"{page.relative_to(ROOT)}: {line}"


@pytest.mark.parametrize("text", blocks("toml"))
def test_toml_of_the_documentation_has_valid_keys(text):
    known = keys_of(Campaign) | keys_of(Description)
    assert set(tomllib.loads(text)) <= known | {"base", "preset", "mass", "residual"}


@pytest.mark.parametrize("text", blocks("python"))
def test_python_of_the_documentation_uses_public_names(text):
    tree = ast.parse(text)
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ex"
    }
    assert used <= set(excitor.__all__)


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path):
    pytest.importorskip("sphinx", reason="needs pip install -e .[docs]")
    pytest.importorskip("furo", reason="needs pip install -e .[docs]")
    call = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", str(tmp_path)]
    built = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    assert "base_frequency_hz" in (tmp_path / "reference" / "campaign-toml.html").read_text("utf-8")
