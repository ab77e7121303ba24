"""One suite for every measure: what it answers about G(z) = ∫ e^{<z,y>} dmu(y), and how it turns.

Floating-point errors of any kind are raised: nothing here may divide by zero, over- or underflow.
"""

import copy
import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meanfield as mf
from meanfield.measures import SphereFlowMap
from tests.handmade import slow, unit_points
from tests.measures.every import BUILT, EPS, MEASURES, bumps, rounding

seeds = st.integers(0, 2**32 - 1)
radii = st.floats(-3.0, 1.3).map(lambda x: 10.0**x)
every_measure = pytest.mark.parametrize("mu", BUILT.values(), ids=BUILT.keys())


def slow_beyond_s2(names):
    return [slow(name) if name.endswith("0") else name for name in names]


# a mesh of patches does not turn with the measure: it has a test of its own, at its tolerance
TURNED = [name for name in BUILT if name not in {"one token", "flow on S2"}]


@pytest.fixture(autouse=True)
def _raise_floating_point_errors():
    with np.errstate(all="raise"):
        yield


def rotation(dim, seed):
    """An orthogonal matrix of determinant 1."""
    q, r = np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))
    q = q * np.sign(np.diag(r))
    if np.linalg.det(q) < 0:
        q[:, 0] = -q[:, 0]
    return q


@every_measure
def test_mass(mu):
    assert mu.mass() == pytest.approx(1, abs=8 * EPS)


@every_measure
def test_points_and_weights_integrate(mu):
    """∫ <x, a> dmu for a along the axis, if there is one, for which all points count alike."""
    assert len(mu) == len(mu.points) == len(mu.weights)
    assert mu.points.shape == (len(mu), mu.dim)
    assert mu.weights.sum() == pytest.approx(1, abs=1e-12)
    along = np.eye(mu.dim) if mu.axis is None else mu.axis[None]
    # nodes of a mesh and of a line are laid to a tolerance in mass
    tolerance = 1e-7 if np.ndim(getattr(mu, "log_density", None)) else 1e-12
    assert along @ (mu.weights @ mu.points) == pytest.approx(along @ mu.mean(), abs=tolerance)


@every_measure
@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda mu: pickle.loads(pickle.dumps(mu))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_copies_answer_alike(mu, copied):
    again, z = copied(mu), unit_points(mu.dim, 5, 3)
    assert type(again) is type(mu)
    assert repr(again) == repr(mu)
    assert again.run_limits == mu.run_limits
    for copied_part, part in zip(again.log_moment(z), mu.log_moment(z), strict=True):
        assert np.array_equal(copied_part, part)


@every_measure
def test_moment_at_zero(mu):
    """G(0) = 1 and ∇G(0) = ∫ x dmu."""
    g, gradient = mu.moment(np.zeros((2, mu.dim)))
    assert g == pytest.approx([1, 1], abs=rounding(0))
    mean = mu.mean()
    assert mean.shape == (mu.dim,)
    assert 0.01 < np.linalg.norm(mean) <= 1 + 4 * EPS
    assert np.max(np.abs(gradient - mean)) < rounding(0)


@every_measure
@given(seeds, radii)
def test_log_moment_is_convex_and_bounded(mu, seed, radius):
    """|∇ log G| <= 1 and <z, mean> <= log G(z) <= |z| (Jensen), and the slope is ∇ log G.

    So log G(b) >= log G(a) + <∇ log G(a), b - a>, and `moment` is the exponential of it all.
    """
    z = radius * unit_points(mu.dim, 4, seed)
    log_g, mean = mu.log_moment(z)
    assert np.all(np.linalg.norm(mean, axis=1) <= 1 + rounding(0))
    assert np.all(log_g <= radius + rounding(radius))
    assert np.all(log_g >= z @ mu.mean() - rounding(radius))
    assert log_g[1] >= log_g[0] + mean[0] @ (z[1] - z[0]) - 2 * rounding(radius)
    g, gradient = mu.moment(z)
    assert log_g.shape == g.shape == (4,)
    assert mean.shape == gradient.shape == (4, mu.dim)
    assert np.allclose(g, np.exp(log_g), rtol=4 * EPS, atol=0)
    assert np.allclose(gradient, np.exp(log_g)[:, None] * mean, rtol=4 * EPS, atol=0)


