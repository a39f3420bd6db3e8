"""Loads for controllers: every convention is undone by an independent hand, on random bodies."""

import re

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from excitor.experiments.export.load import WRITERS, Origin, check_known, load_file, load_of, numbers_of, principal
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import from_center_of_mass

NUMBER = r"-?\d+(?:\.\d+)?"


def body(seed, points=12, size=0.1):
    """Point masses: what no formula of ours has touched."""
    rng = np.random.default_rng(seed)
    masses = rng.uniform(0.1, 1.0, points)
    places = rng.normal(size=(points, 3)) * size * rng.uniform(0.2, 1.5, 3) + rng.uniform(-0.2, 0.2, 3)
    return masses, places


def moments_about(masses, places, origin):
    arms = places - origin
    return sum(m * (r @ r * np.eye(3) - np.outer(r, r)) for m, r in zip(masses, arms, strict=True))


def phi_of(masses, places):
    inertia = moments_about(masses, places, np.zeros(3))
    return np.array([*inertia[np.triu_indices(3)], *(masses @ places), masses.sum()])


def load(seed, covariance=None, T=None, name="payload", **given):
    masses, places = body(seed)
    return load_of(
        phi_of(masses, places), covariance, Origin(name, "of a test", "tool", np.eye(4) if T is None else T, **given)
    )


def declared(text, pattern):
    return np.array([float(x) for x in re.search(pattern.replace("#", f"({NUMBER})"), text).groups()])


def truth(seed, T=None):
    masses, places = body(seed)
    if T is not None:
        places = places @ T[:3, :3].T + T[:3, 3]
    center = masses @ places / masses.sum()
    return masses.sum(), center, moments_about(masses, places, center)


def tensor_of(axes, moments):
    return axes @ np.diag(moments) @ axes.T


def close(mass, center, inertia, true, step=2e-6):
    assert 0.0 <= mass - true[0] <= 1.1e-3
    assert np.abs(center - true[1]).max() <= 1.1e-5
    assert (np.abs(center) >= np.abs(true[1]) - 1e-9).all()
    np.testing.assert_allclose(inertia, true[2], atol=step)


@pytest.mark.parametrize("seed", range(25))
def test_kuka_angles_and_moments_give_the_tensor_again(seed):
    text = load_file(load(seed), "kuka").content.decode("ascii")
    m, x, y, z, a, b, c, jx, jy, jz = declared(
        text, r"DECL GLOBAL LOAD load_payload=\{M #,CM \{X #,Y #,Z #,A #,B #,C #\},J \{X #,Y #,Z #\}\}"
    )
    axes = Rotation.from_euler("ZYX", [a, b, c], degrees=True).as_matrix()  # upper case: about axes that turn along
    close(m, np.array([x, y, z]) / 1e3, tensor_of(axes, [jx, jy, jz]), truth(seed), 4e-6)


@pytest.mark.parametrize("seed", range(25))
def test_abb_quaternion_and_moments_give_the_tensor_again(seed):
    text = load_file(load(seed), "abb").content.decode("ascii")
    m, x, y, z, w, i, j, k, ix, iy, iz = declared(
        text, r"PERS loaddata load_payload:=\[#,\[#,#,#\],\[#,#,#,#\],#,#,#\];"
    )
    assert w * w + i * i + j * j + k * k == pytest.approx(1.0, abs=1e-7)
    axes = Rotation.from_quat([i, j, k, w]).as_matrix()
    close(m, np.array([x, y, z]) / 1e3, tensor_of(axes, [ix, iy, iz]), truth(seed))


@pytest.mark.parametrize("seed", range(10))
def test_ur_tensor_in_its_order(seed):
    text = load_file(load(seed), "ur").content.decode("ascii")
    m, x, y, z, xx, yy, zz, xy, xz, yz = declared(text, r"set_target_payload\(#, \[#, #, #\], \[#, #, #, #, #, #\]\)")
    close(m, np.array([x, y, z]), np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]), truth(seed))


@pytest.mark.parametrize("seed", range(10))
def test_fanuc_units(seed):
    text = load_file(load(seed), "fanuc").content.decode("ascii")
    rows = dict(re.findall(r"^(PAYLOAD(?: CENTER \w| INERTIA \w)?) +\[\S+\] +(\S+)$", text, re.MULTILINE))
    mass, center, inertia = truth(seed)
    assert float(rows["PAYLOAD"]) == pytest.approx(mass, abs=1.1e-3)
    for k, axis in enumerate("XYZ"):
        assert float(rows[f"PAYLOAD CENTER {axis}"]) == pytest.approx(100 * center[k], abs=1.1e-3)
        kgf_cm_s2 = float(rows[f"PAYLOAD INERTIA {axis}"])
        # 1 kgf is what weighs 9.80665 N; 1 kgf cm s2 turns 1 rad/s2 into 9.80665 N cm
        assert 0.0 <= kgf_cm_s2 * 9.80665 / 100 - inertia[k, k] <= 2e-5


