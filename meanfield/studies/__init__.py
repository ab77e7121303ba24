"""Studies: one question each, answered as a dataset by runs that may share an executor."""

from meanfield.studies.plateaus import metastability
from meanfield.studies.surviving import surviving_atom

__all__ = ["metastability", "surviving_atom"]
