"""The measures of the code that tests and the benchmark share, on made-up modules."""

from pathlib import Path

import pytest

from benchmarks import house
from benchmarks.house import Module, find_cycles, import_graph, long_functions, single_importers, wide_functions


def module(path, text):
    return Module("excitor." + path.removesuffix(".py").replace("/", "."), Path(path), text)


def test_cycles_are_found_whole_and_lazy_imports_count():
    modules = [
        module("robots/a.py", "from excitor.robots import b\n"),
        module("robots/b.py", "def f():\n    from excitor.robots.c import x\n"),
        module("robots/c.py", "import excitor.robots.a\n"),
        module("robots/d.py", "from excitor.robots.a import y\n"),
    ]
    assert find_cycles(import_graph(modules)) == [{"excitor.robots.a", "excitor.robots.b", "excitor.robots.c"}]
    assert single_importers(modules) == ["excitor.robots.b", "excitor.robots.c"]


def test_two_cycles_that_touch_by_one_edge_stay_apart():
    assert find_cycles({"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"c"}, "e": set()}) == [{"c", "d"}, {"a", "b"}]


def test_code_lines_leave_out_docstrings_blank_lines_and_comments():
    body = "".join(f"    x = {k}\n\n    # why\n" for k in range(40))
    text = f'def f():\n    """About.\n\n    More.\n    """\n{body}'
    assert not long_functions([module("design/a.py", text)])
    assert long_functions([module("design/a.py", f"{text}    return x\n")]) == {"design/a.py:f": 41}
    assert not long_functions([module("robots/kernel/a.py", f"{text}    return x\n")])
    assert not long_functions([module("design/a.py", f"@inner\n{text}    return x\n")])


def test_parameters_are_counted_with_keywords_and_without_self():
    text = "class A:\n    def f(self, a, b, c, /, d, *, e, f{}): ...\n"
    assert not wide_functions([module("design/a.py", text.format(""))])
    assert wide_functions([module("design/a.py", text.format(", g"))]) == {"design/a.py:A.f": 7}
    assert not wide_functions([module("experiments/verbs/a.py", text.format(", g"))])


def test_prefix_families_and_repeated_names():
    modules = [module(f"design/{name}.py", "") for name in ("slow", "slow_run", "slow_pose", "a/x", "b/x", "fast")]
    assert house.prefix_families(modules) == ["design/slow_*"]
    assert not house.prefix_families(modules[:2])
    assert house.repeated_names(modules, ()) == ["design/x.py"]
    assert not house.repeated_names(modules, ("design/a",))


def test_places_are_those_of_the_member_that_is_named_least(monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("The terms are `dry` and viscous.")
    monkeypatch.setattr(house, "documentation", lambda: [page])
    modules = [
        module("robots/friction.py", '"""About viscous and dry."""\nMODELS = ("viscous", "dry-slip", "dry")\n'),
        module("robots/kernel/drive.py", "if model == DRY_SLIP or model == DRY or model == VISCOUS: pass\n"),
        module("robots/lint.py", 'FREE = {"viscous", "dry"}\n'),
        module("experiments/virtual/robot.py", 'ADDED = "dry-slip"\n'),
    ]
    assert house.count_places(modules, ["viscous", "dry", "dry-slip"]) == 2
    assert house.count_places(modules, ["viscous"]) == 3
    assert house.count_places(modules, ["dry"]) == 4


@pytest.mark.parametrize("members", house.registries().values(), ids=house.registries())
def test_registries_are_not_empty(members):
    assert len(members) == len(set(members)) >= 2