def test_the_load_is_reported_in_the_flange_frame():
    T = np.eye(4)
    T[:3, :3] = Rotation.from_euler("xyz", [0.3, -0.4, 2.0]).as_matrix()
    T[:3, 3] = 0.1, -0.2, 0.3
    found = load(3, T=T)
    mass, center, inertia = truth(3, T)
    assert found.mass == pytest.approx(mass)
    np.testing.assert_allclose(found.center, center, atol=1e-12)
    np.testing.assert_allclose(found.inertia, inertia, atol=1e-12)


def test_deviations_are_those_of_many_draws():
    masses, places = body(1)
    phi = phi_of(masses, places)
    rng = np.random.default_rng(0)
    A = rng.normal(size=(10, 10)) * 1e-4 * np.abs(phi)[:, None]
    covariance = A @ A.T
    T = np.eye(4)
    T[:3, :3] = Rotation.from_euler("z", 0.7).as_matrix()
    T[:3, 3] = 0.0, 0.05, 0.1
    origin = Origin("payload", "of a test", "tool", T)
    found = load_of(phi, covariance, origin)
    draws = [load_of(phi + A @ rng.normal(size=10), None, origin) for _ in range(4000)]
    drawn = np.array([[x.mass, *x.center, *x.inertia[np.triu_indices(3)]] for x in draws])
    np.testing.assert_allclose(found.sigma, drawn.std(axis=0), rtol=0.06)  # 4000 draws: 1.1 % each
    moments = np.array([principal(x).moments for x in draws])
    np.testing.assert_allclose(principal(found).sigma, moments.std(axis=0), rtol=0.06)


def test_principal_axes_lie_near_the_flange_and_are_right_handed():
    for seed in range(20):
        found = principal(load(seed))
        assert np.linalg.det(found.axes) == pytest.approx(1.0)
        assert np.trace(np.abs(found.axes)) >= 3**0.5


def test_a_ball_keeps_the_flange_axes():
    ball = load_of(
        from_center_of_mass(2.0, np.array([0.0, 0.0, 0.1]), 0.004 * np.eye(3)),
        None,
        Origin("ball", "of a test", "tool", np.eye(4)),
    )
    assert "A 0.0000,B 0.0000,C 0.0000" in load_file(ball, "kuka").content.decode()
    assert "[1.00000000,0.00000000,0.00000000,0.00000000]" in load_file(ball, "abb").content.decode()


@pytest.mark.parametrize("pitch", [90.0, -90.0])
def test_kuka_angles_where_two_axes_fall_together(pitch):
    axes = Rotation.from_euler("ZYX", [25.0, pitch, 10.0], degrees=True).as_matrix()
    from excitor.experiments.export.load import kuka_angles

    again = Rotation.from_euler("ZYX", kuka_angles(axes), degrees=True).as_matrix()
    np.testing.assert_allclose(again, axes, atol=1e-9)


@pytest.mark.parametrize("turn", [[np.pi, 0, 0], [0, np.pi, 0], [0, 0, np.pi], [2.2, 2.2, 0], [0, 0, 0]])
def test_quaternions_of_half_turns(turn):
    from excitor.experiments.export.load import quaternion

    R = Rotation.from_rotvec(turn).as_matrix()
    w, *xyz = quaternion(R)
    assert w >= 0.0
    np.testing.assert_allclose(Rotation.from_quat([*xyz, w]).as_matrix(), R, atol=1e-12)


@pytest.mark.parametrize("seed", range(200))
def test_rounded_numbers_are_those_of_a_body(seed):
    """Also of flat and of thin ones, which lie on the edge of what can exist, and of coarsely known ones."""
    rng = np.random.default_rng(seed)
    masses = rng.uniform(0.01, 1.0, 4)
    places = rng.normal(size=(4, 3)) * np.array([0.1, 0.1, 0.0]) @ Rotation.random(rng=rng).as_matrix() + 0.05
    if seed % 3 == 0:
        places = np.outer(rng.normal(size=4), [0.05, 0.02, 0.1])
    sigma = 10.0 ** rng.uniform(-7, -3)
    covariance = None if seed % 2 else np.diag(np.full(10, sigma**2))
    found = load_of(phi_of(masses, places), covariance, Origin("x", "of a test", "tool", np.eye(4)))
    numbers = numbers_of(found)
    a, b, c = np.sort(numbers.moments)
    assert c <= a + b + 1e-12
    assert (numbers.moments >= principal(found).moments - 1e-9).all()
    values = np.linalg.eigvalsh(numbers.tensor)
    assert values[2] <= values[0] + values[1] + 1e-12
    assert numbers.mass >= found.mass - 1e-9


