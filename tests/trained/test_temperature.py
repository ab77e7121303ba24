"""Effective β: exact where attention has one, with an error that covers, and never without R²."""

import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.special import softmax
from scipy.stats import binom

from meanfield.trained.temperature import effective_beta, symmetric_form
from tests.trained.layers import drawn

CAUSAL, FULL = np.tri(24, dtype=bool), np.ones((24, 24), dtype=bool)


def attend(scores, allowed):
    return softmax(np.where(allowed, scores, -np.inf), axis=-1)


POINTS = drawn(24, 6)


@pytest.mark.parametrize("allowed", [CAUSAL, FULL])
@pytest.mark.parametrize("beta", [6.0, -2.5])
def test_attention_of_the_paper_gives_its_beta(allowed, beta):
    """Rounding of log A, some 1e-15, is all that is between β and the slope."""
    fit = effective_beta(attend(beta * POINTS @ POINTS.T, allowed), POINTS, allowed)
    assert fit.beta == pytest.approx(beta, abs=1e-12)
    assert fit.standard_error <= 1e-12
    assert fit.r2 == pytest.approx(1.0, abs=1e-12)
    assert fit.share_unexplained <= 1e-12
    rows = np.arange(1 + (allowed is CAUSAL), 25)
    entries = rows if allowed is CAUSAL else np.full(24, 24)
    assert (fit.n_entries, fit.n_rows, fit.n_zero) == (entries.sum(), len(entries), 0)


def test_pooled_rows_would_give_another_number():
    """The constant of a row hangs on its point: this is why they are taken out row by row."""
    attention = attend(6.0 * POINTS @ POINTS.T, CAUSAL)
    pooled = np.polyfit((POINTS @ POINTS.T)[CAUSAL], np.log(attention[CAUSAL]), 1)[0]
    assert abs(pooled - 6.0) > 1e-3


@pytest.mark.parametrize("allowed", [CAUSAL, FULL])
def test_slope_and_error_are_those_of_a_regression_with_dummies(allowed):
    """The matrix formula of CR2, (I − H_gg)^{-1/2} of each row's block, on all columns."""
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((24, 24)) + rng.standard_normal((24, 1)) * POINTS[:, 0]
    attention = attend(3.0 * POINTS @ POINTS.T + noise, allowed)
    fit = effective_beta(attention, POINTS, allowed)
    rows, columns = np.nonzero(allowed & (allowed.sum(axis=1) > 1)[:, None])
    design = np.column_stack([(POINTS @ POINTS.T)[rows, columns], rows[:, None] == np.unique(rows)])
    logs = np.log(attention[rows, columns])
    slope, *_ = np.linalg.lstsq(design, logs)[0]
    assert fit.beta == pytest.approx(slope, rel=1e-10)
    # within-row columns carry the same slope, and H of what is left of the design
    within = design[:, 0] - design[:, 1:] @ (design[:, 1:].T @ design[:, 0] / design[:, 1:].sum(0))
    residuals = logs - design @ np.linalg.lstsq(design, logs)[0]
    meat = 0.0
    for row in np.unique(rows):
        own = within[rows == row]
        block = np.eye(len(own)) - np.outer(own, own) / (within @ within)
        meat += (own @ np.linalg.solve(sqrtm(block).real, residuals[rows == row])) ** 2
    assert fit.standard_error == pytest.approx(np.sqrt(meat) / (within @ within), rel=1e-8)
    total = sum(np.sum((x - x.mean()) ** 2) for x in (logs[rows == r] for r in np.unique(rows)))
    assert fit.r2 == pytest.approx(1.0 - residuals @ residuals / total, rel=1e-10)
    assert 0.1 < fit.r2 < 0.99


def noisy_attention():
    return attend(POINTS @ POINTS.T + np.random.default_rng(0).standard_normal((24, 24)), FULL)


def covered(draws, allowed):
    """How many of so many intervals of 95 % hold β = 6 under noise of the scores."""
    rng = np.random.default_rng(2)
    scores = 6.0 * POINTS @ POINTS.T + 0.7 * rng.standard_normal((draws, 24, 24))
    lower, upper = effective_beta(attend(scores, allowed), POINTS, allowed).interval()
    assert (lower < upper).all()
    return int(((lower <= 6.0) & (upper >= 6.0)).sum())


