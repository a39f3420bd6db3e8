"""MATLAB files of averaged runs: what is read, and what is refused in a sentence."""

import struct
from contextlib import suppress

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from excitor.identify.logs.matlab import Fields, read_arrays, read_matlab_means
from excitor.robots.errors import InvalidLog

MEAN = Fields("q.average", "dq.average", "ddq.average", "tau.average", "time", "tau.variance")
PLAIN = Fields("deg_q", "deg_dq", "deg_ddq", "tau", "time")
N, JOINTS, DT = 12, 3, 0.01


@pytest.fixture
def content():
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=(N, JOINTS)) for name in ("q", "dq", "ddq", "tau")}
    means = {name: {"average": array, "variance": np.full((N, JOINTS), 0.5)} for name, array in arrays.items()}
    return {**means, "time": DT * np.arange(1, N + 1)}


@pytest.fixture
def written(tmp_path):
    def write(content, name="run.mat"):
        savemat(tmp_path / name, content)
        return tmp_path / name

    return write


def test_means_with_their_variances(content, written):
    samples = read_matlab_means(written(content), MEAN)
    np.testing.assert_array_equal(samples.motion.q, content["q"]["average"])
    np.testing.assert_array_equal(samples.tau, content["tau"]["average"])
    np.testing.assert_array_equal(samples.variance, content["tau"]["variance"])
    assert samples.sample_rate_hz == pytest.approx(100.0)
    assert samples.run == "run"
    assert samples.steps[0].settings["q"] == "q.average"


def test_degrees_become_radians_and_torques_stay(written):
    table = np.full((N, JOINTS), 90.0)
    path = written({"deg_q": table, "deg_dq": table, "deg_ddq": table, "tau": table, "time": DT * np.arange(N)})
    samples = read_matlab_means(path, PLAIN, run="named")
    assert samples.motion.q[0, 0] == samples.motion.dq[0, 0] == samples.motion.ddq[0, 0] == np.pi / 2
    assert samples.tau[0, 0] == 90.0
    assert samples.variance is None
    assert samples.run == "named"


def test_degrees_inside_a_struct(content, written):
    content["deg_q"] = {"average": np.full((N, JOINTS), 180.0)}
    assert read_arrays(written(content), {"q": "deg_q.average"})["q"][0, 0] == np.pi


def test_whole_numbers_are_numbers(content, written):
    content["tau"]["average"] = np.ones((N, JOINTS), dtype=np.int16)
    assert read_matlab_means(written(content), MEAN).tau.dtype == np.float64


def without(content, name):
    del content[name]


def put(name, member, row, column, value):
    def change(content):
        content[name][member][row, column] = value

    return change


def replaced(name, value):
    def change(content):
        content[name] = value

    return change


def member(name, part, value):
    def change(content):
        content[name][part] = value

    return change


def time(change):
    def apply(content):
        content["time"] = change(content["time"].copy())

    return apply


def later(t, k, by):
    t[k:] += by
    return t


@pytest.mark.parametrize(
    ("damage", "words", "row"),
    [
        (lambda c: without(c, "dq"), r"has no field dq; it holds ddq, q, tau, time", None),
        (replaced("q", np.zeros((N, JOINTS))), "q has no member average; it is a table of numbers", None),
        (lambda c: without(c["tau"], "variance"), "tau has no member variance; it holds average", None),
        (put("q", "average", 4, 1, np.nan), "q.average is nan in column 2", 5),
        (put("tau", "average", 0, 0, np.inf), "tau.average is inf in column 1", 1),
        (put("tau", "variance", 7, 2, 0.0), r"tau.variance is 0 in column 3, expected > 0", 8),
        (put("tau", "variance", 7, 2, -1.0), "tau.variance is -1", 8),
        (member("dq", "average", np.zeros((N, 2))), r"dq.average has shape \(12, 2\), expected \(12, 3\)", None),
        (member("dq", "average", np.zeros((N - 1, JOINTS))), r"has shape \(11, 3\)", None),
        (member("q", "average", "text"), "q.average is text, expected a table", None),
        (member("q", "average", np.zeros((N, JOINTS)) + 1j), "q.average is an array of complex numbers", None),
        (member("q", "average", np.zeros((0, 0))), r"q.average has shape \(0, 0\), expected a table", None),
        (member("q", "average", np.zeros((N, JOINTS, 2))), r"q.average has shape \(12, 3, 2\)", None),
        (member("q", "average", {"more": 1.0}), "q.average is a struct; name a member: q.average.more", None),
        (time(lambda t: t[:-1]), "time has 11 times for 12 samples", None),
        (time(lambda t: t[::-1]), "time does not increase", 2),
        (time(lambda t: later(t, 6, 0.5)), "time goes from 0.06 s to 0.57 s, expected steps of 0.01 s", 7),
        (time(lambda t: later(t, 6, -0.01)), "expected steps of 0.01 s", 7),
        (time(lambda t: later(t, 3, -0.1)), "expected steps of 0.01 s", 4),
    ],
)
def test_bad_content_is_reported_with_its_row(content, written, damage, words, row):
    damage(content)
    path = written(content)
    with pytest.raises(InvalidLog, match=words) as caught:
        read_matlab_means(path, MEAN)
    assert caught.value.path == str(path)
    assert caught.value.row == row
    assert str(path) in str(caught.value)
    assert row is None or f"row {row}:" in str(caught.value)


