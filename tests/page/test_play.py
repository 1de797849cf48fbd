"""The playground in a browser: what is typed, what streams, what stays, and what a hostile model can do (nothing)."""
import json
import re
import subprocess
import sys

import pytest
from playwright.sync_api import expect

import harness

CODE = {"curl": ["bash", "-c"], "Python": [sys.executable, "-c"]}


def tell(page, text):
    page.locator("#prompt").fill(text)
    page.locator("#prompt").press("Enter")


def answered(page, n=1):
    """Waits until the n-th answer is complete."""
    expect(page.locator(".message.assistant")).to_have_count(n)
    page.locator(".after").wait_for()


def set_field(page, name, value):
    e = page.locator(f"#field-{name}")
    if not e.is_visible():
        e.locator("xpath=ancestor::details").locator("summary").click()
    e.fill(str(value))


def test_chat_streams_stays_and_goes_on(demo, visit):
    p = visit(demo.url)
    expect(p.locator("#model")).to_have_text("demo")
    set_field(p, "temperature", 0)
    question = "Tell me a story about a fox."
    tell(p, question)
    answered(p)
    first = demo.chat(question)["choices"][0]["message"]["content"]
    assert p.locator(".answer > .prose").inner_text() == first.strip()
    assert re.match(r"\d+ tokens · ", p.locator(".meta").inner_text())
    tell(p, "And then?")
    answered(p, 2)
    second = demo.chat([{"role": "user", "content": question}, {"role": "assistant", "content": first},
                        {"role": "user", "content": "And then?"}])["choices"][0]["message"]["content"]
    assert p.locator(".answer > .prose").last.inner_text() == second.strip()
    p.reload()
    expect(p.locator(".message")).to_have_count(4)
    assert p.locator(".answer > .prose").first.inner_text() == first.strip()
    assert p.locator("#field-temperature").input_value() == "0"
    p.get_by_role("button", name="New").click()
    expect(p.locator(".message")).to_have_count(0)
    p.get_by_role("button", name=question[:20]).first.click()
    expect(p.locator(".message")).to_have_count(4)
    p.get_by_role("button", name="Delete").click()
    expect(p.locator(".past li")).to_have_count(0)


def test_fields_have_the_servers_defaults(demo, visit):
    p = visit(demo.url)
    told = demo.get("/v1/capabilities").json()["endpoints"]["/v1/chat/completions"]["properties"]
    expect(p.locator("#field-temperature")).to_have_attribute("placeholder", str(told["temperature"]["default"]))
    for name in ("top_p", "top_k", "min_p", "repetition_penalty"):
        assert p.locator(f"#field-{name}").get_attribute("placeholder") == str(told[name]["default"])
    assert p.locator("#field-temperature").get_attribute("max") == str(told["temperature"]["maximum"])
    p.locator("#field-temperature").fill("5")
    expect(p.locator("#field-temperature")).to_have_attribute("aria-invalid", "true")


def test_stop(daemon, visit):
    d = daemon()
    p = visit(d.url)
    p.locator("#field-ignore_eos").check()
    tell(p, "Tell me a story.")
    expect(p.locator(".answer > .prose").first).not_to_be_empty()
    p.get_by_role("button", name="Stop").click()
    answered(p)
    expect(p.locator(".meta")).to_contain_text("stopped")
    text = p.locator(".answer > .prose").inner_text()
    assert text
    harness.wait_for(lambda: "\ntrinityd_cancelled_calls_total{model_name=\"demo\"} 1\n" in d.get("/metrics").text)
    p.reload()
    expect(p.locator(".answer > .prose")).to_have_text(text, use_inner_text=True)


def test_several_answers_and_tokens(demo, visit):
    p = visit(demo.url)
    set_field(p, "n", 3)
    set_field(p, "seed", 4)
    p.locator("#field-logprobs").check()
    tell(p, "Who are you?")
    answered(p)
    expect(p.locator(".several .card")).to_have_count(3)
    want = demo.chat("Who are you?", n=3, seed=4, temperature=None, logprobs=True, top_logprobs=5)["choices"]
    for i, choice in enumerate(want):
        tokens = choice["logprobs"]["content"]
        assert p.locator(".tokens").nth(i).locator("span").all_inner_texts() == [t["token"] for t in tokens]
    p.locator(".tokens span").first.hover()
    best = want[0]["logprobs"]["content"][0]
    expect(p.locator(".token-info").first.locator(".chosen")).to_contain_text(f"{100 * 2.718281828 ** best['logprob']:.1f} %")
    p.locator(".tokens").first.focus()
    p.keyboard.press("ArrowRight")
    expect(p.locator(".tokens .at")).to_have_count(1)
    p.get_by_role("button", name="Answer 2").click()
    expect(p.get_by_role("button", name="Answer 2")).to_have_attribute("aria-pressed", "true")
    set_field(p, "n", "")
    p.get_by_role("button", name="Another answer").click()
    expect(p.locator(".several .card")).to_have_count(4)
    p.locator(".after").wait_for()


