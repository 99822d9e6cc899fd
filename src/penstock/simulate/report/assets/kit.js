"use strict";
const $ = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const DASHES = ["", "7 4", "2 4", "10 4 2 4", "", "7 4", "2 4", "10 4 2 4"];

function node(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

async function bytes(packed) {
  const raw = Uint8Array.from(atob(packed.b), (c) => c.charCodeAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function unpack(packed) {
  const data = await bytes(packed);
  if (packed.as === "f4") return new Float32Array(data.buffer);
  if (packed.as === "u1") return data;
  if (packed.as === "t") return packed.of ? new TextDecoder().decode(data).split("\n") : [];
  const out = new Int32Array(packed.of);
  for (let i = 0, at = 0, sum = 0; i < packed.of; i++) {
    let value = 0, scale = 1, byte;
    do { byte = data[at++]; value += (byte & 0x7f) * scale; scale *= 128; } while (byte & 0x80);
    sum += value % 2 ? -(value + 1) / 2 : value / 2;
    out[i] = sum;
  }
  return out;
}

function duration(seconds) {
  if (!Number.isFinite(seconds)) return "never";
  if (seconds < 0) return "-" + duration(-seconds);
  if (seconds < 10) return `${+seconds.toPrecision(2)}s`;
  let rest = Math.round(seconds);
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count || parts.length) parts.push(count ? `${count}${unit}` : "");
    if (parts.length === 2) break;
  }
  return parts.filter(Boolean).join(" ");
}

const percent = (share) => (Number.isFinite(share) ? `${+(100 * share).toFixed(share > 0.0995 && share < 0.9995 ? 0 : 1)}%` : "-");
const TIME_STEPS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 14 * 86400, 30 * 86400, 90 * 86400, 365 * 86400];

function timeTicks(low, high, count) {
  const step = TIME_STEPS.find((s) => (high - low) / s <= count) || 365 * 86400 * Math.ceil((high - low) / (365 * 86400) / count);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + 1e-9; at += step) found.push(at);
  return found;
}

const LOG_MARKS = [1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400];
const logTicks = (low, high) => LOG_MARKS.filter((mark) => mark >= low * 0.999 && mark <= high * 1.001);

function niceMax(value, parts = 4) {
  if (!(value > 0)) return 1;
  const raw = value / parts, power = 10 ** Math.floor(Math.log10(raw));
  return parts * power * [1, 2, 2.5, 5, 10].find((m) => m * power >= raw * 0.9999);
}

const linear = (low, high, from, to) => Object.assign((v) => from + ((v - low) / (high - low || 1)) * (to - from), { low, high, from, to, back: (x) => low + ((x - from) / (to - from)) * (high - low) });
const logarithmic = (low, high, from, to) => { const inner = linear(Math.log(low), Math.log(high), from, to); return Object.assign((v) => inner(Math.log(Math.max(v, low))), { low, high, from, to, back: (x) => Math.exp(inner.back(x)) }); };

function tooltip(box) {
  const tip = element("div", { class: "tip", hidden: "" });
  box.append(tip);
  return {
    show(html, x, y) {
      tip.innerHTML = html;
      tip.hidden = false;
      const width = tip.offsetWidth, room = box.clientWidth;
      tip.style.left = `${Math.max(0, Math.min(x + 14 + width > room ? x - width - 14 : x + 14, room - width))}px`;
      tip.style.top = `${Math.max(0, y - 20)}px`;
    },
    hide() { tip.hidden = true; },
  };
}

const escaped = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
const redrawn = [];
function onSize(box, draw) {
  let width = 0;
  redrawn.push(draw);
  new ResizeObserver(() => { const now = Math.round(box.clientWidth); if (now && now !== width) { width = now; draw(); } }).observe(box);
}
function redraw() { for (const draw of redrawn) draw(); }
