"""What a run keeps at every save: the measure, and its numbers as variables over t."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield._checks import is_number, shown
from meanfield.dynamics.facts import Energy, multiplied_out
from meanfield.evolution import arrays
from meanfield.evolution.arrays import SIZE_COMMENT, SIZE_NAME, TERM, Stored
from meanfield.evolution.netcdf import Contents, Variable, is_name
from meanfield.evolution.progress import DeferredInterrupt
from meanfield.evolution.solution import Solution
from meanfield.evolution.system import Row, Stop
from meanfield.measures import AnyMeasure
from meanfield.typing import Array

if TYPE_CHECKING:
    import xarray as xr

# a monitor returns a number, a number with bounds `lower` and `upper`, or None
Monitors = Mapping[str, Callable[[AnyMeasure], object]]

# for each variable: its role, its name on an axis, and its formula; {E} is the symbol of the
# dynamics' own energy
VARIABLES = {
    "energy": ("energy", "energy {E}", "{formula}"),
    "energy_share": ("share", "energy {E}/{E}(δ)", "{share}"),
    "dissipation": ("rate", "dissipation", "{rate}, what X adds to {E} per time, or takes from it"),
    "work": ("work", "work", "what {E} gained: ± ∫ dissipation dt from the start, and noise_work"),
    "balance_error": (
        *("error", "error of the energy balance"),
        "{balance}, 0 but for errors of the run",
    ),
    "order_parameter": ("order", "order parameter r", "r e^{iψ} = ∫ e^{iθ} dmu"),
    "mean_phase": ("phase", "mean phase ψ", "r e^{iψ} = ∫ e^{iθ} dmu, in [0, 2π)"),
    "mass": ("mass", "mass", "∫ dmu"),
    "rms_velocity": (
        *("speed", "root mean square of the velocity"),
        "(∫|X|² dmu)^{1/2}, without noise and without frequencies of phases",
    ),
    "metric_speed": (
        *("speed", "speed in W_2"),
        "(∫|X|² dmu)^{1/2} where X is a gradient; of densities X - τ ∇ log f, of phases ω + X",
    ),
    "min_density": ("density", "least density", "on the grid, or at the nodes"),
    "max_density": ("density", "largest density", "at the nodes"),
    "tail": (
        *("resolution", "tail"),
        "L² share of the last tenth of a spectrum or panel: error at t; trust the largest so far",
    ),
    "size": ("resolution", SIZE_NAME, SIZE_COMMENT),
    "label_error": (
        *("resolution", "error of label maps"),
        "mass that they misplaced at worst, estimated at 16 points that are followed to the start",
    ),
    "steps": ("count", "time steps", "those accepted since the start"),
    "evaluations": ("count", "evaluations", "of the right-hand side since the start"),
    "entropy": ("entropy", "entropy S", "∫ log f dmu"),
    "noise_work": ("work", "work of the noise", "on {E}: τ ∫∫ u Δf dσ dt, u = δ{E}/δmu"),
    "free_energy": (
        *("energy", "free energy {free}"),
        "{free}, which X and noise τ lower as fast as W_2 allows",
    ),
    "free_dissipation": (
        *("rate", "free dissipation"),
        "∫|X - τ ∇ log f|² dmu, the rate at which {free} falls",
    ),
    "free_work": ("work", "free work", "-∫ free_dissipation dt, equal to the gain of {free}"),
    "n_atoms": ("count", "number of atoms", "atoms that hold clusters"),
    "smooth_mass": ("mass", "mass outside atoms", "that which the nodes carry"),
    "n_clusters": ("count", "number of clusters", "those of the measure"),
    "adaptation": ("work", "work of the mesh", "what {E} gained by splitting panels and by atoms"),
    "term_energy": ("energy", "energy of a term", "its part of {E}, whose sum {E} is"),
    "term_energy_share": (
        *("share", "share of a term's energy"),
        "its part of {E} over |w E(δ)|, |w| Σ |ω_j| max |φ_j| of a potential, or |w| where it is 0",
    ),
    "term_dissipation": (
        *("rate", "dissipation of a term"),
        "what X adds to its part of {E} per time, or takes from it",
    ),
    "term_work": ("work", "work of a term", "what its part of {E} gained, by X and by noise"),
    "term_balance_error": (
        *("error", "error of a term's balance"),
        "its energy less that at the start less its work, in the unit of term_energy_share",
    ),
    "collapse_time": ("time", "time of a collapse", "when nodes were last held, or atoms merged"),
    "collapse_n_atoms": ("count", "number of atoms", "those from then on"),
    "collapse_energy": ("work", "energy of a collapse", "what {E} gained by it"),
}
_UNITS = {"mean_phase": "radian"}
_OF_COLLAPSES = "collapse_time", "collapse_n_atoms", "collapse_energy"
# numbers of a row with these roles are in the unit of the run
_IN_UNIT_ROLES = "energy", "rate", "work"
_IN_UNIT = {name for name, (role, *_) in VARIABLES.items() if role in _IN_UNIT_ROLES}

_TAKEN = frozenset({*VARIABLES, *arrays.RESERVED, arrays.COLLAPSE, TERM})
_OF_TERMS = "term_energy", "term_dissipation", "term_work"
# a table or a figure shows the energies of at most so many terms
MOST_TERMS = 6
# a bracket has variables with these endings beside its value
LOWER, UPPER, PROVED = "_lower", "_upper", "_proved"
_OF_BRACKET = {
    LOWER: "lower bound of {}",
    UPPER: "upper bound of {}",
    PROVED: "bounds of {} are proved",
}
_PROVED_COMMENT = "1 where they are, 0 for estimates"


class Recorder:
    """Measures and rows of numbers at the saves of a run.

    Parameters
    ----------
    energy : Energy or None
        That of the rows, if they have one.
    monitors : mapping of str to callable
    log_units : sequence of float
        Rows have energies and works in units of e^{log_unit}, the largest of them: β, or log Λ_0
        where e^{-β} Λ_0 underflows, or 0; those of terms each in its own. Here they are multiplied
        out; what overflows is left out, of terms the column.

    Attributes
    ----------
    hand_over : tuple of float, or None
        When a flow map took over from a density, and what the energy gained by it.
    """

    def __init__(
        self, energy: Energy | None, monitors: Monitors, log_units: Sequence[float]
    ) -> None:
        self.measures: list[AnyMeasure] = []
        self._rows: list[Row] = []
        self.hand_over: tuple[float, float | None] | None = None
        self._energy, self._monitors, self._log_units = energy, monitors, log_units
        self._log_unit = max(log_units)
        self._asked = dict(monitors)
        # errors are relative to the largest values so far
        self._sizes: dict[str, Array] = {}
        # names of the variables that have left double precision
        self._overflowed: set[str] = set()

    def begin(self, start: AnyMeasure | None, calls: int) -> None:
        """Let monitors that remember the start, or how often they were called, stand where it is.

        What they remember is the run's: one monitor may be in many.
        """
        self._asked = {
            name: monitor.begin(start, calls) if hasattr(monitor, "begin") else monitor
            for name, monitor in self._monitors.items()
        }

    @property
    def last_time(self) -> float:
        """Time of the last save, -inf before the first."""
        return self._rows[-1]["t"] if self._rows else -np.inf

    def save(self, measure: AnyMeasure, row: Row, interrupt: DeferredInterrupt) -> None:
        """Keep the measure and its numbers, energies of the row in units of e^{log_unit}.

        Raises
        ------
        Stop
            If one of the numbers is not finite, or a monitor fails; what there is is kept.
        Exception
            What a monitor raises at the start, where there is nothing to keep.
        KeyboardInterrupt
            If Ctrl-C does not wait for a monitor; what there is is kept.
        """
        row = self._multiplied_out(row)
        self.measures.append(measure)
        self._rows.append(row)
        for name, monitor in self._asked.items():
            try:
                with interrupt.interruptible():
                    row |= _read(name, monitor(measure))
            except Exception as error:
                if len(self._rows) == 1:
                    error.add_note(f"in the monitor {name} at t = {row['t']:g}, for {measure}")
                    raise
                reason = f"the monitor {name} raised {error!r} for {measure}"
                raise Stop("failed", f"failed at t = {row['t']:.6g}: {reason}") from error
        for name, value in row.items():
            is_infinite = np.isinf(value).any() and name not in (*_MAY_BE_INFINITE, *_OF_TERMS)
            if np.isnan(value).any() or is_infinite:
                remedy = "" if name in _TAKEN else "; is its monitor right?"
                raise Stop("failed", f"failed at t = {row['t']:.6g}: {name} is {value}{remedy}")

    def _multiplied_out(self, row: Row) -> Row:
        """Return the row with energies in full, as shares of a Dirac's, and with their balance."""
        numbers: Row = {}
        energy = self._energy
        for name, value in row.items():
            if name in _OF_TERMS:
                pairs = zip(value, self._log_units, strict=True)
                numbers[name] = np.array([multiplied_out(number, u) for number, u in pairs])
                overflowed = np.flatnonzero(np.isinf(numbers[name]))
                self._overflowed |= {_column(name, i) for i in overflowed.tolist()}
                continue
            numbers[name] = multiplied_out(value, self._log_unit) if name in _IN_UNIT else value
            if np.isinf(numbers[name]) and np.isfinite(value) and name in _IN_UNIT:
                self._overflowed.add(name)
                del numbers[name]
        if energy is None or "energy" not in row:
            return numbers
        # an energy that is 0 at a Dirac mass has no share, so the energy itself is recorded
        level, sign = ("energy_share" if energy.dirac else "energy"), np.copysign(1.0, energy.dirac)
        share = float(sign * energy.relative(row["energy"], self._log_unit))
        # the energy of a Dirac mass may vary in time
        numbers[level] = row.get("energy_share", share)
        if "work" in row:
            numbers["balance_error"] = self._balance_error(numbers, row, level, energy)
        return numbers | self._balance_of_terms(row, energy) if "term_energy" in row else numbers

    def _balance_error(self, numbers: Row, row: Row, level: str, energy: Energy) -> float:
        """Return (E(t) - E(0) - work)/|E(δ)|.

        If E varies in time, the largest |E(δ)| of the run divides.
        """
        name, sign = level, float(np.copysign(1.0, energy.dirac))
        if "energy_share" in row:
            name, sign = "energy", energy.relative(1.0, 0.0)
        finite = (r[name] for r in self._rows if np.isfinite(r.get(name, np.nan)))
        value = numbers.get(name, np.inf)
        gained = sign * (value - next(finite, value))
        error = gained - energy.relative(row["work"], self._log_unit)
        size = 1.0 if energy.has_size else self._largest("energy", numbers["energy"])
        return float(error / size)

    def _balance_of_terms(self, row: Row, energy: Energy) -> Row:
        """Return the energy of each term as a share, and the largest error of their balances.

        Both are made of shares, which do not overflow.
        """
        parts = list(zip(energy.parts, self._log_units, strict=True))

        def shares_of(values: Array) -> Array:
            each = zip(parts, values, strict=True)
            return np.array([part.relative(v, u) / abs(factor) for ((factor, part), u), v in each])

        shares, gains = shares_of(row["term_energy"]), shares_of(row["term_work"])
        rows = (r["term_energy_share"] for r in self._rows if "term_energy_share" in r)
        first_shares = next((share for share in rows if np.isfinite(share).all()), shares)
        has_size = [part.has_size for (_, part), _ in parts]
        largest_so_far = self._largest("term_energy_share", shares)
        errors = (shares - first_shares - gains) / np.where(has_size, 1.0, largest_so_far)
        largest = float(errors[np.argmax(np.abs(errors))])
        return {"term_energy_share": shares, "term_balance_error": errors, "balance_error": largest}

    def _largest(self, name: str, value: Array | float) -> Array:
        """Return the largest size of a number in all rows up to this value; 1 if it is 0."""
        sizes = self._sizes[name] = np.fmax(self._sizes.get(name, 0.0), np.abs(value))
        return np.where(sizes > 0.0, sizes, 1.0)

    def take_over(self, t: float, gap: float) -> None:
        """Note that a flow map takes over, and the change of the energy, nan if not known."""
        whole = multiplied_out(gap, self._log_unit)
        self.hand_over = t, whole if np.isfinite(whole) else None

    def kept(self) -> dict[str, object]:
        """The numbers that the dataset does not hold to the bit."""
        return {
            "hand_over": self.hand_over,
            "monitors": list(self._monitors),
            "overflowed": sorted(self._overflowed),
        }

    def restore(self, saved: Solution, saves: int, numbers: Stored) -> None:
        """Take over what another run had kept at its first saves."""
        columns = {
            name: list(v.values[:saves]) if TERM in v.dims else v.values[:saves].tolist()
            for name, v in Contents.of(saved.numbers).variables.items()
            if v.dims in (("t",), ("t", TERM))
        }
        columns["t"] = saved.t[:saves].tolist()
        self.measures = list(saved.measures[:saves])
        rows = zip(*columns.values(), strict=True)
        self._rows = [dict(zip(columns, row, strict=True)) for row in rows]
        for name in {"energy", "term_energy_share"} & {*columns}:
            for value in columns[name]:
                self._largest(name, value)
        self.hand_over = tuple(numbers["hand_over"]) if numbers["hand_over"] else None
        self._overflowed = {str(name) for name in numbers["overflowed"]}

    def contents(self, collapses: Sequence[tuple[float, int, float]] = ()) -> Contents:
        """The saved numbers as variables over t; nan where a measure has no such number.

        Parameters
        ----------
        collapses : sequence of (float, int, float)
            When nodes became atoms, how many atoms there were then, and what the energy gained.
        """
        about, rows = self._about(), self._rows
        present = {name for row in rows for name in row} | {*self._monitors}
        variables = {
            name: Variable(("t",), np.array([row.get(name, np.nan) for row in rows]), attributes)
            for name, attributes in about.items()
            if name in present - self._overflowed and not name.startswith(f"{TERM}_")
        }
        if self._energy is not None and "term_energy" in present:
            variables |= self._over_terms(about)
        if collapses:
            columns = dict(zip(_OF_COLLAPSES, np.array(collapses).T, strict=True))
            gaps = [multiplied_out(gap, self._log_unit) for gap in columns.pop("collapse_energy")]
            if self._energy is not None and np.isfinite(gaps).all():
                columns["collapse_energy"] = np.array(gaps)
            for name, column in columns.items():
                variables[name] = Variable((arrays.COLLAPSE,), column, about[name])
        times = np.array([row["t"] for row in rows])
        variables["t"] = Variable(("t",), times, arrays.TIME | {"role": "time"})
        attrs: dict[str, float] = {}
        if self.hand_over is not None:
            t, gap = self.hand_over
            attrs = {"hand_over_t": t} | ({} if gap is None else {"hand_over_energy_gap": gap})
        return Contents(variables, attrs)

    def _over_terms(self, about: Mapping[str, Mapping[str, str]]) -> dict[str, Variable]:
        """Return the saved numbers of each term, nan where a save has none."""
        parts = self._energy.parts if self._energy else ()
        lacking = np.full(len(parts), np.nan)
        over = ("t", TERM)
        variables: dict[str, Variable] = {}
        for name in ("term_energy", "term_energy_share", *_OF_TERMS[1:], "term_balance_error"):
            words = {**about[name]}
            values = np.array([row.get(name, lacking) for row in self._rows])
            lost = [i for i in range(len(parts)) if _column(name, i) in self._overflowed]
            if lost:
                values[:, lost] = np.nan
                which = ", ".join(map(str, lost))
                words["comment"] += f"; too large for float64, and nan, of {which}"
            variables[name] = Variable(over, values, words)
        formulas = "; ".join(f"{i}: {f:g} {e.formula}" for i, (f, e) in enumerate(parts))
        about_terms = {"long_name": "term of the energy", "comment": formulas}
        return variables | {TERM: Variable((TERM,), np.arange(len(parts)), about_terms)}

    def _about(self) -> dict[str, dict[str, str]]:
        """Return the attributes of every possible variable, in the order of a dataset."""
        table: dict[str, dict[str, str]] = {}
        for name, (role, *texts) in VARIABLES.items():
            long_name, comment = map(self._worded, texts)
            table[name] = {"long_name": long_name, "comment": comment, "role": role}
            if name in _UNITS:
                table[name]["units"] = _UNITS[name]
            if role in (*_IN_UNIT_ROLES, "share", "error"):
                symbol = "{free}" if name.startswith("free_") else "{E}"
                table[name]["symbol"] = self._worded("{E}/{E}(δ)" if role == "share" else symbol)
        for name, monitor in self._monitors.items():
            title = str(getattr(monitor, "long_name", name))
            units = {"units": str(monitor.units)} if hasattr(monitor, "units") else {}
            table[name] = {"long_name": title, "role": "monitor"} | units
            for end, text in _OF_BRACKET.items():
                notes = {"comment": _PROVED_COMMENT} if end == PROVED else units
                table[f"{name}{end}"] = {"long_name": text.format(title), "role": "bound"} | notes
        return table

    def _worded(self, text: str) -> str:
        """Return a text with the symbols of this energy filled in."""
        if (energy := self._energy) is None:
            return text
        words = {
            "E": energy.symbol,
            "formula": energy.formula,
            "rate": _rate_of(energy),
            "share": "energy over that of a Dirac mass",
            "balance": f"({energy.symbol}(t) - {energy.symbol}(0) - work)/|{energy.symbol}(δ)|",
            "free": f"τS {'-' if energy.sign > 0 else '+'} {energy.symbol}",
        }
        if energy.parts:
            words["share"] = "energy over Σ |w E(δ)|, |w| Σ |ω_j| max |φ_j| of a potential"
            words["balance"] = "of all term_balance_error the largest in size"
        elif not energy.has_size:
            words["balance"] = "(E(t) - E(0) - work)/max |E|, of the saves up to t"
        elif energy.potential is not None:
            words["share"] = "energy over Σ |ω_j| max |φ_j|"
        for word, meaning in words.items():
            text = text.replace(f"{{{word}}}", meaning)
        return text