def test_completion(demo, visit):
    p = visit(demo.url)
    p.get_by_role("button", name="Completion").click()
    set_field(p, "temperature", 0)
    set_field(p, "max_tokens", 12)
    tell(p, "Once upon a time")
    answered(p)
    want = demo.complete(prompt="Once upon a time", max_tokens=12)["choices"][0]["text"]
    assert p.locator(".raw").inner_text() == "Once upon a time" + want
    expect(p.locator(".meta")).to_contain_text("12 tokens")


def test_schema(demo, visit):
    p = visit(demo.url)
    p.get_by_text("Form", exact=True).click()
    p.locator("#field-form").select_option("schema")
    set_field(p, "form_text", "{")
    expect(p.locator("#error-form_text")).to_contain_text("Schema")
    tell(p, "A fox?")
    expect(p.get_by_role("alert").filter(has_text="Schema")).to_be_visible()
    schema = {"type": "object", "properties": {"name": {"enum": ["Mina", "Olga"]}, "age": {"type": "integer", "maximum": 9}},
              "required": ["name", "age"], "additionalProperties": False}
    set_field(p, "form_text", json.dumps(schema))
    p.locator("#prompt").press("Enter")
    answered(p)
    got = json.loads(p.locator(".answer > .prose").inner_text())
    assert got["name"] in ("Mina", "Olga") and got["age"] <= 9


TOOL = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]


def test_tools(script, visit):
    d = script(b"One moment. ", b"<tool_call>\n", b'{"name": "weather", "arguments"', b': {"place": "Rome"}}', b"\n</tool_call>",
               config={"max_position_embeddings": 2048})
    p = visit(d.url)
    p.get_by_text("Tools", exact=True).click()
    set_field(p, "tools", json.dumps(TOOL))
    tell(p, "The weather in Rome?")
    expect(p.locator(".call strong")).to_have_text("weather")
    assert json.loads(p.locator(".call code").inner_text()) == {"place": "Rome"}
    p.get_by_role("textbox", name="What weather returns").fill("<b>sunny</b>")
    with p.expect_request("**/v1/chat/completions") as sent:
        p.get_by_role("button", name="Return").click()
    messages = sent.value.post_data_json["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant", "tool"]
    assert messages[2]["content"] == "<b>sunny</b>" and messages[2]["tool_call_id"] == messages[1]["tool_calls"][0]["id"]
    answered(p, 2)
    expect(p.locator(".message.tool .plain")).to_have_text("<b>sunny</b>")


def test_thoughts_are_folded(script, visit):
    said = [b"Hmm, ", b"let me see.", b"Forty-two."]
    p = visit(script(*said, edges=harness.fx.chain("<think>", *said[:2], "</think>", said[2])).url)
    tell(p, "What is it?")
    answered(p)
    expect(p.locator(".answer > .prose")).to_have_text("Forty-two.")
    expect(p.get_by_text("let me see")).to_be_hidden()
    p.get_by_text("Thoughts").click()
    expect(p.get_by_text("let me see")).to_be_visible()


HOSTILE = ["<script>window.hacked=1</script>", "<img src=x onerror=window.hacked=1>", "[a](javascript:hacked=1)",
           "[b](data:text/html,x)", "![c](http://127.0.0.1:1/x.png)", "**open _and `broken", "<svg/onload=hacked=1>"]


def test_what_a_model_writes_is_text(script, visit):
    pieces = [*(("\n\n" + h).encode() for h in HOSTILE), b"\n\nnul \x00 bell \x07 escape \x1b[31m", "\n\nright \u202e left".encode()]
    p = visit(script(*pieces).url)
    tell(p, "Write.")
    answered(p)
    text = p.locator(".answer > .prose").last.inner_text()
    for h in HOSTILE[:4] + HOSTILE[6:]:
        assert h in text
    assert "broken" in text and "nul \u2400 bell \u2407 escape \u241b[31m" in text and "right \ufffd left" in text
    assert p.locator(".log :is(script, img, svg, iframe, style, form)").count() == 0
    assert p.locator(".log a:not([href^='http'])").count() == 0
    assert p.evaluate("typeof window.hacked") == "undefined"


