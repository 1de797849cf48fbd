// Markdown to elements, never by way of markup: what a model writes can at worst look odd. Headings, lists, tables,
// quotes, code, rules; strong, emphasis, strike, code and links to http and https. Everything else is text.
import { h } from "./base.js";

const MAX_DEPTH = 8; // of lists and quotes in one another, and of marks within marks

// Control characters have no picture of their own; tabs and line feeds stay.
const visible = (s) => s.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\u202a-\u202e\u2066-\u2069]/g,
  (c) => c < " " ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : c === "\u007f" ? "\u2421" : "\ufffd");

// ---- inline ----

const MARKS = [["**", "strong"], ["__", "strong"], ["~~", "s"], ["*", "em"], ["_", "em"]];

function link(label, target, depth) {
  let url;
  try {
    url = new URL(target);
  } catch {
    return null;
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") return null;
  return h("a", { href: url.href, rel: "noopener noreferrer nofollow", target: "_blank" }, inline(label, depth + 1));
}

const isWord = (c) => c !== undefined && /[\p{L}\p{N}]/u.test(c);

// Where the mark that opens at i closes, -1 = nowhere. Marks of words (snake_case) stay text. What can close a mark
// does not depend on where it opens: `hopeless` has the marks that nothing closes any more, looked for once.
function closing(s, i, mark, hopeless) {
  if (s[i + mark.length] === undefined || /\s/.test(s[i + mark.length])) return -1;
  if (mark[0] === "_" && isWord(s[i - 1])) return -1;
  for (let at = i + mark.length + 1; (at = s.indexOf(mark, at)) >= 0; at++) {
    const after = s[at + mark.length];
    if (/\s/.test(s[at - 1]) || (mark.length === 1 && (after === mark || s[at - 1] === mark))) continue;
    if (mark[0] === "_" && isWord(after)) continue;
    return at;
  }
  hopeless.add(mark);
  return -1;
}

export function inline(s, depth = 0) {
  const out = [];
  const hopeless = new Set(); // marks and fences that nothing closes
  let text = "";
  const flush = () => {
    if (text) out.push(text);
    text = "";
  };
  for (let i = 0; i < s.length;) {
    const c = s[i];
    if (c === "\\" && /[!-/:-@[-`{-~]/.test(s[i + 1] || "")) {
      text += s[i + 1];
      i += 2;
      continue;
    }
    if (c === "`") {
      const fence = /^`+/.exec(s.slice(i, i + 40))[0];
      const end = hopeless.has(fence) ? -1 : s.indexOf(fence, i + fence.length);
      if (end > 0) {
        flush();
        out.push(h("code", {}, s.slice(i + fence.length, end).replace(/^ (.+) $/, "$1")));
        i = end + fence.length;
      } else {
        hopeless.add(fence);
        text += fence;
        i += fence.length;
      }
      continue;
    }
    if (c === "[" && depth < MAX_DEPTH) {
      const m = /^\[([^\][]{1,500})\]\(\s*<?([^\s()<>]{1,2000})>?(?:\s+"[^"]*")?\s*\)/.exec(s.slice(i, i + 2600));
      const a = m && link(m[1], m[2], depth);
      if (a) {
        flush();
        out.push(a);
        i += m[0].length;
        continue;
      }
    }
    if (c === "h" && !isWord(s[i - 1]) && depth < MAX_DEPTH && s.startsWith("http", i)) {
      const m = /^https?:\/\/[^\s<>"'`]{1,2000}[^\s<>"'`.,;:!?)\]*_]/.exec(s.slice(i, i + 2048));
      if (m) {
        flush();
        out.push(link(m[0].replace(/[[\]*_~`\\]/g, "\\$&"), m[0], MAX_DEPTH - 1) || m[0]);
        i += m[0].length;
        continue;
      }
    }
    const mark = depth < MAX_DEPTH && MARKS.find(([m]) => s.startsWith(m, i) && !hopeless.has(m));
    const end = mark ? closing(s, i, mark[0], hopeless) : -1;
    if (end > 0) {
      flush();
      out.push(h(mark[1], {}, inline(s.slice(i + mark[0].length, end), depth + 1)));
      i = end + mark[0].length;
      continue;
    }
    text += c;
    i++;
  }
  flush();
  return out;
}

// ---- blocks ----

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?: +|$)/;
const HEADING = /^ {0,3}(#{1,6}) +(.*)$/;
const RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/;

const starts = (line) => FENCE.test(line) || ITEM.test(line) || HEADING.test(line) || RULE.test(line) || /^ {0,3}>/.test(line);

const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((c) => c.trim());

const isTableLine = (line) => line?.includes("|") && cells(line).every((c) => /^:?-+:?$/.test(c));

function table(lines, i) {
  const head = cells(lines[i]);
  const sides = cells(lines[i + 1]).map((c) => (c.endsWith(":") ? (c.startsWith(":") ? "center" : "right") : ""));
  const rows = [];
  let end = i + 2;
  for (; end < lines.length && lines[end].includes("|") && lines[end].trim(); end++) rows.push(cells(lines[end]));
  const cell = (tag) => (c, n) => h(tag, { class: sides[n] || null }, inline(c));
  return [h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "table" }, h("table", {},
    h("thead", {}, h("tr", {}, head.map(cell("th")))),
    h("tbody", {}, rows.map((r) => h("tr", {}, r.slice(0, head.length).map(cell("td"))))))), end];
}

export function code(text, language) {
  return h("pre", { tabindex: "0", "aria-label": language ? `${language} code` : "code" }, h("code", {}, text));
}

// A list's items: lines that are indented deeper belong to the item above.
function list(lines, i, depth) {
  const first = ITEM.exec(lines[i]);
  const ordered = /\d/.test(first[2]);
  const e = h(ordered ? "ol" : "ul", ordered ? { start: parseInt(first[2], 10) } : {});
  while (i < lines.length) {
    const m = ITEM.exec(lines[i]);
    if (!m || m[1].length > first[1].length + 1 || m[1].length < first[1].length || /\d/.test(m[2]) !== ordered
      || RULE.test(lines[i])) break;
    const inner = [lines[i].slice(m[0].length)];
    const indent = m[1].length + 2;
    for (i++; i < lines.length; i++) {
      const blank = !lines[i].trim();
      const deep = /^ */.exec(lines[i])[0].length >= indent;
      if (blank ? !(lines[i + 1] && /^ */.exec(lines[i + 1])[0].length >= indent) : !deep && starts(lines[i])) break;
      if (!deep && !blank && !inner[inner.length - 1].trim()) break;
      inner.push(deep ? lines[i].slice(Math.min(/^ */.exec(lines[i])[0].length, m[0].length)) : lines[i]);
    }
    const task = /^\[([ xX])\] /.exec(inner[0]);
    if (task) inner[0] = (task[1] === " " ? "☐ " : "☑ ") + inner[0].slice(4);
    e.append(h("li", {}, blocks(inner, depth + 1, true)));
    while (i + 1 < lines.length && !lines[i].trim() && ITEM.test(lines[i + 1])) i++;
  }
  return [e, i];
}

function blocks(lines, depth = 0, tight = false) {
  const out = [];
  for (let i = 0; i < lines.length;) {
    const line = lines[i];
    let m;
    if (!line.trim()) {
      i++;
    } else if ((m = FENCE.exec(line))) {
      let end = i + 1;
      const close = new RegExp(`^ {0,3}\\${m[1][0]}{${m[1].length},} *$`);
      while (end < lines.length && !close.test(lines[end])) end++;
      out.push(code(lines.slice(i + 1, end).join("\n"), m[2]));
      i = end + 1;
    } else if ((m = HEADING.exec(line))) {
      out.push(h("p", { class: `heading h${m[1].length}`, role: "heading", "aria-level": String(Math.min(m[1].length + 2, 6)) }, inline(m[2].trimEnd().replace(/ #+$/, ""))));
      i++;
    } else if (RULE.test(line)) {
      out.push(h("hr"));
      i++;
    } else if (/^ {0,3}>/.test(line) && depth < MAX_DEPTH) {
      let end = i;
      while (end < lines.length && /^ {0,3}>/.test(lines[end])) end++;
      out.push(h("blockquote", {}, blocks(lines.slice(i, end).map((l) => l.replace(/^ {0,3}> ?/, "")), depth + 1)));
      i = end;
    } else if (ITEM.test(line) && depth < MAX_DEPTH) {
      const [e, end] = list(lines, i, depth);
      out.push(e);
      i = Math.max(end, i + 1);
    } else if (line.includes("|") && isTableLine(lines[i + 1])) {
      const [e, end] = table(lines, i);
      out.push(e);
      i = end;
    } else {
      let end = i + 1;
      while (end < lines.length && lines[end].trim() && !starts(lines[end])) end++;
      const parts = lines.slice(i, end).flatMap((l, n) => [...(n ? [h("br")] : []), ...inline(l.trim())]);
      if (tight) for (const part of parts) out.push(part);
      else out.push(h("p", {}, parts));
      if (tight && end < lines.length && lines[end].trim() === "" && end + 1 < lines.length) out.push(h("br"));
      i = end;
    }
  }
  return out;
}

// Pieces that can be rendered apart: cut at blank lines, but not within code, nor before what may go on a list.
export function pieces(source) {
  const out = [];
  let piece = [], fence = null;
  for (const line of visible(source.replace(/\r\n?/g, "\n")).replace(/\t/g, "    ").split("\n")) {
    const m = FENCE.exec(line);
    if (fence) {
      if (m && m[1][0] === fence[0] && m[1].length >= fence.length && !m[2]) fence = null;
    } else if (m) {
      fence = m[1];
    } else if (piece.length && !piece[piece.length - 1].trim() && line.trim() && !/^ /.test(line) && !ITEM.test(line)) {
      out.push(piece.join("\n"));
      piece = [];
    }
    piece.push(line);
  }
  if (piece.length) out.push(piece.join("\n"));
  return out;
}

export const render = (piece) => blocks(piece.split("\n"));
export { visible };