def test_no_finer_digits_than_are_known():
    covariance = np.diag(np.array([1e-3] * 6 + [2e-2] * 3 + [0.03]) ** 2)
    text = load_file(load(2, covariance), "kuka").content.decode()
    mass = re.search(r"\{M (\S+?),", text)[1]
    assert float(mass) * 1000 == pytest.approx(round(float(mass) * 1000))
    numbers = numbers_of(load(2, covariance))
    assert np.allclose(np.round(numbers.moments, 4), numbers.moments), "a tenth of 1e-3 is enough"
    assert np.allclose(np.round(numbers.center, 4), numbers.center), "and of 20 g m / 5.4 kg"
    assert "percent intervals" in text
    assert re.search(r"; mass \S+, from \S+ to \S+ kg", text)


def test_what_no_body_has_is_refused():
    masses, places = body(0)
    phi = phi_of(masses, places)
    phi[0] = 3.0 * (phi[3] + phi[5])
    with pytest.raises(ExcitorError, match="no body can have these data: its principal inertias are"):
        load_of(phi, None, Origin("payload", "of a test", "tool", np.eye(4)))
    point = load_of(phi, None, Origin("payload", "of a test", "tool", np.eye(4), point=True))
    assert not point.inertia.any()
    assert "J {X 0.000000,Y 0.000000,Z 0.000000}" in load_file(point, "kuka").content.decode()
    for mass in (0.0, -1.0):
        phi[9] = mass
        with pytest.raises(ExcitorError, match="so that it is no load"):
            load_of(phi, None, Origin("payload", "of a test", "tool", np.eye(4)))


@pytest.mark.parametrize(
    ("which", "sentence"),
    [
        (9, r"its mass is \S+ ± \S+ kg, which is not significant"),
        (slice(6, 9), "its centre of gravity is at .* m, which is not significant"),
        (slice(0, 6), "its principal inertias are .* not all of which are significant"),
    ],
)
def test_what_is_less_sure_than_it_is_large_is_refused(which, sentence):
    sigma = np.full(10, 1e-6)
    sigma[which] = 30.0
    with pytest.raises(ExcitorError, match=sentence):
        check_known(load(0, np.diag(sigma**2)))
    sigma[:6] = 1e-6
    check_known(load(0, np.diag(np.full(10, 1e-12))))
    if which == slice(0, 6):
        sigma[:6] = 30.0
        check_known(load(0, np.diag(sigma**2), point=True))


HOSTILE = ["", "1st", "a\nENDDAT\nb", 'x"; HALT', "ä ü €", "while", "load", "a" * 500, "../../etc", "\x1b[2J", "!;#{}"]


@pytest.mark.parametrize("controller", WRITERS)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_names(controller, name):
    plain = load_file(load(0), controller).content.decode("ascii")
    made = load_file(load(0, name=name), controller)
    text = made.content.decode("ascii")
    assert text.count("\n") == plain.count("\n")
    assert "\x1b" not in text
    assert re.fullmatch(r"[a-z0-9_]{1,40}\.(dat|mod|txt|script)", made.name)
    marks = {"kuka": ";", "abb": "!", "ur": "#"}
    if controller in marks:
        code = [line for line in text.splitlines() if not line.strip().startswith(marks[controller])]
        other = [line for line in plain.splitlines() if not line.strip().startswith(marks[controller])]
        assert [re.sub(r"(?i)(x?load|x)_[a-z0-9_]+", "N", line) for line in code] == [
            re.sub(r"(?i)(x?load|x)_[a-z0-9_]+", "N", line) for line in other
        ]


@pytest.mark.filterwarnings("ignore")  # its parser's library is newer than it is
def test_the_public_checker_accepts_the_module():
    checker = pytest.importorskip("rapidchecker.check")
    config = pytest.importorskip("rapidchecker.config").CONFIG
    config.indentation_check = False
    text = load_file(load(0), "abb").content.decode("ascii")
    assert not checker.check_format(text)
    assert checker.check_format(text.replace("];", "]", 1))


def test_a_load_too_large_for_the_script_is_refused():
    phi = from_center_of_mass(500.0, np.array([0.0, 0.0, 1.0]), 150.0 * np.eye(3))
    heavy = load_of(phi, None, Origin("payload", "of a test", "tool", np.eye(4)))
    with pytest.raises(ExcitorError, match="more than the 133 that set_target_payload takes"):
        load_file(heavy, "ur")
    assert b"150.000000" in load_file(heavy, "kuka").content
