// What a person with a screen reader, a keyboard or tired eyes would stumble over. Returns complaints, best none.
() => {
  const complaints = [];
  const visible = (e) => {
    const box = e.getBoundingClientRect(), style = getComputedStyle(e);
    return box.width > 0 && box.height > 0 && style.visibility === "visible" && style.opacity !== "0";
  };
  const tell = (e, what) => complaints.push(`${what}: ${e.outerHTML.slice(0, 120)}`);

  const named = (e) =>
    e.getAttribute("aria-label") || e.getAttribute("title") || e.textContent.trim() ||
    (e.labels && [...e.labels].some((l) => l.textContent.trim())) ||
    (e.getAttribute("aria-labelledby") && document.getElementById(e.getAttribute("aria-labelledby")));
  for (const e of document.querySelectorAll("button, a[href], input:not([type=hidden]), select, textarea, [role=img]")) {
    if (visible(e) && !e.closest("[aria-hidden=true]") && !named(e)) tell(e, "no name");
  }
  for (const e of document.querySelectorAll("[role=progressbar]")) {
    if (!e.getAttribute("aria-label") || e.getAttribute("aria-valuenow") === null) tell(e, "a bar nobody can read");
  }
  if (document.querySelectorAll("h1").length !== 1) complaints.push("not exactly one h1");
  for (const part of ["header", "main", "nav"]) {
    if (!document.querySelector(part)) complaints.push(`no ${part}`);
  }
  if (!document.documentElement.lang) complaints.push("no language");
  for (const e of document.querySelectorAll("[id]")) {
    if (document.querySelectorAll(`[id="${CSS.escape(e.id)}"]`).length > 1) tell(e, "an id used twice");
  }
  for (const e of document.querySelectorAll("[tabindex]")) {
    if (Number(e.getAttribute("tabindex")) > 0) tell(e, "it jumps the queue of focus");
  }

  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const background = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const light = ([r, g, b]) =>
    [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
      .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !visible(e) || e.closest("svg, script, style, .ps-hidden, .ps-skip, [disabled], i.q-icon")) continue;
    const style = getComputedStyle(e), below = background(e), large = parseFloat(style.fontSize) >= 24;
    const ratio = contrast(over(rgba(style.color), below), below);
    if (ratio < (large ? 3 : 4.5)) tell(e, `contrast ${ratio.toFixed(2)}`);
  }
  return [...new Set(complaints)];
}