@pytest.mark.parametrize("allowed", [CAUSAL, FULL])
def test_intervals_cover_quickly(allowed):
    """The binomial law of 100 draws at 0.95, at 1e-4 on either side."""
    low, high = binom.ppf([1e-4, 1.0 - 1e-4], 100, 0.95)
    assert low <= covered(100, allowed) <= high


@pytest.mark.slow
@pytest.mark.parametrize("allowed", [CAUSAL, FULL])
def test_intervals_cover(allowed):
    assert 930 <= covered(1000, allowed) <= 970


def test_intervals_are_those_of_student():
    """Rows that count alike have a degree of freedom less than there are; here 2 rows, of 3."""
    points = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    attention = np.exp([[1.0, 0.3, 0.2], [0.3, 1.0, 0.2], [0.1, 0.5, 0.7]])
    allowed = np.array([[True, True, False], [True, True, False], [True, False, False]])
    fit = effective_beta(np.where(allowed, attention, 0.0), points, allowed)
    assert fit.n_rows == 2
    assert fit.freedom == pytest.approx(1.0)
    lower, upper = fit.interval(0.5)
    # the quartile of Student's t with one degree of freedom is 1
    assert upper - fit.beta == pytest.approx(fit.standard_error)
    assert fit.beta - lower == pytest.approx(fit.standard_error)
    assert effective_beta(noisy_attention(), POINTS).freedom < 23.0
    with pytest.raises(ValueError, match="level must be a finite number > 0"):
        fit.interval(0.0)


def test_record_says_when_no_beta_describes_a_head():
    rng = np.random.default_rng(3)
    scores = np.stack([4.0 * POINTS @ POINTS.T, rng.standard_normal((24, 24))])
    fit = effective_beta(attend(scores, CAUSAL), POINTS, CAUSAL)
    first, second = repr(fit).split("\n")
    assert first.startswith("β = 4 ±")
    assert "R² = 1.000" in first
    assert "no β describes the head" not in first
    assert "R² = 0.0" in second
    assert second.endswith("no β describes the head")
    assert fit.describes.tolist() == [True, False]
    assert fit.beta.shape == fit.r2.shape == fit.n_rows.shape == (2,)


def test_zeros_are_left_out_and_counted():
    attention = attend(6.0 * POINTS @ POINTS.T, CAUSAL)
    attention[5, 2] = attention[20, [3, 7]] = 0.0
    fit = effective_beta(attention, POINTS, CAUSAL)
    assert fit.n_zero == 3
    assert fit.n_entries == 24 * 25 // 2 - 1 - 3
    assert fit.beta == pytest.approx(6.0, abs=1e-12)


