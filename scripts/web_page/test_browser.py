"""The web page in a browser, on a cluster of three brokers that is changed, and harmed, while the page is open."""

import re
from pathlib import Path

import pytest
from confluent_kafka import Producer
from selenium.webdriver.common.keys import Keys

from ottla.testing import Cluster
from scripts.web_page.conftest import GROUP, RECORDS, TOPIC
from scripts.web_page.person import Person

PAGES = (
    "/", "/brokers/0", "/topics", "/topics/orders", "/topics/orders/messages", "/topics/orders/messages/0/0",
    "/topics/orders/produce", "/topics/orders/change", "/new-topic", "/topics/orders/settings/retention.ms",
    "/groups", "/groups/billing", "/groups/billing/reset", "/moves", "/transactions", "/timeline", "/access", "/jobs",
)  # fmt: skip


def number(text: str) -> int:
    return int(re.sub(r"\D", "", text))


def test_the_list_of_topics(browser: Person) -> None:
    browser.open("/topics")
    browser.wait(lambda: browser.find("tbody tr").text.startswith(TOPIC))
    browser.wait(lambda: "In sync" in browser.find("tbody tr").text)
    browser.fill("input[name=search]", "no such topic")
    browser.find("input[name=search]").submit()
    browser.wait_for_text("No topic fits.")


def test_messages_by_place_and_content(browser: Person) -> None:
    def rows() -> list[str]:
        return [each.text for each in browser.all("#messages tr")]

    browser.open_until("/topics/orders/messages", lambda: len(rows()) == 50)
    browser.open_until("/topics/orders/messages?where=number%3D123", lambda: len(rows()) == 1)
    assert '"number": 123' in rows()[0]
    path = "/topics/orders/messages?partition=3&from=offset&offset=7&count=25"
    browser.open_until(path, lambda: len(rows()) == 25)
    offsets = [number(each.text) for each in browser.all("#messages tr td:nth-child(2)")]
    assert offsets == list(range(7, 32))
    browser.click("nav.pages a:last-of-type")
    browser.wait_for_text("Newer")
    shown = 0
    browser.open("/topics/orders/messages?count=200")
    while True:
        shown += len(browser.all("#messages tr"))
        older = [each for each in browser.all("nav.pages a") if "Older" in each.text]
        if not older:
            break
        browser.driver.get(older[0].get_attribute("href"))
    assert shown == RECORDS


def test_new_messages_appear_while_one_looks(browser: Person, cluster: Cluster) -> None:
    browser.open("/topics/orders/messages?contains=tailed")
    browser.click("#tail")
    browser.wait(lambda: "appear on top" in browser.find("#tail-status").text)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})

    def is_shown() -> bool:
        # The tail begins at the end that each leader has when it is asked.
        producer.produce("orders", b"tailed <b>one</b>", partition=0)
        producer.flush(10)
        return any("tailed <b>one</b>" in each.text for each in browser.all("#messages tr.fresh"))

    browser.wait(is_shown)
    assert not browser.all("#messages b")
    browser.click("#tail")
    browser.wait(lambda: "has stopped" in browser.find("#tail-status").text)


def test_a_message_is_written_and_sent_again(browser: Person, cluster: Cluster) -> None:
    cluster.create_topic("letters", partitions=1, replicas=2)
    browser.open("/topics/letters/produce")
    browser.click("input[name=key_null]")
    browser.fill("input[name=key]", "k1")
    browser.fill("textarea[name=value]", '{"dear": "reader"}')
    browser.fill("textarea[name=headers]", "from=here")
    browser.click("form.stack button.main")
    browser.wait_for_text("Written to letters-0 at offset 0.")
    browser.click(".title a.button")
    browser.wait_for_text("Send offset 0 again")
    assert browser.find("input[name=key]").get_attribute("value") == "k1"
    browser.click("form.stack button.main")
    browser.wait_for_text("Written to letters-0 at offset 1.")
    assert "from" in browser.text


def test_lag_and_offsets(browser: Person) -> None:
    browser.open("/groups")
    browser.wait_for_text(GROUP)
    browser.open("/groups/billing")
    browser.wait_for_text("Lag over time")
    browser.wait_for(".chart canvas")
    browser.wait(lambda: 30 in {number(each.text) for each in browser.all("tbody tr td:nth-child(5)")})
    browser.open("/groups/billing/reset?way=to_earliest")
    browser.click("#reset button.main")
    browser.wait_for_text("What would change")
    assert "-20" in browser.text
    browser.click("#reset-apply button.main")
    browser.wait_for_text("Set 6 offsets of billing.")
    browser.wait(lambda: {each.text for each in browser.all("tbody tr td:nth-child(3)")} == {"0"})


