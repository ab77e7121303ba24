"""What follows from the parts: no more than was shown."""

from __future__ import annotations

from collections.abc import Sequence

from meanfield.studies.proposition.evidence import (
    DIFFERS,
    FAILS,
    FAULT,
    HOLDS,
    OPEN,
    PROVED,
    Evidence,
)

REFUTED, UNDECIDED = "refuted", "undecided"


def verdict(every: Sequence[Evidence]) -> dict[str, str]:
    """`verdict`, and `witness`, `reason` or `note` beside it.

    The statement is that Λ_k > 0 for all k >= 1, so that the coefficients decide. A proof in balls
    beats all floating point. Without it a measure beyond a bound refutes; numbers that agree hold,
    as long as nothing differs; and all else is undecided.
    """
    of_coefficients = [one for one in every if one.part == "coefficients"]
    statuses = {one.status for one in of_coefficients}
    notes = [f"{one.part}: {one.note}" for one in every if one.note]
    others = [one for one in every if one.part != "coefficients"]
    loud = [
        f"{one.part}: {one.witness or one.finding}"
        for one in others
        if one.status in (FAILS, DIFFERS)
    ]
    if statuses == {PROVED}:
        notes += [one if one.endswith(FAULT) else f"{one}: {FAULT}" for one in loud]
        return _with({"verdict": "proved"}, "note", notes)
    witnesses = [one.witness for one in every if one.status == FAILS]
    if witnesses:
        return _with({"verdict": REFUTED}, "witness", witnesses)
    if statuses and statuses <= {PROVED, HOLDS} and not loud:
        return _with({"verdict": "holds numerically"}, "note", notes)
    if not of_coefficients:
        reasons = ["coefficients: not among the parts, and all others only fail to refute", *loud]
    else:
        undecided = [one for one in of_coefficients if one.status in (OPEN, DIFFERS)]
        reasons = [*(f"coefficients: {one.finding}" for one in undecided), *loud]
    return _with({"verdict": UNDECIDED}, "reason", reasons)


def _with(found: dict[str, str], name: str, sentences: Sequence[str]) -> dict[str, str]:
    told = list(dict.fromkeys(sentences))
    return found | {name: "; ".join(told)} if told else found


def statement(interval: tuple[float, float], dim: int, is_kernel: bool) -> str:
    """What the verdict is about."""
    text = (
        f"σ is the only minimiser and Diracs are the only maximisers of the energy on S^{dim - 1}"
    )
    if is_kernel:
        return f"{text}, E(mu) = 1/2 ∬ W(<x,y>) dmu dmu with the kernel W that was given"
    low, high = interval
    if high == 0.0:
        return (
            f"{text} at β = 0, where E_0 = |∫ x dmu|²/2: every measure of mean 0 is a minimiser, σ "
            "is one of many, and uniqueness fails; Diracs are the maximisers. Proposition 3.4 is "
            "about β > 0"
        )
    return f"{text}, β = {low:g}" if low == high else f"{text}, β in [{low:g}, {high:g}]"
