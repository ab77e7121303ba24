"""Energies of attention with a symmetric matrix: which measures have the least and the largest."""

from meanfield.studies.forms.extremisers import Extremiser, form_maximiser, form_minimiser
from meanfield.studies.forms.table import form_extremisers

__all__ = ["Extremiser", "form_extremisers", "form_maximiser", "form_minimiser"]