def test_settings_are_previewed_and_marked(browser: Person) -> None:
    browser.open("/topics/orders/settings/retention.ms")
    browser.fill("input[name=value]", "nonsense")
    browser.click("form.stack button.main")
    browser.wait_for_text("That did not work")
    browser.open("/topics/orders/settings/retention.ms")
    browser.fill("input[name=value]", "3600000")
    browser.click("form.stack button.main")
    browser.wait_for_text("Becomes")
    browser.click("main form button.main")
    browser.wait_for_text("retention.ms is 3600000 now.")
    browser.wait(lambda: "retention.ms set here" in " ".join(browser.find("tr.changed").text.split()))


def test_moves_are_planned_begun_and_followed(browser: Person, cluster: Cluster) -> None:
    cluster.create_topic("moving", partitions=3, replicas=1)
    browser.open("/moves")
    browser.find("#plan select").send_keys("Empty brokers")
    browser.click("input[name=broker][value='2']")
    browser.click("#plan button.main")
    browser.wait_for_text("What would move")
    assert re.search(r"\d+ → 0", browser.text), "broker 2 would hold nothing"
    browser.click("details summary")
    way_back = browser.find("details pre").text
    browser.click("#begin button.main")
    browser.wait_for_text("begin to move.")
    browser.wait(lambda: "No partition is being moved." in browser.text)
    known = Producer({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=30).topics
    held = [each.replicas for topic in ("moving", TOPIC) for each in known[topic].partitions.values()]
    assert all(2 not in replicas for replicas in held)
    assert '"topic":"moving"' in way_back


def test_a_broker_dies_before_ones_eyes(browser: Person, cluster: Cluster) -> None:
    browser.open("/")
    browser.wait_for("#broker-1")
    cluster.kill(1)
    browser.wait(lambda: "not alive" in browser.find("#broker-1").text)
    browser.wait(lambda: "Broker 1 has left the cluster." in browser.find(".feed").text)
    browser.wait(lambda: "leads" in browser.find(".feed").text)
    cluster.start(1)
    browser.wait(lambda: "not alive" not in browser.find("#broker-1").text)
    browser.wait(lambda: "Broker 1 has joined the cluster." in browser.find(".feed").text)
    browser.open("/timeline")
    browser.wait_for_text("another leader")
    browser.wait(lambda: "In sync" in browser.find(".health").text)
    browser.open("/moves#leaders")
    browser.wait_for("form[action='/moves/elect'] button")
    browser.click("form[action='/moves/elect'] button")
    browser.wait_for_text("led by their first replicas again.")


@pytest.mark.parametrize(
    ("name", "width", "dark", "pages"), [("dark", 1280, True, PAGES[:5]), ("small", 360, False, PAGES)]
)
def test_every_page_fits(
    browser: Person, pictures: Path, name: str, width: int, dark: bool, pages: tuple[str, ...]
) -> None:
    browser.resize(width, 900, mobile=width < 500, dark=dark)
    try:
        browser.complaints()
        for path in pages:
            browser.open(path)
            browser.wait_for("main h1")
            assert "That did not work" not in browser.text, path
            assert browser.run("document.documentElement.scrollWidth") <= width, path
            background = browser.run("getComputedStyle(document.body).backgroundColor")
            assert (max(map(int, re.findall(r"\d+", background)[:3])) < 60) is dark, path
            browser.driver.save_screenshot(str(pictures / f"{name}{path.replace('/', '_')}.png"))
        assert browser.complaints() == []
    finally:
        browser.resize(1280, 900)


def test_the_keyboard_is_enough(browser: Person) -> None:
    browser.open("/topics")
    seen = []
    for _ in range(40):
        browser.press(Keys.TAB)
        # The page refreshes the list now and then: read it in one go, so that nothing changes in between.
        focused, outline = browser.run(
            "[document.activeElement.textContent.trim(), getComputedStyle(document.activeElement).outlineStyle]"
        )
        assert outline != "none", focused
        seen.append(focused)
        if focused == TOPIC:
            break
    browser.press(Keys.ENTER)
    assert seen[0] == "Skip to the content"
    browser.wait(lambda: browser.find("h1").text == TOPIC)


def test_logging_out(browser: Person) -> None:
    browser.open("/")
    browser.click("form[action='/logout'] button")
    browser.wait_for("input[type=password]")
    browser.open("/topics")
    browser.wait_for("input[type=password]")
