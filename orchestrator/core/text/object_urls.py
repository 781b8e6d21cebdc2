"""URLs of objects that inputs are read from and results are written to: which texts are one, which are refused, and how
one is shown.

An object is named by `s3://BUCKET/KEY` and the like, as the data ecosystem writes it. What may be a secret is in no URL
that is kept or shown: a user or a password is refused, and the query of `https://` may be a signature.
"""

import re
from typing import Final
from urllib.parse import unquote, urlsplit

OBJECT_SCHEMES: Final = ("s3", "gs", "az", "https", "http", "hf")
WEB_SCHEMES: Final = ("https", "http")
WRITTEN_SCHEMES: Final = ("s3", "gs", "az")

_BEGINNING: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_QUERY: Final = re.compile(r"[?#].*", re.DOTALL)
_OTHER: Final = re.compile(r"[^A-Za-z0-9._-]+")


def is_object_url(text: str) -> bool:
    """Whether `text` is meant as a URL and no path, a wrong one perhaps."""
    return _BEGINNING.match(text) is not None


def scheme_of(url: str) -> str:
    """What stands before `://`."""
    return url.partition("://")[0].lower()


def is_web_url(url: str) -> bool:
    """Whether the object is one of a web server, whose URL may have a query."""
    return scheme_of(url) in WEB_SCHEMES


def checked_url(text: str, *, is_written: bool = False) -> str:
    """`text`, with its scheme in small letters; `is_written`: the object is to be written.

    Raises `ValueError`, which quotes nothing that may be a secret, where it names no object.
    """
    scheme = scheme_of(text)
    if scheme not in OBJECT_SCHEMES:
        raise ValueError(
            f"{scheme}:// is not known here; there are {', '.join(f'{each}://' for each in OBJECT_SCHEMES)}"
        )
    rest = text.partition("://")[2]
    bucket, _, key = _QUERY.sub("", rest).partition("/") if scheme in WEB_SCHEMES else rest.partition("/")
    if "@" in bucket or (scheme in WEB_SCHEMES and urlsplit(text).username):
        raise ValueError(
            f"a URL {scheme}:// with a user or a password in it is refused: others could read it; credentials come from"
            " the environment, or from the files where the driver of that store looks"
        )
    if not text.isprintable() or " " in bucket:
        raise ValueError(f"this is no URL of an object: {scheme}:// is followed by what nobody could read again")
    if not bucket or not key.strip("/"):
        raise ValueError(f"this URL names no object; write {scheme}://{_example(scheme)}")
    if is_written and scheme not in WRITTEN_SCHEMES:
        raise ValueError(f"{scheme}:// is for reading; name a file, or s3://, gs:// or az://")
    return f"{scheme}://{rest}"


def _example(scheme: str) -> str:
    return {"hf": "datasets/OWNER/NAME/FILE"}.get(scheme, "HOST/FILE" if scheme in WEB_SCHEMES else "BUCKET/KEY")


def shown_url(url: str) -> str:
    """How a URL is kept and shown: of a web server's without its query, which may be a signature."""
    return _QUERY.sub("?...", url) if is_web_url(url) else url


def object_name(url: str) -> str:
    """The last part of its path, as a file would be called."""
    path = _QUERY.sub("", url) if is_web_url(url) else url
    name = path.rstrip("/").rpartition("/")[2]
    return unquote(name) if is_web_url(url) else name


def file_name_for(url: str) -> str:
    """A name for a file on this machine that belongs to the object: another one for each."""
    return _OTHER.sub("-", shown_url(url).partition("://")[2]).strip("-.")
