"""A real browser (Debian's Chromium, headless) for the page; any error on its console fails the test."""
import json
import re

import pytest
from playwright.sync_api import sync_playwright


@pytest.fixture(scope="module")  # its event loop is in the way of other modules' own
def browser():
    with sync_playwright() as p:
        b = p.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield b
        b.close()


@pytest.fixture
def visit(browser):
    """visit(url, width=..., dark=..., expect=REGEX, store={}): a page in a browser of its own; `expect`: errors that may
    be; `store`: what its storage holds."""
    contexts, errors = [], []

    def start(url, *, width=1280, height=800, dark=False, expect=None, store=None):
        c = browser.new_context(viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light")
        contexts.append(c)
        for k, v in (store or {}).items():
            c.add_init_script(f"localStorage[{json.dumps(k)}] ??= {json.dumps(json.dumps(v))}")
        p = c.new_page()
        p.set_default_timeout(30000)

        def told(text):
            if not (expect and re.search(expect, text)):
                errors.append(text)

        p.on("console", lambda m: m.type in ("error", "warning") and told(m.text))
        p.on("pageerror", lambda e: told(str(e)))
        p.goto(url)
        p.locator("#status[data-state=good]").wait_for()
        return p

    yield start
    for c in contexts:
        c.close()
    assert not errors, errors
