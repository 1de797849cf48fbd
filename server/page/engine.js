// The engine at work, from the events of /v1/engine/events.
import { bytes, count, events, fill, h, percent, request, seconds } from "./base.js";
import { canvas, columns, mapHeight, pageMap, readColours, spark } from "./charts.js";

const SAMPLES = 120;  // of the small lines
const STEPS = 120;    // shown as columns
const SPLIT = 12;     // events whose step time is split
const KINDS = [
  ["local", "local attention"], ["global", "global attention"], ["mlp", "feed-forward, experts"],
  ["head", "output head"], ["sample", "sampling"], ["rest", "the rest"],
];

let last = null;      // the event before
let lastRead = 0;     // bytes a second, of the last time it computed
let recent = [];      // the events before that, as far as the split goes back
let steps = [];
const series = { decode: [], prefill: [], rows: [], running: [], hits: [], read: [] };

// ---- elements ----

const live = h("span", { class: "status", role: "status" }, "connecting");
const facts = h("p", { class: "note grow" });

function tile(name, label, colour) {
  const value = h("strong", {}, "–"), more = h("span", { class: "note" }), line = canvas(34, "");
  line.element.setAttribute("aria-hidden", "true");
  return {
    element: h("div", { class: "tile" }, h("span", { class: "label" }, label), h("div", { class: "value" }, value, more), line.element),
    set(text, extra = "") {
      value.textContent = text;
      more.textContent = extra;
      line.draw((c, w, high, k) => spark(c, w, high, series[name], k[colour]));
    },
  };
}

const tiles = {
  decode: tile("decode", "Generated", "decode"),
  prefill: tile("prefill", "Prompts", "prefill"),
  running: tile("running", "Sequences", "accent"),
  rows: tile("rows", "Batch", "accent"),
  hits: tile("hits", "Prefix reuse", "global"),
  read: tile("read", "Memory read", "local"),
};

const layers = h("ol", { class: "layers" });
const layerText = h("p", { class: "note" });
const budget = h("div", { class: "budget", role: "img" });
const budgetText = h("p", { class: "note" });

function mapCard(kind, title, what) {
  const map = canvas(20, ""), text = h("p", { class: "note" });
  return {
    map, text, kind, shown: [],
    element: h("div", { class: "map" }, h("h3", {}, h("i", { class: `dot ${kind}` }), title), h("p", { class: "note" }, what), map.element, text),
  };
}

const maps = {
  local: mapCard("local", "Local pages", "Keys rotated at their positions; dropped behind the window."),
  global: mapCard("global", "Global pages", "Keys without positions; kept while the sequence lives."),
};

const sequences = h("div", { class: "sequences", role: "list" });
const sequencesText = h("p", { class: "note" });
const stepChart = canvas(150, "");
const stepText = h("p", { class: "note" });
const split = h("div", { class: "split", role: "img" });
const legend = h("ul", { class: "legend" });
const numbers = h("dl", { class: "numbers" });
const gauge = h("meter", { min: "0", max: "1", value: 0, "aria-label": "Memory read, of what the threads can read" });
const gaugeText = h("p", { class: "note" });

const card = (title, cls, ...children) => h("section", { class: `card ${cls}`, "aria-label": title }, h("h2", {}, title), ...children);

// ---- numbers ----

// What an event says of the time since the one before.
function rates(v) {
  const m = v.metrics;
  const p = last && m.steps_total >= last.metrics.steps_total ? last : v;
  const since = (name) => m[name] - p.metrics[name];
  const dt = v.now - p.now > 1 || v.now <= p.now ? 0.25 : v.now - p.now; // after silence: what came since is new
  const busy = v.seconds.steps - p.seconds.steps;
  const n = since("steps_total");
  return {
    decode: since("generated_tokens_total") / dt, prefill: since("prefill_rows_total") / dt,
    rows: n ? since("rows_total") / n : 0, running: m.requests_running,
    hits: m.prefix_queries_total ? m.prefix_hits_total / m.prefix_queries_total : 0,
    read: busy > 0 ? (v.read.bytes - p.read.bytes) / busy : 0, step: n ? busy / n : 0,
  };
}

