// The frame of the page: views, theme, key, and whether the server is there.
import { getKey, h, setKey, store, address } from "./base.js";
import { startEngine, watchEngine } from "./engine.js";
import { startPlay } from "./play.js";

const byId = (id) => document.getElementById(id);

// ---- theme ----

const THEMES = { auto: "Auto", light: "Light", dark: "Dark" };

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = THEMES[theme];
  byId("theme").setAttribute("aria-label", `Theme: ${THEMES[theme]}`);
  store.set("theme", theme);
  window.dispatchEvent(new Event("theme"));
}

byId("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  setTheme(names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length]);
});
setTheme(THEMES[store.get("theme", "auto")] ? store.get("theme", "auto") : "auto");

// ---- views ----

const tabs = [...byId("tabs").children];

function select(name, focus) {
  for (const tab of tabs) {
    const on = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", String(on));
    tab.tabIndex = on ? 0 : -1;
    byId(tab.getAttribute("aria-controls")).hidden = !on;
    if (on && focus) tab.focus();
  }
  document.body.dataset.view = name;
  window.dispatchEvent(new Event("view"));
  watchEngine(name === "engine");
}

const named = () => (location.hash === "#engine" ? "engine" : "play");
for (const tab of tabs) tab.addEventListener("click", () => { location.hash = tab.getAttribute("aria-controls"); });
byId("tabs").addEventListener("keydown", (e) => {
  if (e.key !== "ArrowLeft" && e.key !== "ArrowRight") return;
  location.hash = named() === "engine" ? "play" : "engine";
  select(named(), true);
});
window.addEventListener("hashchange", () => select(named()));

// ---- key ----

function askForKey(why) {
  if (document.querySelector("dialog[open]")) return;
  const input = h("input", { type: "password", id: "key-input", autocomplete: "off", value: getKey() });
  const dialog = h("dialog", { "aria-label": "API key" },
    h("form", { onsubmit: (e) => {
      e.preventDefault();
      setKey(input.value);
      dialog.close();
    } },
    h("p", { role: why ? "alert" : null }, why || "Kept in this tab until it is closed, sent to this server only."),
    h("label", { class: "field whole" }, "API key", input),
    h("div", { class: "row" }, h("span", { class: "grow" }),
      h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Cancel"),
      h("button", { type: "submit", class: "primary" }, "Use"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

byId("key").addEventListener("click", () => askForKey());
window.addEventListener("keyneeded", () => askForKey(getKey() ? "The server does not know this key." : "The server asks for a key."));

// ---- the server ----

const STATES = { 200: "ready", 503: "not ready", 0: "not reachable" };
let there = null;

async function look() {
  let status = 0;
  try {
    status = (await fetch(address("health"), { cache: "no-store" })).status;
  } catch { /* 0 */ }
  const e = byId("status"), text = STATES[status] || `answers ${status}`;
  if (e.textContent !== text) e.textContent = text;
  e.dataset.state = status === 200 ? "good" : status === 503 ? "wait" : "bad";
  if (status === 200 && there === false) window.dispatchEvent(new Event("back"));
  there = status === 200;
  setTimeout(look, there ? 5000 : 1000);
}

startPlay(byId("play"));
startEngine(byId("engine"));
select(named());
look();
