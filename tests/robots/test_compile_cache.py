"""Where compiled code is kept: numba runs what it finds, so nobody else may write there."""

import operator
import os
import stat
import tempfile
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import types
from numba.core.errors import TypingError
from numba.core.types.functions import BaseFunction

from excitor.robots.kernel import compile as kernel


@pytest.fixture
def bases(monkeypatch, tmp_path):
    """Two candidates, tried in this order, and a temporary folder for the rest."""
    found = [tmp_path / "first", tmp_path / "second"]
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    monkeypatch.setattr(kernel, "_cache_bases", lambda here: iter(found))
    return found


def chosen():
    return Path(kernel._cache_folder.__wrapped__())


def mode(folder):
    return stat.S_IMODE(folder.stat().st_mode)


def test_the_folder_is_made_for_this_user_alone_and_found_again(bases):
    before = os.umask(0)
    try:
        folder = chosen()
    finally:
        os.umask(before)
    assert folder.parent == bases[0].resolve()
    assert mode(folder) == 0o700
    assert mode(bases[0]) == 0o700
    (folder / "code.nbi").touch()
    assert chosen() == folder


@pytest.mark.parametrize("bits", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_is_passed_over(bases, bits):
    made = chosen()
    made.chmod(bits)
    assert chosen().parent == bases[1].resolve()
    made.chmod(0o755)
    assert chosen() == made


@pytest.mark.parametrize("bits", [0o775, 0o757])
def test_a_folder_that_others_may_rename_is_passed_over(bases, bits):
    made = chosen()
    bases[0].chmod(bits)
    assert chosen().parent == bases[1].resolve()
    bases[0].chmod(bits | stat.S_ISVTX)
    assert chosen() == made


def test_a_link_to_elsewhere_is_passed_over(bases, tmp_path):
    made = chosen()
    made.rmdir()
    (tmp_path / "elsewhere").mkdir()
    made.symlink_to(tmp_path / "elsewhere")
    assert chosen().parent == bases[1].resolve()


@pytest.mark.parametrize("whose", ["folder", "base"])
def test_what_another_user_made_is_passed_over(bases, monkeypatch, whose):
    made = chosen()
    theirs = {"folder": made, "base": bases[0].resolve()}[whose]
    real = os.lstat

    def lstat(path, **given):
        found = real(path, **given)
        if Path(path) != theirs:
            return found
        return os.stat_result([*found[:4], os.geteuid() + 1, *found[5:10]])

    monkeypatch.setattr(os, "lstat", lstat)
    monkeypatch.setattr(Path, "lstat", lambda path: lstat(path))
    assert chosen().parent == bases[1].resolve()


def test_where_no_folder_is_safe_a_new_one_is_made(bases, tmp_path):
    for base in bases:
        base.mkdir()
        base.chmod(0o777)
    first, second = chosen(), chosen()
    assert first.parent == second.parent == tmp_path / "temp"
    assert first != second
    assert mode(first) == 0o700


def test_the_users_own_choice_and_the_shared_temporary_folder_are_looked_at_as_well(monkeypatch, tmp_path):
    """Without a home and with an installation of somebody else, folders with predictable names are left."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    monkeypatch.setenv("HOME", "/proc/nobody")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bases = list(kernel._cache_bases(Path("/proc/installed")))
    assert bases[0] == tmp_path / "numba"
    assert bases[-1] == tmp_path / f"excitor-{os.geteuid()}"
    monkeypatch.setattr(kernel, "_cache_bases", lambda here: iter(bases))
    assert chosen().parent == tmp_path.resolve() / "numba"
    for shared in (bases[0], bases[-1]):
        shared.mkdir(exist_ok=True)
        shared.chmod(0o777)
    assert chosen().parent == tmp_path
    assert chosen().name.removeprefix("excitor-") != str(os.geteuid())


def test_without_user_numbers_the_shared_temporary_folder_is_no_candidate(monkeypatch, bases):
    monkeypatch.delattr(os, "geteuid")
    monkeypatch.delattr(os, "getuid")
    assert chosen().parent == bases[0].resolve()
    monkeypatch.undo()
    named = [base.name for base in kernel._cache_bases(Path("/installed"))]
    monkeypatch.delattr(os, "geteuid")
    monkeypatch.delattr(os, "getuid")
    without = [base.name for base in kernel._cache_bases(Path("/installed"))]
    assert without == named[:-1]


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    """Compile anew, whatever an earlier run has left."""
    monkeypatch.setattr(kernel, "_cache_folder", lambda: str(tmp_path))


@pytest.mark.skipif(numba.version_info.short > kernel._TRIED, reason="numba is later than any that was tried")
def test_functions_for_compiled_callers_get_no_machine_code_but_are_cached_for_them(empty_cache):
    @kernel.inner
    def half(x):
        return 0.5 * x

    @kernel.compiled
    def quarter(x):
        return half(half(x))

    assert quarter(8.0) == 2.0
    (made,) = half.overloads.values()
    assert made.library.get_pointer_to_function(made.fndesc.llvm_func_name) == 0
    assert made.library.serialize_using_object_code()[1] == "bitcode"


@pytest.mark.skipif(numba.version_info.short > kernel._TRIED, reason="numba is later than any that was tried")
def test_an_operators_signature_is_found_once_and_numba_is_left_as_it_was(monkeypatch, empty_cache):
    from excitor.robots.kernel import contained

    asked, find = [], contained._find_signature

    def count(function, context, args, kws):
        asked.append((function.typing_key, tuple(args), tuple(kws)))
        return find(function, context, args, kws)

    monkeypatch.setattr(contained, "_find_signature", count)
    monkeypatch.setattr(contained, "_SIGNATURES", {})
    before = BaseFunction.get_call_type

    @kernel.inner
    def bounded(x):
        return max(x * x + x * x, x + x)

    @kernel.compiled
    def both(x, y):
        return bounded(x) * bounded(y) + (x + y) + np.zeros(3, dtype=np.float32)[0]

    assert both(1.0, 3.0) == 2.0 * 18.0 + 4.0
    assert both(1, 3) == 2 * 18 + 4
    assert BaseFunction.get_call_type is before
    assert len([entry for entry in asked if entry[:2] == (operator.add, (types.float64, types.float64))]) == 1
    assert len([entry for entry in asked if entry[0] is max and entry[1] == (types.float64, types.float64)]) > 1
    with pytest.raises(TypingError):
        kernel.compiled(lambda x: x + "1")(1.0)
    assert BaseFunction.get_call_type is before