function showTiles(v, r) {
  for (const name of Object.keys(series)) {
    series[name].push(r[name]);
    if (series[name].length > SAMPLES) series[name].shift();
  }
  const limit = v.read.bytes_per_second;
  lastRead = r.read || lastRead;
  tiles.decode.set(count(Math.round(r.decode)), "tokens/s");
  tiles.prefill.set(count(Math.round(r.prefill)), "tokens/s");
  tiles.running.set(count(v.metrics.requests_running), `run, ${count(v.metrics.requests_waiting)} wait${v.metrics.requests_paused ? `, ${count(v.metrics.requests_paused)} paused` : ""}`);
  tiles.rows.set(count(r.rows), r.step ? `rows a step of ${seconds(r.step)}` : "rows a step");
  tiles.hits.set(v.metrics.prefix_queries_total ? percent(r.hits) : "–", "of prompt tokens");
  tiles.read.set(count(r.read / 1e9), limit ? `GB/s, ${percent(r.read / limit)}` : "GB/s");
  gauge.value = limit ? Math.min(lastRead / limit, 1) : 0;
  gaugeText.textContent = limit
    ? `While it computes, the engine reads ${count(lastRead / 1e9)} GB/s of weights and cache, ${percent(lastRead / limit)} of the ${count(limit / 1e9)} GB/s at which its threads read the weights when they do nothing else. Decoding is bound by that, prompts by arithmetic.`
    : "How fast the threads can read the weights is measured when the engine is idle.";
}

// ---- model and cache ----

function showModel(v) {
  facts.textContent = `${v.model} · ${count(v.parameters / 1e6)} M parameters · ${v.weights} · ${v.isa}, ${v.threads} thread${v.threads === 1 ? "" : "s"}`;
  if (layers.children.length === v.layers.length) return;
  fill(layers, v.layers.map((kind, i) => h("li", { class: kind, title: `layer ${i}: ${kind}` }, h("span", { class: "unseen" }, kind))));
  const n = v.layers.filter((k) => k === "local").length;
  layerText.textContent = `${n} local layers see the last ${count(v.window)} tokens and rotate their keys; ${v.layers.length - n} global layers see all tokens and know no positions.`;
}

function showBudget(v) {
  const m = v.metrics, total = v.kv_cache_bytes;
  const parts = [
    ["local", "used", m.local_pages_used * v.local.page_bytes], ["local", "cached", m.local_pages_cached * v.local.page_bytes],
    ["global", "used", m.global_pages_used * v.global.page_bytes], ["global", "cached", m.global_pages_cached * v.global.page_bytes],
  ];
  if (!budget.children.length) fill(budget, parts.map(([kind, state]) => h("i", { class: `${kind} ${state}` })));
  parts.forEach(([, , x], i) => { budget.children[i].style.width = `${(x / total) * 100}%`; });
  const sum = parts.reduce((a, [, , x]) => a + x, 0);
  const words = `${bytes(sum)} of ${bytes(total)}: ${parts.map(([kind, state, x]) => `${kind} ${state === "used" ? "held" : "cached"} ${bytes(x)}`).join(", ")}`;
  budget.setAttribute("aria-label", words);
  budgetText.textContent = `One budget for both kinds: ${words}.`;
}

function showMap(card, pool, used, cached, tokens) {
  const cells = [];
  for (const [n, u, c] of pool.cells) for (let i = 0; i < n; i++) cells.push([u, c]);
  const free = pool.touched - used - cached;
  const words = `${count(used)} held, ${count(cached)} cached, ${count(Math.max(free, 0))} free`;
  card.text.textContent = `${words}; ${tokens} tokens and ${bytes(pool.page_bytes)} a page${pool.cell_pages > 1 ? `; a square is ${pool.cell_pages} pages` : ""}`;
  card.map.label(`${card.kind} pages: ${words}`);
  const size = cells.length > 600 ? 7 : 11, gap = 2;
  card.map.draw((c, w, high, k) => pageMap(c, w, cells, pool.cell_pages, k[card.kind], k, size, gap),
    mapHeight(card.map.width() || 300, cells.length, size, gap));
}

// ---- sequences ----

const rows = new Map(); // "id.choice" -> elements