# Source, and the markup that stands for it, written by hand from what CommonMark says of it.
MARKDOWN = [
    ("a *b* **c** `d*` ~~e~~", "<p>a <em>b</em> <strong>c</strong> <code>d*</code> <s>e</s></p>"),
    ("snake_case_name and 2*3*4", "<p>snake_case_name and 2<em>3</em>4</p>"),
    ("**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"),
    ("\\*a\\* * b", "<p>*a* * b</p>"),
    ("- a\n- b\n  - c\n- d", "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>"),
    ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
    ("> a\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"),
    ("---", "<hr>"),
    ("**" + "long " * 600 + "way**", "<p><strong>" + "long " * 600 + "way</strong></p>"),
    ("http://%zz*a* b", "<p>http://%zz*a* b</p>"),
    ("a|b\n:-:|-\nc|d\n", '<div class="scroll" tabindex="0" role="region" aria-label="table"><table><thead><tr><th class="center">a</th>'
     "<th>b</th></tr></thead><tbody><tr><td class=\"center\">c</td><td>d</td></tr></tbody></table></div>"),
    ("a|b\n-|x", "<p>a|b<br>-|x</p>"),
    ("a\n\nb", "<p>a</p><p>b</p>"),
]


@pytest.mark.parametrize("source, want", MARKDOWN)
def test_markdown(demo, visit, source, want):
    p = visit(demo.url)
    got = p.evaluate("""async (s) => {
        const m = await import(new URL("page/markdown.js", document.baseURI));
        const e = document.createElement("div");
        for (const piece of m.pieces(s)) e.append(...m.render(piece));
        return e.innerHTML;
    }""", source)
    assert got == want


def test_long_and_deep_markdown_ends(demo, visit):
    p = visit(demo.url)
    for source in ("*a " * 30000, "`" * 50000, "[a](" * 20000, "> " * 20000, "- " * 20000, "_" * 50000, "|a" * 20000 + "\n" + "|-" * 20000, "|\n" + " " * 200000 + "x|", "http://%" * 20000,
                   "".join("  " * i + "- x\n" for i in range(300)), "#" + " " * 30000 + "x", "**a" * 20000, "~~~\n" + "x\n" * 30000):
        p.evaluate("""async (s) => {
            const m = await import(new URL("page/markdown.js", document.baseURI));
            return m.pieces(s).map(m.render).length;
        }""", source)


def test_work_grows_as_the_text(demo, visit):
    """What is looked at of a text, counted by the string itself: four times the text is about four times the work."""
    p = visit(demo.url)
    grow = """async ([unit, before, after]) => {
        const m = await import(new URL("page/markdown.js", document.baseURI));
        let seen = 0;
        const real = String.prototype.indexOf;
        String.prototype.indexOf = function (what, from = 0) {
            const at = real.call(this, what, from);
            seen += (at < 0 ? this.length : at) - from + 1;
            return at;
        };
        const cost = (n) => {
            seen = 0;
            m.pieces(before + unit.repeat(n) + after).map(m.render);
            return seen;
        };
        try {
            return [cost(1000), cost(4000)];
        } finally {
            String.prototype.indexOf = real;
        }
    }"""
    for unit, before, after in (("*a ", "", ""), ("_a ", "", ""), ("**a ", "", ""), ("*a *b ", "", "** _"), ("~~a ", "", " ~~"), ("*a _b **c ", "", " *")):
        few, many = p.evaluate(grow, [unit, before, after])
        assert few > 0 and many < 6 * few, unit


def test_a_long_paragraph_is_shown(demo, visit):
    p = visit(demo.url)
    for source, want in (("x\n" * 70000, 70000), ("- a" + "\n  x" * 70000, 70001), ("*x* " * 70000, 1), ("\n\n".join("x" * 70000), 1)):
        lines = p.evaluate("""async (s) => {
            const { answerView, emptyAnswer } = await import(new URL("page/answer.js", document.baseURI));
            const view = answerView({ ...emptyAnswer(), content: s }, {});
            return view.element.querySelectorAll("br").length + 1;
        }""", source)
        assert lines == want


