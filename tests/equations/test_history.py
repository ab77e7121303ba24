"""What a run keeps of its moments."""

import numpy as np
import pytest

from meanfield.dynamics import SA
from meanfield.equations import history as histories
from meanfield.equations.history import History, LabelMap, step_times
from meanfield.equations.sphere import KernelOnSphere
from meanfield.spaces.cubed_sphere import Leaves, Patches
from tests.handmade import unit_points


def test_history_is_exact_on_polynomials_and_survives_saving():
    history = History(0.0)
    for start, end in ((0.0, 0.3), (0.3, 1.0)):
        times = step_times(start, end)
        history.append(end, np.stack([1.0 + times**7, 1j * times], axis=1))
        leaves = Leaves.uniform(0)
        values = np.full((5, 600), end)
        history.labels.append(LabelMap(end, Patches.of([(leaves, values)])))
    copy = History.from_arrays(history.arrays())
    for t in (0.0, 0.1, 0.3, 0.7, 1.0):
        assert np.abs(copy.at(t) - np.array([1.0 + t**7, 1j * t])).max() < 1e-14
    assert [label.time for label in copy.labels] == [0.3, 1.0]
    for kept, label in zip(copy.labels, history.labels, strict=True):
        assert np.array_equal(kept.patches.squares, label.patches.squares)
        assert np.array_equal(kept.patches.values, label.patches.values)
    # a step back there is only the first
    assert [label.time for label in copy.until(1).labels] == [0.3]


@pytest.mark.parametrize(
    ("count", "sizes"), [(16, [16]), (9600, [4800, 4800]), (20_000, [8192, 8192, 3616])]
)
def test_both_workers_follow_as_many_points(count, sizes, monkeypatch):
    """What the blocks are changes no point's result: it is that of the point followed alone."""
    field, followed, real = KernelOnSphere(SA(2.0)), [], histories._follow_block

    def spy(field, history, state, steps, absorbed):
        followed.append(len(state))
        return real(field, history, state, steps, absorbed)

    history = History(0.0)
    moments = field.moments(np.array([[0.0, 0.6, 0.8]]), np.ones(1))
    history.append(0.5, np.repeat(moments[None], histories.NODES, axis=0))
    points = unit_points(3, count, 0)
    with monkeypatch.context() as patch:
        patch.setattr(histories, "_follow_block", spy)
        feet, stretch, _ = histories.follow(field, history, points, 0.5, 0.0)
    assert sorted(followed, reverse=True) == sizes
    for index in 0, count - 1:
        foot, alone, _ = histories.follow(field, history, points[[index]], 0.5, 0.0)
        # transforms are right to 1e-13
        np.testing.assert_allclose(feet[index], foot[0], rtol=0, atol=1e-12)
        assert stretch[index] == pytest.approx(alone[0], abs=1e-12)
