"""Faults that tests have to notice: what is changed where, and the tests that must fail then.

`mutations` plants them. Who moves the code of a fault moves its line here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """One place changed in one file, and what must notice."""

    name: str
    file: str
    right: str
    wrong: str
    targets: tuple[str, ...]

    def apply(self, root: Path) -> None:
        """Change the place in a copy of the tree.

        Raises
        ------
        ValueError
            If it is not there exactly once.
        """
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.right) != 1:
            raise ValueError(
                f"{self.file} must hold {self.right!r} once for the fault {self.name!r}, got it "
                f"{text.count(self.right)} times"
            )
        path.write_text(text.replace(self.right, self.wrong), encoding="utf-8")


QUICK = "tests/validation/test_claims.py::test_claims_hold[{}]"
GROWTH, MULTIPLIERS = map(QUICK.format, ("linear_growth", "multipliers"))
ENERGIES = "tests/functionals/test_energies.py::"
TRANSPORT = "tests/functionals/transport/test_{}.py::"
CIRCLE, CLOUDS, QUANTILES, SEMIDISCRETE, SPHERE, SPHERE_DUAL, SPHERE_MASSES = map(
    TRANSPORT.format,
    ("circle", "clouds", "quantiles", "semidiscrete", "sphere", "sphere_dual", "sphere_masses"),
)
GRIDS = "tests/spaces/test_spaces.py::"

# each is noticed by three scripts or tests of different kinds
BROAD = (
    Fault(
        "Gauss weights of mass 2",
        "meanfield/spaces/gegenbauer.py",
        "return nodes, weights / weights.sum()",
        "return nodes, 2.0 * weights / weights.sum()",
        (
            "tests/spaces/test_gegenbauer.py::test_gauss_nodes_integrate_powers",
            "tests/spaces/test_gegenbauer.py::test_polynomials_are_orthonormal",
            GRIDS + "test_grid",
        ),
    ),
    Fault(
        "Λ_k shifted by one degree",
        "meanfield/kernels/multipliers.py",
        "def _binary_eigenvalues(beta: float, dim: int, kmax: int)",
        "def _binary_eigenvalues(beta, dim, kmax):\n"
        "    return tuple(a[1:] for a in _right(beta, dim, kmax + 1))\n\n\n"
        "def _right(beta: float, dim: int, kmax: int)",
        (
            "tests/kernels/test_multipliers.py::test_published_eigenvalues",
            "tests/kernels/test_multipliers.py::test_eigenvalues_against_mpmath",
            "tests/kernels/test_multipliers.py::test_bandwidth_is_enough_for_the_kernel",
            MULTIPLIERS,
        ),
    ),
    Fault(
        "SA's velocity twice as large",
        "meanfield/equations/kernel_on_grid.py",
        "multiply(transforms.gradient, potential, out=transforms.flux)\n        if lost",
        "multiply(2.0 * transforms.gradient, potential, out=transforms.flux)\n        if lost",
        (
            GROWTH,
            "tests/evolution/test_between_saves.py::test_pdf_between_saves_is_that_of_the_measure",
            "tests/equations/test_density.py::test_right_hand_side_has_the_same_velocity",
        ),
    ),
    Fault(
        "no dealiasing on the circle",
        "meanfield/spaces/circle.py",
        "count = size // 2 - 1, 3 * size // 2",
        "count = size // 2 - 1, size",
        (
            GRIDS + "test_grid",
            GRIDS + "test_exact_size_is_exact_and_no_larger_than_needed",
            "tests/equations/test_density.py::test_products_on_the_circle_do_not_alias",
        ),
    ),
    Fault(
        "half of the noise",
        "meanfield/evolution/density_system.py",
        "decay = np.append(dynamics.noise * laplacian",
        "decay = np.append(0.5 * dynamics.noise * laplacian",
        (
            "tests/equations/test_density.py::test_heat_flow_alone",
            GROWTH,
            QUICK.format("noisy_densities"),
        ),
    ),
    Fault(
        "USA without its 1/β",
        "meanfield/equations/kernel_on_grid.py",
        "unit = float(series_unit",
        "unit = kernel.reach * float(series_unit",
        (
            GROWTH,
            "tests/agreement/test_turned.py::test_rotation_on_the_circle",
            ENERGIES + "test_dissipation_of_usa_on_other_spaces",
        ),
    ),
    Fault(
        "dissipation of the other sign",
        "meanfield/equations/density.py",
        "return self._field.rate_unit * self",
        "return -self._field.rate_unit * self",
        (
            QUICK.format("lemma_3_7_energy_identity"),
            ENERGIES + "test_dissipation_of_usa_on_other_spaces",
            ENERGIES + "test_dissipation_of_usa_squares_no_large_velocity[300.0]",
        ),
    ),
    Fault(
        "W_1 by the mean, not the median",
        "meanfield/functionals/transport/circle.py",
        "median = excess[ranked[min(int(half), len(ranked) - 1)]]",
        "median = lengths @ excess / mu.turn",
        (
            CIRCLE + "test_weighted_tokens_against_all_plans",
            CLOUDS + "test_weights_over_fifteen_orders",
            CIRCLE + "test_tokens_at_the_seam_that_coincide_or_weigh_nothing",
        ),
    ),
)

BALANCED = "tests/dynamics/test_doubly_stochastic.py::"
LABELS = ("tests/equations/test_meshes.py::test_the_label_error_is_the_mass_that_is_misplaced",)
SUMMED = "tests/equations/test_tendency.py::"
SUMMED += "test_terms_are_summed_below_a_millionth_of_the_largest_potential[{}-{}]"
LOST = ("tests/equations/test_sphere.py::test_the_share_of_its_largest_value_at_which_g_is_lost",)
PICTURES = ("tests/plot/test_panels.py::test_tokens_are_drawn_by_their_weight",)
PAGE = ("tests/cli/test_report.py::test_tokens_are_where_they_are_and_as_large_as_their_weights",)

# each was once planted, and noticed by no test near it
HOLES = (
    Fault(
        "collapses are forgotten on resume",
        "meanfield/evolution/restart.py",
        "run.system.collapses = [",
        "_ = [",
        ("tests/evolution/test_restart.py::test_a_resumed_run_keeps_its_collapses",),
    ),
    Fault(
        "sign of |slope|²/2λ in a basin",
        "meanfield/functionals/transport/sphere_dual.py",
        "floor = minima.values - squares",
        "floor = minima.values + squares",
        (SPHERE_DUAL + "test_the_conjugate_of_zero_is_zero",),
    ),
    Fault(
        "a length without the error of its integrals",
        "meanfield/functionals/transport/sphere.py",
        "squares + error[:, None]",
        "squares",
        (SPHERE + "test_a_length_holds_what_integrals_may_be_off_by",),
    ),
    Fault(
        "raised costs of clouds count in the lower bound",
        "meanfield/functionals/transport/clouds.py",
        "lower=max(best.lower - _LEAST_COST, 0.0)",
        "lower=best.lower",
        (CLOUDS + "test_costs_that_are_raised_stay_below_the_least",),
    ),
    Fault(
        "label error without the stretch",
        "meanfield/equations/meshes.py",
        "exact = self.law.pdf(labels) * np.exp(stretch)",
        "exact = self.law.pdf(labels)",
        LABELS,
    ),
    Fault(
        "label error without what is kept",
        "meanfield/equations/meshes.py",
        "exact = self.law.pdf(labels) * np.exp(stretch) * share",
        "exact = self.law.pdf(labels) * np.exp(stretch)",
        LABELS,
    ),
    Fault(
        "label error as a share",
        "meanfield/equations/meshes.py",
        "return float(masses[-1] * np.mean(",
        "return float(np.mean(",
        LABELS,
    ),
    Fault(
        "moments of a scaled measure without their unit",
        "meanfield/kernels/sinkhorn.py",
        "return log_g + log_unit, mean",
        "return log_g, mean",
        (BALANCED + "test_the_scaling_of_the_uniform_measure",),
    ),
    Fault(
        "mean phase from -π to π",
        "meanfield/functionals/energies.py",
        "circle_angles(mean[None])[0]",
        "np.arctan2(mean[1], mean[0])",
        ("tests/dynamics/test_kuramoto.py::test_the_mean_phase_is_from_0_to_a_turn",),
    ),
    Fault(
        "oscillators' values are not divided by their mass",
        "meanfield/measures/oscillators.py",
        "Density(space, each, unit_mass=unit_mass)",
        "Density(space, each)",
        ("tests/measures/test_oscillators.py::test_values_of_another_mass_are_divided_by_it",),
    ),
    Fault(
        "negative f is scaled",
        "meanfield/measures/density.py",
        "masses, sums = grid.weights * np.maximum(values, 0.0)",
        "masses, sums = grid.weights * values",
        (BALANCED + "test_a_series_counts_as_zero_where_it_is_negative",),
    ),
    Fault(
        "places of a falling mass are looked for in the table alone",
        "meanfield/functionals/transport/quantiles.py",
        "low[astray], high[astray] = -1.0, 1.0",
        "pass",
        (QUANTILES + "test_places_where_a_series_makes_the_mass_fall",),
    ),
    Fault(
        "lower bound of clouds set to the upper",
        "meanfield/functionals/transport/clouds.py",
        "lower * (1.0 - rounding), upper * (1.0 + rounding)",
        "upper, upper * (1.0 + rounding)",
        (
            CLOUDS + "test_a_bad_plan_or_bad_potentials_widen_the_bracket",
            CLOUDS + "test_costs_that_are_raised_stay_below_the_least",
        ),
    ),
    Fault(
        "lower bound of Λ_k over an interval ten thousand times too small",
        "meanfield/studies/proposition.py",
        "lower = np.nextafter([float(bound.ln()) for",
        "lower = np.nextafter([float(bound.ln()) - 9.2103 for",
        ("tests/studies/test_proposition.py::test_bounds_over_intervals",),
    ),
    Fault(
        "upper bound of Λ_k over an interval ten thousand times too small",
        "meanfield/studies/proposition.py",
        "upper = np.nextafter([float(bound.ln()) for",
        "upper = np.nextafter([float(bound.ln()) - 9.2103 for",
        ("tests/studies/test_proposition.py::test_bounds_over_intervals",),
    ),
    Fault(
        "owners behind a merged atom shifted by one",
        "meanfield/equations/atoms.py",
        "owners > atom, owners - 1, owners",
        "owners > atom, owners, owners",
        (
            "tests/equations/test_atoms.py::test_atoms_that_meet_are_one_and_the_others_keep_their_nodes",
        ),
    ),
    Fault(
        "mass of every save set to 1",
        "meanfield/evolution/system.py",
        '**self._balance(measure), "mass": measure.mass()',
        '**self._balance(measure), "mass": 1.0',
        ("tests/evolution/test_system.py::test_a_save_has_the_mass_of_its_measure",),
    ),
    Fault(
        "fields are refused at a hundred times the share of rounding",
        "meanfield/equations/density.py",
        "_LARGEST_SHARE = 1e-9",
        "_LARGEST_SHARE = 1e-7",
        (
            "tests/dynamics/test_attention.py::test_fields_of_which_rounding_makes_a_billionth_are_refused",
        ),
    ),
    Fault(
        "energies are refused at a hundred times the share of rounding",
        "meanfield/functionals/energies.py",
        "_LARGEST_SHARE = 1e-6",
        "_LARGEST_SHARE = 1e-4",
        (ENERGIES + "test_energies_of_which_rounding_makes_a_millionth_are_refused",),
    ),
    Fault(
        "terms of a density are summed at a hundred times the share",
        "meanfield/equations/on_grid.py",
        "LOST = Lost(1e-6)",
        "LOST = Lost(1e-4)",
        (SUMMED.format("Density", "2e-06"),),
    ),
    Fault(
        "terms of a density are summed at a hundredth of the share",
        "meanfield/equations/on_grid.py",
        "LOST = Lost(1e-6)",
        "LOST = Lost(1e-8)",
        (SUMMED.format("Density", "5e-07"),),
    ),
    Fault(
        "terms of a flow map are summed at a hundred times the share",
        "meanfield/equations/line.py",
        "_LOST = Lost(1e-6)",
        "_LOST = Lost(1e-4)",
        (SUMMED.format("FlowMap", "2e-06"),),
    ),
    Fault(
        "terms of a flow map are summed at a hundredth of the share",
        "meanfield/equations/line.py",
        "_LOST = Lost(1e-6)",
        "_LOST = Lost(1e-8)",
        (SUMMED.format("FlowMap", "5e-07"),),
    ),
    Fault(
        "terms on S² are summed at a hundred times the share",
        "meanfield/equations/sphere.py",
        "_LOST = Lost(1e-9)",
        "_LOST = Lost(1e-7)",
        LOST,
    ),
    Fault(
        "terms of heads on S² are summed at a hundred times the share",
        "meanfield/equations/sphere.py",
        "_LOST_OF_HEADS = Lost(1e-6)",
        "_LOST_OF_HEADS = Lost(1e-4)",
        LOST,
    ),
    Fault(
        "reach of a cluster's label doubled",
        "meanfield/measures/clusters.py",
        "bound = (1.0 + _ROUNDING) * distance\n            distances, index",
        "bound = distance = 2.0 * distance\n            distances, index",
        (
            "tests/measures/test_clusters.py::test_a_light_token_belongs_to_a_cluster_within_a_radius_of_it",
        ),
    ),
    Fault(
        "histograms of tokens without weights",
        "meanfield/plot/panels.py",
        "(0.0, end), weights=measure.weights)",
        "(0.0, end), weights=np.full(len(angles), 1.0 / len(angles)))",
        ("tests/plot/test_panels.py::test_tokens_beside_the_circle_bear_their_histogram", *PAGE),
    ),
    Fault(
        "principal axes of tokens without weights",
        "meanfield/plot/panels.py",
        "np.sqrt(cloud.weights)[:, None] * (cloud.points - mean)",
        "(cloud.points - mean)",
        PICTURES,
    ),
    Fault(
        "areas of tokens without weights",
        "meanfield/plot/panels.py",
        "area = 5.0 * measure.weights / measure.weights.max()",
        "area = np.full(len(x), 5.0)",
        PICTURES,
    ),
    Fault(
        "areas of particles without weights",
        "meanfield/plot/panels.py",
        "np.maximum(0.5, _AREA * measure.weights[n:])",
        "np.full(len(x) - n, _AREA)",
        ("tests/plot/test_panels.py::test_particles_are_drawn_by_their_mass",),
    ),
    Fault(
        "sizes of tokens on the page without weights",
        "meanfield/cli/report/measures.py",
        "14.0 * np.sqrt(tokens.weights[token_index] / tokens.weights.max())",
        "14.0 * np.ones(len(token_index))",
        PAGE,
    ),
    Fault(
        "sizes of points on the page's sphere without weights",
        "meanfield/cli/report/measures.py",
        "np.maximum(size * np.sqrt(shares), 1.5)",
        "np.full(len(shares), size)",
        PAGE,
    ),
    Fault(
        "axes of the page swapped",
        "meanfield/cli/report/measures.py",
        "x, y = axes @ measure.points[token_index].T",
        "y, x = axes @ measure.points[token_index].T",
        PAGE,
    ),
    Fault(
        "axes of the page's sphere swapped",
        "meanfield/cli/report/view.py",
        'enumerate("xyz")',
        'enumerate("yxz")',
        PAGE,
    ),
)

PROPOSITION = "tests/studies/test_proposition.py::"
FORMS = "tests/studies/test_extremisers.py::"
THEORY = "tests/test_theory.py::"
LAWS = "tests/laws/test_series.py::"
REACHED = (FORMS + "test_bounds_are_reached",)
COSINE = (SPHERE + "test_bounds_of_cos_theta",)

# bounds that are 1 % better than the truth allows, or more where they are not so near to it
BOUNDS = (
    Fault(
        "lower bound of Λ_k 1 % larger",
        "meanfield/studies/proposition.py",
        "enclosures.append(leading * sums[-1 - k])",
        'enclosures.append(leading * sums[-1 - k] * Decimal("1.01"))',
        (PROPOSITION + "test_bounds_hold_the_closed_form",),
    ),
    Fault(
        "Λ_k = 0 is proved to be positive",
        "meanfield/studies/proposition.py",
        "if not bound > 0]",
        "if not bound >= 0]",
        (PROPOSITION + "test_no_falsehood_is_proved",),
    ),
    Fault(
        "error of Λ_k of a function 1 % smaller",
        "meanfield/studies/proposition.py",
        "values[k] < -errors[k]]",
        "values[k] < -0.99 * errors[k]]",
        (PROPOSITION + "test_a_function_is_refuted_beyond_its_rounding",),
    ),
    Fault(
        "error of Λ_k of a function 1 % larger",
        "meanfield/studies/proposition.py",
        "values[k] < -errors[k]]",
        "values[k] < -1.01 * errors[k]]",
        (PROPOSITION + "test_a_function_is_refuted_beyond_its_rounding",),
    ),
    Fault(
        "bound of a minimiser that is a density 1 % larger",
        "meanfield/studies/extremisers.py",
        "bound = 2.0 * least - energy * (1.0 + rounding)",
        "bound = 1.01 * (2.0 * least - energy * (1.0 + rounding))",
        REACHED,
    ),
    Fault(
        "bound of a minimiser that is uniform 1 % larger",
        "meanfield/studies/extremisers.py",
        "margin * lowest",
        "1.01 * margin * lowest",
        REACHED,
    ),
    Fault(
        "bound of a minimiser that is a Dirac 1 % larger",
        "meanfield/studies/extremisers.py",
        "margin * bound",
        "1.01 * margin * bound",
        REACHED,
    ),
    Fault(
        "bound of a maximiser that is a Dirac 1 % smaller",
        "meanfield/studies/extremisers.py",
        "margin * dirac",
        "0.99 * margin * dirac",
        REACHED,
    ),
    Fault(
        "bound of a maximiser that is a pair 1 % smaller",
        "meanfield/studies/extremisers.py",
        "margin * pair",
        "0.99 * margin * pair",
        REACHED,
    ),
    Fault(
        "energy of σ 1 % larger",
        "meanfield/theory.py",
        "_over_2_beta(multipliers.eigenvalues(beta, dim, 0)[0], beta)",
        "1.01 * _over_2_beta(multipliers.eigenvalues(beta, dim, 0)[0], beta)",
        (THEORY + "test_energy_of_the_sphere",),
    ),
    Fault(
        "energy of a Dirac 1 % smaller",
        "meanfield/theory.py",
        "_over_2_beta(np.exp(beta), beta)",
        "0.99 * _over_2_beta(np.exp(beta), beta)",
        (THEORY + "test_energy_of_the_sphere",),
    ),
    Fault(
        "Dobrushin's constant of USA 1 % smaller",
        "meanfield/theory.py",
        "return 2.0 * math.exp(beta)",
        "return 1.98 * math.exp(beta)",
        (THEORY + "test_dobrushin_constant_is_reached_but_for_its_estimate",),
    ),
    Fault(
        "first part of Dobrushin's constant of SA 1 % smaller",
        "meanfield/theory.py",
        "in_x = beta + 0.25 / beta if",
        "in_x = 0.99 * beta + 0.25 / beta if",
        (THEORY + "test_dobrushin_constant_is_reached_but_for_its_estimate",),
    ),
    Fault(
        "second part of Dobrushin's constant of SA 1 % smaller",
        "meanfield/theory.py",
        "(1.0 + 2.0 * beta) * (math.exp(",
        "(0.99 + 1.98 * beta) * (math.exp(",
        (THEORY + "test_dobrushin_constant_is_reached_but_for_its_estimate",),
    ),
    Fault(
        "envelope of a rejection 1 % smaller",
        "meanfield/laws/series.py",
        "upper = np.maximum(self._powers[0] +",
        "upper = 0.99 * np.maximum(self._powers[0] +",
        (LAWS + "test_envelope_bounds_the_density",),
    ),
    Fault(
        "densities may be 1e-9 below 0",
        "meanfield/laws/series.py",
        "return 4.0 * EPS * (terms.size + 1)",
        "return 1e-9 + 4.0 * EPS * (terms.size + 1)",
        (LAWS + "test_exact_zeros_are_accepted", LAWS + "test_zonal_zeros_are_accepted"),
    ),
    Fault(
        "Wendel's probability 1 % larger",
        "meanfield/theory.py",
        "return float(Fraction(ways, 2 ** (n - 1)))",
        "return float(Fraction(101 * ways, 100 * 2 ** (n - 1)))",
        (THEORY + "test_wendel_in_closed_form",),
    ),
    Fault(
        "residual of a scaling 1 % larger",
        "meanfield/kernels/sinkhorn.py",
        "_GOOD = 6, 1e-7",
        "_GOOD = 6, 1.01e-7",
        ("tests/kernels/test_sinkhorn.py::test_a_residual_above_1e_7_is_an_error",),
    ),
    Fault(
        "residual of a scaling 1 % smaller",
        "meanfield/kernels/sinkhorn.py",
        "_GOOD = 6, 1e-7",
        "_GOOD = 6, 0.99e-7",
        ("tests/kernels/test_sinkhorn.py::test_a_residual_above_1e_7_is_an_error",),
    ),
    Fault(
        "cost of a plan of clouds 1 % smaller",
        "meanfield/functionals/transport/clouds.py",
        "max(lower, 0.0), upper * (1.0 + _ROUNDING) + underflow",
        "max(lower, 0.0), 0.99 * upper + underflow",
        (CLOUDS + "test_tight_clusters_far_apart",),
    ),
    Fault(
        "slackness of potentials of clouds 1 % smaller",
        "meanfield/functionals/transport/clouds.py",
        "gap * (1.0 + _ROUNDING)",
        "0.99 * gap",
        (CLOUDS + "test_a_bad_plan_or_bad_potentials_widen_the_bracket",),
    ),
    Fault(
        "length of a flow 1 % smaller",
        "meanfield/functionals/transport/sphere.py",
        "return float(np.sum(np.sqrt(areas",
        "return 0.99 * float(np.sum(np.sqrt(areas",
        COSINE,
    ),
    Fault(
        "steepest slope 1 % smaller",
        "meanfield/functionals/transport/sphere.py",
        "return float(np.sqrt(highest *",
        "return 0.99 * float(np.sqrt(highest *",
        COSINE,
    ),
    Fault(
        "upper end of W_1 1 % smaller",
        "meanfield/functionals/transport/sphere.py",
        "upper = min(best.upper, flow.upper + beyond)",
        "upper = min(best.upper, 0.99 * (flow.upper + beyond))",
        (SPHERE + "test_w1_of_a_cosine",),
    ),
    Fault(
        "lower end of W_1 1 % larger",
        "meanfield/functionals/transport/sphere.py",
        "lower = drop / steepest",
        "lower = 1.01 * drop / steepest",
        (SPHERE + "test_w1_of_a_cosine",),
    ),
    Fault(
        "|slope|²/2λ in a basin 1 % smaller",
        "meanfield/functionals/transport/sphere_dual.py",
        "2.0 * np.maximum(convex, 1e-300)",
        "2.02 * np.maximum(convex, 1e-300)",
        (SPHERE_DUAL + "test_the_conjugate_of_zero_is_zero",),
    ),
    Fault(
        "margins of cells 1 % smaller",
        "meanfield/functionals/transport/sphere_dual.py",
        "self.margins.append(0.5 * np.maximum(",
        "self.margins.append(0.495 * np.maximum(",
        (SPHERE_DUAL + "test_the_margins_of_cells_are_reached",),
    ),
    Fault(
        "interpolation of a c-transform 25 % smaller",
        "meanfield/functionals/transport/sphere_dual.py",
        "return along * hat_sums.between + of_parallels",
        "return 0.75 * (along * hat_sums.between + of_parallels)",
        (SPHERE_DUAL + "test_interpolation_of_a_conjugate_is_bounded",),
    ),
    Fault(
        "interpolation about tokens 1 % smaller",
        "meanfield/functionals/transport/semidiscrete.py",
        "between = float(np.sum(",
        "between = 0.99 * float(np.sum(",
        (SEMIDISCRETE + "test_interpolation_about_a_token_is_bounded_to_its_size",),
    ),
    Fault(
        "plan of tokens and a density 1 % cheaper",
        "meanfield/functionals/transport/semidiscrete.py",
        "return float((1.0 + ROUNDING) * cost + (missed",
        "return float(0.99 * cost + (missed",
        (SEMIDISCRETE + "test_an_octahedron_beside_the_uniform_density",),
    ),
    Fault(
        "spreads of cells 1 % smaller",
        "meanfield/functionals/transport/sphere.py",
        "mu.spreads[:, None] + nu.spreads",
        "0.99 * (mu.spreads[:, None] + nu.spreads)",
        (SPHERE + "test_two_masses_about_a_token_cost_their_spread",),
    ),
    Fault(
        "blurs of atoms 10 % smaller",
        "meanfield/functionals/transport/sphere_masses.py",
        "(arc * chords + 2.0 * np.pi * radii)[heavy]",
        "0.9 * (arc * chords + 2.0 * np.pi * radii)[heavy]",
        (SPHERE_MASSES + "test_blurs_of_atoms_are_nearly_reached",),
    ),
    Fault(
        "mass below 0 of nu 1 % smaller",
        "meanfield/functionals/transport/sphere_dual.py",
        "2.0 * nu.negative * _RANGE",
        "1.98 * nu.negative * _RANGE",
        (SPHERE + "test_mass_below_zero_widens_both_ends",),
    ),
    Fault(
        "mass below 0 of mu 1 % smaller",
        "meanfield/functionals/transport/sphere_dual.py",
        "negative_part = mu.negative * 2.0",
        "negative_part = mu.negative * 1.98",
        (SPHERE + "test_mass_below_zero_widens_both_ends",),
    ),
    Fault(
        "mass below 0 of cells 1 % smaller",
        "meanfield/functionals/transport/sphere_masses.py",
        "return self._atoms.lost + 2.0 * self.negative",
        "return self._atoms.lost + 1.98 * self.negative",
        (SPHERE + "test_mass_below_zero_widens_both_ends",),
    ),
    Fault(
        "W_2 of rounding 1 % smaller",
        "meanfield/functionals/transport/sphere.py",
        "if p == 1.0 else float(np.sqrt(np.pi * rounding_distance))",
        "if p == 1.0 else 0.99 * float(np.sqrt(np.pi * rounding_distance))",
        (SPHERE + "test_the_length_of_a_flow_of_rounding_is_nearly_w1",),
    ),
    Fault(
        "W_1 of rounding 1 % smaller",
        "meanfield/functionals/transport/sphere.py",
        "upper = rounding_distance if p == 1.0 else",
        "upper = 0.99 * rounding_distance if p == 1.0 else",
        (SPHERE + "test_the_length_of_a_flow_of_rounding_is_nearly_w1",),
    ),
    Fault(
        "a map's estimate counts as proven",
        "meanfield/functionals/transport/sphere.py",
        "proved = upper <= by_map or",
        "proved = upper > 0.0 or",
        (SPHERE + "test_what_quadrature_finds_is_an_estimate",),
    ),
    Fault(
        "bounds in the wrong order pass by 1 %",
        "meanfield/functionals/transport/__init__.py",
        "if not lower <= upper:",
        "if not lower <= 1.01 * upper:",
        (SPHERE + "test_bounds_in_the_wrong_order_are_refused",),
    ),
)

TRAINED = "tests/trained/test_{}.py::"
LAYERS, FILES, MATRICES = map(TRAINED.format, ("states", "files", "matrices"))
EXCERPT = LAYERS + "test_attention_of_a_trained_layer_is_that_of_its_matrices"

# of what is read from files of trained models
READ = (
    Fault(
        "rotary angles that turn the other way",
        "meanfield/trained/matrices.py",
        "angles = np.arange(n)[:, None] * self.base",
        "angles = -np.arange(n)[:, None] * self.base",
        (MATRICES + "test_rotary_angles_turn_pairs",),
    ),
    Fault(
        "groups of keys in another order",
        "meanfield/trained/matrices.py",
        "rows @ keys[head * len(keys) // len(queries)].T",
        "rows @ keys[head % len(keys)].T",
        (EXCERPT, MATRICES + "test_scores_and_output_entry_by_entry"),
    ),
    Fault(
        "attention of 1e-6 where the mask forbids it",
        "meanfield/trained/states.py",
        "(head > 0.0) & ~mask",
        "(head > 1e-6) & ~mask",
        (LAYERS + "test_every_entry_above_zero_that_the_mask_forbids_is_refused",),
    ),
    Fault(
        "numbers that begin elsewhere than their header says",
        "meanfield/trained/files.py",
        "if (first, last) != (place, wanted):",
        "if last != wanted:",
        (FILES + "test_bad_files_are_refused_in_one_line",),
    ),
)

TEMPERATURE, MEASURE, NULLS, SINKS, MOVES, CHANGES = map(
    TRAINED.format, ("temperature", "measure", "nulls", "sinks", "clusters", "energy")
)
PAGES, PICTURES = "tests/cli/test_layers.py::", "tests/plot/test_trained.py::"

# of the instruments on trained models, and of what is said of them
INSTRUMENTS = (
    Fault(
        "rows of attention that are pooled",
        "meanfield/trained/temperature.py",
        "means = entries.sum(axis=-1, keepdims=True) / np.maximum(fitted.sum(axis=-1, ",
        "means = entries.sum(axis=(-2, -1), keepdims=True) / np.maximum(fitted.sum(axis=(-2, -1), ",
        (
            TEMPERATURE + "test_attention_of_the_paper_gives_its_beta",
            MEASURE + "test_without_sinks_is_the_model_without_them",
        ),
    ),
    Fault(
        "half of the gradient of the energy",
        "meanfield/trained/energy.py",
        "(2.0 * beta / len(unit) ** 2)",
        "(beta / len(unit) ** 2)",
        (
            CHANGES + "test_gradient_is_that_of_the_energy",
            CHANGES + "test_residual_is_of_second_order",
        ),
    ),
    Fault(
        "chords in place of angles in W_2 between layers",
        "meanfield/trained/clusters.py",
        "costs = (2.0 * np.arcsin(np.minimum(0.5 * cdist(start, end), 1.0))) ** 2",
        "costs = cdist(start, end) ** 2",
        (MOVES + "test_optimal_is_never_above_own_and_is_w2",),
    ),
    Fault(
        "heads of the layer itself as their own null",
        "meanfield/trained/nulls.py",
        "np.roll(order, 1)",
        "np.roll(order, 0)",
        (NULLS + "test_heads_of_other_layers_do_not_fit",),
    ),
    Fault(
        "attention to oneself that makes a sink",
        "meanfield/trained/sinks.py",
        "np.where(np.eye(len(head), dtype=bool), 0.0, head).sum",
        "head.sum",
        (SINKS + "test_attention_to_oneself_draws_nobody",),
    ),
    Fault(
        "a claim that holds though its null does as well",
        "meanfield/trained/measure.py",
        "return HOLDS if excess > quantile * excess_error else AS_NULL",
        "return HOLDS",
        (MEASURE + "test_a_drift_to_the_mean_is_no_more_than_its_null",),
    ),
    Fault(
        "sinks that are not measured",
        "meanfield/trained/measure.py",
        "np.sort(np.concatenate([np.flatnonzero(sink), ordinary]))",
        "np.sort(ordinary)",
        (MEASURE + "test_of_many_tokens_some_are_measured_with_all_sinks",),
    ),
    Fault(
        "a page with β of heads that none describes",
        "meanfield/cli/report/layers.py",
        "if r2 >= LEAST_R2:",
        "if r2 >= 0.0:",
        (PAGES + "test_a_page_has_each_claim_with_its_null",),
    ),
    Fault(
        "a figure with β of heads that none describes",
        "meanfield/plot/trained.py",
        "np.where(is_described, beta, np.nan)",
        "beta",
        (PICTURES + "test_heads_that_no_beta_describes_are_crossed",),
    ),
)

FAULTS = (*BROAD, *HOLES, *BOUNDS, *READ, *INSTRUMENTS)
