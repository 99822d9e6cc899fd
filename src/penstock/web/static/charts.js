// What the pages need besides their framework. Options of charts name these shapes; see penstock/web/charts.py.
globalThis.penstock = {
  // [devices, lowest rate, highest rate]
  spread(params, api) {
    const low = api.coord([api.value(0), api.value(1)]), high = api.coord([api.value(0), api.value(2)]);
    const line = (x1, y1, x2, y2) =>
      ({ type: "line", shape: { x1, y1, x2, y2 }, style: { stroke: "var(--job-1)", lineWidth: 1.5 } });
    return { type: "group", children: [line(low[0], low[1], high[0], high[1]),
      ...[low, high].map(([x, y]) => line(x - 5, y, x + 5, y))] };
  },

  // Stay at the end of a log, unless somebody has scrolled up to read.
  follow(id) {
    const log = document.getElementById(id);
    if (!log) return;
    const seen = log.dataset.seen === undefined ? Infinity : Number(log.dataset.seen);
    if (log.scrollTop >= seen - 40 || seen === Infinity) log.scrollTop = log.scrollHeight;
    log.dataset.seen = log.scrollHeight - log.clientHeight;
  },

  // What was shown at first goes in the moment in which the living page is there.
  untilAlive() {
    const watch = new MutationObserver(() => {
      if (!document.querySelector("#app > *")) return;
      document.getElementById("ps-first")?.remove();
      watch.disconnect();
      penstock.watchSession();
    });
    watch.observe(document.documentElement, { childList: true, subtree: true });
  },

  // A page whose connection was closed because its person signed out says so, instead of trying to get it back.
  watchSession() {
    if (!window.socket) return setTimeout(penstock.watchSession, 50);
    const look = async () => {
      const answer = await fetch("/ui/session", { cache: "no-store" }).catch(() => null);
      if (answer?.status !== 401) return;
      location.assign(`/ui/sign-in?ended=1&next=${encodeURIComponent(location.pathname)}`);
    };
    window.socket.on("disconnect", look);
    window.socket.io.on("error", look);
    window.socket.io.on("reconnect_error", look);
  },

  // The server writes moments in the zone that this cookie names. Says whether it has to write them anew.
  tellZone() {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const told = `penstock_zone=${encodeURIComponent(zone)}`, known = () => document.cookie.split("; ").includes(told);
    if (known()) return false;
    document.cookie = `${told}; path=/ui; max-age=31536000; samesite=lax`;
    return known() && !/^(Etc\/)?(UTC|GMT)$/.test(zone);
  },

  theme(name) {
    document.cookie = `penstock_theme=${name}; path=/ui; max-age=31536000; samesite=lax`;
  },
};

if ("tellZone" in document.currentScript.dataset) penstock.tellZone();

// Shapes of a drawing tell what they are under the pointer, and lead to where they belong.
(() => {
  const tip = Object.assign(document.createElement("div"), { className: "ps-tip", hidden: true });
  tip.setAttribute("aria-hidden", "true");
  document.addEventListener("pointermove", (event) => {
    const told = event.target.dataset?.tip;
    tip.hidden = !told;
    if (!told) return;
    if (!tip.isConnected) document.body.append(tip);
    tip.textContent = told;
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
  });
  document.addEventListener("click", (event) => {
    const goes = event.target.dataset?.goes;
    if (goes) location.assign(goes);
  });
})();