function newRow(q) {
  const part = (cls) => h("i", { class: cls });
  const r = {
    state: h("span", { class: "state" }), text: h("span", { class: "note" }),
    prompt: part("prompt"), global: part("global"), local: part("local"), gone: part("gone"),
  };
  r.strip = h("div", { class: "strip", "aria-hidden": "true" },
    h("div", { class: "lane" }, r.prompt), h("div", { class: "lane" }, r.global), h("div", { class: "lane" }, r.gone, r.local));
  r.element = h("div", { class: "sequence", role: "listitem" },
    h("div", { class: "name" }, h("strong", {}, `${q.id}${q.choice ? `.${q.choice}` : ""}`), r.state, r.text), r.strip);
  return r;
}

function place(e, from, to, all) {
  e.style.left = `${(from / all) * 100}%`;
  e.style.width = `${(Math.max(to - from, 0) / all) * 100}%`;
}

function showSequences(v) {
  const shown = v.sequences.rows.slice(0, 24), page = v.page_tokens;
  const longest = Math.max(page * 4, ...shown.map((q) => Math.max(q.tokens, q.global * page, (q.local[0] + q.local[1]) * page)));
  const all = 2 ** Math.ceil(Math.log2(longest));
  const keep = new Set();
  for (const q of shown) {
    const id = `${q.id}.${q.choice}`;
    keep.add(id);
    if (!rows.has(id)) rows.set(id, newRow(q));
    const r = rows.get(id);
    r.state.textContent = q.state;
    r.state.dataset.state = q.state;
    const answer = q.tokens - q.prompt;
    r.text.textContent = q.state === "waiting" ? `${count(q.prompt)} prompt tokens`
      : q.state === "prefill" ? `${count(q.computed)} of ${count(q.tokens)} computed${q.cached ? `, ${count(q.cached)} reused` : ""}`
        : `${count(q.prompt)} + ${count(answer)} of ${count(q.most - q.prompt)}${q.cached ? `, ${count(q.cached)} reused` : ""}`;
    place(r.prompt, 0, Math.min(q.computed, q.tokens), all);
    r.prompt.style.setProperty("--prompt", `${q.computed ? Math.min(q.prompt / q.computed, 1) * 100 : 100}%`);
    place(r.global, 0, q.global * page, all);
    place(r.gone, 0, q.local[0] * page, all);
    place(r.local, q.local[0] * page, (q.local[0] + q.local[1]) * page, all);
  }
  for (const [id, r] of rows) {
    if (keep.has(id)) continue;
    r.element.remove();
    rows.delete(id);
  }
  let before = null; // elements that stay in place are not touched: their transitions go on
  for (const q of shown) {
    const e = rows.get(`${q.id}.${q.choice}`).element;
    const wanted = before ? before.nextSibling : sequences.firstChild;
    if (wanted !== e) sequences.insertBefore(e, wanted);
    before = e;
  }
  const more = v.sequences.total - shown.length;
  sequencesText.textContent = shown.length ? `0 to ${count(all)} tokens${more > 0 ? `; ${count(more)} more sequences` : ""}` : "Nothing runs. Ask the model something, in another tab or with curl, and watch.";
}

// ---- steps ----

function showSteps(v) {
  if (last && v.metrics.steps_total < last.metrics.steps_total) steps = [];
  const newest = steps.length ? steps[steps.length - 1].number : 0;
  for (const [number, , time, prefill, decode, n] of v.steps) if (number > newest) steps.push({ number, time, prefill, decode, n });
  steps = steps.slice(-STEPS);
  stepChart.draw((c, w, high, k) => columns(c, w, high, steps, STEPS, k));
  const s = steps[steps.length - 1];
  stepText.textContent = s ? `The last: ${count(s.n)} sequence${s.n === 1 ? "" : "s"}, ${count(s.prefill)} prompt and ${count(s.decode)} decoding rows, ${seconds(s.time)}; ${count(v.metrics.steps_total)} steps in all.` : "";
  stepChart.label(`Rows of the last ${steps.length} steps. ${stepText.textContent}`);
}

