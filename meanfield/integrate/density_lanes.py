"""Densities of one space in lanes, stepped together; whoever leaves makes room for the next."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import DOP853

from meanfield.integrate.density_run import missed
from meanfield.integrate.lockstep import Lockstep, first_steps
from meanfield.integrate.members import Member, Table
from meanfield.integrate.options import Options
from meanfield.integrate.pace import MOST_STEPS, Pace
from meanfield.integrate.sentences import failed, finished, too_far, unresolved
from meanfield.measures import Density
from meanfield.measures.density import spectral_tails
from meanfield.solution import Ending
from meanfield.spaces import Circle, Zonal
from meanfield.tendency import DensityBatch, Factors, norms_up_to_degree

Array = NDArray[np.float64]
Lanes = NDArray[np.intp]


class DensityLanes:
    """Runs of densities on one space, as `DensityRun` has them, many at a time.

    Parameters
    ----------
    space : Circle or Zonal
    members : sequence of Member
        Fields are divided by a potential for all of them, or for none.
    most : int
        How many run at a time.
    table : Table
        Where saves go.
    options : Options
    """

    def __init__(
        self,
        space: Circle | Zonal,
        members: Sequence[Member],
        most: int,
        table: Table,
        options: Options,
    ) -> None:
        self._space, self._table, self._options = space, table, options
        first = members[0].dynamics
        self._is_divided = first.normalised and first.beta > 0.0
        self._waiting = deque(members)
        self._ready: deque[tuple[Member, Array, Array, Array]] = deque()
        self._outgrown: list[Member] = []
        lanes = min(most, len(members))
        self._who: list[Member | None] = [None] * lanes
        self._starter, self._rates = (
            DensityBatch(space, lanes, self._is_divided) for _ in range(2)
        )
        self._clock = Lockstep(self._rates, lanes, self._rates.width, options.rtol)
        for lane in range(lanes):
            self._clock.rest(lane, self._rates.free_state)

    def run(self, report: Callable[[], None]) -> list[Member]:
        """Take all to their ends; return those that are to go on in a larger space."""
        try:
            while self._fill():
                self._step()
                report()
        finally:
            # whatever stops it, members know where they are
            for lane in self._taken():
                self._leave(lane)
        return self._outgrown

    # ---------------------------------------------------------------- lanes

    def _taken(self) -> Lanes:
        return np.array([i for i, who in enumerate(self._who) if who is not None], dtype=np.intp)

    def _members(self, lanes: Lanes) -> list[Member]:
        return [cast(Member, self._who[lane]) for lane in lanes]

    def _fill(self) -> bool:
        """Give free lanes to those that wait, else close them; whether anybody runs."""
        for lane, who in enumerate(self._who):
            if who is None and (self._ready or self._begin()):
                self._take(lane)
        taken = self._taken()
        if 0 < len(taken) <= len(self._who) // 2:
            self._narrow(taken)
        return len(taken) > 0

    def _take(self, lane: int) -> None:
        member, state, slope, atol = self._ready.popleft()
        self._who[lane] = member
        self._rates.assign(lane, cast(Factors, member.factors), member.unit)
        self._clock.put(lane, state, slope, atol, (member.t, member.h, self._bound(member)))

    def _narrow(self, taken: Lanes) -> None:
        self._who = list(self._members(taken))
        self._rates = DensityBatch(self._space, len(taken), self._is_divided)
        for lane, member in enumerate(self._members(np.arange(len(taken)))):
            self._rates.assign(lane, cast(Factors, member.factors), member.unit)
        self._clock = self._clock.narrowed(self._rates, taken)

    def _leave(self, lane: int) -> Member:
        """Free a lane; its member keeps where it was."""
        member, clock = cast(Member, self._who[lane]), self._clock
        member.t, member.work = float(clock.t[lane]), float(clock.states[lane, -1])
        self._who[lane] = member.factors = None
        clock.rest(lane, self._rates.free_state)
        return member

    # ---------------------------------------------------------------- starts

    def _begin(self) -> bool:
        """Make ready some of those that wait; whether there are any."""
        while self._waiting and not self._ready:
            some = [self._waiting.popleft() for _ in range(min(len(self._who), len(self._waiting)))]
            power = self._space.power(np.array([member.density.coefficients for member in some]))
            tails = spectral_tails(power).tolist()
            resolved = [m for m, tail in zip(some, tails, strict=True) if self._holds(m, tail)]
            if resolved:
                self._start(resolved)
        return bool(self._ready)

    def _holds(self, member: Member, tail: float) -> bool:
        """Whether the space resolves what starts, or none that is allowed does."""
        amount = missed(member.density, tail)
        if member.t > 0.0 or amount <= self._options.tail_tol:
            return True
        self._grow(member, amount)
        return member.ending is not None

    def _multiply(self, members: list[Member]) -> None:
        """Have the multipliers of members computed."""
        several = list(dict.fromkeys(member.dynamics for member in members))
        found = Factors.of_several(several, self._space.dim, self._space.kmax)
        known = dict(zip(several, found, strict=True))
        for member in members:
            member.factors = known[member.dynamics]
            member.log_unit = member.factors.log_unit

    def _start(self, members: list[Member]) -> None:
        self._multiply(members)
        rates = self._starter
        rates.faults.clear()
        states = np.tile(rates.free_state, (rates.lanes, 1))
        for row, member in enumerate(members):
            rates.assign(row, cast(Factors, member.factors), member.unit)
            states[row] = np.append(member.density.coefficients.view(np.float64), member.work)
        slopes = np.empty_like(states)
        rates(states, slopes)
        for row, member in enumerate(members):
            if not np.isfinite(slopes[row]).all():
                reason = rates.faults.get(row, "the field is not finite")
                self._end(member, failed(member.time, 0.0, reason))
        new: Lanes = np.array([i for i, m in enumerate(members) if m.saves == 0], dtype=np.intp)
        if len(new):
            self._save(rates, [members[i] for i in new], new, states[new], slopes[new])
        atol = self._tolerances(states)
        spans = np.ones(rates.lanes)
        spans[: len(members)] = [self._bound(m) - m.t for m in members]
        found = first_steps(rates, states, slopes, spans, (self._options.rtol, atol))
        for row, member in enumerate(members):
            member.h = min(member.h, float(spans[row])) if member.h > 0.0 else float(found[row])
            member.evaluations += 2
            if not np.isfinite(member.h):
                self._end(member, failed(member.time, 0.0, "the field is not finite"))
            if member.ending is None:
                self._ready.append((member, states[row], slopes[row], atol[row]))

    def _end(self, member: Member, message: str) -> None:
        """End a run that failed, unless it has ended."""
        if member.ending is None:
            member.end(Ending.FAILED, message)

    def _tolerances(self, states: Array) -> Array:
        """Absolute tolerances of rows, as a run by itself has them."""
        atol = np.full_like(states, self._options.atol)
        atol[:, :-1] *= norms_up_to_degree(self._space, self._rates.coefficients(states))
        return atol

    def _bound(self, member: Member) -> float:
        """The time of the next save, as the member counts it."""
        times = self._table.times
        return float(times[min(max(member.saves, 1), len(times) - 1)] / member.unit)

    # ---------------------------------------------------------------- steps

    def _step(self) -> None:
        clock, taken = self._clock, self._taken()
        self._rates.faults.clear()
        good = clock.attempt()
        running = np.array([who is not None for who in self._who])
        power = self._space.power(self._rates.coefficients(clock.tried))
        tails = spectral_tails(power)
        outgrown = running & good & ~(tails <= self._options.tail_tol)
        for member in self._members(taken):
            member.evaluations += DOP853.n_stages
        for lane in np.nonzero(running & ~good)[0]:
            self._judge(int(lane))
        for lane in np.nonzero(outgrown)[0]:
            coefficients = self._rates.coefficients(clock.states)[lane].copy()
            member = self._leave(int(lane))
            member.h = float(clock.spans[lane])
            if member.t > 0.0:
                member.density = Density.from_coefficients(self._space, coefficients)
            self._grow(member, float(tails[lane]))
        good &= np.array([who is not None for who in self._who])
        clock.accept(good)
        self._count(np.nonzero(good)[0])
        due = np.nonzero(good & clock.at_bound)[0]
        if len(due):
            self._keep(due)

    def _judge(self, lane: int) -> None:
        """End what has no next step, of those whose last try was not good."""
        clock, reason = self._clock, self._rates.faults.get(lane)
        if reason is None and clock.too_small[lane]:
            reason = DOP853.TOO_SMALL_STEP
        if reason is not None:
            member = self._leave(lane)
            size = float(clock.spans[lane]) * member.unit
            member.end(Ending.FAILED, failed(member.time, size, reason))

    def _count(self, lanes: Lanes) -> None:
        """Steps, and end what has too many before it."""
        clock = self._clock
        for lane, member in zip(lanes, self._members(lanes), strict=True):
            member.steps += 1
            t = float(clock.t[lane])
            left = member.pace.left(t, float(clock.bound[lane]))
            if left > MOST_STEPS:
                self._leave(int(lane))
                size = float(clock.spans[lane]) * member.unit
                member.end(Ending.FAILED, too_far(member.time, size, left, member.dynamics))

    def _keep(self, due: Lanes) -> None:
        """Save what has come to its next save."""
        clock, members = self._clock, self._members(due)
        states = clock.states[due]
        for lane, member in zip(due, members, strict=True):
            member.t = float(clock.t[lane])
        self._save(self._rates, members, due, states, clock.slopes[due])
        clock.atol[due] = self._tolerances(states)
        for lane, member in zip(due, members, strict=True):
            if member.ending is None and member.saves == len(self._table.times):
                # the clock may be off by the rounding of its unit
                t_end = float(self._table.times[-1])
                member.end(Ending.FINISHED, finished(t_end, member.steps))
            if member.ending is not None:
                self._leave(int(lane))
                continue
            member.pace = Pace()
            clock.bound[lane] = self._bound(member)

    def _save(
        self, rates: DensityBatch, members: list[Member], lanes: Lanes, states: Array, slopes: Array
    ) -> None:
        """Numbers and coefficients of members, whose densities are on the grid in these lanes."""
        space, values = self._space, rates.values[lanes]
        coefficients = rates.coefficients(states)
        power = space.power(coefficients)
        shares = np.array([cast(Factors, member.factors).energies for member in members])
        signs = np.array([member.dynamics.sign for member in members])
        units = np.array([member.unit for member in members])
        numbers = {
            "energy": np.vecdot(shares, power),
            "dissipation": slopes[:, -1] / units,
            "work": signs * states[:, -1],
            "mass": values @ space.weights,
            "min_density": values.min(axis=1),
            "tail": spectral_tails(power),
            "size": np.full(len(members), float(space.size)),
            "steps": np.array([float(member.steps) for member in members]),
            "evaluations": np.array([float(member.evaluations) for member in members]),
        }
        self._table.keep(members, numbers, coefficients)

    def _grow(self, member: Member, amount: float) -> None:
        """Send a member to the next larger space, or end it where there is none."""
        options = self._options
        try:
            size = self._space.doubled().size
        except ValueError:
            # there is no such space in double precision
            size = options.largest + 1
        if size <= options.largest:
            self._outgrown.append(member)
            return
        misfit = member.density.misfit if member.t == 0.0 else None
        told = unresolved(
            member.time,
            amount,
            misfit,
            options.tail_tol,
            self._space,
            "`evolve`, where a flow map takes over, ",
        )
        member.end(Ending.UNDER_RESOLVED, told)
