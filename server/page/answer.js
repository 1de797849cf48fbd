// One answer: how its stream is read, and how it looks while it grows.
import { add, count, fill, h, seconds } from "./base.js";
import { code, pieces, render, visible } from "./markdown.js";

export const emptyAnswer = () => ({ content: "", reasoning: "", calls: [], tokens: [], finish: null });

// ---- reading ----

function addCalls(answer, deltas) {
  for (const d of deltas) {
    const call = (answer.calls[d.index] ??= { id: "", name: "", arguments: "" });
    if (d.id) call.id = d.id;
    if (d.function?.name) call.name += d.function.name;
    if (d.function?.arguments) call.arguments += d.function.arguments;
  }
}

const readTop = (list) => list.map((t) => [t.token, t.logprob]);

// Takes one choice of one event into the answer; both APIs.
export function take(answer, choice) {
  const delta = choice.delta || {};
  answer.content += choice.text ?? delta.content ?? "";
  answer.reasoning += delta.reasoning_content ?? "";
  if (delta.tool_calls) addCalls(answer, delta.tool_calls);
  for (const t of choice.logprobs?.content || []) answer.tokens.push([t.token, t.logprob, readTop(t.top_logprobs || [])]);
  (choice.logprobs?.tokens || []).forEach((t, i) => {
    const top = choice.logprobs.top_logprobs?.[i] || {};
    answer.tokens.push([t, choice.logprobs.token_logprobs[i], Object.entries(top)]);
  });
  if (choice.finish_reason) answer.finish = choice.finish_reason;
}

// ---- showing ----

// Markdown that grows: pieces that did not change stay as they are.
function growing(element) {
  let shown = [];
  return (source) => {
    const now = pieces(source);
    let same = 0;
    while (same < now.length && same < shown.length && now[same] === shown[same].text) same++;
    for (const old of shown.splice(same)) old.nodes.forEach((n) => n.remove());
    for (const text of now.slice(same)) {
      const nodes = render(text).map((n) => (typeof n === "string" ? document.createTextNode(n) : n));
      add(element, nodes);
      shown.push({ text, nodes });
    }
  };
}

const shade = (p) => `t${Math.max(0, Math.min(5, Math.ceil(Math.log2(Math.max(p, 1e-9)) / -1)))}`;
const tokenText = (t) => visible(t).replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥") || "∅";

// Tokens coloured by how likely they were; one at a time is looked at, by pointer or by arrow keys.
function tokenView(info) {
  const box = h("div", { class: "tokens", tabindex: "0", role: "group", "aria-label": "Tokens by probability; arrow keys go through them" });
  let list = [], at = -1;
  const show = (i) => {
    if (i < 0 || i >= list.length) return;
    box.children[at]?.classList.remove("at");
    at = i;
    box.children[at].classList.add("at");
    const [text, logprob, top] = list[i];
    const row = ([t, l], chosen) => h("li", { class: chosen ? "chosen" : null }, h("code", {}, tokenText(t)),
      h("meter", { min: "0", max: "1", value: Math.exp(l), "aria-hidden": "true" }), h("span", {}, `${(Math.exp(l) * 100).toFixed(1)} %`));
    const others = top.filter(([t]) => t !== text);
    fill(info, h("ul", { "aria-label": `Token ${i + 1} of ${list.length}` }, row([text, logprob], true), others.map((t) => row(t, false))));
  };
  const indexOf = (e) => [...box.children].indexOf(e.target);
  box.addEventListener("pointerover", (e) => e.target !== box && show(indexOf(e)));
  box.addEventListener("keydown", (e) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
    if (!step) return;
    e.preventDefault();
    show(Math.max(0, Math.min(list.length - 1, at + step)));
  });
  return [box, (tokens) => {
    for (const [t, l] of tokens.slice(box.children.length)) box.append(h("span", { class: shade(Math.exp(l)) }, visible(t)));
    list = tokens;
  }];
}

function prettyJson(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

const MEASURABLE = 0.05; // seconds: a shorter time says nothing of a speed

const END = { stop: "", length: "cut at the limit of tokens", tool_calls: "wants a tool", aborted: "stopped", error: "failed" };

export function metaLine(answer) {
  const words = [];
  const n = answer.count;
  if (n) words.push(`${count(n)} token${n === 1 ? "" : "s"}`);
  if (answer.time) words.push(seconds(answer.time));
  if (n > 1 && answer.time - answer.first > MEASURABLE) words.push(`${count((n - 1) / (answer.time - answer.first))} tokens/s`);
  if (answer.first) words.push(`first after ${seconds(answer.first)}`);
  if (END[answer.finish]) words.push(END[answer.finish]);
  return words.join(" · ");
}

// An element for an answer, and the function that shows what it has become. raw: no markdown.
export function answerView(answer, { raw, before = "" }) {
  const thoughts = h("div", { class: "prose" });
  const folded = h("details", { class: "thoughts", hidden: true }, h("summary", {}, "Thoughts"), thoughts);
  const text = h("div", { class: raw ? "raw" : "prose" });
  const info = h("div", { class: "token-info", "aria-live": "polite" });
  const [tokens, setTokens] = tokenView(info);
  const calls = h("div", { class: "calls" });
  const meta = h("div", { class: "meta" });
  const showThoughts = growing(thoughts), showText = growing(text);
  const element = h("div", { class: "answer" }, folded, text, calls, meta);
  let tokensShown = false;
  const update = () => {
    if (answer.reasoning) {
      folded.hidden = false;
      showThoughts(answer.reasoning);
    }
    if (answer.tokens.length && !tokensShown) {
      tokensShown = true;
      text.replaceWith(tokens);
      tokens.after(info);
    }
    if (tokensShown) setTokens(answer.tokens);
    else if (raw) fill(text, before && h("span", { class: "before" }, visible(before)), visible(answer.content));
    else showText(answer.content);
    if (answer.calls.length) {
      fill(calls, answer.calls.filter(Boolean).map((c) => h("div", { class: "call" },
        h("strong", {}, visible(c.name)), code(visible(prettyJson(c.arguments)), "json"))));
    }
    if (answer.error) fill(meta, h("span", { class: "error" }, answer.error), " ", metaLine(answer));
    else meta.textContent = metaLine(answer);
    element.classList.toggle("busy", answer.finish === null && !answer.error);
  };
  update();
  return { element, update, meta };
}
