"use strict";
const DATA = JSON.parse($("#data").textContent);

async function open() {
  DATA.policies.forEach((_, index) => shown.add(index));
  for (const chip of all(".legend .chip")) {
    chip.onclick = () => {
      const index = +chip.dataset.policy, on = !shown.has(index);
      if (!on && shown.size === 1) return;
      shown[on ? "add" : "delete"](index);
      chip.setAttribute("aria-pressed", on);
      redraw();
    };
  }
  const series = (key) => DATA.policies.map((one, policy) => one[key] && { policy, ...one[key] }).filter(Boolean);
  fates($("#fates"));
  lines($("#cdf-jct"), { name: "Share of jobs finished within a time", series: series("jct_cdf").map(stepped), log: true, y: percent, top: 1 });
  lines($("#cdf-wait"), { name: "Share of jobs started within a time", series: series("wait_cdf").map(stepped), log: true, y: percent, top: 1 });
  lines($("#use"), { name: "Share of devices held over time", series: series("use").map(binned), y: percent, top: 1 });
  lines($("#queue"), { name: "Jobs waiting for their first device over time", series: series("queue").map(binned), y: (v) => (v >= 10 ? v.toFixed(0) : `${+v.toFixed(1)}`) });
  const names = ["ids", "model", "submitted", "deadline"];
  const shared = await Promise.all(names.map((name) => unpack(DATA.jobs[name])));
  names.forEach((name, i) => { DATA[name] = shared[i]; });
  gantts(all(".gantt"));
  const columns = await Promise.all(DATA.policies.map(async (one) => ({ jct: await unpack(one.jct), wait: await unpack(one.wait), fate: await (one.unpackedFate ||= unpack(one.fate)) })));
  scatter($("#scatter"), columns);
  requestAnimationFrame(() => requestAnimationFrame(() => { document.documentElement.dataset.ready = "yes"; performance.mark("ready"); }));
}
const stepped = (one) => ({ ...one, stepped: true });
const binned = (one) => ({ policy: one.policy, x: one.y.map((_, i) => i * DATA.bin), y: one.y, stepped: true });
open();
