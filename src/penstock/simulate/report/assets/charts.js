"use strict";
const shown = new Set();
const dpr = () => Math.min(window.devicePixelRatio || 1, 2);

function frame(box, height, name) {
  $("svg", box)?.remove();
  const width = box.clientWidth;
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": name });
  box.prepend(svg);
  return { svg, width, height };
}

function horizontal(svg, scale, y, marks, format) {
  for (const mark of marks) {
    const x = scale(mark);
    svg.append(node("line", { class: "grid", x1: x, x2: x, y1: 8, y2: y }));
    const text = node("text", { x: Math.min(Math.max(x, scale.from), scale.to), y: y + 18, "text-anchor": x > scale.to - 12 ? "end" : x < scale.from + 12 ? "start" : "middle" }, format(mark));
    svg.append(text);
  }
  svg.append(node("line", { class: "axis", x1: scale.from, x2: scale.to, y1: y, y2: y }));
}

function vertical(svg, scale, left, right, marks, format) {
  for (const mark of marks) {
    const y = scale(mark);
    svg.append(node("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }), node("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, format(mark)));
  }
}

/* One line per policy. spec: {name, series: [{policy, x, y, stepped}], log, x: format, y: format, top, ceiling} */
function lines(box, spec) {
  const tip = tooltip(box);
  let cursor = null;
  function draw() {
    const { svg, width, height } = frame(box, box.clientWidth < 480 ? 230 : 290, spec.name);
    const left = 50, right = width - 10, bottom = height - 28;
    const visible = spec.series.filter((one) => shown.has(one.policy) && one.x.length);
    const xs = visible.flatMap((one) => [one.x[0], one.x[one.x.length - 1]]);
    const low = spec.log ? 1 : Math.min(0, ...xs), high = Math.max(spec.log ? 10 : 1, ...xs);
    const top = spec.top || niceMax(Math.max(...visible.map((one) => Math.max(...one.y)), 0));
    const x = (spec.log ? logarithmic : linear)(low, high, left, right), y = linear(0, top, bottom, 12);
    vertical(svg, y, left, right, [0, .25, .5, .75, 1].map((share) => share * top), spec.y);
    horizontal(svg, x, bottom, spec.log ? logTicks(low, high).filter((_, i, marks) => width > 480 || i % 2 === marks.length % 2) : timeTicks(low, high, width / 90), duration);
    if (spec.ceiling) svg.append(node("line", { x1: left, x2: right, y1: y(spec.ceiling), y2: y(spec.ceiling), stroke: "var(--faint)", "stroke-dasharray": "2 3" }));
    for (const one of visible) {
      let path = "", previous = null;
      for (let i = 0; i < one.x.length; i++) {
        const px = x(one.x[i]).toFixed(1), py = y(one.y[i]).toFixed(1);
        path += path ? (one.stepped ? `H${px}V${py}` : `L${px} ${py}`) : spec.log ? `M${left} ${bottom}L${px} ${bottom}V${py}` : `M${px} ${py}`;
        previous = px;
      }
      if (spec.log && previous) path += `H${right}`;
      svg.append(node("path", { class: "line", d: path, stroke: `var(--p${one.policy % 8})`, "stroke-dasharray": DASHES[one.policy % 8] }));
    }
    cursor = node("line", { class: "axis", y1: 12, y2: bottom, visibility: "hidden", stroke: "var(--soft)" });
    svg.append(cursor);
    const point = (px, py) => {
      const at = x.back(Math.min(Math.max(px, left), right));
      cursor.setAttribute("x1", x(at)); cursor.setAttribute("x2", x(at)); cursor.setAttribute("visibility", "visible");
      const rows = visible.map((one) => `<i style="background:var(--p${one.policy % 8})"></i>${escaped(DATA.policies[one.policy].name)} <b>${spec.y(valueAt(one, at))}</b>`);
      tip.show([`<b>${duration(at)}</b>${spec.log ? " or less" : ""}`, ...rows].join("<br>"), x(at), py);
    };
    pointing(svg, point, () => { tip.hide(); cursor.setAttribute("visibility", "hidden"); });
    steppable(box, (share) => point(left + share * (right - left), 30), () => { tip.hide(); cursor.setAttribute("visibility", "hidden"); });
  }
  onSize(box, draw);
}

function valueAt(one, at) {
  let low = 0, high = one.x.length;
  while (low < high) { const middle = (low + high) >> 1; if (one.x[middle] <= at) low = middle + 1; else high = middle; }
  return low ? one.y[low - 1] : one.stepped ? 0 : one.y[0];
}

function pointing(target, move, leave) {
  target.onpointermove = (event) => { const box = target.getBoundingClientRect(); move(event.clientX - box.left, event.clientY - box.top, event); };
  target.onpointerdown = target.onpointermove;
  target.onpointerleave = leave;
}

