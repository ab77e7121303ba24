"""meanfield study: each study is asked, told, written and drawn in one way."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, cast, get_type_hints

import typer
from typer import Option

from meanfield.cli import options, runs
from meanfield.cli.case import Case
from meanfield.cli.runs import BAD_INPUT, FAILED_RUN, Refusal, check_output, refusals
from meanfield.cli.sweeps import values_of
from meanfield.dynamics import SA, USA, Isotropic
from meanfield.evolution import netcdf
from meanfield.evolution.files import SOURCE

study = typer.Typer(rich_markup_mode=None)

# of a line
_WIDTH = 110
# attributes that go with a verdict
_BESIDE = ("witness", "reason", "note")
UNDECIDED = 3
_STATUSES = {"refuted": FAILED_RUN, "undecided": UNDECIDED}


@study.callback()
def _group() -> None:
    """Ask a study: a table, a dataset and a figure."""


@dataclass(frozen=True)
class Question:
    """A study with its arguments: `ask` takes where to run it, `tell` makes lines of its answer.

    `source` is what the answer depends on, and `case`, if there is one, is kept in its file.
    """

    ask: Callable[..., Any]
    source: Sequence[Any]
    tell: Callable[[Any], str]
    case: Case | None = None


def _asked(name: str) -> Callable[[Callable[..., Question]], Callable[..., Question]]:
    """Make a command of what builds a question of its options, with those that all studies have."""

    def add(question: Callable[..., Question]) -> Callable[..., Question]:
        def command(
            *,
            executor: options.ExecutorName = None,
            workers: options.Workers = None,
            scheduler: options.Scheduler = None,
            output: Annotated[Path, options.output()] = Path(f"{name}.nc"),
            figure: Annotated[Path | None, options.figure()] = None,
            force: options.Force = False,
            quiet: options.Quiet = False,
            **own: Any,
        ) -> None:
            where = {"name": executor, "workers": workers, "scheduler": scheduler}
            _answer(name, question(**own), where, output, figure, force, quiet)

        parameters = [
            one.replace(kind=one.KEYWORD_ONLY, annotation=hints[one.name])
            for asked in (question, command)
            for hints in [get_type_hints(asked, include_extras=True)]
            for one in inspect.signature(asked).parameters.values()
            if one.kind is not one.VAR_KEYWORD
        ]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        command.__doc__ = question.__doc__
        study.command(name)(command)
        return question

    return add


def _answer(
    name: str,
    question: Question,
    where: dict[str, Any],
    output: Path,
    figure: Path | None,
    force: bool,
    quiet: bool,
) -> None:
    """Ask a study, print what it found, and write its dataset and its figure.

    Raises
    ------
    Refusal
        If an argument is out of range, or a file can't be written or replaced.
    typer.Exit
        With the status of a verdict that is not 'proved'.
    """
    source, drawn = runs.source_of(name, *question.source), figure or output.with_suffix(".png")
    check_output(output, "--output", (".nc",), source, force)
    key = "--figure" if figure else "the figure beside --output"
    check_output(drawn, key, runs.FIGURE_SUFFIXES, source, force)
    # matplotlib is slow to import
    from meanfield import plot

    progress = sys.stderr.isatty() and not quiet
    with ExitStack() as stack:
        stack.enter_context(question.case._errors("run") if question.case else refusals())
        keywords = stack.enter_context(runs.executor_of(**where))
        found = question.ask(progress=progress, **keywords)
    # before its files, which may fail
    if not quiet:
        typer.echo(question.tell(found))
    verdict = found.attrs.get("verdict")
    with refusals(f"{output} or {drawn}", BAD_INPUT if verdict else FAILED_RUN):
        about = {"case": question.case._text} if question.case else {}
        netcdf.write(found.assign_attrs({**about, SOURCE: source}), output)
        draw = getattr(plot, name.replace("-", "_").replace(".", "_"))
        plot.save(draw(found), drawn, source=source)
    if not quiet:
        typer.echo(f"wrote {output}, {drawn}")
    raise typer.Exit(_STATUSES.get(verdict, 0))


def _numbers(option: str, text: str) -> list[float]:
    """The numbers of START:STOP:COUNT or NUMBER,NUMBER,….

    Raises
    ------
    Refusal
        If it is neither.
    """
    with suppress(ValueError, TypeError):
        if values := [float(one) for one in values_of(text)]:
            return values
    message = f"{option} must be numbers with commas between them, or START:STOP:COUNT"
    raise Refusal(f"{message}, got {text!r}")


_NS = "ascending integers >= 2 with commas between them"


def _integers(text: str) -> list[int]:
    # 1e4, too
    given = _numbers("--n", text)
    counts = [int(n) for n in given if n.is_integer() and n >= 2]
    if counts != given or counts != sorted(set(counts)):
        raise Refusal(f"--n must be {_NS}, got {text!r}")
    return counts


def _of_beta(name: str, text: str) -> list[SA | USA]:
    """SA or USA at each β.

    Raises
    ------
    Refusal
        If it is another dynamics, or a β is none.
    """
    kinds: dict[str, type[SA | USA]] = {"SA": SA, "USA": USA}
    if name not in kinds:
        raise Refusal(f"--dynamics must be one of {', '.join(kinds)}, got {name!r}")
    with refusals():
        return [kinds[name](beta) for beta in _numbers("--beta", text)]


def _table(found: Any, names: Sequence[str]) -> str:
    """These variables at the last time, a line for each place."""
    last = (found.isel(t=-1) if "t" in found.dims else found).reset_coords()
    frame = last[[name for name in names if name in last]].to_dataframe().reset_index()
    return str(frame.to_string(index=False, na_rep="-"))


Betas = Annotated[str, Option(metavar="B,B,…|START:STOP:COUNT", help="Values of β.")]
Kind = Annotated[str, Option("--dynamics", metavar="SA|USA", help="The dynamics.")]
Dim = Annotated[int, Option(help="Dimension d of R^d.")]
EndTime = Annotated[float, Option(help="The last time.")]
Repeats = Annotated[int, Option(min=1, help="Independent starts.")]


@_asked("mean-field-limit")
def mean_field_limit(
    case: options.CaseFile,
    n: Annotated[str, Option(metavar="N,N,…", help="Numbers of tokens.")] = "100,1000,10000",
    repeats: Annotated[int, Option(min=1, help="Starts for each number of tokens.")] = 8,
    rng: options.Rng = 0,
    settings: options.Settings = None,
) -> Question:
    """Hold runs of n tokens against the run of their density: errors over n and t, and rates.

    Law, dynamics and times are the case's; tokens are drawn from its law. Writes a dataset and a
    figure. Files of the same case and options are replaced, others only with --force.
    """
    from meanfield import studies

    counts, (chosen, _) = _integers(n), runs.chosen_case(case, settings)
    law, dynamics = chosen._build_law()
    ask = partial(
        studies.mean_field_limit,
        law,
        cast(Isotropic, dynamics),  # of others the study says itself that it has none
        chosen._tables.run.t_end,
        counts,
        repeats=repeats,
        save_at=chosen._tables.run.save_at,
        rng=rng,
    )
    source = chosen._digest(), counts, repeats, rng
    return Question(ask, source, rates, chosen)


def rates(found: Any) -> str:
    """A line for each quantity: its error at the largest n, and its rate in n."""
    from meanfield.plot.tokens import rms

    head = f"error, n = {int(found['n'][-1])}"
    lines = [f"{'quantity':<14}{head:>20}{'rate in n':>12}  95 %"]
    for name in found["quantity"].values:
        last, size = found.sel(quantity=name).isel(t=-1), rms(found[name].isel(n=-1, t=-1))
        rate, low, high = (float(last[key]) for key in ("rate", "rate_lower", "rate_upper"))
        # one number of tokens has no rate, one start no interval
        slope = f"{rate:.3f}" if isfinite(rate) else "-"
        interval = f"{low:.3f} … {high:.3f}" if isfinite(low) else "-"
        lines.append(f"{name!s:<14}{size:>20.3e}{slope:>12}  {interval}")
    return "\n".join(lines)


@_asked("proposition-3.4")
def proposition_3_4(
    beta: Annotated[
        str | None, Option(metavar="B or LOW,HIGH", help="β, or an interval of β; 4 if omitted.")
    ] = None,
    dim: Dim = 3,
    potential: Annotated[
        str | None,
        Option(
            metavar="A0,A1,…",
            help="Coefficients of Σ a_m t^m in place of e^{βt}/β; without --beta.",
        ),
    ] = None,
    n_measures: Annotated[
        int | None, Option(help="Random measures of the search; 4000, or 100 if quick, if omitted.")
    ] = None,
    quick: Annotated[bool, Option("--quick", help="Fewer measures and starts.")] = False,
    rng: options.Rng = 0,
) -> Question:
    """Proposition 3.4: uniform is the only minimiser of the energy, Diracs are its only maximisers.

    Prints a verdict (proved, undecided, refuted) with its evidence, and writes a dataset and a
    figure. Files of the same options are replaced, others only with --force. Exit status: 0 if the
    proposition is proved, 1 if it is refuted by a witness, 2 for bad input or a file that can't be
    written, 3 if it is undecided.
    """
    from meanfield import studies

    betas, coefficients = _problem(beta, potential)
    effort: dict[str, Any] = {"n_measures": 100, "repeats": 1} if quick else {"n_measures": 4000}
    effort |= {} if n_measures is None else {"n_measures": n_measures}
    ask = partial(studies.proposition_3_4, betas, dim, potential=coefficients, rng=rng, **effort)
    return Question(ask, (betas, dim, coefficients, effort, rng), evidence)


def _problem(
    beta: str | None, potential: str | None
) -> tuple[float | tuple[float, float] | None, list[float] | None]:
    """β or an interval of it, or the coefficients that take its place."""
    if potential is None:
        betas = _numbers("--beta", "4" if beta is None else beta)
        if len(betas) > 2:
            raise Refusal(f"--beta must be one number or LOW,HIGH, got {betas}")
        return betas[0] if len(betas) == 1 else (betas[0], betas[1]), None
    if beta is not None:
        raise Refusal(f"--beta must be left out with --potential, got {beta!r}")
    return None, _numbers("--potential", potential)


def evidence(found: Any) -> str:
    """The verdict and what it is about, with its witness, reason or note; a line for each part."""
    lines = [f"{found.attrs['verdict']}: {found.attrs['statement']}"]
    lines += [f"{name}: {found.attrs[name]}" for name in _BESIDE if name in found.attrs]
    lines.append("")
    names = found["part"].values.tolist()
    width = max(len(name) for name in names)
    for number, beta in enumerate(found["beta"].values.tolist()):
        if found.sizes["beta"] > 1:
            lines.append(f"β = {beta:g}")
        one = found.isel(beta=number)
        rows = zip(names, one["status"].values, one["finding"].values, strict=True)
        for name, status, finding in rows:
            heading = f"{name:<{width}}  {status!s:<7}  "
            lines += wrap(
                str(finding), _WIDTH, initial_indent=heading, subsequent_indent=" " * len(heading)
            )
    return "\n".join(lines)


@_asked("phase-diagram")
def phase_diagram(
    beta: Betas,
    dim: Dim,
    n: Annotated[int, Option(help="Number of tokens.")],
    t_end: EndTime,
    dynamics: Kind = "SA",
    repeats: Repeats = 32,
    rng: options.Rng = 0,
) -> Question:
    """The probability that two of n tokens are together, over t and β."""
    from meanfield import studies

    given = _of_beta(dynamics, beta), dim, n, t_end
    names = "probability", "standard_error", "arrival"
    ask = partial(studies.phase_diagram, *given, repeats=repeats, rng=rng)
    return Question(ask, (*given, repeats, rng), partial(_table, names=names))


@_asked("metastability")
def metastability(
    beta: Betas,
    dynamics: Kind = "SA",
    t_end: EndTime = 1e4,
    rng: options.Rng = 0,
) -> Question:
    """From near uniform on the circle through clusters that merge; times are those of growth."""
    from meanfield import studies

    given = _of_beta(dynamics, beta)
    names = "beta", "predicted_degree", "grown_degree", "growth_rate", "status"
    ask = partial(studies.metastability, given, t_end=t_end, rng=rng)
    return Question(ask, (given, t_end, rng), partial(_table, names=names))


@_asked("stationary-states")
def stationary_states(
    beta: Betas,
    dim: Dim,
    dynamics: Kind = "USA",
    kmax: Annotated[int, Option(min=1, help="Largest degree of a branch.")] = 1,
) -> Question:
    """Stationary states about an axis over the noise, on branches from the uniform state."""
    from meanfield import studies

    given = _of_beta(dynamics, beta), dim
    names = "nature", "critical_noise", "transition_noise", "jump"
    ask = partial(studies.stationary_states, *given, kmax=kmax)
    return Question(ask, (*given, kmax), partial(_table, names=names))


@_asked("two-token-correlation")
def two_token_correlation(
    beta: Annotated[float, Option(metavar="B", help="β of USA.")],
    n: Annotated[int, Option(help="Number of tokens.")],
    t_end: EndTime,
    repeats: Repeats = 1024,
    kmax: Annotated[int, Option(min=1, help="Largest degree.")] = 6,
    rng: options.Rng = 0,
) -> Question:
    """How pairs of n tokens on the circle correlate, by runs of tokens and by three closures."""
    from meanfield import studies

    given = beta, n, t_end
    ask = partial(studies.two_token_correlation, *given, repeats=repeats, kmax=kmax, rng=rng)
    tell = partial(_table, names=("status", "reached", "breaks"))
    return Question(ask, (*given, repeats, kmax, rng), tell)
