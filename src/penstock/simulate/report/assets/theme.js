"use strict";
$("#theme").onclick = () => {
  const dark = colour("--paper") === "#0e131b";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  redraw();
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
