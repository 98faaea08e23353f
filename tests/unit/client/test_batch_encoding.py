"""Encoding many records at once gives the same bytes as encoding each."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.batch_encoding import (
    BATCH_OVERHEAD,
    RECORD_OVERHEAD_MAX,
    ProducerIdentity,
    encode_records,
    frame_batch,
    headers_bound,
)
from wire.records.batch import check_crc, read_header
from wire.records.builder import BatchBuilder
from wire.records.compression import Compression
from wire.records.record import iter_records

payloads = st.one_of(st.binary(max_size=20), st.binary(min_size=60, max_size=70), st.just(b"x" * 9000))
maybe = st.one_of(st.none(), payloads)
headers = st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=5))), max_size=3)


@given(
    st.lists(st.tuples(maybe, maybe, headers, st.integers(0, 200)), min_size=1, max_size=80),
    st.sampled_from(["all", "values", "pairs", "same size", "keys and one size", "one moment"]),
    st.sampled_from(list(Compression)),
)
def test_records_come_out_as_they_went_in(records, kind: str, codec: Compression) -> None:
    keys = None if kind in ("values", "same size") else [key for key, _, _, _ in records]
    values = [value for _, value, _, _ in records]
    if kind in ("values", "pairs", "keys and one size", "one moment"):
        values = [value or b"" for value in values]
        keys = None if keys is None else [key or b"" for key in keys]
    if kind in ("same size", "keys and one size"):
        values = [bytes([number % 256]) * 77 for number in range(len(records))]
    extra = {i: h for i, (_, _, h, _) in enumerate(records) if h} if kind == "all" else None
    timestamps = [1_700_000_000_000 + (0 if kind == "one moment" else at) for _, _, _, at in records]
    encoded = encode_records(values, keys, extra, timestamps, codec)
    batch = frame_batch(encoded, ProducerIdentity(7, 3), 11, transactional=True)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    assert header.is_transactional
    assert header.compression is codec
    assert header.max_timestamp == max(timestamps)
    found = list(iter_records(batch, 0, header))
    assert [record.value for record in found] == values
    assert [record.key for record in found] == (keys or [None] * len(values))
    assert [record.timestamp for record in found] == timestamps
    assert [list(record.headers) for record in found] == [
        list((extra or {}).get(i, ())) for i in range(len(values))
    ]
    assert [record.offset for record in found] == list(range(len(values)))
    bound = BATCH_OVERHEAD + sum(
        RECORD_OVERHEAD_MAX
        + len(value or b"")
        + (0 if keys is None else len(keys[i] or b""))
        + headers_bound((extra or {}).get(i, ()))
        for i, value in enumerate(values)
    )
    if codec is Compression.NONE:
        assert len(batch) <= bound


def test_offsets_of_every_width() -> None:
    values = [b"%d" % (number % 10) for number in range(20_000)]
    timestamps = [5] * len(values)
    builder = BatchBuilder()
    for value in values:
        builder.append(5, None, value)
    assert frame_batch(encode_records(values, None, None, timestamps)) == builder.build()
    keyed = BatchBuilder()
    for value in values:
        keyed.append(5, value, value)
    assert frame_batch(encode_records(values, values, None, timestamps)) == keyed.build()


def test_offsets_and_times_that_change_within_a_batch() -> None:
    keys = [b"key-%d" % (number % 1000) for number in range(9_000)]
    values = [b"%05d" % number for number in range(9_000)]
    timestamps = [100 + number // 200 for number in range(9_000)]
    mixed = [value[: 1 + number % 5] for number, value in enumerate(values)]
    for some_keys, some in ((None, values), (None, mixed), (keys, values), (keys, mixed)):
        builder = BatchBuilder()
        for number, value in enumerate(some):
            builder.append(timestamps[number], None if some_keys is None else some_keys[number], value)
        assert frame_batch(encode_records(some, some_keys, None, timestamps)) == builder.build()


def test_a_batch_is_framed_again_under_other_numbers() -> None:
    encoded = encode_records([b"a", b"b"], None, None, [1, 2])
    first = bytes(frame_batch(encoded, ProducerIdentity(7, 3), 11))
    again = frame_batch(encoded, ProducerIdentity(7, 4), 0, transactional=True)
    header = read_header(again)
    check_crc(again, 0, header)
    assert (header.producer_epoch, header.base_sequence, header.is_transactional) == (4, 0, True)
    assert bytes(frame_batch(encoded, ProducerIdentity(7, 3), 11)) == first
