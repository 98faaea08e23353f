"""Generates the function that encodes one message in one version.

The mirror of `wire.decoder_source`: straight-line code, where neighbouring fields of fixed width, with the
short length of what follows, are written by one ``struct`` call; an empty tagged-field section is a pad byte.

A `FileRange` in a response's records field, and `UncopiedRecords` in a request's, are not copied: their place is noted
in ``ranges`` as (offset in ``out``, range), and only their length is written.
"""

import struct
from collections.abc import Callable

from wire.file_range import FileRange
from wire.schema import RECORDS, STRING, UUID, Array, Field, Message, Primitive, Struct
from wire.source_writer import SourceWriter
from wire.uncopied import UncopiedRecords
from wire.varints import fit_text, put_string_length, put_tags, put_uvarint

WireType = Primitive | Array | type[Struct]

NOT_COPIED = frozenset({FileRange, UncopiedRecords})
"""The types that stand for bytes that are not copied into the frame."""


def compile_encoder(cls: type[Message], version: int) -> Callable[..., None]:
    """Make ``encode(message, out, ranges=None)`` for a version that ``cls`` has."""
    source = _EncoderSource(cls, version)
    return source.writer.compile("encode", f"encoder of {cls.__name__} v{version}")


def _unsendable(name: str, version: int, value: object) -> ValueError:
    return ValueError(f"{name} cannot be sent in version {version}, but is {value!r}")


def _note_range(
    out: bytearray,
    piece: FileRange | UncopiedRecords,
    ranges: list[tuple[int, FileRange | UncopiedRecords]] | None,
) -> None:
    if ranges is None:
        raise ValueError(f"{piece!r} can only be sent in a frame of several pieces")
    ranges.append((len(out), piece))


