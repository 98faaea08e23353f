"""Which peers are cut off, and which are merely waiting."""

from dataclasses import dataclass

from cluster.network.slow_peers import SlowPeers

WATCH = SlowPeers(idle_close_s=600, slow_frame_s=30, slow_rate_min=1000, unread_s=60)


@dataclass
class Peer:
    received_bytes: int = 0
    sent_bytes: int = 0
    frames_begun: int = 0
    pending_count: int = 0
    is_inside_frame: bool = False
    is_sending: bool = False
    waits_for_room: bool = False
    idle_since: float = 1000.0
    noted_received: int = 0
    noted_sent: int = 0
    noted_frames: int = -1
    frame_since: float = 0.0
    frame_from: int = 0
    unauthenticated_since: float | None = None


def first_verdict(peer: Peer, until: float, each_look: object = None) -> tuple[float, str] | None:
    now = 1000.0
    while now <= 1000.0 + until:
        if each_look is not None:
            each_look(peer)  # type: ignore[operator]
        reason = WATCH.judge(peer, now)
        if reason is not None:
            return now - 1000.0, reason
        now += WATCH.interval_s
    return None


def test_an_idle_peer_goes_after_its_time() -> None:
    verdict = first_verdict(Peer(), 1000)
    assert verdict is not None
    assert 600 <= verdict[0] <= 600 + WATCH.interval_s
    assert verdict[1] == "idle for 600 s"


def test_whoever_waits_for_an_answer_is_not_idle() -> None:
    assert first_verdict(Peer(pending_count=1), 10_000) is None
    assert first_verdict(Peer(waits_for_room=True, is_inside_frame=True), 10_000) is None


def test_traffic_either_way_keeps_a_peer() -> None:
    def receives(peer: Peer) -> None:
        peer.received_bytes += 1

    def sends(peer: Peer) -> None:
        peer.sent_bytes += 1

    assert first_verdict(Peer(), 2000, receives) is None
    assert first_verdict(Peer(), 2000, sends) is None


def test_a_request_that_trickles_in_ends_the_connection() -> None:
    def trickle(peer: Peer) -> None:
        peer.received_bytes += 100

    verdict = first_verdict(Peer(is_inside_frame=True), 1000, trickle)
    assert verdict is not None
    assert 30 <= verdict[0] <= 30 + 2 * WATCH.interval_s
    assert "a request is not complete" in verdict[1]


def test_a_large_request_over_a_thin_link_is_waited_for() -> None:
    def thin(peer: Peer) -> None:
        peer.received_bytes += int(1100 * WATCH.interval_s)

    assert first_verdict(Peer(is_inside_frame=True), 5000, thin) is None


def test_many_small_requests_are_not_one_slow_one() -> None:
    def busy(peer: Peer) -> None:
        peer.received_bytes += 50
        peer.frames_begun += 1

    assert first_verdict(Peer(is_inside_frame=True), 5000, busy) is None


def test_a_peer_that_reads_nothing_goes() -> None:
    verdict = first_verdict(Peer(is_sending=True, pending_count=3), 1000)
    assert verdict is not None
    assert 60 <= verdict[0] <= 60 + WATCH.interval_s
    assert "took nothing" in verdict[1]


def test_zero_means_that_idleness_is_never_punished() -> None:
    watch = SlowPeers(idle_close_s=0, slow_frame_s=30, slow_rate_min=1000, unread_s=60)
    peer = Peer()
    assert watch.judge(peer, 10.0**9) is None


def test_a_peer_that_does_not_authenticate_goes_though_it_keeps_talking() -> None:
    def talk(peer: Peer) -> None:
        peer.received_bytes += 100_000
        peer.frames_begun += 1

    verdict = first_verdict(Peer(unauthenticated_since=1000.0), 1000, talk)
    assert verdict is not None
    assert 30 <= verdict[0] < 30 + 2 * WATCH.interval_s
    assert "authenticate" in verdict[1]
