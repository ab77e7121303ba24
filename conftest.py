"""Which tests run, and examples in docstrings: with the names of their file.

`pytest` runs the quick form of every claim, `pytest --all` every test. A test that is named by its
id or looked for by `-m` always runs. `pytest --all --random` draws the inputs of Hypothesis anew,
2,000 of each kind; else they are the same on every machine, however slow it is.
"""

import doctest
import inspect

from hypothesis import HealthCheck, settings

COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, database=None, max_examples=40, **COMMON)
settings.register_profile("random", max_examples=2000, print_blob=True, **COMMON)


def pytest_addoption(parser):
    """Options of this project beside those of pytest."""
    group = parser.getgroup("meanfield")
    group.addoption("--all", action="store_true", help="run slow tests, too")
    group.addoption("--random", action="store_true", help="draw 2,000 inputs of each kind, anew")


def pytest_configure(config):
    """Hypothesis draws as it is asked to."""
    settings.load_profile("random" if config.getoption("random") else "same")


def pytest_collection_modifyitems(config, items):
    """Leave out slow tests, unless they are asked for."""
    named = any("::" in argument for argument in config.args)
    if config.getoption("all") or config.getoption("markexpr") or named:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    items[:] = [item for item in items if not item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)


def is_of(thing, names):
    """Whether a public class or function was written in the file of these globals."""
    parts = vars(thing).values() if inspect.isclass(thing) else (thing,)
    functions = (getattr(part, "fget", None) or getattr(part, "__func__", part) for part in parts)
    return any(
        inspect.unwrap(function).__globals__ is names
        for function in functions
        if inspect.isfunction(function)
    )


def from_module(self, module, thing, usual=doctest.DocTestFinder._from_module):
    """Whether the examples of a thing are the module's: of what is public, its file's."""
    if getattr(thing, "__module__", None) == "meanfield":
        return is_of(thing, vars(module))
    return usual(self, module, thing)


doctest.DocTestFinder._from_module = from_module
