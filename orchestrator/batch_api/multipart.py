"""A form with a file, as it comes (`multipart/form-data`): piece by piece, whatever the file's length."""

from typing import Final

from python_multipart.exceptions import FormParserError, MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from orchestrator.units import KIB

FORM: Final = b"multipart/form-data"

PARTS_MAX: Final = 32
FIELD_BYTES_MAX: Final = 4 * KIB
"""What a part may have that is no file."""


class FormError(ValueError):
    """It is no such form, or not one that is taken."""


class FormReader:
    """Reads one form. `file` is its one part with a file; `file_pieces` of that have come and were not taken yet."""

    def __init__(self, content_type: str | None) -> None:
        """`content_type` is the header of the request. Raises `FormError`."""
        try:
            kind, options = parse_options_header(content_type)
        except (UnicodeEncodeError, ValueError) as error:
            raise FormError("the Content-Type cannot be read") from error
        boundary = options.get(b"boundary", b"")
        if kind != FORM or not boundary:
            raise FormError("a file is sent as multipart/form-data, with a boundary")
        self.fields: dict[str, str] = {}
        self.filename: str | None = None
        """What the sender calls the file; None before its part has begun."""

        self.is_complete = False
        self._pieces: list[bytes] = []
        self._parts = 0
        self._name = ""
        self._is_file = False
        self._value = bytearray()
        self._header = bytearray(), bytearray()
        self._headers: dict[bytes, bytes] = {}
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._part_begun,
                    "on_header_field": self._header_field,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_ended,
                    "on_headers_finished": self._headers_ended,
                    "on_part_data": self._part_data,
                    "on_part_end": self._part_ended,
                    "on_end": self._ended,
                },
            )
        except FormParserError as error:
            raise FormError("the boundary is too long") from error

    def feed(self, data: bytes) -> list[bytes]:
        """Reads on; what of the file is in it. Raises `FormError`."""
        try:
            self._parser.write(data)
        except MultipartParseError as error:
            raise FormError(
                "the form cannot be read: it is not as its boundary says, or a header is too long"
            ) from error
        pieces, self._pieces = self._pieces, []
        return pieces

    # --- what the parser calls

    def _part_begun(self) -> None:
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise FormError(f"the form has more than {PARTS_MAX} parts")
        self._headers = {}
        self._value = bytearray()

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header[0].extend(data[start:end])

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._header[1].extend(data[start:end])

    def _header_ended(self) -> None:
        name, value = self._header
        self._headers[bytes(name).lower()] = bytes(value)
        self._header = bytearray(), bytearray()

    def _headers_ended(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b"").decode("latin-1"))
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        self._is_file = b"filename" in options
        if not self._name:
            raise FormError("a part of the form has no name")
        if self._is_file:
            if self._name != "file" or self.filename is not None:
                raise FormError('the form has one file, in the part "file"')
            self.filename = options[b"filename"].decode("utf-8", "replace")

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self._pieces.append(data[start:end])
            return
        self._value.extend(data[start:end])
        if len(self._value) > FIELD_BYTES_MAX:
            raise FormError(f"the part {self._name:.40} of the form is too long")

    def _part_ended(self) -> None:
        if self._is_file:
            return
        if self._name in self.fields:
            raise FormError(f"the part {self._name:.40} of the form stands there twice")
        self.fields[self._name] = self._value.decode("utf-8", "replace")

    def _ended(self) -> None:
        self.is_complete = True
