"""A user at a browser: looks, types and clicks, and waits for content to appear."""

from collections.abc import Callable
from typing import Any, TypeVar

from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from tests.patience import until

T = TypeVar("T")


class Person:
    """Uses the page.

    Args:
        driver: The browser.
        address: The page.
    """

    def __init__(self, driver: Any, address: str) -> None:
        self.driver = driver
        self.address = address
        self.resize(1280, 900)

    def log_in(self, password: str) -> None:
        """Log in by the form, with the keyboard alone."""
        self.driver.get(self.address)
        self.wait(lambda: self.run("document.activeElement.name") == "password")
        self.press(password, Keys.ENTER)
        self.wait_for("nav a[aria-current]")

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def open(self, path: str) -> None:
        """Go to an address."""
        self.driver.get(self.address + path)

    def resize(self, width: int, height: int, *, mobile: bool = False, dark: bool = False) -> None:
        """Set the window's size, whether it is a phone's, and whether the user prefers a dark page."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open_until(self, path: str, look: Callable[[], object]) -> None:
        """Reload an address until something appears there: a cluster may be slow to answer."""

        def is_seen() -> bool:
            self.open(path)
            return bool(look())

        until(is_seen)

    def find(self, selector: str) -> WebElement:
        """Return the first element that matches a selector."""
        found: WebElement = self.driver.find_element(By.CSS_SELECTOR, selector)
        return found

    def all(self, selector: str) -> list[WebElement]:
        """Return every element that matches a selector."""
        found: list[WebElement] = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return found

    @property
    def text(self) -> str:
        """The text of the page's main part."""
        return self.find("main").text

    def wait(self, look: Callable[[], T]) -> T:
        """Look until something is seen; an element that is replaced meanwhile is looked up again."""
        seen: list[T] = []

        def is_seen() -> bool:
            try:
                found = look()
            except WebDriverException:
                return False  # not there yet, or replaced just then, which the driver reports in several ways
            seen[:] = [found]
            return bool(found)

        until(is_seen)
        return seen[0]

    def wait_for(self, selector: str) -> WebElement:
        """Wait for an element."""
        return self.wait(lambda: self.find(selector))

    def wait_for_text(self, text: str) -> None:
        """Wait until a text is on the page."""
        self.wait(lambda: text in self.text)

    def fill(self, selector: str, text: str) -> None:
        """Replace the content of a field."""
        field = self.find(selector)
        field.clear()
        field.send_keys(text)

    def click(self, selector: str) -> None:
        """Scroll to an element and click it."""
        element = self.find(selector)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        return self.driver.execute_script(f"return {script}")

    def complaints(self) -> list[str]:
        """Return the errors that the browser has logged since the last call, except 4xx answers: scripts, styles,
        policies.
        """
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] == "SEVERE" and "status of 4" not in entry["message"]
        ]