/* Left and right arrows read a chart from one end to the other. */
function steppable(box, move, leave) {
  let share = 0;
  box.tabIndex = 0;
  box.onkeydown = (event) => {
    const step = { ArrowLeft: -0.02, ArrowRight: 0.02, Home: -1, End: 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    share = Math.min(1, Math.max(0, share + step));
    move(share);
  };
  box.onblur = leave;
}

const FATES = [["met", "in time"], ["late", "late"], ["declined", "refused in advance"], ["done", "done, had no deadline"], ["unfinished", "not finished"], ["cancelled", "cancelled by its user"]];

/* Bars of what became of all jobs, one per policy. */
function fates(box) {
  function draw() {
    const rows = DATA.policies.map((policy, index) => ({ policy, index })).filter(({ index }) => shown.has(index));
    const narrow = box.clientWidth < 560, pitch = narrow ? 54 : 40;
    const { svg, width } = frame(box, rows.length * pitch + 6, "What became of the jobs under each policy");
    const left = narrow ? 0 : 150;
    rows.forEach(({ policy, index }, place) => {
      const y = place * pitch + (narrow ? 22 : 6), total = policy.fates.reduce((a, b) => a + b, 0) || 1;
      svg.append(node("text", { x: narrow ? 0 : left - 12, y: narrow ? y - 7 : y + 18, "text-anchor": narrow ? "start" : "end", class: "value" }, policy.name));
      let x = left;
      policy.fates.forEach((count, fate) => {
        const wide = (count / total) * (width - left);
        if (!count) return;
        const bar = node("rect", { x, y, width: Math.max(wide - 1.5, .8), height: 26, rx: 3, fill: `var(--${FATES[fate][0]})` }, node("title", {}, `${policy.name}: ${count} ${FATES[fate][1]} (${percent(count / total)})`));
        svg.append(bar);
        const text = String(count);
        if (wide > text.length * 9 + 8) svg.append(node("text", { x: x + wide / 2, y: y + 17.5, "text-anchor": "middle", style: "fill:#fff;font-weight:600;paint-order:stroke;stroke:rgb(0 0 0/.25);stroke-width:2px" }, text));
        x += wide;
      });
      void index;
    });
  }
  onSize(box, draw);
}

/* One point per job: how long it took under one policy and under another. */
function scatter(box, columns) {
  const tip = tooltip(box), canvas = element("canvas", { tabindex: "0", role: "img" });
  box.prepend(canvas);
  const pick = { x: $("#scatter-x"), y: $("#scatter-y"), what: $("#scatter-what") };
  let points = [], chosen = -1;
  function draw() {
    const width = box.clientWidth, height = Math.min(width, 520), left = 56, right = width - 14, bottom = height - 36;
    const a = +pick.x.value, b = +pick.y.value, what = pick.what.value;
    const one = columns[a][what], other = columns[b][what], fate = columns[b].fate;
    Object.assign(canvas, { width: width * dpr(), height: height * dpr() });
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(dpr(), dpr());
    let high = 60;
    for (let i = 0; i < one.length; i++) for (const v of [one[i], other[i]]) if (v > high) high = v;
    const x = logarithmic(1, high, left, right), y = logarithmic(1, high, bottom, 14);
    pen.font = "12px system-ui, sans-serif"; pen.strokeStyle = colour("--grid"); pen.fillStyle = colour("--faint");
    for (const mark of logTicks(1, high)) {
      pen.beginPath(); pen.moveTo(x(mark), 14); pen.lineTo(x(mark), bottom); pen.moveTo(left, y(mark)); pen.lineTo(right, y(mark)); pen.stroke();
      pen.textAlign = "center"; if (width > 480 || mark !== 10) pen.fillText(duration(mark), x(mark), bottom + 17);
      pen.textAlign = "right"; pen.fillText(duration(mark), left - 7, y(mark) + 4);
    }
    pen.strokeStyle = colour("--soft"); pen.setLineDash([5, 4]); pen.beginPath(); pen.moveTo(x(1), y(1)); pen.lineTo(x(high), y(high)); pen.stroke(); pen.setLineDash([]);
    points = []; pen.globalAlpha = one.length > 3000 ? .5 : .7;
    const paint = FATES.map(([name]) => colour(`--${name}`));
    let better = 0, worse = 0;
    for (let i = 0; i < one.length; i++) {
      if (Number.isNaN(one[i]) || Number.isNaN(other[i])) continue;
      const px = x(one[i]), py = y(other[i]);
      if (other[i] < one[i] * .98) better++; else if (other[i] > one[i] * 1.02) worse++;
      points.push([px, py, i]);
      pen.fillStyle = paint[fate[i]]; pen.beginPath(); pen.arc(px, py, 2.3, 0, 7); pen.fill();
    }
    pen.globalAlpha = 1; pen.fillStyle = colour("--soft"); pen.textAlign = "left";
    pen.fillText(`slower under ${DATA.policies[b].name}`, left + 10, 30); pen.textAlign = "right";
    pen.fillText(`faster under ${DATA.policies[b].name}`, right - 6, bottom - 10);
    const said = `Of ${points.length} jobs that both policies ran, ${better} are faster under ${DATA.policies[b].name}, ${worse} slower, ${points.length - better - worse} about the same.`;
    $("#scatter-said").textContent = said;
    canvas.setAttribute("aria-label", said);
    if (chosen >= 0) tell(points.findIndex((p) => p[2] === chosen));
    function tell(index) {
      if (index < 0 || !points[index]) return;
      const [px, py, job] = points[index];
      chosen = job;
      tip.show(`<b>${escaped(DATA.ids[job])}</b> ${escaped(DATA.model[job] || "")}<br>${escaped(DATA.policies[a].name)} <b>${duration(one[job])}</b><br>${escaped(DATA.policies[b].name)} <b>${duration(other[job])}</b>, ${FATES[fate[job]][1]}`, px, py);
    }
    pointing(canvas, (px, py) => {
      let near = -1, least = 200;
      points.forEach((p, i) => { const d = (p[0] - px) ** 2 + (p[1] - py) ** 2; if (d < least) { least = d; near = i; } });
      if (near >= 0) tell(near); else { chosen = -1; tip.hide(); }
    }, () => { chosen = -1; tip.hide(); });
    canvas.onkeydown = (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const now = points.findIndex((p) => p[2] === chosen);
      tell((now + step + points.length) % points.length);
    };
    canvas.onblur = () => { chosen = -1; tip.hide(); };
  }
  for (const select of Object.values(pick)) select.onchange = () => { chosen = -1; tip.hide(); draw(); };
  onSize(box, draw);
}
