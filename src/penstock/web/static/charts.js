// Shapes that ECharts does not have. Options name these functions; see penstock/web/charts.py for the data they get.
globalThis.penstock = {
  clip(box, area) {
    const x = Math.max(box.x, area.x), y = Math.max(box.y, area.y);
    const width = Math.min(box.x + box.width, area.x + area.width) - x;
    const height = Math.min(box.y + box.height, area.y + area.height) - y;
    return width > 0 && height > 0 ? { x, y, width, height } : null;
  },

  // [start, end, first device, count, planned, label, colour, tooltip, job]
  stretch(params, api) {
    const from = api.coord([api.value(0), api.value(2)]);
    const to = api.coord([api.value(1), api.value(2) + api.value(3)]);
    const box = {
      x: from[0], y: Math.min(from[1], to[1]) + 0.5,
      width: Math.max(to[0] - from[0], 1.5), height: Math.max(Math.abs(to[1] - from[1]) - 1, 1),
    };
    const shape = penstock.clip(box, params.coordSys);
    if (!shape) return undefined;
    const planned = api.value(4) === 1, label = api.value(5), colour = api.value(6);
    const fits = shape.width > 6.5 * label.length + 12 && shape.height > 12;
    return {
      type: "rect",
      shape: { ...shape, r: Math.min(3, shape.height / 4) },
      style: {
        fill: colour, fillOpacity: planned ? 0.3 : 1, stroke: planned ? colour : "var(--card)",
        lineDash: planned ? [4, 3] : null, lineWidth: 1,
      },
      textContent: fits
        ? { type: "text", style: { text: label, fill: planned ? "var(--ink)" : "var(--on-job)", fontSize: 11 } }
        : undefined,
      textConfig: { position: "insideLeft", distance: 6 },
    };
  },

  // [devices, lowest rate, highest rate]
  spread(params, api) {
    const low = api.coord([api.value(0), api.value(1)]), high = api.coord([api.value(0), api.value(2)]);
    return {
      type: "line", shape: { x1: low[0], y1: low[1], x2: high[0], y2: high[1] },
      style: { stroke: "var(--job-1)", lineWidth: 2 },
    };
  },

  // Stay at the end of a log, unless somebody has scrolled up to read.
  follow(id) {
    const log = document.getElementById(id);
    if (!log) return;
    const seen = log.dataset.seen === undefined ? Infinity : Number(log.dataset.seen);
    if (log.scrollTop >= seen - 40 || seen === Infinity) log.scrollTop = log.scrollHeight;
    log.dataset.seen = log.scrollHeight - log.clientHeight;
  },

  theme(name) {
    document.cookie = `penstock_theme=${name}; path=/ui; max-age=31536000; samesite=lax`;
  },
};
