"""Self-attention with queries, keys, values and several heads, (2.3) and (2.7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from meanfield import _checks
from meanfield._checks import freeze, is_single, number, read_only, real_array, shown
from meanfield._records import Record, key
from meanfield.dynamics import facts, schedule
from meanfield.dynamics.causal import MASK, Causal, Maskable, check_mask
from meanfield.dynamics.facts import Energy
from meanfield.dynamics.isotropic import BETA, NOISE, SA, USA, Isotropic
from meanfield.dynamics.schedule import TimeDependent, in_time
from meanfield.typing import Array, ArrayLike, Listed, Rng, Summable

# a product of matrices has a rounding error of at most this share of its size
_ROUNDING = 1e-13
# for a larger β|D|, |X|² of order e^{2β|D|} leaves double precision
LARGEST_EXPONENT = 350.0


class Form(NamedTuple):
    """D, a matrix or a number, and ±1 for a gradient flow of ±E_{β,D}; β|D| of its kernel."""

    matrix: Array | float
    sign: int
    exponent: float


def common_form(
    beta: float, bilinear: Array | float, value: ArrayLike, least: float = 0.0
) -> Form | None:
    """D = KᵀQ and ±1 where KᵀQ is symmetric and V = ±KᵀQ, each a matrix or a number; else None.

    Rounding is relative to KᵀQ, or to a size that is larger.

    Examples
    --------
    >>> common_form(2.0, 3.0, -3.0), common_form(2.0, 3.0, 1.0)
    (Form(matrix=3.0, sign=-1, exponent=6.0), None)
    """
    shape, value = np.shape(bilinear) or np.shape(value), np.asarray(value)
    if shape:
        bilinear, value = facts.as_matrix(bilinear, shape[0]), facts.as_matrix(value, shape[0])
    size = max(np.abs(bilinear).max(), least)
    if np.abs(bilinear - np.transpose(bilinear)).max() > _ROUNDING * size:
        return None
    matrix = 0.5 * (bilinear + np.transpose(bilinear)) if shape else bilinear
    exponent = beta * (float(np.linalg.norm(matrix, 2)) if shape else abs(matrix))
    for sign in (1, -1):
        if np.abs(value - sign * matrix).max() <= _ROUNDING * size:
            return Form(matrix, sign, exponent)
    return None


ENSEMBLES = ("ginibre", "wigner-positive", "ginibre-product", "wigner-product")
# for a larger <z,y>, e^{<z,y>} leaves double precision
_LARGEST_EXPONENT = 700.0


def _matrix(name: str, shape: str) -> dict[str, object]:
    description = f"the {name} matrix {shape}, a list of rows, or a number"
    return in_time(key(description, float | list[list[float]]))


@dataclass(frozen=True, eq=False)
class Head(Record, Listed):
    """Queries Qx, keys Ky and values Vy of one attention head.

    Parameters
    ----------
    Q, K : array_like, shape (m, d), float, or a Schedule or callable of either
        With any number m of rows; a number stands for that multiple of the identity.
    V : array_like, shape (d, d), float, or a Schedule or callable of either
        With its output projection, if it has one.

    Attributes
    ----------
    matrix : ndarray (d, d) or float
        KᵀQ, of which the attention scores <Qx, Ky> = <KᵀQx, y> are made.

    Raises
    ------
    ValueError
        If the matrices do not fit each other or hold a NaN.

    Examples
    --------
    >>> Head(Q=[[1.0, 0.0]], K=[[0.0, 2.0]], V=-1.0).matrix
    array([[0., 0.],
           [2., 0.]])
    """

    _for_rooms = "dim", "matrix_slope"

    Q: ArrayLike = field(default=1.0, metadata=_matrix("query", "(m, d)"))
    K: ArrayLike = field(default=1.0, metadata=_matrix("key", "(m, d)"))
    V: ArrayLike = field(default=1.0, metadata=_matrix("value", "(d, d)"))

    def __post_init__(self) -> None:
        for name in ("Q", "K", "V"):
            freeze(self, **{name: matrix_or_number(name, getattr(self, name))})
        shapes = {name: np.shape(getattr(self, name)) for name in ("Q", "K", "V")}
        widths = {shape[1] for shape in shapes.values() if shape}
        heights = {shapes[name][0] for name in ("Q", "K") if shapes[name]}
        if shapes["Q"] == () or shapes["K"] == ():
            heights |= widths if heights else set()
        if shapes["V"]:
            widths.add(shapes["V"][0])
        if len(widths) > 1 or len(heights) > 1:
            raise ValueError(
                f"Q and K must be (m, d) and V (d, d), with numbers for multiples of the "
                f"identity (d, d), got shapes {shapes}"
            )
        if widths and min(widths) < 2:
            raise ValueError(f"Q, K and V must have d >= 2 columns, got shapes {shapes}")

    def __repr__(self) -> str:
        matrices = (self.Q, self.K, self.V)
        shapes = (m if isinstance(m, TimeDependent) else np.shape(m) or m for m in matrices)
        return "Head(Q={}, K={}, V={})".format(*shapes)

    @classmethod
    def random(cls, ensemble: str, dim: int, rng: Rng) -> Head:
        """Random Q, K and V, with singular values of order 1.

        A Ginibre matrix has independent entries N(0, 1/d), and the Wigner matrix (GOE) is
        (G + Gᵀ)/√2 of one: off its diagonal entries are N(0, 1/d), and its eigenvalues fill
        [-2, 2]. In Figure 5 entries of QᵀK are √d times as large, so its β is that of these heads
        over √d; V of (a) and (b) is √d times as large there too, and times are √d times as short.

        Parameters
        ----------
        ensemble : str
            'ginibre': Q, K, V Ginibre, (a); 'wigner-positive': QᵀK Wigner, V = GGᵀ with G Ginibre,
            (b); 'ginibre-product': Q, K Ginibre, V = QᵀK, (c); 'wigner-product': QᵀK Wigner,
            V = QᵀK, (d) of Figure 5.
        dim : int
            d >= 2.
        rng : int or numpy Generator

        Returns
        -------
        Head
            For `Attention(beta, [head])`.

        Raises
        ------
        ValueError
            If an argument is out of range.

        Examples
        --------
        >>> Head.random("wigner-product", 16, rng=0)
        Head(Q=(16, 16), K=1.0, V=(16, 16))
        """
        _checks.one_of("ensemble", ensemble, ENSEMBLES)
        dim, rng = _checks.integer("dim", dim, low=2), _checks.generator("rng", rng)
        if ensemble == "ginibre":
            return cls(Q=_ginibre(dim, rng), K=_ginibre(dim, rng), V=_ginibre(dim, rng))
        if ensemble == "ginibre-product":
            queries, keys = _ginibre(dim, rng), _ginibre(dim, rng)
            return cls(Q=queries, K=keys, V=queries.T @ keys)
        square = _ginibre(dim, rng)
        wigner = (square + square.T) / np.sqrt(2.0)
        if ensemble == "wigner-product":
            return cls(Q=wigner, V=wigner)
        square = _ginibre(dim, rng)
        return cls(Q=wigner, V=square @ square.T)

    @property
    def dim(self) -> int | None:
        """Return the ambient dimension d, None if any fits."""
        widths = [np.shape(m)[1] for m in (self.Q, self.K, self.V) if np.ndim(m)]
        return widths[0] if widths else None

    @property
    def matrix(self) -> Array | float:
        """KᵀQ, a number if both are."""
        schedule.refuse_schedules("Q and K", (self.Q, self.K), "their product is one matrix")
        queries, keys = np.asarray(self.Q), np.asarray(self.K).T
        product = np.asarray(keys @ queries if queries.ndim and keys.ndim else keys * queries)
        return product if product.ndim else float(product)

    def matrix_slope(self, t: float) -> Array | float:
        """d/dt of KᵀQ at a time."""
        now = schedule.at_time(self, t)
        slopes = (
            Head(Q=schedule.derivative_of(self.Q, t), K=now.K),
            Head(Q=now.Q, K=schedule.derivative_of(self.K, t)),
        )
        return slopes[0].matrix + slopes[1].matrix


def _ginibre(dim: int, rng: np.random.Generator) -> Array:
    return rng.normal(scale=1.0 / np.sqrt(dim), size=(dim, dim))


class HeadsDynamics(Maskable):
    """X[mu](x) = P_x Σ_h V_h ∇G(M_h x) [/ G(M_h x)] of `score_matrices` M, `value_matrices` V.

    Runs are made from these lists, whatever a subclass has as its `output`.
    """

    _for_rooms = "combine", "queries"

    @property
    def reach(self) -> float:
        """The largest |β KᵀQ|."""
        return max(float(np.linalg.norm(np.atleast_2d(m), 2)) for m in self.score_matrices)

    def output(self, measure: Summable, points: Array) -> Array:
        """Σ_h V_h ∇G [/ G], shape (n, d): what attention adds to tokens at unit rows (n, d)."""
        if self.mask is not None:
            return self.under_mask.output(measure, points)
        return self.combine([measure.log_moment(z) for z in self.queries(points)])

    def combine(self, moments: Sequence[tuple[Array, Array]]) -> Array:
        """Σ_h V_h ∇G [/ G], shape (n, d), of log G (n,) and ∇ log G (n, d) of each head."""
        total = np.zeros_like(moments[0][1])
        for matrix, (log_g, mean) in zip(self.value_matrices, moments, strict=True):
            if not self.normalised:
                mean = mean * np.exp(log_g)[:, None]
            value = np.asarray(matrix)
            total += mean @ value.T if value.ndim else value * mean
        return total

    def queries(self, points: Array) -> Iterator[Array]:
        """β KᵀQ x of one head after the other, shape (n, d) each: where it needs G."""
        for scores in map(np.asarray, self.score_matrices):
            yield points @ scores.T if scores.ndim else scores * points


@dataclass(frozen=True)
class Attention(HeadsDynamics):
    """X[mu](x) = P_x Σ_h V_h ∇G(β K_hᵀQ_h x) [/ G(β K_hᵀQ_h x)], (2.3) and (2.7).

    `SA(beta)` is one `Head()` of identities; V = -1 makes it repulsive. One head of numbers
    with KᵀQ >= 0 and V = ±1 runs as fast as SA: it is moved as SA is.

    Parameters
    ----------
    beta : float, Schedule or callable
        Inverse temperature β >= 0; for trained weights 1/sqrt(m).
    heads : sequence of Head
        At least one; their outputs are added.
    normalised : bool
        Whether to divide by G (softmax), as SA does and USA does not.
    noise : float
        τ >= 0 of the diffusion τ Δf.
    mask : Causal, optional
        It says which tokens each token attends to; to all if omitted.

    Attributes
    ----------
    dim : int or None
        Ambient dimension that the matrices ask for; None if any fits.

    Raises
    ------
    ValueError
        If an argument is out of range, heads differ in dimension, or, without `normalised`,
        β |KᵀQ| > 700.

    Examples
    --------
    >>> import meanfield as mf
    >>> turned = mf.Head(V=[[0.0, -1.0], [1.0, 0.0]])
    >>> mf.Attention(1.0, [turned]).velocity(mf.Particles([[1.0, 0.0]]), at=[[1.0, 0.0]])
    array([[0., 1.]])
    """

    beta: Any = field(metadata=in_time(BETA))
    heads: Sequence[Head] = field(
        metadata=key("a list of tables with Q, K or V", list, minItems=1, maxItems=facts.MOST_PARTS)
    )
    normalised: bool = field(default=True, kw_only=True, metadata=key("with softmax", bool))
    noise: float = field(default=0.0, kw_only=True, metadata=NOISE)
    mask: Causal | None = field(default=None, kw_only=True, metadata=MASK)

    why_no_energy: ClassVar[str] = "only attention of one head with KᵀQ = D = Dᵀ and V = ±D has one"
    # the attention whose weights vary in time, if this one is its value at an instant
    _whole: ClassVar[Attention | None] = None
    why_no_gradient: ClassVar[str] = "V of each head must be a multiple of QᵀK = (KᵀQ)ᵀ, and is not"

    def __post_init__(self) -> None:
        check_mask(self.mask)
        beta, noise = schedule.coefficient("beta", self.beta), number("noise", self.noise, low=0)
        heads = facts.as_tuple(self.heads)
        if not heads or not all(isinstance(head, Head) for head in heads):
            raise ValueError(
                f"heads must be a sequence of at least one Head, got {shown(self.heads)}"
            )
        normalised = _checks.boolean("normalised", self.normalised)
        freeze(self, beta=beta, heads=heads, normalised=normalised, noise=noise)
        freeze(self, dim=facts.common_dim("heads", heads))
        if not self.varies:
            with np.errstate(over="ignore", invalid="ignore"):
                scores = [beta * head.matrix for head in heads]
            freeze(self, score_matrices=scores, value_matrices=[h.V for h in heads])
        self._check_size()

    def _check_size(self) -> None:
        sizes = [float(np.abs(np.atleast_2d(b)).max()) for b in self.score_matrices]
        if not np.isfinite(sizes).all():
            raise ValueError(f"beta KᵀQ of each head must be finite, got {sizes} at most")
        if self.normalised:
            return
        largest, values = self.reach, sum(schedule.largest_of(head.V) for head in self.heads)
        exponent = largest + max(float(np.log(max(values, 1e-300))), 0.0)
        if exponent > _LARGEST_EXPONENT:
            raise ValueError(
                f"beta |KᵀQ| + log Σ |V| must be <= {_LARGEST_EXPONENT:g} without normalised, got "
                f"{_checks.tell_apart(exponent, _LARGEST_EXPONENT)[0]}"
            )

    def __repr__(self) -> str:
        mask = "" if self.mask is None else f", mask={self.mask}"
        return (
            f"Attention(beta={self.beta}, heads={len(self.heads)}, dim={self.dim}, "
            f"normalised={self.normalised}, noise={self.noise}{mask})"
        )

    def opposite(self) -> Attention:
        opposites = [replace(head, V=schedule.opposite_of(head.V)) for head in self.heads]
        return replace(self, heads=opposites)

    @property
    def reach(self) -> float:
        """The largest |β KᵀQ|, or what bounds it at all times."""
        if not self.varies:
            return super().reach
        reaches = (schedule.largest_of(head.K) * schedule.largest_of(head.Q) for head in self.heads)
        return schedule.largest_of(self.beta) * max(reaches)

    @property
    def _form(self) -> Form | None:
        """Return D, ±1 and β|D| if there is one head with KᵀQ = D = Dᵀ and V = ±D, else None.

        The dynamics is then a gradient flow of ±E_{β,D}, see `energy` (Burger et al., arXiv
        2501.03096): in W_2, with `normalised` in the metric with weight G(βDx), (3.12) to (3.14).
        """
        if len(self.heads) > 1:
            return None
        form = self._form_alone
        if form is None or self._whole is None or self._has_sign(form):
            return form
        return form._replace(sign=self._whole._sign_of_form)

    @property
    def _form_alone(self) -> Form | None:
        """D, ±1 and β|D| of one head from its weights at this instant, None if V is not ±D."""
        return common_form(self.beta, self.heads[0].matrix, self.heads[0].V, self.rounding_size)

    def _has_sign(self, form: Form) -> bool:
        """Return whether D is more than rounding, so that V tells its sign.

        D may pass through 0 in time.
        """
        return float(np.abs(form.matrix).max()) > 2.0 * _ROUNDING * self.rounding_size

    @cached_property
    def _sign_of_form(self) -> int:
        """Return the sign of V = ±KᵀQ at a time when they are not 0.

        The time is a knot or between two.
        """
        knots_of = [np.asarray(weight.times) for weight in schedule.schedules(self)]
        start, end = max(times[0] for times in knots_of), min(times[-1] for times in knots_of)
        knots = np.unique(np.clip(np.concatenate(knots_of), start, end))
        knots = knots[np.isfinite(knots)]
        for t in np.append(knots, 0.5 * (knots[1:] + knots[:-1])):
            attention_at_t = self.at(float(t))
            if (form := attention_at_t._form_alone) is not None and attention_at_t._has_sign(form):
                return int(form.sign)
        return 1

    def at(self, t: float) -> Attention:
        attention_at_t = schedule.at_time(self, t)
        if attention_at_t is not self:
            freeze(attention_at_t, _whole=self)
        return attention_at_t

    @property
    def is_gradient(self) -> bool:
        """Each V must be a multiple of QᵀK: P_x Mᵀ ∇G(Mx) is the gradient of G(Mx), M = β KᵀQ."""
        dim = self.dim or 1
        return all(facts.is_multiple(v, m.T, self.rounding_size) for m, v in self.matrices(dim))

    @property
    def simplest(self) -> Attention | Isotropic:
        """SA or USA if these heads are one: a single head of numbers, KᵀQ >= 0 and V = ±1."""
        score, value = np.asarray(self.score_matrices[0]), np.asarray(self.heads[0].V)
        if self.heads[1:] or score.ndim or value.ndim or score < 0.0 or abs(value) != 1.0:
            return self
        return (SA if self.normalised else USA)(float(score), sign=int(value), noise=self.noise)

    @cached_property
    def energy_functional(self) -> Energy | None:
        """E_{β,D} where a run can keep it in balance: β|D| <= 350.

        That of SA and USA where it is one of them.
        """
        if self.simplest is not self:
            return self.simplest.energy_functional
        form = self._form
        if form is None or form.exponent > LARGEST_EXPONENT:
            return None
        return self.energy_at_any_size

    @cached_property
    def energy_at_any_size(self) -> Energy | None:
        """E_{β,D} of one head with KᵀQ = D = Dᵀ and V = ±D."""
        form, beta = self._form, self.beta
        if form is None:
            return None
        largest = float(np.linalg.eigvalsh(np.atleast_2d(form.matrix))[-1])
        return Energy(
            "E_D",
            "E_{β,D}(mu) = 1/(2β) ∬ e^{β<x,Dy>} dmu dmu, D = KᵀQ",
            form.sign,
            in_w2=not self.normalised,
            beta=beta,
            dirac=0.5 / beta if beta > 0.0 else 0.5 * largest,
            log_dirac=beta * largest,
            # with the logarithm of the unit above LARGEST_EXPONENT, usual energies would underflow
            # to 0
            log_unit=min(beta, LARGEST_EXPONENT),
            form=form.matrix,
        )


def matrix_or_number(name: str, value: ArrayLike) -> Array | float | TimeDependent:
    """A finite float64 matrix, made read-only, a finite number, or a schedule of either.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if (weight := schedule.varying(name, value)) is not None:
        if weight.ndim == 1:
            raise ValueError(
                f"{name} must be a Schedule or a function of numbers or of matrices, got {weight}"
            )
        return weight
    return number(name, value) if is_single(value) else read_only(real_array(name, value, 2))
