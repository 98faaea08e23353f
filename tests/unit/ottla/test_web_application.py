"""The web page without sockets: who is let in, what is refused, and what pages show when things fail."""

import trio

from ottla.client.errors import ClientError, NotAuthorized
from ottla.web.application import safe_address
from ottla.web.guard import is_allowed_host
from ottla.web.sessions import TRIES_MAX, TRIES_WITHIN_S, new_password
from tests.unit.ottla.web_visitor import PASSWORD, FakeAdmin, Visitor, visit
from wire.errors import Error


class TestGuard:
    def test_addresses_and_known_names_are_served(self) -> None:
        for host in ("127.0.0.1:9080", "[::1]:9080", "localhost", "192.168.1.7", "kafka.example:80"):
            assert is_allowed_host(host, {"kafka.example"})
        for host in ("", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "[::1"):
            assert not is_allowed_host(host, {"kafka.example"})

    def test_another_host_is_refused(self) -> None:
        async def story(visitor: Visitor) -> None:
            visitor.host = "rebound.example:9080"
            answer = await visitor.get("/topics")
            assert answer.status == 403
            assert "--allow-host" in answer.text

        visit(story)

    def test_headers_of_every_answer(self) -> None:
        async def story(visitor: Visitor) -> None:
            for path in ("/", "/topics", "/nothing", "/static/style.css"):
                headers = (await visitor.get(path)).headers
                assert "default-src 'none'" in headers["content-security-policy"]
                assert "'unsafe" not in headers["content-security-policy"]
                assert headers["x-frame-options"] == "DENY"
                assert headers["x-content-type-options"] == "nosniff"
            assert (await visitor.get("/")).headers["cache-control"] == "no-store"

        visit(story)

    def test_a_form_of_another_site_is_refused(self) -> None:
        async def story(visitor: Visitor) -> None:
            for headers in ({"origin": "https://evil.example"}, {"sec_fetch_site": "cross-site"}):
                answer = await visitor.post("/login", {"password": PASSWORD}, **headers)
                assert (answer.status, answer.text) == (403, "This form comes from another site.\n")
            assert visitor.cookies == {}

        visit(story, allow_changes=True)


class TestLogin:
    def test_nothing_is_shown_before(self) -> None:
        async def story(visitor: Visitor) -> None:
            for path in ("/", "/topics", "/topics/orders", "/groups?x=1", "/nothing"):
                answer = await visitor.get(path)
                assert answer.status == 303
                assert answer.headers["location"].startswith("/login")
            live = await visitor.get("/status", hx_request="true")
            assert (live.status, live.headers["hx-redirect"]) == (401, "/login")
            assert "the-cluster" not in (await visitor.get("/login")).text

        visit(story, allow_changes=True)

    def test_with_the_password(self) -> None:
        async def story(visitor: Visitor) -> None:
            answer = await visitor.post("/login?next=%2Ftopics%3Fsort%3Dsize", {"password": PASSWORD})
            assert (answer.status, answer.headers["location"]) == (303, "/topics?sort=size")
            cookie = answer.headers["set-cookie"].lower()
            assert "httponly" in cookie
            assert "samesite=strict" in cookie
            assert "orders" in (await visitor.get("/topics")).text

        visit(story, allow_changes=True)

    def test_a_wrong_password_and_too_many(self) -> None:
        async def story(visitor: Visitor) -> None:
            for _ in range(TRIES_MAX):
                assert (await visitor.post("/login", {"password": "wrong"})).status == 403
            assert (await visitor.post("/login", {"password": PASSWORD})).status == 429
            await trio.sleep(TRIES_WITHIN_S + 1)
            assert (await visitor.post("/login", {"password": PASSWORD})).status == 303

        visit(story, allow_changes=True)

    def test_logging_out_ends_the_session(self) -> None:
        async def story(visitor: Visitor) -> None:
            csrf = await visitor.log_in()
            before = dict(visitor.cookies)
            await visitor.post("/logout", {"csrf": "another"})
            visitor.cookies = dict(before)
            assert (await visitor.get("/topics")).status == 200
            await visitor.post("/logout", {"csrf": csrf})
            visitor.cookies = before
            assert (await visitor.get("/topics")).status == 303

        visit(story, allow_changes=True)

    def test_it_leads_nowhere_else(self) -> None:
        assert safe_address("/topics?x=1") == "/topics?x=1"
        for address in ("https://evil.example", "//evil.example", "/\\evil.example", "topics", ""):
            assert safe_address(address) == "/"

    def test_passwords_differ(self) -> None:
        assert len({new_password() for _ in range(50)}) == 50


class TestPages:
    def test_names_are_escaped(self) -> None:
        async def story(visitor: Visitor) -> None:
            text = (await visitor.get("/topics")).text
            assert "<script>" not in text.partition("<main")[2]
            assert "&lt;script&gt;" in text
            assert "/topics/%3Cscript%3E" in text

        visit(story)

    def test_the_moving_part_alone(self) -> None:
        async def story(visitor: Visitor) -> None:
            for path in ("/", "/topics"):
                live = (await visitor.get(path, hx_request="true")).text
                assert "<table" in live
                assert "<html" not in live

        visit(story)

    def test_what_there_is_not(self) -> None:
        async def story(visitor: Visitor) -> None:
            for path in ("/nothing", "/topics/nothing", "/brokers/9", "/topics/nothing/messages"):
                answer = await visitor.get(path)
                assert answer.status == 404
                assert "There is no" in answer.text

        visit(story)

    def test_no_cluster(self) -> None:
        async def story(visitor: Visitor) -> None:
            answer = await visitor.get("/topics")
            assert answer.status == 503
            assert "has not been reached yet" in answer.text
            assert 'http-equiv="refresh"' in answer.text

        visit(story, connected=False)

    def test_a_topic_whose_details_are_forbidden(self) -> None:
        class Forbidding(FakeAdmin):
            async def list_offsets(self, wanted: object, **options: object) -> None:
                raise NotAuthorized("not yours", error=Error.TOPIC_AUTHORIZATION_FAILED)

            async def describe_configs(self, resources: object, **options: object) -> None:
                await trio.sleep_forever()

        async def story(visitor: Visitor) -> None:
            answer = await visitor.get("/topics/orders")
            assert answer.status == 200
            assert "may not do this: not yours." in answer.text
            assert "did not answer within 8 s" in answer.text
            assert answer.text.count('class="state ok"') >= 2  # the partitions are there

        visit(story, admin=Forbidding())

    def test_what_was_seen_stays_while_the_cluster_is_away(self) -> None:
        class Failing(FakeAdmin):
            fails = False

            async def refresh(self):  # type: ignore[no-untyped-def]
                if self.fails:
                    raise ClientError("the network is down")
                return await super().refresh()

        admin = Failing()

        async def story(visitor: Visitor) -> None:
            assert (await visitor.get("/")).status == 200
            admin.fails = True
            await trio.sleep(12)
            answer = await visitor.get("/")
            assert answer.status == 200
            assert "The network is down." in answer.text
            assert "Not reachable for" in answer.text

        visit(story, admin=admin)


class TestReadOnly:
    def test_nothing_can_be_changed(self) -> None:
        async def story(visitor: Visitor) -> None:
            answer = await visitor.post("/topics/orders/delete", {"csrf": ""})
            assert answer.status in (403, 404, 405)
            assert visitor.admin.calls == []

        visit(story)
