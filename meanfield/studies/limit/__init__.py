"""How far n tokens are from the mean-field limit."""

from meanfield.studies.limit.study import mean_field_limit

__all__ = ["mean_field_limit"]