def test_who_stops_reading_ends_the_stream(demo, visit):
    p = visit(demo.url)
    ended = p.evaluate("""async () => {
        const { events } = await import(new URL("page/base.js", document.baseURI));
        const ended = [];
        for (const leave of ["throw", "break", "stay"]) {
            let cancelled = false;
            const body = new ReadableStream({
                start(c) {
                    for (const part of ["data: a\\ndata: ", "b\\n\\nda", "ta: c\\n"]) c.enqueue(new TextEncoder().encode(part));
                    if (leave === "stay") c.close();
                },
                cancel() { cancelled = true; },
            });
            let read = "";
            try {
                for await (const data of events(new Response(body))) {
                    read += data;
                    if (leave === "break" && data === "b") break;
                    if (leave === "throw") throw new Error("odd");
                }
            } catch (e) { read += "!"; }
            await new Promise((done) => setTimeout(done));
            ended.push([read, cancelled]);
        }
        return ended;
    }""")
    assert ended == [["a!", True], ["ab", True], ["abc", False]]


def test_a_full_storage_is_met_in_few_tries(demo, visit):
    """Conversations that fill the storage, then one more: the newest are kept."""
    message = {"role": "user", "content": "x" * 45000}
    stored = [{"id": f"c{i}", "title": f"t{i}", "mode": "chat", "messages": [message]} for i in range(100)]
    p = visit(demo.url, expect="400", store={"trinityd/history": stored})
    expect(p.locator(".past li")).to_have_count(100)
    p.evaluate("""() => {
        window.tries = [];
        const real = Storage.prototype.setItem;
        Storage.prototype.setItem = function (name, text) {
            if (name.endsWith("history")) tries.push(text.length);
            real.call(this, name, text);
        };
    }""")
    set_field(p, "max_tokens", 3)
    tell(p, "y" * 1200000)
    answered(p)
    tries = p.evaluate("tries")
    kept = p.evaluate("JSON.parse(localStorage['trinityd/history']).map((c) => [c.id, c.messages.length])")
    assert len(tries) <= 6 and max(tries) > 5 * 1024 * 1024 and tries[-1] < 5 * 1024 * 1024
    assert kept[0][1] == 2 and [i for i, _ in kept[1:]] == [f"c{i}" for i in range(len(kept) - 1)] and len(kept) > 60


def test_odd_settings_and_storage(demo, visit):
    """What is in the storage or typed in as other fields may be anything: the server says so, the page goes on."""
    p = visit(demo.url, expect="400", store={"trinityd/history": {"no": "list"}, "trinityd/open": 7})
    for n in ("1e9", '"many"', "-1", "0", "1.5", "[2]"):
        set_field(p, "more", f'{{"n": {n}}}')
        tell(p, "Hello")
        p.locator(".after").wait_for()
        expect(p.locator(".answer .error").last).to_contain_text("n")
        p.get_by_role("button", name="New").click()
    p.evaluate("localStorage['trinityd/history'] = JSON.stringify([null, 3, {id: 'a'}, {id: 'b', title: 'good', mode: 'chat', messages: []}])")
    p.reload()
    expect(p.locator(".past li")).to_have_count(1)


def test_long_history(demo, visit):
    messages = []
    for i in range(100):
        messages.append({"role": "user", "content": f"question {i}"})
        messages.append({"role": "assistant", "answers": [{"content": f"**answer** {i}", "reasoning": "", "calls": [], "tokens": [], "finish": "stop"}]})
    stored = [{"id": "x", "title": "long", "mode": "chat", "messages": messages}]
    p = visit(demo.url, store={"trinityd/history": stored, "trinityd/open": "x"})
    expect(p.locator(".message")).to_have_count(200)
    expect(p.get_by_text("answer 99")).to_be_in_viewport()
    set_field(p, "max_tokens", 3)
    with p.expect_request("**/v1/chat/completions") as sent:
        tell(p, "one more")
    assert len(sent.value.post_data_json["messages"]) == 201
    expect(p.locator(".message")).to_have_count(202)
    p.locator(".after").wait_for()