def _column(name: str, term: int) -> str:
    """Return the name of one term's column of a variable, for the list of columns that overflow."""
    return f"{name} {term}"


def _rate_of(energy: Energy) -> str:
    if energy.parts or not energy.is_own:
        return f"± ∫ <∇ δ{energy.symbol}/δmu, X> dmu"
    if energy.functional is not None:
        return f"∫ <∇ δ{energy.symbol}/δmu, X> dmu"
    return "∫|X|² dmu" if energy.in_w2 else "∫|X|² G dmu"


def with_role(data: Contents | xr.Dataset, *roles: str) -> list[str]:
    """The variables over t that have one of these roles, those of the first role first."""
    over_t = [(str(name), v.attrs) for name, v in data.variables.items() if v.dims == ("t",)]
    return [name for role in roles for name, attributes in over_t if attributes.get("role") == role]


# the density may leave double precision while its measure is still represented
_MAY_BE_INFINITE = ("max_density", "min_density")


def _read(name: str, given: Any) -> dict[str, float]:
    """Return the variables of a monitor's answer: none for None, four for a bracket."""
    if given is None:
        return {}
    # a Bracket is a number without axes; a string converts to a number too, but is none
    is_bracket = hasattr(type(given), "__float__") and not hasattr(given, "ndim")
    if not (is_number(given) or is_bracket or isinstance(given, np.bool_)):
        raise ValueError(
            f"the monitor {name} must return a number, a Bracket or None, got {shown(given)}"
        )
    numbers = {name: float(given)}
    if hasattr(given, "lower") and hasattr(given, "upper"):
        numbers |= {f"{name}{LOWER}": float(given.lower), f"{name}{UPPER}": float(given.upper)}
        if hasattr(given, "proved"):
            numbers[f"{name}{PROVED}"] = float(given.proved)
    return numbers


def taken_names(monitors: Iterable[str]) -> set[str]:
    """The names that none of these monitors may have: other variables, and their own bounds."""
    return {*_TAKEN, *(f"{name}{bound}" for name in monitors for bound in _OF_BRACKET)}


def checked_monitors(monitors: Monitors | None) -> Monitors:
    """Return `monitors` when each is a callable under a name that nothing else has."""
    if not isinstance(monitors, (Mapping, NoneType)):
        raise ValueError(
            f'monitors must map names to callables, as {{"name": monitor}}, got {shown(monitors)}'
        )
    named = dict(monitors or {})
    reserved = taken_names(named)
    for name, monitor in named.items():
        is_new = isinstance(name, str) and is_name(name) and name not in reserved
        if not is_new or name.startswith(arrays.PREFIXES) or not callable(monitor):
            raise ValueError(
                f"monitors must map new names (of no variable or dimension of a file, without '/') "
                f"to callables, got {name!r}: {shown(monitor)}"
            )
    return named
