"""Generates the function that decodes one message in one version.

The function is straight-line code for the whole message, nested structs included: instances are made by
``object.__new__`` and filled slot by slot, and neighbouring fields of fixed width, the length of what follows
and the count byte of the tagged fields among them, are read by one ``struct`` call::

    n3, = ...                          # count of the array
    for _ in range(n3 - 1):
        o4 = new(K1)
        o4.partition, o4.current_leader_epoch, o4.fetch_offset, n5 = U2(buf, pos)
        pos += 17
        if n5: pos = skip_tags(buf, pos, n5, limit)
        a3.append(o4)

Bad bytes surface as IndexError, `struct.error` or ValueError, which one ``except`` around it all turns into
`RemoteProtocolError`. Whatever a length claims, nothing is allocated for it before that many bytes are there.
"""

import struct
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from wire.apis import API_TABLE
from wire.errors import RemoteProtocolError
from wire.schema import MAX_STRING, RECORDS, STRING, UUID, Array, Field, Message, Primitive, Request, Struct
from wire.source_writer import SourceWriter
from wire.varints import more, read_uvarint, skip_tags, unusual_string_length

WireType = Primitive | Array | type[Struct]


def compile_decoder(cls: type[Message], version: int) -> Callable[..., Any]:
    """Make ``decode(buffer, offset) -> (message, offset after it)`` for a version that ``cls`` has."""
    source = _DecoderSource(cls, version)
    return source.writer.compile("decode", f"decoder of {cls.__name__} v{version}")


_FEW_NUMBERS: Final = 8
"""Arrays of at most this many numbers do not count as entries: the replicas of a partition."""


def _malformed(name: str, version: int, position: int, error: Exception) -> RemoteProtocolError:
    reason = "it ends too early" if isinstance(error, IndexError | struct.error) else str(error)
    return RemoteProtocolError(f"malformed {name} v{version} near byte {position}: {reason}")


def _null(what: str) -> ValueError:
    return ValueError(f"{what} may not be null")


def _too_many(count: int) -> ValueError:
    return ValueError(f"an array claims {count} elements, more than the bytes that follow could hold")


def _too_many_together(most: int) -> ValueError:
    return ValueError(f"its arrays have more than {most} entries together")


def carries_records(struct_type: type[Struct], version: int) -> bool:
    """Whether this version of the struct has a `RECORDS` field at any depth."""
    for field in struct_type.__schema__.fields:
        if version not in field.versions:
            continue
        inner = field.type.element if isinstance(field.type, Array) else field.type
        if inner is RECORDS or (isinstance(inner, type) and carries_records(inner, version)):
            return True
    return False


def _entries_max(cls: type[Message]) -> int | None:
    """Return how many entries the arrays of a message may have together; None for anything but a request."""
    return API_TABLE[cls.__schema__.api_key].entries_max if issubclass(cls, Request) else None


