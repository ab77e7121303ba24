"""The state of a numpy Generator as JSON has numbers, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from meanfield.arguments import integer, shown

# of MT19937 and of Philox, in their arrays
_LARGEST_POSITIONS = {"pos": 624, "buffer_pos": 4}
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
        If it is the state of none: numpy itself would read beyond its arrays.
    """

    def arrays(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: arrays(part) for name, part in value.items()}
        return np.array(value, dtype=np.uint64) if isinstance(value, list) else value

    kind = state.get("bit_generator") if isinstance(state, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"rng must be one of {sorted(_KINDS)}, got {kind!r:.80}")
    found = _KINDS[kind]()
    try:
        _check_positions(state, generator_state(np.random.Generator(found)))
        found.state = arrays(state)
        same = generator_state(np.random.Generator(found)) == state
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"rng must hold the state of a {kind}, got {shown(state)}") from error
    if not same:
        raise ValueError(f"rng must hold the state of a {kind}, got {shown(state)}")
    return np.random.Generator(found)


def _check_positions(state: dict[str, Any], like: dict[str, Any]) -> None:
    """Keys, lists of the same length, and positions inside them."""
    if not isinstance(state, dict) or state.keys() != like.keys():
        raise ValueError(f"state must have {sorted(like)}, got {shown(state)}")
    for name, own in like.items():
        given = state[name]
        if isinstance(own, dict):
            _check_positions(given, own)
        elif isinstance(own, list):
            if not isinstance(given, list) or len(given) != len(own):
                raise ValueError(f"{name} must be a list of {len(own)} numbers, got {given!r:.40}")
        elif name in _LARGEST_POSITIONS:
            integer(name, given, low=0, high=_LARGEST_POSITIONS[name])
