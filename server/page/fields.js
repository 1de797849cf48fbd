// What a request asks for beside its text: fields with the server's own ranges and defaults, and the code that asks.
import { address, copy, getKey, h, fill, store } from "./base.js";

// name, label, kind; ranges, defaults and descriptions come from /v1/capabilities
const SAMPLING = [
  ["temperature", "Temperature"], ["top_p", "Top p"], ["top_k", "Top k"], ["min_p", "Min p"],
  ["typical_p", "Typical p"], ["repetition_penalty", "Repetition"], ["presence_penalty", "Presence"],
  ["frequency_penalty", "Frequency"],
];
const ANSWER = [
  ["max_tokens", "Most tokens"], ["min_tokens", "Least tokens"], ["n", "Answers"], ["seed", "Seed"],
];
const FORMS = {
  none: ["any text", ""],
  schema: ["JSON by a schema", '{\n  "type": "object",\n  "properties": { "name": { "type": "string" } },\n  "required": ["name"]\n}'],
  json: ["any JSON object", null],
  regex: ["a regular expression", "(yes|no), because [a-z ]{5,40}\\."],
  choice: ["one of these lines", "yes\nno"],
  grammar: ["a GBNF grammar", 'root ::= "yes" | "no"'],
};
const TOOLS = `[{
  "type": "function",
  "function": {
    "name": "weather",
    "description": "The weather at a place",
    "parameters": {
      "type": "object",
      "properties": { "place": { "type": "string" } },
      "required": ["place"]
    }
  }
}]`;

export const settings = { mode: "chat", ...store.get("settings", {}) };

export function change(name, value) {
  if (value === "" || value === undefined || value === null) delete settings[name];
  else settings[name] = value;
  store.set("settings", settings);
}

function parse(text, what, test, expected) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (e) {
    throw new Error(`${what}: ${e.message}`);
  }
  if (!test(value)) throw new Error(`${what}: ${expected} is expected`);
  return value;
}

const isObject = (v) => v && typeof v === "object" && !Array.isArray(v);
const CHECKS = {
  tools: (text) => parse(text, "Tools", Array.isArray, "a list"),
  more: (text) => parse(text, "More fields", isObject, "an object"),
  schema: (text) => parse(text, "Schema", (v) => isObject(v) || typeof v === "boolean", "an object"),
};

// ---- the request ----

// The fields of a request by the settings; throws Error where something typed in is not what it should be.
export function fields() {
  const chat = settings.mode === "chat";
  const body = {};
  for (const [name] of [...SAMPLING, ...ANSWER])
    if (settings[name] !== undefined) body[name] = Number(settings[name]);
  if (!chat && body.max_tokens === undefined) body.max_tokens = 200;
  const stop = (settings.stop || "").split("\n").filter(Boolean);
  if (stop.length) body.stop = stop.map((s) => s.replace(/\\n/g, "\n").replace(/\\t/g, "\t"));
  if (settings.ignore_eos) body.ignore_eos = true;
  if (settings.logprobs) Object.assign(body, chat ? { logprobs: true, top_logprobs: 5 } : { logprobs: 5 });
  if (chat && settings.tools) body.tools = CHECKS.tools(settings.tools);
  const form = settings.form || "none", text = settings.form_text || "";
  if (form === "json") body.response_format = { type: "json_object" };
  else if (form === "schema") {
    body.response_format = { type: "json_schema", json_schema: { name: "answer", schema: CHECKS.schema(text) } };
  } else if (form === "regex") body.guided_regex = text;
  else if (form === "choice") body.guided_choice = text.split("\n").filter(Boolean);
  else if (form === "grammar") body.grammar = text;
  if (settings.more) Object.assign(body, CHECKS.more(settings.more));
  return body;
}

const quote = (s) => `'${s.replace(/'/g, `'\\''`)}'`;

export function asCurl(path, body) {
  const lines = [`curl -sN ${quote(address(path))}`, "-H 'Content-Type: application/json'"];
  if (getKey()) lines.push('-H "Authorization: Bearer $API_KEY"');
  lines.push(`-d ${quote(JSON.stringify(body, null, 2))}`);
  return lines.join(" \\\n  ");
}

// JSON as a Python literal.
function python(v, indent = "") {
  if (v === null) return "None";
  if (v === true || v === false) return v ? "True" : "False";
  if (typeof v === "number") return String(v);
  if (typeof v === "string") return JSON.stringify(v).replace(/[\u007f-\uffff]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"))
    .replace(/\\u(d[89ab]..)\\u(d[c-f]..)/g, (_, a, b) => "\\U" + ((((parseInt(a, 16) & 0x3ff) << 10) | (parseInt(b, 16) & 0x3ff)) + 0x10000).toString(16).padStart(8, "0"));
  const deeper = indent + "    ";
  const inner = Array.isArray(v) ? v.map((x) => deeper + python(x, deeper))
    : Object.entries(v).map(([k, x]) => `${deeper}${python(k)}: ${python(x, deeper)}`);
  const [open, close] = Array.isArray(v) ? "[]" : "{}";
  return inner.length ? `${open}\n${inner.join(",\n")},\n${indent}${close}` : open + close;
}

export function asPython(path, body) {
  const headers = getKey() ? ', "Authorization": "Bearer " + os.environ["API_KEY"]' : "";
  const imports = ["json", ...(getKey() ? ["os"] : []), "urllib.request"].map((m) => `import ${m}\n`).join("");
  return `${imports}
body = ${python(body)}
request = urllib.request.Request(
    ${python(address(path))},
    data=json.dumps(body).encode(),
    headers={"Content-Type": "application/json"${headers}},
)
with urllib.request.urlopen(request) as response:
    print(json.dumps(json.load(response), indent=2))
