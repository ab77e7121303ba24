"""Where the runs of a study are done, and what they are runs of."""

from meanfield.executors.mapping import PROCESSES, dynamics_of_runs, mapped_by
from meanfield.executors.named import NAMES, opened

__all__ = ["NAMES", "PROCESSES", "dynamics_of_runs", "mapped_by", "opened"]