function showSplit(v) {
  if (last && v.seconds.steps > last.seconds.steps) recent = [...recent, last].slice(-SPLIT);
  const from = recent.length && recent[0].seconds.steps <= v.seconds.steps ? recent[0].seconds : { steps: 0, local: 0, global: 0, mlp: 0, head: 0, sample: 0 };
  const part = Object.fromEntries(Object.keys(from).map((k) => [k, v.seconds[k] - from[k]]));
  part.rest = Math.max(part.steps - part.local - part.global - part.mlp - part.head - part.sample, 0);
  if (!split.children.length) {
    fill(split, KINDS.map(([k]) => h("i", { class: `kind-${k}` })));
    fill(legend, KINDS.map(([k, label]) => h("li", {}, h("i", { class: `dot kind-${k}` }), label, h("span", { class: "note" }))));
  }
  KINDS.forEach(([k], i) => {
    const share = part.steps > 0 ? part[k] / part.steps : 0;
    split.children[i].style.flexGrow = String(share);
    legend.children[i].lastChild.textContent = part.steps > 0 ? percent(share) : "–";
  });
  split.setAttribute("aria-label", KINDS.map(([, label], i) => `${label} ${legend.children[i].lastChild.textContent}`).join(", "));
}

function showNumbers(v) {
  const names = Object.keys(v.metrics);
  if (numbers.children.length !== names.length)
    fill(numbers, names.map((n) => h("div", {}, h("dt", {}, `trinityd_${n}`), h("dd", { "data-metric": n }))));
  names.forEach((n, i) => { numbers.children[i].lastChild.textContent = String(v.metrics[n]); });
}

function show(v) {
  const r = rates(v);
  showModel(v);
  showTiles(v, r);
  showBudget(v);
  showMap(maps.local, v.local, v.metrics.local_pages_used, v.metrics.local_pages_cached, v.page_tokens);
  showMap(maps.global, v.global, v.metrics.global_pages_used, v.metrics.global_pages_cached, v.page_tokens);
  showSequences(v);
  showSteps(v);
  showSplit(v);
  showNumbers(v);
  last = v;
}

// ---- watching ----

let wanted = false, control = null;

function setLive(text, state) {
  live.textContent = text;
  live.dataset.state = state;
}

async function watch() {
  if (control || !wanted || document.hidden) return;
  const mine = control = new AbortController();
  let wait = 0;
  while (control === mine) {
    try {
      const response = await request("v1/engine/events", { signal: mine.signal });
      setLive("live", "good");
      wait = 0;
      for await (const data of events(response)) show(JSON.parse(data));
      if (control === mine) setLive("the stream has ended", "wait");
    } catch (e) {
      if (control !== mine || e.name === "AbortError") return;
      setLive(e.message, "bad");
      if (e.status === 401) {
        control = null;
        return; // another key begins anew
      }
    }
    wait = Math.min(wait * 2 || 500, 8000);
    await new Promise((done) => setTimeout(done, wait));
  }
}

function settle() {
  if (wanted && !document.hidden) {
    watch();
  } else if (control) {
    control.abort();
    control = null;
  }
}

// Begins to watch, or stops: nobody looks at a view that is not shown.
export function watchEngine(on) {
  wanted = on;
  settle();
}

export function startEngine(section) {
  const key = (kind, label) => h("li", {}, h("i", { class: `dot ${kind}` }), label);
  fill(section, h("div", { class: "engine" },
    h("div", { class: "row top" }, h("h2", { class: "unseen" }, "Engine"), facts, live),
    h("div", { class: "tiles" }, Object.values(tiles).map((t) => t.element)),
    card("Sequences", "wide",
      h("ul", { class: "legend" }, key("prompt", "prompt"), key("decode", "answer"), key("global", "global pages grow"), key("local", "local pages follow the window"), key("gone", "dropped")),
      sequences, sequencesText),
    card("Cache", "wide", budget, budgetText, h("div", { class: "maps" }, maps.local.element, maps.global.element),
      h("ul", { class: "legend" }, key("held", "held by a sequence"), key("pale", "cached for reuse"), key("free", "free"))),
    card("Steps", "", h("ul", { class: "legend" }, key("prefill", "prompt rows"), key("decode", "decoding rows")), stepChart.element, stepText),
    card("Where a step's time goes", "", split, legend, h("h3", {}, "Memory"), gauge, gaugeText),
    card("Layers", "", layers, layerText),
    card("Numbers", "", h("details", {}, h("summary", {}, "As /metrics tells them"), numbers))));
  readColours();
  const again = () => { readColours(); if (last) show(last); };
  window.addEventListener("theme", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  document.addEventListener("visibilitychange", settle);
  window.addEventListener("key", () => { if (control) { control.abort(); control = null; } settle(); });
  window.addEventListener("back", settle);
}
