"""Mutated packets go through each whole client: none raises, none moves outside of the run, every log is readable."""

import pytest

from tests.packets import NAMES, escapes, recorder_escapes


@pytest.mark.parametrize("name", NAMES)
def test_mutated_packets_neither_raise_nor_move(tmp_path, name):
    assert list(escapes(name, 300, tmp_path)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_many_mutated_packets_neither_raise_nor_move(tmp_path, name):
    assert list(escapes(name, 10_000, tmp_path, seed=1)) == []


def test_mutated_rows_do_not_end_the_recorder_in_a_traceback(tmp_path):
    assert list(recorder_escapes(500, tmp_path)) == []
