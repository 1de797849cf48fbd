// The playground: conversations, their history in the browser's own storage, and the requests that go on with them.
import { add, count, events, fill, getJson, h, Refused, request, say, store } from "./base.js";
import { answerView, emptyAnswer, take } from "./answer.js";
import { change, drawPanel, fields, learn, settings, showExport } from "./fields.js";
import { visible } from "./markdown.js";

const MAX_CONVERSATIONS = 100; // the oldest go
const MAX_ANSWERS = 128;       // shown side by side

let all = stored() || [];                 // newest first: { id, title, mode, messages }
let open = null;                          // the one that is shown
let running = null;                       // AbortController of the request under way
let capabilities = null;

const newId = () => Date.now().toString(36) + Math.random().toString(36).slice(2, 6);
const fresh = () => ({ id: newId(), title: "", mode: settings.mode, messages: [] });

// ---- storage ----

// What is kept of an answer: not its tokens' probabilities, which are many times its text.
const kept = (m) => (m.answers ? { ...m, answers: m.answers.map((a) => ({ ...a, tokens: [] })) } : m);

const deleted = new Set();                // ids, in this tab

// What is in the storage, null if that is not what we put there: others of the origin can write it, too.
function stored() {
  const list = store.get("history", null);
  return Array.isArray(list) ? list.filter((c) => c?.id && Array.isArray(c.messages)) : null;
}

function save() {
  const others = stored(); // of other tabs, too; only the open one is ours
  if (others) all = [...all.filter((c) => c === open), ...others.filter((c) => c.id !== open.id && !deleted.has(c.id))];
  if (open.messages.length && !deleted.has(open.id) && !all.includes(open)) all.unshift(open);
  all.length = Math.min(all.length, MAX_CONVERSATIONS);
  const texts = all.map((c) => JSON.stringify({ ...c, messages: c.messages.map(kept) }));
  let length = texts.reduce((sum, t) => sum + t.length, 0);
  while (!store.put("history", `[${texts.join(",")}]`) && texts.length > 1) {
    // The oldest go, a quarter of all at a time: each try copies what is left.
    for (const most = length * 0.75; length > most && texts.length > 1;) length -= texts.pop().length;
  }
  store.set("open", open.id); // what found no room stays in memory
}

// ---- the request ----

const chosen = (m) => m.answers[Math.min(m.chosen || 0, m.answers.length - 1)];

// A conversation's messages up to `end`, as the API wants them.
function history(messages) {
  const out = settings.system ? [{ role: "system", content: settings.system }] : [];
  for (const m of messages) {
    if (!m.answers) {
      out.push(m.role === "tool" ? { role: "tool", content: m.content, tool_call_id: m.call } : { role: m.role, content: m.content });
      continue;
    }
    const a = chosen(m);
    const message = { role: "assistant", content: a.content };
    if (a.calls.length) {
      message.tool_calls = a.calls.map((c) => ({ id: c.id, type: "function", function: { name: c.name, arguments: c.arguments } }));
      if (!a.content) message.content = null;
    }
    out.push(message);
  }
  return out;
}

function bodyFor(messages) {
  return open.mode === "chat" ? ["v1/chat/completions", { messages: history(messages), ...fields() }]
    : ["v1/completions", { prompt: messages[messages.length - 1].content, ...fields() }];
}

// ---- elements ----

const log = h("div", { class: "log", role: "log", "aria-live": "off", "aria-label": "Conversation", tabindex: "0" });
const text = h("textarea", { id: "prompt", rows: "3", "aria-label": "Message", enterkeyhint: "send" });
const send = h("button", { type: "submit", class: "primary" }, "Send");
const stop = h("button", { type: "button", class: "danger", hidden: true, onclick: () => running?.abort() }, "Stop");
const hint = h("span", { class: "note grow" });
const failure = h("p", { class: "error", role: "alert" });
const past = h("aside", { class: "panel past", id: "past", "aria-label": "History" });
const panel = h("aside", { class: "panel", id: "settings", "aria-label": "Settings" });
const form = h("form", { class: "composer", onsubmit: (e) => { e.preventDefault(); submit(); } },
  failure, text,
  h("div", { class: "row" },
    h("button", { type: "button", class: "quiet narrow", "aria-controls": "past", onclick: () => drawer(past) }, "History"),
    h("button", { type: "button", class: "quiet narrow", "aria-controls": "settings", onclick: () => drawer(panel) }, "Settings"),
    h("button", { type: "button", class: "quiet", onclick: exportCode }, "Code"),
    hint, stop, send));

// On narrow screens the panels lie over the conversation, one at a time.
function drawer(which) {
  for (const p of [past, panel]) p.classList.toggle("open", p === which && !p.classList.contains("open"));
  if (which?.classList.contains("open")) which.querySelector("button, input, textarea, select")?.focus();
}

const nearEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 80;
const toEnd = () => { log.scrollTop = log.scrollHeight; };

