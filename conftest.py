"""Examples in docstrings run with the names of their file, though `meanfield` is their home."""

import doctest
import inspect


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
