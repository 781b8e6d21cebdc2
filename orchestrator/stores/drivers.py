"""The drivers of stores, which fsspec finds by the scheme of a URL: loaded once one is used, named where missing."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from orchestrator.core.text.object_urls import scheme_of
from orchestrator.errors import UsageError
from orchestrator.installation import missing_package
from orchestrator.stores.repeats import ANSWER_S


class Driver(NamedTuple):
    """What reads and writes the objects of one kind of store."""

    package: str
    extra: str
    protocol: str
    """What fsspec calls it."""

    options: Mapping[str, Any] = {}
    """What it is made with."""


DRIVERS: Final = {
    "s3": Driver("s3fs", "s3", "s3"),
    "gs": Driver("gcsfs", "gcs", "gs", {"requests_timeout": ANSWER_S}),
    "az": Driver("adlfs", "azure", "az"),
    "hf": Driver("huggingface_hub", "hf", "hf"),
}


def filesystem_of(url: str) -> Any:
    """The file system of fsspec that has the object. Listings are not kept: others write while we read.

    Raises `UsageError` where its driver is not installed, with the command that installs it.
    """
    driver = DRIVERS[scheme_of(url)]
    try:
        import fsspec  # noqa: PLC0415  an extra, and slow to load, as are the drivers

        filesystem = fsspec.filesystem(driver.protocol, use_listings_cache=False, **driver.options)
    except ImportError:
        raise UsageError(missing_package(f"{scheme_of(url)}://", driver.package, driver.extra)) from None
    if driver.protocol == "s3":
        filesystem.retries = 1  # it asks again what its own library has asked again, and says nothing: we do that
    return filesystem