// ---- showing a conversation ----

const views = new WeakMap(); // answer -> its view

function answersOf(m, index, raw) {
  const several = m.answers.length > 1;
  const cards = m.answers.map((a, i) => {
    const view = answerView(a, { raw, before: raw ? open.messages[index - 1]?.content : "" });
    views.set(a, view);
    if (!several) return view.element;
    const pick = h("button", {
      type: "button", class: "pick", "aria-pressed": String((m.chosen || 0) === i), onclick: () => {
        m.chosen = i;
        [...view.element.parentNode.parentNode.querySelectorAll(".pick")].forEach((b, k) => b.setAttribute("aria-pressed", String(k === i)));
        save();
      },
    }, `Answer ${i + 1}`);
    return h("div", { class: "card" }, raw ? h("span", { class: "note" }, `Answer ${i + 1}`) : pick, view.element);
  });
  return h("div", { class: several ? "several" : "single" }, cards);
}

function toolForm(m, call) {
  const input = h("textarea", { rows: "2", "aria-label": `What ${call.name} returns`, placeholder: "What the function returns" });
  return h("form", { class: "tool", onsubmit: (e) => {
    e.preventDefault();
    open.messages.push({ role: "tool", content: input.value, call: call.id });
    const answered = open.messages.filter((x) => x.role === "tool").map((x) => x.call);
    draw();
    if (chosen(m).calls.every((c) => answered.includes(c.id))) ask();
  } }, h("code", {}, visible(call.name)), input, h("button", { type: "submit" }, "Return"));
}

const ROLES = { user: "You", assistant: "Model", tool: "Function" };

function messageView(m, index) {
  const raw = open.mode !== "chat";
  if (raw && m.role === "user") return null; // shown as the begin of its answer
  const last = index === open.messages.length - 1;
  const e = h("article", { class: `message ${m.role}`, "aria-label": ROLES[m.role] });
  if (!m.answers) {
    e.append(h("div", { class: "role" }, ROLES[m.role]), h("div", { class: "plain" }, visible(m.content)));
    return e;
  }
  e.append(h("div", { class: "role" }, ROLES.assistant), answersOf(m, index, raw));
  const pending = chosen(m).calls.filter((c) => !open.messages.slice(index + 1).some((x) => x.role === "tool" && x.call === c.id));
  if (!running && pending.length && !open.messages.slice(index + 1).some((x) => x.role !== "tool"))
    add(e, pending.map((c) => toolForm(m, c)));
  if (!running && last) {
    e.append(h("div", { class: "row after" },
      h("button", { type: "button", class: "quiet", onclick: () => ask(m) }, "Another answer"),
      h("button", { type: "button", class: "quiet", onclick: () => { open.messages.splice(index); ask(); } }, "Again")));
  }
  return e;
}

function draw() {
  fill(log, open.messages.length ? open.messages.map(messageView) : h("div", { class: "empty" },
    h("p", { class: "big" }, open.mode === "chat" ? "Say something." : "Begin a text."),
    h("p", {}, open.mode === "chat" ? "The conversation stays in this browser." : "The model goes on where it ends.")));
  text.setAttribute("aria-label", open.mode === "chat" ? "Message" : "Prompt");
  text.placeholder = open.mode === "chat" ? "Message" : "Once upon a time";
  send.hidden = Boolean(running);
  stop.hidden = !running;
  hint.textContent = running ? "" : "Enter sends, Shift+Enter is a new line";
  drawPast();
  toEnd();
}

function drawPast() {
  const item = (c) => h("li", {},
    h("button", { type: "button", class: "title", "aria-current": c === open ? "true" : null, onclick: () => show(c) }, visible(c.title) || "untitled"),
    h("button", { type: "button", class: "quiet", "aria-label": `Delete ${visible(c.title)}`, title: "Delete", onclick: () => {
      deleted.add(c.id);
      all = all.filter((x) => x !== c);
      if (c === open) show(fresh());
      save();
      drawPast();
    } }, "×"));
  fill(past, h("div", { class: "row head" }, h("h2", {}, "History"), h("span", { class: "grow" }),
    h("button", { type: "button", onclick: () => { show(fresh()); text.focus(); } }, "New"),
    h("button", { type: "button", class: "quiet narrow", onclick: () => drawer(null) }, "Close")),
  all.length ? h("ul", {}, all.map(item)) : h("p", { class: "note" }, "Nothing yet."));
}

function show(conversation) {
  running?.abort();
  open = conversation;
  if (open.mode !== settings.mode) {
    change("mode", open.mode);
    redrawPanel();
  }
  store.set("open", open.id);
  failure.textContent = "";
  drawer(null);
  draw();
}

function redrawPanel() {
  if (capabilities) learn(capabilities);
  drawPanel(panel, () => {
    redrawPanel();
    show(fresh());
    panel.querySelector("[aria-pressed=true]").focus();
  }, () => drawer(null));
}