@pytest.mark.parametrize("name", slow_beyond_s2(BUILT))
@given(seeds, radii)
def test_gradient_against_differences(name, seed, radius):
    """∇ log G by central differences along every axis."""
    mu = BUILT[name]
    z = radius * unit_points(mu.dim, 1, seed)
    h = 3e-3
    steps = h * np.concatenate([np.eye(mu.dim), -np.eye(mu.dim)])
    steps = np.concatenate([steps, 2 * steps])
    up, down, up_twice, down_twice = mu.log_moment(z + steps)[0].reshape(4, mu.dim)
    slope = (8 * (up - down) - (up_twice - down_twice)) / (12 * h)
    mean = mu.log_moment(z)[1][0]
    # h⁴/30 times a fifth cumulant of a variable in [-1, 1], at most 16; and rounding over h
    assert np.max(np.abs(slope - mean)) < 16 * h**4 / 30 + 2 * rounding(radius) / h


@every_measure
def test_rows_do_not_see_each_other(mu):
    """Of very different length, too: each row's answer is its own."""
    z = unit_points(mu.dim, 4, 3) * np.array([[1e-3], [1.0], [5.0], [60.0]])
    log_g, mean = mu.log_moment(z)
    for i in range(4):
        log_h, alone = mu.log_moment(z[i : i + 1])
        # the longest row may ask for a finer grid
        assert abs(log_g[i] - log_h[0]) < rounding(60)
        assert np.max(np.abs(mean[i] - alone[0])) < rounding(60)


@pytest.mark.parametrize("name", slow_beyond_s2(TURNED))
@given(seeds, radii)
def test_turning_the_measure_turns_the_answer(name, seed, radius):
    """G_{Rmu}(Rz) = G_mu(z), ∇G_{Rmu}(Rz) = R ∇G_mu(z)."""
    mu = BUILT[name]
    turn = rotation(mu.dim, [seed, 1])
    turned = MEASURES[name](turn)
    z = radius * unit_points(mu.dim, 3, seed)
    log_g, mean = mu.log_moment(z)
    log_h, other = turned.log_moment(z @ turn.T)
    # R itself is orthogonal to some d roundings
    tolerance = 2 * rounding(radius) + 4 * mu.dim * EPS * (1 + radius)
    assert np.max(np.abs(log_g - log_h)) < tolerance
    assert np.max(np.abs(other - mean @ turn.T)) < tolerance
    assert np.max(np.abs(turned.mean() - turn @ mu.mean())) < tolerance
    # a turn that does nothing would prove nothing
    assert np.max(np.abs(turned.mean() - mu.mean())) > 1e-6


@every_measure
def test_arrays_cannot_be_written(mu):
    nodes = isinstance(mu, mf.Particles | mf.FlowMap)
    arrays = [mu.points, mu.weights] if nodes else [mu.values, mu.coefficients]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.5


@every_measure
def test_repr_is_short(mu):
    assert len(repr(mu)) < 80
    name = "FlowMap" if isinstance(mu, mf.FlowMap) else type(mu).__name__
    assert name in repr(mu)


@pytest.mark.parametrize("name", [name for name in BUILT if name.startswith(("flow", "circle"))])
def test_entropy_is_that_of_the_law(name):
    mu = BUILT[name]
    law = bumps(mu.dim) if mu.axis is None else bumps(mu.dim, axis=mu.axis)
    grid = mf.Density(mf.Circle(256), law) if mu.dim == 2 else mu
    # flow maps are laid to 1e-8 in mass or better
    assert mu.entropy() == pytest.approx(grid.entropy(), abs=1e-8)
    assert mu.entropy() > 0.01


