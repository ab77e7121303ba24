"""The comparison of two trees sees a single bit, and a tree agrees with itself."""

import numpy as np
import pytest

from validation import golden


def test_one_bit_is_seen():
    old = np.array([1.0, np.nan, -3.0])
    assert golden.change(old, old.copy()) is None
    new = old.copy()
    new[0] = np.nextafter(1.0, 2.0)
    assert golden.change(old, new) == pytest.approx(2.0**-52 / 3.0)
    assert golden.change(np.array([0.0]), np.array([-0.0])) == 0.0
    assert golden.change(old, old[:2]) == float("inf")
    assert golden.change(np.array([1]), np.array([2])) == float("inf")


@pytest.mark.parametrize("lost", ["old", "new"])
def test_a_run_that_one_tree_lacks_is_seen(capsys, lost):
    runs = {"SA | dataset t": np.arange(3.0), "USA | dataset t": np.arange(3.0)}
    fewer = {"SA | dataset t": np.arange(3.0)}
    assert golden.compare(runs, dict(runs)) == 0
    assert golden.compare(*((fewer, runs) if lost == "old" else (runs, fewer))) == 1
    kept = {"old": "new", "new": "old"}[lost]
    assert f"USA | dataset t: only in the {kept} tree" in capsys.readouterr().out


@pytest.mark.slow
def test_a_tree_agrees_with_itself(tmp_path):
    only = "SA, resumed: Density on the circle"
    twice = [golden.run_tree(golden.HERE, tmp_path / f"{i}.npz", only) for i in range(2)]
    assert not any(name.endswith("| error") for name in twice[0])
    assert {"dataset energy", "final coefficients"} <= {n.partition(" | ")[2] for n in twice[0]}
    assert golden.compare(*twice) == 0
