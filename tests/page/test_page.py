"""The page as a whole: what is served and how, widths, themes, what axe-core finds, a proxy with a path prefix."""
import http.client
import http.server
import re
import threading
from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import expect

import harness

FILES = harness.ROOT / "server" / "page"
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")


def test_files(daemon):
    d = daemon(api_key="secret")
    total = 0
    for f in FILES.iterdir():
        r = d.get("/" if f.name == "index.html" else f"/page/{f.name}")
        assert r.status == 200 and r.body == f.read_bytes()
        total += len(r.body)
        policy = r.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "*" not in policy
        assert r.headers["X-Content-Type-Options"] == "nosniff"
        again = d.get("/" if f.name == "index.html" else f"/page/{f.name}", headers={"If-None-Match": r.headers["ETag"]})
        assert again.status == 304 and again.body == b"" and again.headers["ETag"] == r.headers["ETag"]
        assert d.get(f"/page/{f.name}" if f.name != "index.html" else "/", headers={"If-None-Match": '"other"'}).status == 200
    assert total < 100 * 1024
    assert d.get("/page/").status == d.get("/page/index.html").status == d.get("/page/../main.c").status == 404


def test_nothing_from_elsewhere_and_no_markup_from_text():
    for f in FILES.iterdir():
        text = f.read_text()
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)[\w.]", text), f
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\bon\w+=\"", text), f
        assert "<style" not in text and ' style="' not in text, f


def test_switched_off(daemon):
    d = daemon(page=False)
    assert d.get("/").status == d.get("/page/main.js").status == 404
    assert d.get("/v1/engine").status == 200


@pytest.mark.parametrize("view", ["play", "engine"])
def test_narrow(demo, visit, view):
    p = visit(f"{demo.url}/#{view}", width=320, height=640)
    wide = "() => document.documentElement.scrollWidth"
    if view == "play":
        p.locator("#prompt").fill("Say " + "verylongword" * 20)
        p.locator("#prompt").press("Enter")
        p.locator(".after").wait_for()
        expect(p.get_by_role("button", name="Send")).to_be_in_viewport()
        for name in ("Settings", "History"):
            p.get_by_role("button", name=name).click()
            panel = p.get_by_role("complementary", name=name)
            expect(panel).to_be_visible()
            assert p.evaluate(wide) <= 320
            p.keyboard.press("Escape")
            expect(panel).to_be_hidden()
    else:
        expect(p.locator(".top .status")).to_have_text("live")
    assert p.evaluate(wide) <= 320


@pytest.mark.parametrize("dark", [False, True])
def test_axe(demo, visit, dark):
    p = visit(demo.url, dark=dark)
    p.locator("#field-logprobs").check()
    p.locator("#field-n").fill("2")
    for group in ("Form", "Tools", "More"):
        p.get_by_text(group, exact=True).click()
    p.locator("#prompt").fill("Hello")
    p.locator("#prompt").press("Enter")
    p.locator(".after").wait_for()
    p.evaluate(AXE.read_text())

    def faults():
        found = p.evaluate("async () => (await axe.run()).violations.filter((v) => ['serious', 'critical'].includes(v.impact))")
        return [(v["id"], [n["target"] for n in v["nodes"]]) for v in found]

    assert faults() == []
    p.get_by_role("button", name="Code").click()
    assert faults() == []
    p.get_by_role("button", name="Close").last.click()
    p.locator("#tab-engine").click()
    expect(p.locator(".layers li")).to_have_count(8)
    p.get_by_text("As /metrics tells them").click()
    assert faults() == []


def test_theme(demo, visit):
    p = visit(demo.url)
    paper = "() => getComputedStyle(document.body).backgroundColor"
    light = p.evaluate(paper)
    p.get_by_role("button", name="Theme").click()
    p.get_by_role("button", name="Theme").click()
    expect(p.locator("html")).to_have_attribute("data-theme", "dark")
    dark = p.evaluate(paper)
    assert dark != light
    p.reload()
    assert p.evaluate(paper) == dark


class Proxy(http.server.BaseHTTPRequestHandler):
    """Serves the daemon below /llm/, streams included."""
    protocol_version = "HTTP/1.0"
    target = None

    def pass_on(self):
        if not self.path.startswith("/llm/"):
            self.send_error(404)
            return
        c = http.client.HTTPConnection(self.target.host, self.target.port)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("connection", "content-length", "transfer-encoding")}
        c.request(self.command, re.sub("^/llm(/other)?", "", self.path), body or None, headers)
        r = c.getresponse()
        self.send_response(r.status)
        for k, v in r.getheaders():
            if k.lower() not in ("connection", "transfer-encoding"):
                self.send_header(k, v)
        self.end_headers()
        while part := r.read1(65536):
            self.wfile.write(part)
            self.wfile.flush()

    do_GET = do_POST = pass_on

    def log_message(self, *_):
        pass


def test_behind_a_path_prefix(demo, visit):
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Here", (Proxy,), {"target": demo}))
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        p = visit(f"http://127.0.0.1:{proxy.server_port}/llm/")
        p.locator("#prompt").fill("Hello")
        p.locator("#prompt").press("Enter")
        p.locator(".after").wait_for()
        expect(p.locator(".error:visible")).to_have_count(0)
        p.locator("#tab-engine").click()
        expect(p.locator(".top .status")).to_have_text("live")
        p.get_by_role("tab", name="Playground").click()
        p.get_by_role("button", name="Code").click()
        expect(p.locator("dialog pre")).to_contain_text("/llm/v1/chat/completions")
        # another path of the origin is another daemon's: neither history nor key are shared
        p.evaluate("import(new URL('page/base.js', document.baseURI)).then((m) => m.setKey('secret'))")
        names = p.evaluate("[...Object.keys(localStorage), ...Object.keys(sessionStorage)]")
        assert "trinityd/llm/history" in names and "trinityd/llm/key" in names
        assert all(n.startswith("trinityd/llm/") for n in names)
        p.goto(f"http://127.0.0.1:{proxy.server_port}/llm/other/")
        p.locator(".past").wait_for()
        expect(p.locator(".past li")).to_have_count(0)
        assert p.evaluate("import(new URL('page/base.js', document.baseURI)).then((m) => m.getKey())") == ""
    finally:
        proxy.shutdown()
