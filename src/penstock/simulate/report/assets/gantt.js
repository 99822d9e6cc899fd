"use strict";
/* Devices downwards, time to the right; two policies above each other share one window of time. */
function gantts(panes) {
  const ends = panes.map((pane) => DATA.policies[+$("select", pane).value].end);
  const view = { from: 0, to: Math.min(DATA.span, Math.max(...ends) * 1.01) };
  const drawings = panes.map((pane) => gantt(pane, view, () => drawings.forEach((one) => one.draw())));
  const zoom = (factor, at = (view.from + view.to) / 2) => {
    const least = DATA.span / 5000, wide = Math.min(DATA.span, Math.max(least, (view.to - view.from) * factor));
    const share = (at - view.from) / (view.to - view.from);
    place(view, at - share * wide, wide);
    drawings.forEach((one) => one.draw());
  };
  const pan = (share) => { place(view, view.from + share * (view.to - view.from), view.to - view.from); drawings.forEach((one) => one.draw()); };
  const reset = () => { Object.assign(view, { from: 0, to: DATA.span }); drawings.forEach((one) => one.draw()); };
  const keys = { "+": () => zoom(.6), "=": () => zoom(.6), "-": () => zoom(1 / .6), ArrowLeft: () => pan(-.2), ArrowRight: () => pan(.2), 0: reset, Home: reset };
  for (const one of drawings) Object.assign(one, { zoom, pan, keys });
  $("#zoom-in").onclick = () => zoom(.6);
  $("#zoom-out").onclick = () => zoom(1 / .6);
  $("#zoom-left").onclick = () => pan(-.3);
  $("#zoom-right").onclick = () => pan(.3);
  $("#zoom-all").onclick = reset;
}

function place(view, from, wide) {
  view.from = Math.max(0, Math.min(from, DATA.span - wide));
  view.to = view.from + wide;
}

