"""Proposition 3.4: uniform is the only minimiser of the energy, Diracs are its maximisers."""

from meanfield.studies.proposition.study import proposition_3_4

__all__ = ["proposition_3_4"]
