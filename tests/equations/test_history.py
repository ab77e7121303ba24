"""What a run keeps of its moments."""

import numpy as np

from meanfield.equations.history import History, LabelMap, step_times
from meanfield.spaces.cubed_sphere import Leaves, Patches


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