class _EncoderSource:
    def __init__(self, cls: type[Message], version: int) -> None:
        self.version = version
        self.flexible = version in cls.__schema__.flexible
        self.pending: list[tuple[str, str]] = []
        self.out = "out"
        self.writer = SourceWriter(
            {
                "NOT_COPIED": NOT_COPIED,
                "note_range": _note_range,
                "pack": struct.pack,
                "put_string_length": put_string_length,
                "fit_text": fit_text,
                "put_tags": put_tags,
                "put_uvarint": put_uvarint,
                "unsendable": _unsendable,
            }
        )
        with self.writer.block("def encode(message, out, ranges=None)"):
            self.struct(cls, "message")
            self.flush()

    def flush(self) -> None:
        """Write out the fixed-width fields gathered so far."""
        pending, self.pending = self.pending, []
        self.write(pending)

    def write(self, pending: list[tuple[str, str]]) -> None:
        if not pending:
            return
        letters = "".join(letter for letter, _ in pending)
        values = ", ".join(value for _, value in pending if value)
        if letters == "x":
            self.writer.line(f"{self.out}.append(0)")
        elif letters == "B":
            self.writer.line(f"{self.out}.append({values})")
        else:
            pack, _ = self.writer.layout(letters, "pack")
            self.writer.line(f"{self.out} += {pack}({values})")

    def struct(self, cls: type[Struct], instance: str) -> None:
        tagged: list[Field] = []
        for field in cls.__schema__.fields:
            value = f"{instance}.{field.name}"
            if self.version not in field.versions:
                if not field.ignorable:
                    unsendable = f"unsendable({field.name!r}, {self.version}, {value})"
                    self.writer.line(f"if not ({self.is_default(field, value)}): raise {unsendable}")
            elif field.tag is not None:
                tagged.append(field)
            else:
                self.value(field.type, value, self.version in field.nullable, field.name)
        if tagged:
            self.tags(instance, sorted(tagged, key=lambda field: field.tag or 0))
        elif self.flexible:
            self.pending.append(("x", ""))

    def is_default(self, field: Field, value: str) -> str:
        """Return an expression for whether ``value`` is what a reader assumes where the field is not sent."""
        default = self.writer.constant(field.default)
        if field.default is None:
            return f"{value} is None"
        if isinstance(field.type, Array):
            return f"{value} is not None and len({value}) == 0"
        if isinstance(field.type, type):
            return f"{value} is {default} or {value} == {default}"
        return f"{value} == {default}"

    def tags(self, instance: str, tagged: list[Field]) -> None:
        writer = self.writer
        self.flush()
        conditions = [self.is_default(field, f"{instance}.{field.name}") for field in tagged]
        writer.line(f"if {' and '.join(f'({condition})' for condition in conditions)}: {self.out}.append(0)")
        with writer.block("else"):
            tags, outside = writer.fresh("tags"), self.out
            writer.line(f"{tags} = []")
            for field, condition in zip(tagged, conditions, strict=True):
                with writer.block(f"if not ({condition})"):
                    self.out = writer.fresh("b")
                    writer.line(f"{self.out} = bytearray()")
                    value = f"{instance}.{field.name}"
                    self.value(field.type, value, self.version in field.nullable, field.name)
                    self.flush()
                    writer.line(f"{tags}.append(({field.tag}, {self.out}))")
                    self.out = outside
            writer.line(f"put_tags({self.out}, {tags})")

    def value(self, kind: WireType, value: str, nullable: bool, name: str) -> None:
        """Write one value, given as an expression; it may stay pending."""
        if isinstance(kind, Array):
            self.array(kind.element, value, nullable, name)
        elif isinstance(kind, type):
            self.nested(kind, value, nullable, name)
        elif kind.format:
            self.pending.append((kind.format, value))
        elif kind is STRING:
            self.string(value, nullable, name)
        else:
            self.bytes(kind, value, nullable, name)

    def nested(self, cls: type[Struct], value: str, nullable: bool, name: str) -> None:
        writer = self.writer
        inner = writer.fresh("m")
        writer.line(f"{inner} = {value}")
        if not nullable:
            writer.line(f"if {inner} is None: raise unsendable({name!r}, {self.version}, None)")
            self.struct(cls, inner)
            return
        self.flush()
        writer.line(f"if {inner} is None: {self.out}.append(255)")
        with writer.block("else"):
            self.pending.append(("b", "1"))
            self.struct(cls, inner)
            self.flush()

    def local(self, value: str, nullable: bool, name: str, null: str, given: str) -> None:
        """Write ``given``, or ``null`` where the local ``v`` of the value is None and that is allowed."""
        self.writer.line(f"v = {value}")
        if nullable:
            self.writer.line(f"if v is None: {null}")
        else:
            self.writer.line(f"if v is None: raise unsendable({name!r}, {self.version}, None)")
        self.writer.line(f"else: {given}")

    def length(self, size: str, letter: str, put_long: str = "put_uvarint") -> None:
        """Write what is pending together with a length; compact ones are mostly a single byte."""
        if not self.flexible:
            self.pending.append((letter, size))
            self.flush()
            return
        pending, self.pending = self.pending, []
        with self.writer.block(f"if {size} < 128"):
            self.write([*pending, ("B", size)])
        with self.writer.block("else"):
            self.write(pending)
            self.writer.line(f"{put_long}({self.out}, {size})")

    @property
    def null_size(self) -> int:
        return 0 if self.flexible else -1

    @property
    def plus_one(self) -> str:
        return " + 1" if self.flexible else ""

    def string(self, value: str, nullable: bool, name: str) -> None:
        null = f"v = b''; n = {self.null_size}"
        # An error's text quotes what the client sent, which may be as long as a string can be.
        encoded = "fit_text(v)" if name.endswith("error_message") else "v.encode()"
        self.local(value, nullable, name, null, f"v = {encoded}; n = len(v){self.plus_one}")
        self.length("n", "h", "put_string_length")
        self.writer.line(f"{self.out} += v")

    def bytes(self, kind: Primitive, value: str, nullable: bool, name: str) -> None:
        self.local(value, nullable, name, f"v = b''; n = {self.null_size}", f"n = len(v){self.plus_one}")
        self.length("n", "i")
        if kind is RECORDS:
            self.writer.line(f"if type(v) in NOT_COPIED: note_range({self.out}, v, ranges)")
            self.writer.line(f"else: {self.out} += v")
        else:
            self.writer.line(f"{self.out} += v")

    def array(self, element: Primitive | type[Struct], value: str, nullable: bool, name: str) -> None:
        writer = self.writer
        self.local(value, nullable, name, f"v = (); n = {self.null_size}", f"n = len(v){self.plus_one}")
        self.length("n", "i")
        if isinstance(element, Primitive) and element.format and element is not UUID:
            writer.line(f"if v: {self.out} += pack(f'>{{len(v)}}{element.format}', *v)")
            return
        item = writer.fresh("m")
        with writer.block(f"for {item} in v"):
            if isinstance(element, type):
                self.struct(element, item)
            else:
                self.value(element, item, False, "an element")
            self.flush()