def test_too_short(content, written):
    short = {name: {m: a[:2] for m, a in content[name].items()} for name in ("q", "dq", "ddq", "tau")}
    with pytest.raises(InvalidLog, match="holds 2 samples"):
        read_matlab_means(written({**short, "time": content["time"][:2]}), MEAN)


def test_struct_array_is_not_one_struct(content, written):
    content["q"] = np.zeros((2, 1), dtype=[("average", "O")])
    with pytest.raises(InvalidLog, match="q has no member average"):
        read_matlab_means(written(content), MEAN)


def test_missing_file(tmp_path):
    with pytest.raises(InvalidLog, match="does not exist"):
        read_matlab_means(tmp_path / "none.mat", MEAN)


@pytest.mark.parametrize("other", [b"", b"not a mat file", b"q;dq;tau\n1,5;2;3\n" * 50, b"\x80\x04\x95" + b"\0" * 200])
def test_other_files(tmp_path, other):
    path = tmp_path / "run.mat"
    path.write_bytes(other)
    with pytest.raises(InvalidLog, match="is not a MATLAB file"):
        read_matlab_means(path, MEAN)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(InvalidLog, match="is a folder, expected a file"):
        read_matlab_means(tmp_path, MEAN)


def test_a_newer_format_is_named(tmp_path):
    header = b"MATLAB 7.3 MAT-file".ljust(124, b" ") + b"\x00\x02" + b"IM"
    path = tmp_path / "run.mat"
    path.write_bytes(header + b"\x89HDF\r\n\x1a\n".ljust(512, b"\0"))
    with pytest.raises(InvalidLog, match="save it with -v7"):
        read_matlab_means(path, MEAN)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_file_cut_anywhere_is_a_sentence(content, tmp_path, compressed):
    """Every cut is refused; none ends in a traceback, none in samples."""
    path = tmp_path / "cut.mat"
    savemat(path, content, do_compression=compressed)
    whole = path.read_bytes()
    for size in range(0, len(whole) - 8, 61):  # what is padded at the end may be missing
        path.write_bytes(whole[:size])
        with pytest.raises(InvalidLog, match=r"cut\.mat"):
            read_matlab_means(path, MEAN)


@pytest.mark.parametrize("compressed", [False, True])
def test_flipped_bytes_never_end_in_a_traceback(content, tmp_path, compressed):
    """Nor in the end of the process: scipy's reader crashes now and then, and is started again."""
    path = tmp_path / "flipped.mat"
    savemat(path, content, do_compression=compressed)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(100):
        flipped = bytearray(whole)
        flipped[int(rng.integers(len(whole)))] ^= int(rng.integers(1, 256))
        path.write_bytes(flipped)
        with suppress(InvalidLog):
            read_matlab_means(path, MEAN)


@pytest.mark.parametrize("inside", [False, True])
def test_a_small_file_cannot_ask_for_all_memory(tmp_path, inside):
    path, zeros = tmp_path / "bomb.mat", np.zeros((20_000_000, 1), np.int8)
    savemat(path, {"q": {"mean": zeros} if inside else zeros}, do_compression=True)
    assert path.stat().st_size < 30_000
    with pytest.raises(InvalidLog, match="larger than a log can be"):
        read_arrays(path, {"q": "q"})


def test_structs_in_structs_have_a_bottom(written):
    nest = {"x": 1.0}
    for _ in range(10):
        nest = {"x": nest}
    with pytest.raises(InvalidLog, match="nested more than 8 deep"):
        read_arrays(written({"nest": nest}), {"q": "nest.x"})


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    "value",
    [np.arange(6.0).reshape(2, 3), np.float32([[1.5]]), np.int8([[-3, 4]]), np.uint64([[7], [8]]), np.array([[True]])],
)
def test_numbers_of_every_class_as_scipy_reads_them(tmp_path, value, compressed):
    path = tmp_path / "x.mat"
    savemat(path, {"x": value, "other": "text", "more": [1, "two"]}, do_compression=compressed)
    np.testing.assert_array_equal(read_arrays(path, {"x": "x"})["x"], loadmat(path)["x"])


def element(kind, data):
    return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)


def test_text_of_sixteen_bits_is_left_out(written):
    """As MATLAB writes it: letters beyond ASCII do not keep the numbers from being read."""
    path = written({"x": np.arange(3.0)})
    letters = "Pr\u00fcfstand".encode("utf-16-le")
    body = element(6, struct.pack("<II", 4, 0)) + element(5, struct.pack("<ii", 1, 9)) + element(1, b"bench")
    path.write_bytes(path.read_bytes() + element(14, body + element(4, letters)))
    np.testing.assert_array_equal(read_arrays(path, {"x": "x"})["x"], [[0.0, 1.0, 2.0]])
    with pytest.raises(InvalidLog, match="bench is text"):
        read_arrays(path, {"bench": "bench"})


def test_the_other_byte_order(tmp_path):
    """Written by hand: scipy writes only its machine's order."""
    body = struct.pack(">IIIIIIii", 6, 8, 6, 0, 5, 8, 1, 2) + struct.pack(">HH4s", 1, 1, b"x")
    body += struct.pack(">IIdd", 9, 16, 1.5, -2.0)
    path = tmp_path / "big.mat"
    path.write_bytes(
        b"MATLAB 5.0".ljust(124) + struct.pack(">H", 0x0100) + b"MI" + struct.pack(">II", 14, len(body)) + body
    )
    np.testing.assert_array_equal(read_arrays(path, {"x": "x"})["x"], [[1.5, -2.0]])
