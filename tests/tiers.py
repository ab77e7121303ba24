"""Which rows of a test are quick."""

import pytest


def rows(names, *quick):
    """Parameters, slow but for these: one or two kinds say quickly what all of them do."""
    return [pytest.param(x, marks=[] if x in quick else pytest.mark.slow) for x in names]
