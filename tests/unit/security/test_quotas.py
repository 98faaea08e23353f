"""Meters, which quota applies, and how long a client is throttled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.security.quotas.client_quotas import METERS_MAX, ClientQuotas, QuotaType, RateQuota
from cluster.security.quotas.entities import DEFAULT, QuotaEntity, grant
from cluster.security.quotas.meters import RateMeter, TokenBucket, java_round

MB = 1_000_000


def test_a_burst_after_silence_counts_over_the_whole_window():
    meter = RateMeter(11, 1000)
    meter.record(20 * MB, 5)
    assert meter.elapsed_ms(5) == 10_000
    assert meter.per_second(5) == 2 * MB
    assert meter.excess_ms(MB, 5) == 10_000


def test_what_fits_into_the_window_at_once_is_no_violation():
    meter = RateMeter(11, 1000)
    meter.record(10 * MB, 123)
    assert meter.excess_ms(MB, 123) == 0
    meter.record(1, 124)
    assert meter.excess_ms(MB, 124) >= 0


def test_a_sample_counts_until_a_windows_time_after_its_last_record():
    meter = RateMeter(11, 1000)
    meter.record(5, 0)
    meter.record(5, 900)
    assert meter.total(900 + 10_999) == 10
    assert meter.total(900 + 11_000) == 0


def test_rounding_is_javas():
    rounded = {
        0.5: 1,
        0.49999999999999994: 0,
        2.5: 3,
        -2.5: -2,
        -0.4: 0,
        4503599627370497.0: 4503599627370497,
    }
    assert {value: java_round(value) for value in rounded} == rounded


def test_a_negative_value_takes_back():
    meter = RateMeter(11, 1000)
    meter.record(7, 0)
    meter.record(-7, 10)
    assert meter.total(10) == 0


@given(st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 1000)), min_size=1, max_size=60))
def test_a_client_that_waits_as_it_is_told_keeps_its_quota(steps):
    """A client that waits for the throttle time gets no more than its quota over any long period."""
    limit = 100
    quota = RateQuota(11, 1000)
    quota.set_limit(QuotaEntity("u"), limit)
    now, sent = 0, 0
    for pause, size in steps:
        now += pause + quota.record("u", "", size, now)
        sent += size
    assert sent <= limit * (now / 1000 + 11) + max(size for _, size in steps)


def test_the_bucket_starts_full_and_may_be_overdrawn():
    bucket = TokenBucket(11, 1000)
    bucket.take(12, 1, 0)
    assert bucket.tokens(1, 0) == -1
    assert bucket.overdrawn_ms(1, 0) == 1000
    assert bucket.overdrawn_ms(1, 600) == 400
    assert bucket.overdrawn_ms(1, 1000) == 0
    assert bucket.tokens(1, 10**9) == 11


LEVELS = [
    (QuotaEntity("alice", "app"), QuotaEntity("alice", "app")),
    (QuotaEntity("alice", DEFAULT), QuotaEntity("alice", "app")),
    (QuotaEntity("alice"), QuotaEntity("alice")),
    (QuotaEntity(DEFAULT, "app"), QuotaEntity("alice", "app")),
    (QuotaEntity(DEFAULT, DEFAULT), QuotaEntity("alice", "app")),
    (QuotaEntity(DEFAULT), QuotaEntity("alice")),
    (QuotaEntity(None, "app"), QuotaEntity(None, "app")),
    (QuotaEntity(None, DEFAULT), QuotaEntity(None, "app")),
]


def test_the_most_specific_level_holds_and_the_next_takes_over():
    limits = {entity: float(number) for number, (entity, _) in enumerate(LEVELS, 1)}
    for number, (entity, shared_by) in enumerate(LEVELS, 1):
        found = grant(limits, "alice", "app")
        assert found is not None
        assert (found.limit, found.shared_by) == (number, shared_by)
        del limits[entity]
    assert grant(limits, "alice", "app") is None


def test_a_name_that_looks_like_the_default_is_a_name():
    assert grant({QuotaEntity(DEFAULT): 1.0}, "<default>", "") == (1.0, QuotaEntity("<default>"))
    assert grant({QuotaEntity("<default>"): 1.0}, "alice", "") is None


def test_clients_of_one_user_share_its_quota_and_others_do_not():
    quotas = ClientQuotas(11, 1000, 11, 1000)
    quotas.set_limits(QuotaEntity(DEFAULT), {QuotaType.PRODUCE: MB})
    assert quotas.produce.record("alice", "one", 10 * MB, 0) == 0
    assert quotas.produce.record("alice", "two", 10 * MB, 0) == 10_000
    assert quotas.produce.record("bob", "one", 10 * MB, 0) == 0
    assert quotas.fetch.record("alice", "one", 10**9, 0) == 0, "a quota of one type says nothing of another"


def test_a_quota_that_changes_holds_at_once_for_what_was_used():
    quota = RateQuota(11, 1000)
    quota.set_limit(QuotaEntity("u"), 10.0)
    assert quota.record("u", "c", 100, 0) == 0
    quota.set_limit(QuotaEntity("u"), 5.0)
    assert quota.record("u", "c", 0, 0) == 10_000
    quota.set_limit(QuotaEntity("u"), None)
    assert quota.record("u", "c", 10**9, 0) == 0


@pytest.mark.parametrize("limit", [0.0, -1.0])
def test_a_stored_quota_of_nothing_holds_back_for_a_window(limit):
    quota = RateQuota(11, 1000)
    quota.set_limit(QuotaEntity("u"), limit)
    assert quota.record("u", "c", 1, 0) == 1000
    assert quota.burst("u", "c") == 0


def test_the_request_quota_holds_back_for_a_window_at_most():
    quotas = ClientQuotas(11, 1000, 11, 1000)
    quotas.set_limits(QuotaEntity("u"), {QuotaType.REQUEST: 1.0})
    assert quotas.request.record("u", "c", 100_000, 0) == 1000


def test_mutations_are_refused_while_tokens_are_owed():
    mutation = ClientQuotas(11, 1000, 11, 1000).mutation
    mutation.set_limit(QuotaEntity("u"), 1.0)
    assert mutation.exceeded_ms("u", "", 0) == 0
    mutation.record("u", "", 12, 0)
    assert mutation.exceeded_ms("u", "", 0) == 1000
    assert mutation.exceeded_ms("u", "", 1000) == 0
    assert mutation.exceeded_ms("bob", "", 0) == 0


def test_invented_client_ids_do_not_fill_the_memory():
    quota = RateQuota(11, 1000)
    quota.set_limit(QuotaEntity(None, DEFAULT), 1.0)
    for number in range(METERS_MAX + 10):
        quota.record("u", f"client-{number}", 1, 0)
    assert len(quota._meters) == METERS_MAX