class _DecoderSource:
    def __init__(self, cls: type[Message], version: int) -> None:
        self.version = version
        self.flexible = version in cls.__schema__.flexible
        self.views = carries_records(cls, version)
        self.entries_max = _entries_max(cls)
        self.pending: list[tuple[str, str]] = []
        self.writer = writer = SourceWriter(
            {
                "new": object.__new__,
                "BAD": (struct.error, IndexError, ValueError),
                "malformed": partial(_malformed, cls.__name__, version),
                "more": more,
                "null": _null,
                "read_uvarint": read_uvarint,
                "skip_tags": skip_tags,
                "too_many": _too_many,
                "too_many_together": _too_many_together,
                "unpack_from": struct.unpack_from,
                "unusual_string_length": unusual_string_length,
            }
        )
        with writer.block("def decode(buf, pos)"):
            # Views where records must not be copied; plain bytes elsewhere, as they are faster to slice.
            kind = "memoryview" if self.views else "bytes"
            writer.line(f"if type(buf) is not {kind}: buf = {kind}(buf)")
            writer.line("limit = len(buf)")
            if self.entries_max is not None:
                writer.line(f"entries = {self.entries_max}")
            with writer.block("try"):
                root = self.struct(cls)
                self.flush()
                writer.line(f"return {root}, pos")
            writer.line("except BAD as error:")
            writer.line("    raise malformed(pos, error) from None")

    def flush(self) -> None:
        """Write one read of the fixed-width fields gathered so far."""
        pending, self.pending = self.pending, []
        if not pending:
            return
        letters = "".join(letter for letter, _ in pending)
        if letters == "B":
            self.writer.line(f"{pending[0][1]} = buf[pos]")
            self.writer.line("pos += 1")
            return
        unpack, size = self.writer.layout(letters, "unpack_from")
        targets = ", ".join(target for _, target in pending)
        self.writer.line(f"{targets}{',' if len(pending) == 1 else ''} = {unpack}(buf, pos)")
        self.writer.line(f"pos += {size}")

    def struct(self, cls: type[Struct]) -> str:
        """Write the reading of a struct; returns the name of the local that holds it."""
        writer = self.writer
        instance = writer.fresh("o")
        writer.line(f"{instance} = new({writer.constant(cls)})")
        tagged: list[Field] = []
        unsent: dict[str, list[str]] = {}
        for field in cls.__schema__.fields:
            target = f"{instance}.{field.name}"
            present = self.version in field.versions
            if present and field.tag is None:
                self.value(field.type, target, self.version in field.nullable, field.name)
                continue
            unsent.setdefault(writer.constant(field.default), []).append(target)
            if present:
                tagged.append(field)
        for default, targets in unsent.items():
            writer.line(f"{' = '.join(targets)} = {default}")
        if self.flexible:
            self.tags(instance, tagged)
        return instance

    def tags(self, instance: str, tagged: list[Field]) -> None:
        writer = self.writer
        count = writer.fresh("t")
        self.pending.append(("B", count))
        self.flush()
        if not tagged:
            writer.line(f"if {count}: pos = skip_tags(buf, pos, {count}, limit)")
            return
        tag, end = writer.fresh("tag"), writer.fresh("end")
        with writer.block(f"if {count}"):
            writer.line(f"if {count} > 127: {count}, pos = more(buf, pos, {count})")
            with writer.block(f"for _ in range({count})"):
                writer.line(f"{tag}, pos = read_uvarint(buf, pos)")
                writer.line(f"{end}, pos = read_uvarint(buf, pos)")
                writer.line(f"{end} += pos")
                writer.line(f"if {end} > limit: raise IndexError")
                for number, field in enumerate(tagged):
                    with writer.block(f"{'elif' if number else 'if'} {tag} == {field.tag}"):
                        target = f"{instance}.{field.name}"
                        self.value(field.type, target, self.version in field.nullable, field.name)
                        self.flush()
                        writer.line(f"if pos != {end}: raise ValueError('a tagged field has another size')")
                writer.line(f"else: pos = {end}")

    def value(self, kind: WireType, target: str, nullable: bool, name: str) -> None:
        """Write the reading of one value into ``target``; it may stay pending."""
        if isinstance(kind, Array):
            self.array(kind.element, target, nullable, name)
        elif isinstance(kind, type):
            self.nested(kind, target, nullable)
        elif kind.format:
            self.pending.append((kind.format, target))
        else:
            self.lengthy(kind, target, nullable, name)

    def nested(self, cls: type[Struct], target: str, nullable: bool) -> None:
        if not nullable:
            self.writer.line(f"{target} = {self.struct(cls)}")
            return
        present = self.writer.fresh("p")
        self.pending.append(("b", present))
        self.flush()
        self.writer.line(f"if {present} < 0: {target} = None")
        with self.writer.block("else"):
            instance = self.struct(cls)
            self.flush()
            self.writer.line(f"{target} = {instance}")

    def length(self, letter: str) -> str:
        """Write the reading of a length or count; compact ones are one more than what they count."""
        size = self.writer.fresh("n")
        self.pending.append(("B" if self.flexible else letter, size))
        self.flush()
        return size

    def lengthy(self, kind: Primitive, target: str, nullable: bool, name: str) -> None:
        """Write the reading of a string, bytes or records: a length, then that many bytes."""
        writer = self.writer
        size = self.length("h" if kind is STRING else "i")
        is_null = f"{size} == 0" if self.flexible else f"{size} < 0"
        if nullable:
            writer.line(f"if {is_null}: {target} = None")
            with writer.block("else"):
                self.body(kind, target, size, nullable)
            return
        if not (self.flexible and kind is STRING):  # whose helper checks it
            writer.line(f"if {is_null}: raise null({name!r})")
        self.body(kind, target, size, nullable)

    def body(self, kind: Primitive, target: str, size: str, nullable: bool) -> None:
        writer = self.writer
        if self.flexible and kind is STRING and not nullable:
            writer.line(f"if not 0 < {size} < 128: {size}, pos = unusual_string_length(buf, pos, {size})")
        elif self.flexible:
            writer.line(f"if {size} > 127: {size}, pos = more(buf, pos, {size})")
            if kind is STRING:
                writer.line(f"if {size} > {MAX_STRING + 1}: raise ValueError('a string is too long')")
        writer.line(f"end = pos + {size}{' - 1' if self.flexible else ''}")
        writer.line("if end > limit: raise IndexError")
        piece = "buf[pos:end]"
        if kind is STRING:
            piece = f"str({piece}, 'utf-8')" if self.views else f"{piece}.decode()"
        elif kind is not RECORDS and self.views:
            piece = f"bytes({piece})"
        writer.line(f"{target} = {piece}")
        writer.line("pos = end")

    def array(self, element: Primitive | type[Struct], target: str, nullable: bool, name: str) -> None:
        writer = self.writer
        size = self.length("i")
        if self.flexible:
            writer.line(f"if {size} > 127: {size}, pos = more(buf, pos, {size})")
            writer.line(f"{size} -= 1")
        if not nullable:
            writer.line(f"if {size} < 0: raise null({name!r})")
            self.elements(element, target, size)
            return
        writer.line(f"if {size} < 0: {target} = None")
        with writer.block("else"):
            self.elements(element, target, size)

    def elements(self, element: Primitive | type[Struct], target: str, size: str) -> None:
        writer = self.writer
        smallest = max(self.smallest(element), 1)
        times = f" * {smallest}" if smallest > 1 else ""
        writer.line(f"if {size}{times} > limit - pos: raise too_many({size})")
        numbers = isinstance(element, Primitive) and element.format and element is not UUID
        if self.entries_max is not None:
            writer.line(f"{f'if {size} > {_FEW_NUMBERS}: ' if numbers else ''}entries -= {size}")
            writer.line(f"if entries < 0: raise too_many_together({self.entries_max})")
        if isinstance(element, Primitive) and numbers:
            writer.line(
                f"{target} = list(unpack_from(f'>{{{size}}}{element.format}', buf, pos)) if {size} else []"
            )
            writer.line(f"pos += {size}{times}")
            return
        items = writer.fresh("a")
        writer.line(f"{target} = {items} = []")
        with writer.block(f"for _ in range({size})"):
            if isinstance(element, type):
                item = self.struct(element)
            else:
                item = writer.fresh("v")
                self.value(element, item, False, "an element")
            self.flush()
            writer.line(f"{items}.append({item})")

    def smallest(self, kind: WireType, nullable: bool = False) -> int:
        """Return the fewest bytes that a value can have; claimed counts are checked against it."""
        if isinstance(kind, Array):
            return 1 if self.flexible else 4
        if isinstance(kind, Primitive):
            if kind.format:
                return kind.width
            return 1 if self.flexible else 2 if kind is STRING else 4
        if nullable:
            return 1
        total = 1 if self.flexible else 0
        for field in kind.__schema__.fields:
            if self.version in field.versions and field.tag is None:
                total += self.smallest(field.type, self.version in field.nullable)
        return total
