"""What a dynamics is called in headings tells its mask and what varies in time."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.cli.text import summary
from meanfield.dynamics.titles import dynamics_title, term_titles

BETA = mf.Schedule([0.0, 1.0], [1.0, 4.0])
GROWING = mf.Schedule([0.0, 1.0], [np.eye(2), 2.0 * np.eye(2)])
MASK = mf.Causal(decay=1.5)


class Drift:
    """One of a user's own that varies in time."""

    name, noise = "drift", 0.0

    def output(self, measure, points, t):
        return t * points


@pytest.mark.parametrize(
    ("dynamics", "title"),
    [
        (mf.SA(BETA), "SA, β(t)"),
        (mf.USA(lambda t: 1.0 + t, noise=0.1), "USA, β(t), τ = 0.1"),
        (mf.SA(2.0, sign=-1, mask=mf.Causal()), "SA, β = 2, causal mask, repulsive"),
        (mf.Interaction([1.0, 1.0], mask=MASK), "Interaction, causal mask with decay 1.5"),
        (mf.Attention(1.0, [mf.Head(V=GROWING)], mask=MASK),
         "Attention, β = 1, V(t), causal mask with decay 1.5"),
        (mf.FeedForward(GROWING, np.eye(2)), "FeedForward, W(t)"),
        (mf.SA(BETA) + mf.SA(1.0, mask=MASK), "SA + SA, β(t), causal mask with decay 1.5"),
        (mf.Sum([mf.SA(1.0), mf.USA(1.0)], weights=lambda t: [1.0, t]), "SA + USA, w(t)"),
        (mf.LayerMap(mf.SA(1.0, mask=MASK), step=0.1),
         "SA, β = 1, causal mask with decay 1.5, layers of 0.1"),
        (Drift(), "drift, varies in time"),
    ],
)  # fmt: skip
def test_a_title_names_masks_and_what_varies(dynamics, title):
    assert dynamics_title(dynamics) == title


def test_terms_have_titles_of_their_own():
    terms = mf.Sum([mf.SA(BETA), mf.USA(2.0, mask=MASK)], weights=lambda t: [1.0, t])
    assert term_titles(terms) == ["w(t) SA, β(t)", "w(t) USA, β = 2, causal mask with decay 1.5"]


def test_a_run_with_a_function_of_t_is_called_the_same_when_it_is_read(tmp_path):
    start = mf.Particles([[1.0, 0.0], [0.6, 0.8]])
    sol = mf.evolve(start, mf.SA(lambda t: 1.0 + t, mask=MASK), 0.1, 2)
    sol.save(tmp_path / "run.nc")
    read, title = mf.load(tmp_path / "run.nc"), "SA, β(t), causal mask with decay 1.5"
    assert mf.plot.solution(read).get_suptitle() == f"{title}: finished at t = 0.1"
    assert summary(read, tmp_path / "run.nc")["in words"] == title
    told = "SA(beta=a function of t, sign=1, noise=0.0, mask=Causal(decay=1.5)), where beta is a "
    told += "function of t, of which a file keeps no text; all else has the checksum "
    assert told in repr(read)
    with pytest.raises(ValueError, match="its file could keep no more of it than"):
        read.plot("energy")
