"""plotly.js as plotly's package brings it: the only door to plotly."""

from __future__ import annotations


def plotly_script() -> str:
    """The text of plotly.js, 5 MB.

    Raises
    ------
    ValueError
        If plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ValueError(
            f"a report needs plotly, which is not installed ({error}): "
            f"python -m pip install 'meanfield-attention[report]'"
        ) from error
    return str(get_plotlyjs())
