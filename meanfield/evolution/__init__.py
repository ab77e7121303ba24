"""From a measure, a dynamics and a time to a solution, its file, and back.

docs/decisions/evolution.md says why its files are as they are.
"""

from meanfield.evolution.batch import evolve_batch
from meanfield.evolution.checkpoint import new_checkpoint
from meanfield.evolution.loop import evolve, solve
from meanfield.evolution.restart import loaded, resume, resume_from, state_between
from meanfield.evolution.solution import Solution, load

Solution._state_between = state_between