`;
}

// A dialog with code in both languages.
export function showExport(path, body) {
  const text = h("pre", { tabindex: "0", "aria-label": "code" });
  const copied = h("span", { class: "note", role: "status" });
  let current = "";
  const show = (make, button) => {
    current = make(path, body);
    text.textContent = current;
    copied.textContent = "";
    for (const b of choice.children) b.setAttribute("aria-pressed", String(b === button));
  };
  const button = (label, make) => h("button", { type: "button", onclick: (e) => show(make, e.target) }, label);
  const choice = h("div", { class: "segments", role: "group", "aria-label": "language" }, button("curl", asCurl), button("Python", asPython));
  const dialog = h("dialog", { class: "wide", "aria-label": "This request as code" },
    h("div", { class: "row" }, choice, h("span", { class: "grow" }), copied,
      h("button", { type: "button", onclick: async () => { copied.textContent = (await copy(current)) ? "copied" : "select the text to copy it"; } }, "Copy"),
      h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Close")),
    text);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  show(asCurl, choice.firstChild);
  dialog.showModal();
}

// ---- the panel ----

let properties = {};

function number([name, label]) {
  const p = properties[name] || {};
  const hint = h("span", { class: "unseen", id: `hint-${name}` }, p.description || "");
  const input = h("input", {
    id: `field-${name}`, type: "number", inputmode: "decimal", step: p.type && p.type.includes("integer") ? "1" : "any", autocomplete: "off",
    min: p.minimum !== undefined && p.minimum > -1e9 ? String(p.minimum) : null,
    max: p.maximum !== undefined && p.maximum < 1e9 ? String(p.maximum) : null,
    placeholder: p.default !== undefined && p.default !== null ? String(p.default) : name === "seed" ? "random" : "auto",
    title: p.description || "", "aria-describedby": `hint-${name}`, value: settings[name] ?? "",
    oninput: (e) => {
      e.target.setAttribute("aria-invalid", String(!e.target.checkValidity()));
      if (e.target.checkValidity()) change(name, e.target.value);
    },
  });
  return h("label", { class: "field" }, label, input, hint);
}

function area(name, label, { placeholder = "", check, rows = "3" } = {}) {
  const error = h("span", { class: "error", id: `error-${name}`, role: "status" });
  const input = h("textarea", {
    id: `field-${name}`, rows, placeholder, spellcheck: "false", "aria-describedby": `error-${name}`,
    oninput: () => {
      change(name, input.value);
      test();
    },
  });
  input.value = settings[name] || "";
  const test = () => {
    error.textContent = "";
    try {
      if (check && input.value.trim()) check(input.value);
    } catch (e) {
      error.textContent = e.message;
    }
    input.setAttribute("aria-invalid", String(Boolean(error.textContent)));
  };
  test();
  return h("label", { class: "field whole" }, label, input, error);
}

const tick = (name, label) => h("label", { class: "tick" },
  h("input", { type: "checkbox", id: `field-${name}`, checked: Boolean(settings[name]), onchange: (e) => change(name, e.target.checked ? true : "") }), label);

function formFields() {
  const box = h("div", { class: "whole" });
  const draw = () => {
    const form = settings.form || "none";
    const sample = FORMS[form][1];
    fill(box, sample ? area("form_text", FORMS[form][0], { placeholder: sample, rows: "6", check: form === "schema" ? CHECKS.schema : null }) : null);
  };
  const select = h("select", { id: "field-form", onchange: (e) => { change("form", e.target.value === "none" ? "" : e.target.value); draw(); } },
    Object.entries(FORMS).map(([value, [label]]) => h("option", { value, selected: (settings.form || "none") === value }, label)));
  draw();
  return [h("label", { class: "field whole" }, "The answer is", select), box];
}

const group = (title, open, ...children) => h("details", { open: store.get("open." + title, open), ontoggle: (e) => store.set("open." + title, e.target.open) },
  h("summary", {}, title), h("div", { class: "fields" }, ...children));

export function drawPanel(panel, onmode, onclose) {
  const chat = settings.mode === "chat";
  const mode = (value, label) => h("button", {
    type: "button", "aria-pressed": String(settings.mode === value), onclick: () => { change("mode", value); onmode(); },
  }, label);
  fill(panel,
    h("div", { class: "row head" }, h("h2", {}, "Settings"), h("span", { class: "grow" }),
      h("button", { type: "button", class: "quiet narrow", onclick: onclose }, "Close")),
    h("div", { class: "segments", role: "group", "aria-label": "Kind of request" }, mode("chat", "Chat"), mode("completion", "Completion")),
    chat && group("System prompt", true, area("system", "Before the conversation", { placeholder: "You are a helpful assistant." })),
    group("Sampling", true, SAMPLING.map(number)),
    group("Answer", true, ANSWER.map(number), area("stop", "Stop at (one a line)", { rows: "2" }),
      tick("logprobs", "Show how likely each token was"), tick("ignore_eos", "Go on after the end")),
    group("Form", Boolean(settings.form), formFields()),
    chat && group("Tools", Boolean(settings.tools), area("tools", "Functions, as JSON", { placeholder: TOOLS, rows: "8", check: CHECKS.tools })),
    group("More", Boolean(settings.more), area("more", "Other fields, as JSON", { placeholder: '{ "logit_bias": { "42": 5 } }', check: CHECKS.more })),
    h("button", { type: "button", class: "quiet", onclick: () => {
      for (const name of Object.keys(settings)) if (name !== "mode") change(name, "");
      drawPanel(panel, onmode, onclose);
    } }, "Back to the defaults"));
}

export function learn(capabilities) {
  properties = capabilities.endpoints[settings.mode === "chat" ? "/v1/chat/completions" : "/v1/completions"]?.properties || {};
}
