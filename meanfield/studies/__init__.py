"""Studies: one question each, answered as a dataset by runs that may share an executor.

docs/decisions/studies.md says why its files are as they are.
"""

import lazy_loader

# `__init__.pyi` lists what is public; a process that works for one study imports that one alone
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
