"""meanfield study: each study is called, written and drawn in one way."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from inspect import Signature, signature
from math import isfinite
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from meanfield.cli import options, runs
from meanfield.cli.runs import BAD_INPUT, FAILED_RUN, Refusal, refusals

if TYPE_CHECKING:
    import xarray as xr

study = typer.Typer(
    rich_markup_mode=None, help="Run a study: print a table, write a dataset and a figure."
)

# lines have at most this width
_WIDTH = 110
# these attributes are printed with a verdict
_BESIDE = ("witness", "reason", "note")
UNDECIDED = 3
_STATUSES = {"refuted": FAILED_RUN, "undecided": UNDECIDED}
# these options say where independent parts run
_ELSEWHERE = {"executor", "workers", "scheduler"}


Keywords = dict[str, Any]
# the keywords of a study, by its options; None leaves these as they are
_Question = Callable[..., Keywords | None]


def _asked(
    name: str, tell: Callable[[xr.Dataset], str], *, parts: bool = True
) -> Callable[[_Question], _Question]:
    """Make a command of the function of a study, with the options that all studies have.

    The function below it takes its own options and returns the keywords of the study, and as `case`
    the case that goes into its file; a function without a body leaves the options as they are.
    `tell` makes lines of the answer. A study without independent `parts` runs here, without a bar.
    """

    def add(question: _Question) -> _Question:
        def command(
            *,
            executor: options.ExecutorName = None,
            workers: options.Workers = None,
            scheduler: options.Scheduler = None,
            output: Annotated[Path, options.output()] = Path(f"{name}.nc"),
            figure: Annotated[Path | None, options.figure()] = None,
            force: options.Force = False,
            quiet: options.Quiet = False,
            **further: object,
        ) -> None:
            arguments = question(**further) or _with_dynamics(further)
            case = arguments.pop("case", None)
            source = runs.source_of(name, case and case.digest(), arguments)
            with runs.claimed(output, "--output", (".nc",), source, force):
                picture = runs.check_figure(figure, output, ("--output", "--figure"), source, force)
                # these imports are slow, so `--help` does without them
                from meanfield import plot, studies

                with ExitStack() as stack:
                    stack.enter_context(case.errors("run") if case else refusals())
                    if parts:
                        where = runs.executor_of(executor, workers, scheduler)
                        arguments |= stack.enter_context(where)
                        arguments["progress"] = sys.stderr.isatty() and not quiet
                    dataset = getattr(studies, question.__name__)(**arguments)
                # the answer is printed before files are written, which may fail
                if not quiet:
                    typer.echo(tell(dataset))
                verdict = dataset.attrs.get("verdict")
                with refusals(f"{output} or {picture}", BAD_INPUT if verdict else FAILED_RUN):
                    attributes = {"case": case.text} if case else {}
                    runs.write_dataset(dataset.assign_attrs(attributes), output, source)
                    plot.save(getattr(plot, question.__name__)(dataset), picture, source=source)
            if not quiet:
                typer.echo(f"wrote {output}, {picture}")
            raise typer.Exit(_STATUSES.get(verdict, 0))

        parameters = [
            parameter.replace(kind=parameter.KEYWORD_ONLY)
            for function in (question, command)
            for parameter in signature(function, eval_str=True).parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
            and (parts or parameter.name not in _ELSEWHERE)
        ]
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        study.command(name, help=question.__doc__)(command)
        return question

    return add


def numbers_from(option: str, text: str) -> list[float]:
    """The numbers of START:STOP:COUNT or NUMBER,NUMBER,….

    Raises
    ------
    Refusal
        If it is neither.
    """
    from meanfield.cli.sweeps import values_of

    with suppress(ValueError, TypeError):
        if values := [float(word) for word in values_of(text)]:
            return values
    message = f"{option} must be numbers with commas between them, or START:STOP:COUNT"
    raise Refusal(f"{message}, got {text!r}")


def _integers(text: str) -> list[int]:
    # 1e4 is an integer, too
    numbers = numbers_from("--n", text)
    counts = [int(n) for n in numbers if n.is_integer() and n >= 2]
    if counts != numbers or counts != sorted(set(counts)):
        raise Refusal(f"--n must be ascending integers >= 2 with commas between them, got {text!r}")
    return counts


def _with_dynamics(keywords: Keywords) -> Keywords:
    """Return the keywords of a study with SA or USA at each β if `dynamics` names one of them.

    Raises
    ------
    Refusal
        If it is another dynamics, or a β is none.
    """
    from meanfield.dynamics import SA, USA

    if "dynamics" not in keywords:
        return keywords
    kinds, name = {"SA": SA, "USA": USA}, keywords["dynamics"]
    if name not in kinds:
        raise Refusal(f"--dynamics must be one of {', '.join(kinds)}, got {name!r}")
    betas = numbers_from("--beta", keywords.pop("beta"))
    with refusals():
        return keywords | {"dynamics": [kinds[name](beta) for beta in betas]}


def _table(*names: str, **headed: str) -> Callable[[xr.Dataset], str]:
    """Return a function that lists variables at the last time as text, a line for each place."""

    def told(ds: xr.Dataset) -> str:
        at_end = ds.isel(t=-1, missing_dims="ignore").reset_coords()
        frame = at_end[[name for name in (*names, *headed) if name in at_end]].to_dataframe()
        table = frame.reset_index().rename(columns=headed)
        return str(table.to_string(index=False, na_rep="-"))

    return told


def rates(ds: xr.Dataset) -> str:
    """A line for each quantity: its error at the largest n, and its rate in n."""
    from meanfield.plot.studies import rms

    head = f"error, n = {int(ds['n'][-1])}"
    joint = f"interval (all jointly {100 * ds.attrs['confidence']:g} %)"
    lines = [f"{'quantity':<14}{head:>20}{'rate in n':>12}  {joint}"]
    for name in ds["quantity"].values:
        at_end, size = ds.sel(quantity=name).isel(t=-1), rms(ds[name].isel(n=-1, t=-1))
        rate, low, high = (float(at_end[key]) for key in ("rate", "rate_lower", "rate_upper"))
        # one number of tokens gives no rate, and one start no interval
        power = f"{rate:.3f}" if isfinite(rate) else "-"
        interval = f"{low:.3f} … {high:.3f}" if isfinite(low) else "-"
        lines.append(f"{name!s:<14}{size:>20.3e}{power:>12}  {interval}")
    return "\n".join(lines)


def evidence(ds: xr.Dataset) -> str:
    """The verdict and what it is about, with its witness, reason or note; a line for each part."""
    lines = [f"{ds.attrs['verdict']}: {ds.attrs['statement']}"]
    lines += [f"{name}: {ds.attrs[name]}" for name in _BESIDE if name in ds.attrs]
    lines.append("")
    names = ds["part"].values.tolist()
    width = max(len(name) for name in names)
    for index, beta in enumerate(ds["beta"].values.tolist()):
        if ds.sizes["beta"] > 1:
            lines.append(f"β = {beta:g}")
        of_beta = ds.isel(beta=index)
        rows = zip(names, of_beta["status"].values, of_beta["finding"].values, strict=True)
        for name, status, finding in rows:
            heading = f"{name:<{width}}  {status!s:<7}  "
            indent = " " * len(heading)
            lines += wrap(str(finding), _WIDTH, initial_indent=heading, subsequent_indent=indent)
    return "\n".join(lines)


Betas = Annotated[str, Option(metavar="B,B,…|START:STOP:COUNT", help="Values of β.")]
Kind = Annotated[str, Option("--dynamics", metavar="SA|USA", help="The dynamics.")]
Dim = Annotated[int, Option(help="Dimension d of R^d.")]
Tokens = Annotated[int, Option(help="Number of tokens.")]
EndTime = Annotated[float, Option(help="The last time.")]
Repeats = Annotated[int, Option(min=1, help="Independent starts.")]


def errors_by_position(ds: xr.Dataset) -> str:
    """A line for each window of the largest n: its tokens and their error; then the slope."""
    at_end = ds.isel(n=-1, t=-1)
    ends = at_end["last_token"].values.astype(int).tolist()
    rows = zip([1, *(end + 1 for end in ends)], ends, at_end["rms"].values, strict=False)
    lines = [f"{'tokens':<16}{'rms':>11}{'standard_error':>18}"]
    for (first, end, size), error in zip(rows, at_end["standard_error"].values, strict=True):
        text = f"{error:.1e}" if isfinite(error) else "-"
        lines.append(f"{f'{first} to {end}':<16}{size:>11.3e}{text:>18}")
    slope, error = (float(at_end[name]) for name in ("slope", "slope_error"))
    text = f"{slope:.3f}" if isfinite(slope) else "-"
    text += f" ± {error:.3f}" if isfinite(error) else ""
    return "\n".join([*lines, f"slope after token {ds.attrs['fitted_after']}: {text}"])


Counts = Annotated[str, Option(metavar="N,N,…", help="Several numbers of tokens.")]
Starts = Annotated[int, Option(min=1, help="Random starts for each number of tokens.")]


def _of_case(case: Path, n: str, repeats: int, rng: int, settings: list[str] | None) -> Keywords:
    """Return the keywords of a study of tokens and their density, from a case and options."""
    arguments: Keywords = {"n": _integers(n), "repeats": repeats, "rng": rng}
    arguments["case"], _ = runs.chosen_case(case, settings)
    arguments["law"], arguments["dynamics"] = arguments["case"].build_law()
    run = arguments["case"].tables.run
    return arguments | {"t_end": run.t_end, "save_at": run.save_at}


@_asked("mean-field-limit", rates)
def mean_field_limit(
    case: options.CaseFile,
    n: Counts = "100,1000,10000",
    repeats: Starts = 32,
    rng: options.Rng = 0,
    settings: options.Settings = None,
) -> Keywords:
    """Compare n tokens with their density.

    Errors over n and t, and their rates in n, of runs of tokens against the run of the density.
    Law, dynamics and times are those of the case; tokens are drawn from its law. Files of the same
    case and options are replaced, others only with --force.
    """
    return _of_case(case, n, repeats, rng, settings)


@_asked("causal-limit", errors_by_position)
def causal_limit(
    case: options.CaseFile,
    n: Counts = "256,1024,4096",
    repeats: Starts = 8,
    rng: options.Rng = 0,
    settings: options.Settings = None,
) -> Keywords:
    """Causal tokens beside their density.

    How far tokens under the mask of the case are from where its density, without the mask, carries
    their starts; by position, and its slope. Law, dynamics and times are those of the case. Files
    of the same case and options are replaced, others only with --force.
    """
    return _of_case(case, n, repeats, rng, settings)


@_asked("proposition-3.4", evidence)
def proposition_3_4(
    beta: Annotated[
        str | None, Option(metavar="B or LOW,HIGH", help="β, or an interval of β; 4 by default.")
    ] = None,
    dim: Dim = 3,
    potential: Annotated[
        str | None,
        Option(
            metavar="A0,A1,…",
            help="Coefficients of Σ a_m t^m in place of e^{βt}/β. Not with --beta.",
        ),
    ] = None,
    n_measures: Annotated[
        int | None, Option(help="Random measures of the search; by default 4000, with --quick 100.")
    ] = None,
    quick: Annotated[bool, Option("--quick", help="Fewer measures and starts.")] = False,
    rng: options.Rng = 0,
) -> Keywords:
    """Prove or refute Proposition 3.4.

    It says that the uniform measure alone minimises the energy and Diracs alone maximise it. Prints
    a verdict (proved, undecided, refuted) with its evidence. Files of the same options are
    replaced, others only with --force. Exit status: 0 if the proposition is proved, 1 if a witness
    refutes it, 2 for bad input or a file that can't be written, 3 if it is undecided.
    """
    if beta is not None and potential is not None:
        raise Refusal(f"--beta must be left out with --potential, got {beta!r}")
    arguments: Keywords = {"beta": None, "dim": dim, "rng": rng}
    if potential is not None:
        arguments["potential"] = numbers_from("--potential", potential)
    else:
        betas = numbers_from("--beta", "4" if beta is None else beta)
        if len(betas) > 2:
            raise Refusal(f"--beta must be one number or LOW,HIGH, got {betas}")
        arguments["beta"] = betas[0] if len(betas) == 1 else tuple(betas)
    arguments["n_measures"] = (100 if quick else 4000) if n_measures is None else n_measures
    return arguments | ({"repeats": 1} if quick else {})


@_asked("phase-diagram", _table("probability", "standard_error", arrival="t* (6.12)"))
def phase_diagram(
    beta: Betas,
    dim: Dim,
    n: Tokens,
    t_end: EndTime,
    dynamics: Kind = "SA",
    repeats: Repeats = 32,
    rng: options.Rng = 0,
) -> None:
    """The t and β at which tokens have met.

    The probability that two of n tokens have met (Figure 3 of the paper).
    """


@_asked(
    "metastability",
    _table(
        *("beta", "predicted_degree", "largest_growth_rate"),
        *("grown_degree", "growth_rate_predicted", "growth_rate", "status"),
    ),
)
def metastability(
    beta: Betas, dynamics: Kind = "SA", t_end: EndTime = 1e4, rng: options.Rng = 0
) -> None:
    """Clusters that last and merge, on the circle.

    Runs begin near the uniform measure; t is in units of the growth time.
    """


@_asked("stationary-states", _table("nature", "critical_noise", "transition_noise", "jump"))
def stationary_states(
    beta: Betas,
    dim: Dim,
    dynamics: Kind = "USA",
    kmax: Annotated[int, Option(min=1, help="Largest degree of a branch.")] = 1,
) -> None:
    """Axisymmetric stationary states over noise.

    They lie on branches from the uniform state.
    """


@_asked("two-token-correlation", _table("status", "reached", "breaks"))
def two_token_correlation(
    beta: Annotated[float, Option(metavar="B", help="β of USA.")],
    n: Tokens,
    t_end: EndTime,
    repeats: Repeats = 1024,
    kmax: Annotated[int, Option(min=1, help="Largest degree.")] = 6,
    rng: options.Rng = 0,
) -> None:
    """Pairs of tokens against three closures.

    How pairs of n tokens on the circle correlate.
    """


@_asked(
    "energy-extremisers",
    _table("least_energy", "least_kind", "largest_energy", "largest_kind"),
    parts=False,
)
def energy_extremisers(
    eigenvalue: Annotated[str, Option(metavar="L,L,…|START:STOP:COUNT", help="Values of λ.")],
    beta: Annotated[float, Option(metavar="B", help="β of the energy.")] = 1.0,
) -> Keywords:
    """Measures of least and largest energy.

    On the circle, for D = diag(1, λ), at least one λ > 0.
    """
    values = numbers_from("--eigenvalue", eigenvalue)
    if max(values) <= 0.0:
        raise Refusal(f"--eigenvalue must have a value > 0, got {eigenvalue!r}")
    return {"matrices": [[[1.0, 0.0], [0.0, value]] for value in values], "beta": beta}


@_asked("limits-without-normalisation", _table("n_distinct", "off", "moved"), parts=False)
def limits_without_normalisation(
    n: Tokens = 40,
    beta: Annotated[float, Option(metavar="B", help="β > 0.")] = 20.0,
    t_end: EndTime = 12.0,
    rng: options.Rng = 0,
) -> None:
    """The limits of tokens without normalisation.

    The four rows of Table 1 of the paper.
    """
