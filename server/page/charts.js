// Small drawings on canvases, in the colours of the style sheet.
import { h } from "./base.js";

let colours = {};
const names = ["local", "global", "prefill", "decode", "line", "ink", "dim", "accent"];

export function readColours() {
  const style = getComputedStyle(document.documentElement);
  colours = Object.fromEntries(names.map((n) => [n, style.getPropertyValue(`--${n}`).trim()]));
}

// A canvas as wide as its place; draw(paint) calls paint(context, width, height, colours), again when the width changes.
export function canvas(height, label) {
  const element = h("canvas", { role: "img", "aria-label": label });
  let paint = null, width = 0, high = height;
  const repaint = () => {
    if (!paint || !width) return;
    const scale = window.devicePixelRatio || 1;
    element.width = Math.round(width * scale);
    element.height = Math.round(high * scale);
    element.style.height = `${high}px`;
    const c = element.getContext("2d");
    c.scale(scale, scale);
    paint(c, width, high, colours);
  };
  new ResizeObserver(([entry]) => {
    width = entry.contentRect.width;
    repaint();
  }).observe(element);
  return {
    element,
    label: (text) => element.setAttribute("aria-label", text),
    width: () => width,
    draw(f, newHeight = high) {
      paint = f;
      high = newHeight;
      repaint();
    },
  };
}

// The last values as a filled line.
export function spark(c, width, height, values, colour) {
  const top = Math.max(...values, 1e-9), n = Math.max(values.length, 2);
  const x = (i) => (i / (n - 1)) * width, y = (v) => height - 1 - (v / top) * (height - 3);
  c.beginPath();
  c.moveTo(0, height);
  values.forEach((v, i) => c.lineTo(x(i), y(v)));
  c.lineTo(x(values.length - 1), height);
  c.closePath();
  c.globalAlpha = 0.18;
  c.fillStyle = colour;
  c.fill();
  c.globalAlpha = 1;
  c.beginPath();
  values.forEach((v, i) => (i ? c.lineTo(x(i), y(v)) : c.moveTo(x(i), y(v))));
  c.strokeStyle = colour;
  c.lineWidth = 1.5;
  c.stroke();
}

// Steps as columns: prompt rows upon decoding rows.
export function columns(c, width, height, steps, most, k) {
  const room = width / most, wide = Math.max(room - 1, 1);
  const top = Math.max(...steps.map((s) => s.prefill + s.decode), 1), base = height - 14;
  c.fillStyle = k.line;
  c.fillRect(0, base, width, 1);
  steps.forEach((s, i) => {
    const x = width - (steps.length - i) * room;
    const d = (s.decode / top) * (base - 14), p = (s.prefill / top) * (base - 14);
    c.fillStyle = k.decode;
    c.fillRect(x, base - d, wide, d);
    c.fillStyle = k.prefill;
    c.fillRect(x, base - d - p, wide, p);
  });
  c.fillStyle = k.dim;
  c.font = "11px system-ui, sans-serif";
  c.textBaseline = "top";
  c.fillText(`${top} row${top === 1 ? "" : "s"}`, 0, 0);
  c.textBaseline = "bottom";
  c.textAlign = "right";
  c.fillText(steps.length ? `step ${steps[steps.length - 1].number}` : "no step yet", width, height);
}

// Pages as squares in the order in which they lie in memory: held ones full, cached ones pale, free ones empty.
export function pageMap(c, width, cells, pages, colour, k, size, gap) {
  const across = Math.max(Math.floor((width + gap) / (size + gap)), 1);
  cells.forEach(([used, cached], i) => {
    const x = (i % across) * (size + gap), y = Math.floor(i / across) * (size + gap);
    c.fillStyle = k.line;
    c.fillRect(x, y, size, size);
    c.fillStyle = colour;
    const full = Math.min(used / pages, 1) * size, pale = Math.min(cached / pages, 1) * size;
    c.globalAlpha = 0.36;
    c.fillRect(x, y + size - full - pale, size, pale);
    c.globalAlpha = 1;
    c.fillRect(x, y + size - full, size, full);
  });
}

export const mapHeight = (width, n, size, gap) => {
  const across = Math.max(Math.floor((width + gap) / (size + gap)), 1);
  return Math.max(Math.ceil(n / across), 1) * (size + gap) - gap;
};