// ---- talking ----

function submit() {
  const content = text.value;
  if (!content.trim() || running) return;
  try {
    fields();
  } catch (e) {
    failure.textContent = e.message;
    return;
  }
  open.messages.push({ role: "user", content });
  if (!open.title) open.title = content.trim().slice(0, 60);
  text.value = "";
  ask();
}

function exportCode() {
  try {
    const messages = text.value.trim() ? [...open.messages, { role: "user", content: text.value }]
      : open.messages.slice(0, open.messages.findLastIndex((m) => !m.answers) + 1);
    const [path, body] = bodyFor(messages.length ? messages : [{ role: "user", content: "Hello" }]);
    showExport(path, body);
    failure.textContent = "";
  } catch (e) {
    failure.textContent = e.message;
  }
}

// Reads the stream into the message's answers from `first` on; returns what the server says it cost.
async function readAnswers(response, m, first, begun, changed) {
  let usage = null, done = false;
  for await (const data of events(response)) {
    if (data === "[DONE]") {
      done = true;
      break;
    }
    const event = JSON.parse(data);
    if (event.error) throw new Refused(0, event.error.message);
    if (event.usage) usage = event.usage;
    for (const choice of event.choices || []) {
      const a = (m.answers[first + choice.index] ??= emptyAnswer());
      a.first ??= (performance.now() - begun) / 1000;
      a.time = (performance.now() - begun) / 1000;
      take(a, choice);
    }
    changed();
  }
  if (!done) throw new Refused(0, "The connection was lost.");
  return usage;
}

// Asks for an answer to the conversation; `again`: for more of them, beside those that are there.
async function ask(again) {
  if (running) return;
  const m = again || { role: "assistant", answers: [] };
  const index = again ? open.messages.indexOf(again) : open.messages.length;
  const first = m.answers.length, conversation = open;
  let path, body;
  failure.textContent = "";
  try {
    [path, body] = bodyFor(open.messages.slice(0, index));
  } catch (e) {
    failure.textContent = e.message;
    return;
  }
  const n = Math.max(1, Math.min(Math.floor(body.n) || 1, MAX_ANSWERS)); // if it is nonsense, the server says so
  for (let i = 0; i < n; i++) m.answers.push(emptyAnswer());
  if (!again) open.messages.push(m);
  if (again) m.chosen = first;
  const control = running = new AbortController();
  draw();
  save();
  say("The model answers.");
  let due = false, rest = 0; // milliseconds: what takes long to draw is drawn less often
  const changed = () => {
    if (due) return;
    due = true;
    setTimeout(() => requestAnimationFrame(() => {
      const begin = performance.now(), stick = nearEnd();
      due = false;
      for (const a of m.answers.slice(first)) views.get(a)?.update();
      if (stick) toEnd();
      rest = 3 * (performance.now() - begin);
    }), rest);
  };
  const begun = performance.now();
  let problem = null;
  try {
    const response = await request(path, { body: { ...body, stream: true, stream_options: { include_usage: true } }, signal: control.signal });
    const usage = await readAnswers(response, m, first, begun, changed);
    if (usage) {
      m.prompt = usage.prompt_tokens;
      if (n === 1) m.answers[first].count = usage.completion_tokens;
      else m.total = usage.completion_tokens;
    }
  } catch (e) {
    problem = e;
  }
  for (const a of m.answers.slice(first)) {
    a.count ??= a.tokens.length || undefined;
    if (a.finish) continue;
    a.finish = problem?.name === "AbortError" ? "aborted" : "error";
    if (a.finish === "error") a.error = problem?.message || "The answer was cut.";
  }
  if (running === control) running = null;
  if (conversation === open) draw();
  save();
  say(problem && problem.name !== "AbortError" ? problem.message : `The answer is complete${m.answers[first].count ? `, ${count(m.answers[first].count)} tokens` : ""}.`);
  if (conversation === open) text.focus({ preventScroll: true });
}

// ---- start ----

async function loadCapabilities() {
  try {
    capabilities = await getJson("v1/capabilities");
    document.getElementById("model").textContent = capabilities.model;
    redrawPanel();
  } catch { /* the fields do without ranges and defaults */ }
}

export function startPlay(section) {
  fill(section, h("div", { class: "play" }, past, h("div", { class: "middle" }, log, form), panel));
  text.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
      e.preventDefault();
      submit();
    }
  });
  section.addEventListener("keydown", (e) => {
    if (e.key !== "Escape") return;
    if (past.classList.contains("open") || panel.classList.contains("open")) drawer(null);
    else running?.abort();
  });
  window.addEventListener("pagehide", () => running && save());
  redrawPanel();
  show(all.find((c) => c.id === store.get("open", "")) || fresh());
  window.addEventListener("view", toEnd);
  window.addEventListener("key", loadCapabilities);
  window.addEventListener("back", () => capabilities || loadCapabilities());
  loadCapabilities();
}
