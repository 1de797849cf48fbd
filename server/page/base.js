// What every part of the page uses: making elements, storage that may fail, requests and event streams.

// One by one: as arguments of one call, many children overflow the stack.
export function add(e, children) {
  for (const c of children.flat()) if (c !== null && c !== undefined && c !== false) e.append(c);
  return e;
}

// h("button", {class: "quiet", onclick: f}, "text", element): text becomes text, never markup.
export function h(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (name in e && typeof value !== "string") e[name] = value;
    else e.setAttribute(name, value === true ? "" : value);
  }
  return add(e, children);
}

export function fill(e, ...children) {
  e.replaceChildren();
  return add(e, children);
}

const base = new URL(".", document.baseURI);
base.username = base.password = ""; // a URL with them is refused by fetch
const own = (name) => `trinityd${base.pathname}${name}`; // one origin may have several daemons, by path

export const store = {
  get(name, otherwise) {
    try {
      const text = localStorage.getItem(own(name));
      return text === null ? otherwise : JSON.parse(text);
    } catch {
      return otherwise;
    }
  },
  // false: there was no room, or nothing may be stored
  set: (name, value) => store.put(name, JSON.stringify(value)),
  put(name, text) {
    try {
      localStorage.setItem(own(name), text);
      return true;
    } catch {
      return false;
    }
  },
};

// ---- requests ----

export class Refused extends Error {
  constructor(status, message, param) {
    super(message);
    this.status = status;
    this.param = param;
  }
}

let key = "";
try {
  key = sessionStorage.getItem(own("key")) || "";
} catch { /* no storage: the key lives as long as the page */ }

export const getKey = () => key;

export function setKey(value) {
  key = value.trim();
  try {
    sessionStorage.setItem(own("key"), key);
  } catch { /* as above */ }
  window.dispatchEvent(new Event("key"));
}

export const address = (path) => new URL(path.replace(/^\//, ""), base).href;

// The response of a request that went well; else throws Refused (status 0: the server is not there).
export async function request(path, { body, signal } = {}) {
  const headers = {};
  if (key) headers.Authorization = "Bearer " + key;
  if (body) headers["Content-Type"] = "application/json";
  let r;
  try {
    r = await fetch(address(path), {
      method: body ? "POST" : "GET", headers, signal, body: body && JSON.stringify(body), cache: "no-store",
    });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new Refused(0, "The server cannot be reached.");
  }
  if (r.ok) return r;
  let error = {};
  try {
    error = (await r.json()).error || {};
  } catch { /* not ours: a proxy's */ }
  if (r.status === 401) window.dispatchEvent(new Event("keyneeded"));
  throw new Refused(r.status, error.message || `The server answered ${r.status}.`, error.param);
}

export const getJson = async (path, options) => (await request(path, options)).json();

// The data of each event of a stream. Throws Refused where the stream breaks off; whoever stops reading, ends it.
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  try {
    for (;;) {
      let part;
      try {
        part = await reader.read();
      } catch (e) {
        if (e.name === "AbortError") throw e;
        throw new Refused(0, "The connection was lost.");
      }
      if (part.done) return;
      const lines = part.value.split("\n");
      lines[0] = pending + lines[0];
      pending = lines.pop();
      for (const line of lines) if (line.startsWith("data: ")) yield line.slice(6);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// ---- words ----

const format = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
export const count = (x) => format.format(x);
export const percent = (x) => (x * 100).toFixed(x < 0.0995 && x > 0 ? 1 : 0) + " %";

export function bytes(x) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; x >= 1024 && i < units.length - 1; i++) x /= 1024;
  return `${x >= 100 || i === 0 ? x.toFixed(0) : x.toFixed(1)} ${units[i]}`;
}

export function seconds(x) {
  if (x < 0.001) return `${(x * 1e6).toFixed(0)} µs`;
  if (x < 1) return `${(x * 1e3).toFixed(x < 0.01 ? 1 : 0)} ms`;
  return `${x.toFixed(x < 10 ? 2 : 1)} s`;
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // only on https and localhost
  }
}

// Tells people who do not see the page.
const voice = h("div", { class: "unseen", role: "status", "aria-live": "polite" });
document.body.append(voice);
export const say = (text) => { voice.textContent = text; };
