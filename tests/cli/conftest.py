"""Programs that tests of several modules of this room ask."""

from types import SimpleNamespace

import pytest

from tests.children import MEANFIELD, child


@pytest.fixture(scope="session")
def explorer(tmp_path_factory):
    """`meanfield explore` as a program: its process, its address, and where its errors go."""
    errors = tmp_path_factory.mktemp("explorer") / "errors.txt"
    command = [*MEANFIELD, "explore", "--no-browser"]
    with (
        errors.open("w") as stderr,
        child(command, stdout=-1, stderr=stderr, text=True) as process,
    ):
        address = process.stdout.readline().strip()
        yield SimpleNamespace(process=process, address=address, errors=errors)