def test_keys(daemon, visit):
    d = daemon(api_key="secret")
    p = visit(d.url, expect="401")
    dialog = p.get_by_role("dialog")
    expect(dialog).to_contain_text("asks for a key")
    dialog.get_by_label("API key").fill("wrong")
    dialog.get_by_role("button", name="Use").click()
    expect(dialog).to_contain_text("does not know")
    dialog.get_by_label("API key").fill("secret")
    dialog.get_by_role("button", name="Use").click()
    expect(p.locator("#model")).to_have_text("demo")
    set_field(p, "max_tokens", 3)
    tell(p, "Hello")
    answered(p)
    expect(p.locator(".error:visible")).to_have_count(0)
    p.locator("#tab-engine").click()
    expect(p.locator(".top .status")).to_have_text("live")
    p.reload()
    expect(p.locator("#model")).to_have_text("demo")
    assert "secret" not in p.evaluate("JSON.stringify(localStorage)")


def test_server_gone_and_back(daemon, visit):
    d = daemon()
    p = visit(d.url, expect="ERR_|Failed to fetch")
    port = d.port
    d.stop()
    expect(p.locator("#status")).to_have_text("not reachable")
    tell(p, "Hello")
    answered(p)
    expect(p.locator(".answer .error")).to_contain_text("cannot be reached")
    daemon(port=port)
    expect(p.locator("#status")).to_have_text("ready")
    p.get_by_role("button", name="Again").click()
    expect(p.locator(".answer .error")).to_have_count(0)
    answered(p)


def test_connection_lost_within_an_answer(daemon, visit):
    d = daemon()
    p = visit(d.url, expect="ERR_|Failed to fetch")
    p.locator("#field-ignore_eos").check()
    tell(p, "Tell me a story.")
    expect(p.locator(".answer > .prose").first).not_to_be_empty()
    d.kill()
    expect(p.locator(".answer .error")).to_contain_text("lost")


@pytest.mark.parametrize("language", CODE)
def test_code_runs(daemon, visit, language):
    d = daemon(api_key="it's secret")
    p = visit(d.url, expect="401")
    p.get_by_role("dialog").get_by_label("API key").fill("it's secret")
    p.get_by_role("button", name="Use").click()
    expect(p.locator("#model")).to_have_text("demo")
    set_field(p, "temperature", 0)
    set_field(p, "system", "It's \"you\" \\ $HOME `x` \U0001f600\n")
    p.locator("#prompt").fill("Don't\nsay 'no'")
    p.get_by_role("button", name="Code").click()
    p.get_by_role("button", name=language).click()
    code = p.locator("dialog pre").inner_text()
    assert "it's secret" not in code
    done = subprocess.run([*CODE[language], code], capture_output=True, text=True, timeout=60, env=harness.environment({"API_KEY": "it's secret"}))
    want = d.post("/v1/chat/completions", {"temperature": 0, "messages": [
        {"role": "system", "content": "It's \"you\" \\ $HOME `x` \U0001f600\n"}, {"role": "user", "content": "Don't\nsay 'no'"}]},
        headers={"Authorization": "Bearer it's secret"}).json()
    assert json.loads(done.stdout)["choices"] == want["choices"], done.stderr


def test_keyboard(demo, visit):
    p = visit(demo.url)
    p.keyboard.press("Tab")
    expect(p.locator(".skip")).to_be_focused()
    p.keyboard.press("Tab")
    expect(p.locator("#tab-play")).to_be_focused()
    p.keyboard.press("ArrowRight")
    expect(p.locator("#tab-engine")).to_be_focused()
    expect(p.locator("#engine")).to_be_visible()
    p.keyboard.press("ArrowLeft")
    expect(p.locator("#play")).to_be_visible()
    p.locator("#field-ignore_eos").check()
    tell(p, "Tell me a story.")
    expect(p.locator(".answer > .prose").first).not_to_be_empty()
    p.keyboard.press("Escape")
    answered(p)
    expect(p.locator(".meta")).to_contain_text("stopped")


def test_two_tabs_keep_each_others_history(demo, visit):
    a = visit(demo.url)
    b = a.context.new_page()
    b.goto(demo.url)
    b.locator("#status[data-state=good]").wait_for()
    for page, text in ((a, "from the first"), (b, "from the second")):
        set_field(page, "max_tokens", 3)
        tell(page, text)
        answered(page)
    for page in (a, b):
        page.reload()
        expect(page.locator(".past li")).to_have_count(2)
    b.get_by_role("button", name="Delete from the first").click()
    expect(b.locator(".past li")).to_have_count(1)
    a.close()
    b.reload()
    expect(b.locator(".past li")).to_have_count(1)
