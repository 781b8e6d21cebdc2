"""A database with an empty ledger, in the server of the tests."""

from collections.abc import Iterator

import pytest

from tests.postgres.databases import Databases


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    """Its URL."""
    with databases.one() as url:
        yield url
