"""The state of a numpy Generator as JSON has numbers, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

_KINDS = {
    kind.__name__: kind
    for kind in (
        np.random.PCG64,
        np.random.PCG64DXSM,
        np.random.Philox,
        np.random.SFC64,
        np.random.MT19937,
    )
}


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """Its kind, numbers and lists of numbers.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> other = generator_from(generator_state(rng))
    >>> rng.random() == other.random()
    True
    """

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(part) for name, part in value.items()}
        return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value

    return dict(plain(rng.bit_generator.state))


def generator_from(state: dict[str, Any]) -> np.random.Generator:
    """The Generator of a state.

    Raises
    ------
    ValueError
        If it is of no kind that numpy has.
    """

    def arrays(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: arrays(part) for name, part in value.items()}
        return np.array(value, dtype=np.uint64) if isinstance(value, list) else value

    if state.get("bit_generator") not in _KINDS:
        raise ValueError(
            f"rng must be one of {sorted(_KINDS)}, got {state.get('bit_generator')!r:.80}"
        )
    found = _KINDS[state["bit_generator"]]()
    try:
        found.state = arrays(state)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"rng must hold the state of one, got {state!r:.80}") from error
    return np.random.Generator(found)
