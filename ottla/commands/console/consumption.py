"""Reading batches and writing their records, up to a number of records or a pause of a length."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from ottla.client import Batch
from ottla.commands.console.formatters import Formatter
from ottla.commands.console.standard_output import StandardOutput

if TYPE_CHECKING:
    from ottla.client import Group, Reader


class Consumption:
    """Writes what comes.

    Attributes:
        count: How many records came.

    Args:
        formatter: How records are written.
        output: Where.
        max_messages: The most records; None for no bound.
        timeout_s: The longest pause between two records; infinite for none.
        on_bad: Takes the text of a record that cannot be written, and it is skipped; None raises.
    """

    def __init__(
        self,
        formatter: Formatter,
        output: StandardOutput,
        *,
        max_messages: int | None,
        timeout_s: float,
        on_bad: Callable[[str], None] | None,
    ) -> None:
        self.count = 0
        self._formatter = formatter
        self._output = output
        self._max_messages = max_messages
        self._timeout_s = timeout_s
        self._on_bad = on_bad

    async def run(self, source: "Group[bytes, bytes] | Reader[bytes, bytes]") -> None:
        """Write until the source ends, the bound is reached or nothing comes for the timeout.

        What was written counts as done, record by record: a group that commits goes on behind it.

        Raises:
            OutputClosed: Nobody reads the output.
            ValueError: A record cannot be written.
            ClientError: The source cannot be read.
        """
        head = bytearray()
        self._formatter.begin(head)
        await self._output.write(head)
        while self._max_messages is None or self.count < self._max_messages:
            batch: Batch[bytes, bytes] | None = None
            with trio.move_on_after(self._timeout_s):
                try:
                    batch = await anext(source)
                except StopAsyncIteration:
                    return
            if batch is None:
                return
            await self._write(batch)

    async def _write(self, batch: Batch[bytes, bytes]) -> None:
        left = None if self._max_messages is None else self._max_messages - self.count
        if left is not None and len(batch) > left:
            records = [batch[index] for index in range(left)]
            await self._output.write(self._formatted(records))
            self.count += left
            for record in records:
                record.done()
            return
        out = bytearray()
        if not self._formatter.write_all(batch, out):
            out = self._formatted(batch)
        await self._output.write(out)
        self.count += len(batch)
        batch.done()

    def _formatted(self, records: Any) -> bytearray:
        out = bytearray()
        write = self._formatter.write
        for record in records:
            try:
                write(record, out)
            except ValueError as error:
                text = f"{record.topic}-{record.partition} at offset {record.offset}: {error}"
                if self._on_bad is None:
                    raise ValueError(text) from error
                self._on_bad(text)
        return out