SERIES = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
IN_SERIES = {"tail_tol": 1e-6, "max_size": 256}
IN_NODES = {"max_nodes": 5000, "atom_radius": 1e-6}
CIRCLE = mf.Circle(32)
LIMITED = {
    "law": (mf.Density(CIRCLE, SERIES, **IN_SERIES), IN_SERIES),
    "values": (mf.Density(CIRCLE, SERIES.pdf(CIRCLE.points), **IN_SERIES), IN_SERIES),
    "oscillators": (mf.OscillatorDensity(CIRCLE, SERIES, [0.0, 1.0], **IN_SERIES), IN_SERIES),
    "line": (mf.FlowMap(SERIES, **IN_NODES), IN_NODES),
    "sphere": (mf.FlowMap(bumps(3), tol=1e-4, **IN_NODES), IN_NODES),
}


@pytest.mark.parametrize("name", ["law", "values", "oscillators", "line", slow("sphere")])
def test_limits_survive(name, tmp_path):
    """What a run of a measure may do is the measure's own: it goes where the measure goes."""

    def limits_of(measure):
        return {key: getattr(measure, key) for key in limits}

    start, limits = LIMITED[name]
    assert limits_of(copy.copy(start)) == limits
    if limits is IN_SERIES:
        assert limits_of(start.resize(64)) == limits
        with pytest.raises(ValueError, match="size must be an integer >= 32 and <= 256, got 512"):
            start.resize(512)
    dynamics = mf.Kuramoto(1.0) if name == "oscillators" else mf.SA(1.0)
    with np.errstate(all="warn"):
        sol = mf.evolve(start, dynamics, 0.2, 2)
        sol.save(tmp_path / "run.nc")
        again = mf.load(tmp_path / "run.nc")
    for measure in (*sol.measures, *again.measures):
        assert limits_of(measure) == limits
    for attributes in sol.dataset.attrs, again.dataset.attrs:
        assert {key: attributes[key] for key in limits} == limits


LAW = mf.FourierSeries(cos=[0.5])


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("tail_tol", 0.9e-15, "a finite number >= 1e-15 and <= 0.01"),
        ("tail_tol", 1.1e-2, "a finite number >= 1e-15 and <= 0.01"),
        ("max_size", 31, "an integer >= 32, got 31"),
    ],
)
def test_limits_of_a_density_are_checked(name, value, allowed):
    with pytest.raises(ValueError, match=f"{name} must be {allowed}"):
        mf.Density(CIRCLE, LAW, **{name: value})


@pytest.mark.parametrize("law", [LAW, bumps(3)], ids=["line", "mesh"])
@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("atom_radius", -1e-9, "a finite number >= 0 and <= 0.01"),
        ("atom_radius", 1.1e-2, "a finite number >= 0 and <= 0.01"),
        ("max_nodes", 1, "an integer >= "),
    ],
)
def test_limits_of_a_flow_map_are_checked(law, name, value, allowed):
    with pytest.raises(ValueError, match=f"{name} must be {allowed}"):
        mf.FlowMap(law, **{name: value})


@every_measure
def test_bad_queries(mu):
    wrong = [
        (np.zeros((3, mu.dim + 1)), f"z must have rows of length = {mu.dim}, got shape"),
        (np.zeros(mu.dim), "z must be a non-empty array with 2 axes, got shape"),
        (np.zeros((0, mu.dim)), "z must be a non-empty array with 2 axes, got shape"),
        (np.full((1, mu.dim), np.nan), "z must be finite, got nan at index"),
        ([["x"] * mu.dim], "z must be an array of real numbers"),
    ]
    for ask, (z, message) in product((mu.moment, mu.log_moment), wrong):
        with pytest.raises(ValueError, match=message):
            ask(z)


@every_measure
def test_moment_that_overflows_is_refused(mu):
    z = 2000 * mu.mean()[None] / np.linalg.norm(mu.mean())
    if isinstance(mu, SphereFlowMap):
        # its patches end long before G overflows
        with pytest.raises(
            ValueError, match=r"the length of z, .*must be smaller .* got 2000: limit"
        ):
            mu.moment(z)
        return
    log_g, mean = mu.log_moment(z)
    assert log_g[0] > 709
    assert np.isfinite(mean).all()
    with pytest.raises(ValueError, match=r"log G\(z\) <= 709, got .*: ask for log_moment"):
        mu.moment(z)