function gantt(pane, view, redrawAll) {
  const box = $(".chart", pane), select = $("select", pane), note = $("figcaption", pane), tip = tooltip(box);
  const canvas = element("canvas", { tabindex: "0", role: "img" });
  box.prepend(canvas);
  const self = { draw, zoom() {}, pan() {}, keys: {} };
  let bars = null, waiting = false;
  async function load() {
    const policy = DATA.policies[+select.value];
    if (!policy.gantt) { bars = null; note.textContent = `${policy.name} keeps no record of who ran where.`; draw(); return; }
    policy.bars ||= (async () => {
      const names = ["start", "length", "device", "count", "job"];
      const columns = await Promise.all(names.map((name) => unpack(policy.gantt[name])));
      return Object.fromEntries(names.map((name, i) => [name, columns[i]]));
    })();
    bars = { ...(await policy.bars), tick: policy.gantt.tick, fate: await (policy.unpackedFate ||= unpack(policy.fate)) };
    note.textContent = policy.gantt.merged
      ? `There are too many changes to draw each: this is a grid of ${duration(policy.gantt.merged)}; in each cell you see the longest stay.`
      : `Every one of the ${bars.start.length.toLocaleString("en")} stays is drawn to scale.`;
    canvas.setAttribute("aria-label", `Who ran where under ${policy.name}: ${DATA.devices} devices over ${duration(DATA.span)}. The table below has the utilisation.`);
    draw();
  }
  function draw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; paint(); });
  }
  function geometry() {
    const width = box.clientWidth, height = Math.max(160, Math.min(420, DATA.devices * 10)), left = width < 520 ? 8 : 76;
    return { width, height, left, bottom: height - 24, x: linear(view.from, view.to, left, width - 8), row: (height - 32) / DATA.devices };
  }
  function paint() {
    const { width, height, left, bottom, x, row } = geometry();
    Object.assign(canvas, { width: width * dpr(), height: height * dpr() });
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(dpr(), dpr());
    pen.font = "12px system-ui, sans-serif"; pen.fillStyle = colour("--faint"); pen.strokeStyle = colour("--grid");
    for (const mark of timeTicks(view.from, view.to, width / 95)) {
      pen.beginPath(); pen.moveTo(x(mark), 8); pen.lineTo(x(mark), bottom); pen.stroke();
      pen.textAlign = x(mark) > width - 30 ? "right" : x(mark) < left + 12 ? "left" : "center";
      pen.fillText(duration(mark), x(mark), height - 7);
    }
    if (left > 20) { pen.textAlign = "right"; for (const [name, first] of DATA.nodes) { pen.fillText(name, left - 8, 8 + first * row + 10); pen.beginPath(); pen.moveTo(left, 8 + first * row); pen.lineTo(width - 8, 8 + first * row); pen.stroke(); } }
    if (!bars) return;
    pen.save(); pen.beginPath(); pen.rect(left, 8, width - 8 - left, bottom - 8); pen.clip();
    const dark = matchMedia("(prefers-color-scheme: dark)").matches ? document.documentElement.dataset.theme !== "light" : document.documentElement.dataset.theme === "dark";
    const shades = FATES.map((_, fate) => shadesOf(fate, dark)), gap = row > 4 ? .6 : 0, from = view.from / bars.tick, to = view.to / bars.tick;
    for (let i = 0; i < bars.start.length; i++) {
      const start = bars.start[i], end = start + bars.length[i];
      if (end < from || start > to) continue;
      const job = bars.job[i], x0 = x(start * bars.tick), x1 = x(end * bars.tick);
      pen.fillStyle = shades[bars.fate[job]][(job * 7) % 11];
      pen.fillRect(x0, 8 + bars.device[i] * row, x1 - x0 - (x1 - x0 > 3 ? .6 : 0), bars.count[i] * row - gap);
    }
    pen.restore();
  }
  function find(px, py) {
    if (!bars) return -1;
    const { x, row } = geometry(), at = x.back(px) / bars.tick, device = Math.floor((py - 8) / row);
    for (let i = 0; i < bars.start.length && bars.start[i] <= at; i++) {
      if (at <= bars.start[i] + bars.length[i] && device >= bars.device[i] && device < bars.device[i] + bars.count[i]) return i;
    }
    return -1;
  }
  let held = null;
  pointing(canvas, (px, py, event) => {
    if (held !== null && event.buttons) { self.pan((held - px) / canvas.clientWidth); held = px; tip.hide(); return; }
    const i = find(px, py);
    if (i < 0) { tip.hide(); return; }
    const job = bars.job[i], due = DATA.deadline[job];
    tip.show(`<b>${escaped(DATA.ids[job])}</b> ${escaped(DATA.model[job] || "")}<br>${bars.count[i]} neighbouring devices for ${duration(bars.length[i] * bars.tick)}<br>${FATES[bars.fate[job]][1]}, came at ${duration(DATA.submitted[job])}${due > 0 ? `, due at ${duration(due)}` : ""}`, px, py);
  }, () => { held = null; tip.hide(); });
  canvas.onpointerdown = (event) => { held = event.clientX - canvas.getBoundingClientRect().left; canvas.onpointermove(event); };
  canvas.onpointerup = () => { held = null; };
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey && !event.metaKey) return;
    event.preventDefault();
    const px = event.clientX - canvas.getBoundingClientRect().left;
    self.zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : .8, geometry().x.back(px));
  }, { passive: false });
  canvas.ondblclick = (event) => self.zoom(.4, geometry().x.back(event.clientX - canvas.getBoundingClientRect().left));
  canvas.onkeydown = (event) => { const act = self.keys[event.key]; if (act) { event.preventDefault(); act(); } };
  select.onchange = load;
  onSize(box, redrawAll);
  load();
  return self;
}

/* Eleven shades of a fate's colour, so that neighbours can be told apart. */
function shadesOf(fate, dark) {
  const [hue, saturation, light] = [[172, 72, dark ? 42 : 40], [4, 78, dark ? 62 : 56], [215, 10, dark ? 42 : 66], [228, 72, dark ? 66 : 60], [42, 88, dark ? 56 : 50], [267, 26, dark ? 68 : 50]][fate];
  return Array.from({ length: 11 }, (_, i) => `hsl(${hue + (i - 5) * 2.6} ${saturation}% ${light + (i - 5) * 2.1}%)`);
}