def test_rows_with_one_entry_say_nothing():
    attention = np.eye(24)
    fit = effective_beta(attention, POINTS, CAUSAL)
    assert (fit.n_entries, fit.n_rows, fit.n_zero) == (0, 0, 24 * 23 // 2)
    assert np.isnan([fit.beta, fit.standard_error, fit.r2]).all()
    assert not fit.describes
    # one row alone has a slope, and nothing that would tell its error
    attention[4, :4] = 0.5
    alone = effective_beta(attention, POINTS, CAUSAL)
    assert np.isfinite(alone.beta)
    assert np.isnan(alone.standard_error)


def test_uniform_attention_has_no_r2():
    fit = effective_beta(np.tri(24) / np.arange(1, 25)[:, None], POINTS, CAUSAL)
    assert fit.beta == 0.0
    assert np.isnan(fit.r2)
    same = effective_beta(attend(POINTS @ POINTS.T, FULL), np.tile(POINTS[:1], (24, 1)))
    assert np.isnan(same.beta)


def test_scores_of_a_matrix_are_those_of_the_paper():
    """β⟨Qx_i, Kx_j⟩ = ⟨KᵀQ x_i, x_j⟩; the transpose is another model."""
    rng = np.random.default_rng(4)
    query, key = rng.standard_normal((2, 6, 6))
    attention = attend((POINTS @ query.T) @ (POINTS @ key.T).T, FULL)
    fit = effective_beta(attention, POINTS, matrix=key.T @ query)
    assert fit.beta == pytest.approx(1.0, abs=1e-12)
    assert effective_beta(attention, POINTS, matrix=query.T @ key).r2 < 0.9
    pair = effective_beta(attention, POINTS, matrix=np.stack([key.T @ query, np.eye(6)]))
    assert pair.beta == pytest.approx([1.0, float(effective_beta(attention, POINTS).beta)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attention": FULL / 24.0, "allowed": CAUSAL}, r"0 where allowed is not.*\(0, 1\)"),
        ({"attention": FULL / -24.0}, r"attention must be >= 0, got -0.0416667 at index \(0, 0\)"),
        ({"attention": np.where(CAUSAL, np.nan, 1.0)}, "attention must be finite"),
        ({"attention": np.ones((3, 24))}, r"shape \(..., 24, 24\).*\(3, 24\)"),
        ({"allowed": np.ones((24, 24))}, "allowed must be boolean"),
        ({"allowed": CAUSAL[:3]}, r"\(24, 24\), got bool of \(3, 24\)"),
        ({"points": 2.0 * POINTS}, "points must have rows of norm 1"),
        ({"matrix": np.eye(5)}, r"matrix must have shape \(..., 6, 6\), got \(5, 5\)"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    sound = {"attention": CAUSAL / np.arange(1, 25)[:, None], "points": POINTS}
    effective_beta(**sound)
    with pytest.raises(ValueError, match=message):
        effective_beta(**{**sound, **change})


# ------------------------------------------------------------------------------ symmetric forms


@pytest.mark.parametrize("allowed", [CAUSAL, FULL])
def test_a_symmetric_form_comes_back(allowed):
    rng = np.random.default_rng(5)
    form = rng.standard_normal((6, 6))
    form += form.T
    fit = symmetric_form(attend(POINTS @ form @ POINTS.T, allowed), POINTS, allowed)
    assert fit.reason == ""
    assert fit.n_parameters == 21
    # lsqr ends at a relative residual of 1e-12, and the points' condition is below 10
    assert np.linalg.norm(fit.form - form) < 1e-9 * np.linalg.norm(form)
    assert fit.r2 == pytest.approx(1.0, abs=1e-12)


def test_nearest_form_is_that_of_dense_least_squares():
    rng = np.random.default_rng(6)
    attention = attend(rng.standard_normal((24, 24)), CAUSAL)
    fit = symmetric_form(attention, POINTS, CAUSAL)
    rows, columns = np.nonzero(CAUSAL & (CAUSAL.sum(axis=1) > 1)[:, None])
    i, j = np.triu_indices(6)
    products = np.einsum("ea,eb->eab", POINTS[rows], POINTS[columns])
    design = np.column_stack([(products + products.swapaxes(1, 2))[:, i, j], np.eye(24)[rows, 1:]])
    logs = np.log(attention[rows, columns])
    solution, rest, *_ = np.linalg.lstsq(design, logs)
    dense = np.zeros((6, 6))
    dense[i, j] = solution[:21]
    assert np.abs(fit.form - dense - dense.T).max() < 1e-8
    total = sum(np.sum((x - x.mean()) ** 2) for x in (logs[rows == r] for r in np.unique(rows)))
    assert fit.r2 == pytest.approx(1.0 - rest[0] / total, rel=1e-9)


def test_adjusted_r2_of_noise_is_zero_on_average():
    """The mean of 40 has a standard error of some 0.003."""
    rng = np.random.default_rng(7)
    fits = [symmetric_form(np.exp(rng.standard_normal((24, 24))), POINTS) for _ in range(40)]
    shares = np.array([fit.adjusted_r2 for fit in fits])
    assert abs(shares.mean()) < 4.0 * shares.std() / np.sqrt(40.0)
    assert np.mean([fit.r2 for fit in fits]) == pytest.approx(21 / (24 * 23), abs=0.01)


def test_a_form_that_would_fit_anything_is_not_fitted():
    """Under a causal mask each pair is seen once, and in 30 dimensions any 24 × 24 is a form."""
    points, rng = drawn(24, 30), np.random.default_rng(8)
    attention = attend(rng.standard_normal((24, 24)), CAUSAL)
    fit = symmetric_form(attention, points, CAUSAL)
    assert fit.form is None
    assert fit.r2 is None
    assert fit.reason.startswith(f"{24 * 25 // 2 - 1} parameters of a symmetric form against 276")
    assert fit.n_parameters == 299
    even = symmetric_form(np.ones((24, 24)), POINTS)
    assert (even.form, even.reason) == (
        None,
        "the entries of each row are alike: there is nothing to fit",
    )
    # without a mask both triangles must agree
    full = symmetric_form(attend(rng.standard_normal((24, 24)), FULL), points)
    assert 0.3 < full.r2 < 0.8
    with pytest.raises(ValueError, match="that of one head"):
        symmetric_form(np.stack([attention, attention]), points, CAUSAL)
