"use strict";
// The page reads without this script. What it adds: theme, filters, links that open a cell, and goodput over time that zooms.
(() => {
  const root = document.documentElement;
  const all = (query, within = document) => [...within.querySelectorAll(query)];
  const make = (name, text = "", more = {}) => Object.assign(document.createElement(name), { textContent: text }, more);
  root.classList.add("on");

  // Theme: the system's, unless a reader chose. A browser may refuse to remember.
  const remember = (value) => {
    try {
      if (value) localStorage.setItem("roughwater-theme", value);
      return localStorage.getItem("roughwater-theme");
    } catch {
      return null;
    }
  };
  const themes = ["auto", "light", "dark"];
  const button = document.getElementById("theme");
  const setTheme = (name) => {
    root.dataset.theme = themes.includes(name) ? name : "auto";
    button.lastElementChild.textContent = root.dataset.theme === "auto" ? "system" : root.dataset.theme;
    redraw();
  };
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
    remember(next);
    setTheme(next);
  });

  // A custom property may hold light-dark(): only an element knows which it is.
  const probe = document.body.appendChild(make("i", "", { hidden: true }));
  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };

  const charts = [];
  function redraw() {
    for (const chart of charts) chart.redraw(false, true);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  matchMedia("print").addEventListener("change", redraw);

  // Series: reports/series.py says how they are packed.
  async function unpack(text, samples) {
    const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const planes = new Uint8Array(await new Response(stream).arrayBuffer());
    const half = planes.length / 2;
    let at = 0;
    return samples.map(([number, slot, count]) => {
      const values = new Float64Array(count);
      for (let i = 0; i < count; i++, at++) values[i] = planes[at] + 256 * planes[at + half];
      return { number, slot, values };
    });
  }

  // Mean over each span of `step` ms, by overlap; null after the last packet.
  function resample({ slot, values }, step, length) {
    const found = new Array(length).fill(null);
    for (let i = 0; i < length; i++) {
      const from = (i * step) / slot;
      const to = Math.min(((i + 1) * step) / slot, values.length);
      if (from >= values.length) break;
      let sum = 0;
      for (let k = Math.floor(from); k < to; k++) sum += values[k] * (Math.min(k + 1, to) - Math.max(k, from));
      found[i] = sum / (to - from);
    }
    return found;
  }

  function steps(series) {
    const finest = Math.min(...series.map((each) => each.slot));
    const longest = Math.max(...series.map((each) => each.slot * each.values.length));
    const kept = [10, 20, 50, 100, 200, 500, 1000, 5000].filter((step) => step >= finest && longest / step >= 4 && longest / step <= 20000);
    return { kept: kept.length ? kept : [finest], longest };
  }

  // Named levels: the limit and the link's ideal.
  function mark(levels) {
    return (u) => {
      const { ctx, bbox } = u;
      ctx.save();
      ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
      for (const [name, value] of levels) {
        const y = u.valToPos(value / 1e6, "y", true);
        if (y < bbox.top || y > bbox.top + bbox.height) continue;
        ctx.strokeStyle = ctx.fillStyle = colour("ink");
        ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
        ctx.beginPath();
        ctx.moveTo(bbox.left, y);
        ctx.lineTo(bbox.left + bbox.width, y);
        ctx.stroke();
        // Beside the plot, where no line crosses them.
        ctx.textAlign = "left";
        ctx.textBaseline = "alphabetic";
        const x = bbox.left + bbox.width + 6 * devicePixelRatio;
        ctx.fillText(name, x, y - 2 * devicePixelRatio);
        ctx.fillText((value / 1e6).toFixed(3), x, y + 11 * devicePixelRatio);
      }
      ctx.restore();
    };
  }

  async function draw(figure) {
    if (figure.drawn) return;
    figure.drawn = true;
    const given = JSON.parse(figure.querySelector("script").textContent);
    const told = figure.querySelector(".static");
    if (typeof DecompressionStream === "undefined") {
      told.textContent += " This browser cannot unpack the series (no DecompressionStream).";
      return;
    }
    let series;
    try {
      series = await unpack(given.data, given.samples);
    } catch {
      told.textContent += " The series is damaged.";
      return;
    }
    const { kept, longest } = steps(series);
    let step = kept.find((each) => each >= 100 && longest / each <= 2000) ?? kept.at(-1);
    const peak = (given.unit * Math.max(...series.map((each) => each.values.reduce((a, b) => Math.max(a, b), 0)))) / 1e6;
    const levels = given.levels.filter(([, value]) => value / 1e6 <= 3 * peak);
    const beyond = given.levels.filter(([, value]) => value / 1e6 > 3 * peak);
    const data = () => {
      const length = Math.ceil(longest / step - 1e-9);
      const times = Array.from({ length }, (_, i) => ((i + 0.5) * step) / 1e3);
      return [times, ...series.map((each) => resample(each, step, length).map((value) => value && (value * given.unit) / 1e6))];
    };

    const place = make("div");
    const tools = make("div", "", { className: "tools" });
    const read = make("div", "Drag over the plot to zoom; double-click for all.", { className: "read" });
    const grid = { stroke: () => colour("line"), width: 1 };
    const axis = { stroke: () => colour("soft"), grid, ticks: grid, font: "11px system-ui, sans-serif" };
    const options = {
      width: Math.max(figure.clientWidth, 240),
      height: 240,
      padding: [12, levels.length ? 58 : 12, null, null],
      legend: { show: false },
      cursor: { points: { size: 5 }, drag: { x: true, y: false } },
      scales: {
        x: { time: false },
        y: { range: (_, __, high) => [0, 1.08 * Math.max(high || 0, ...levels.map(([, value]) => value / 1e6), 1e-6)] },
      },
      axes: [{ ...axis, values: (_, at) => at.map((value) => `${+value.toFixed(3)} s`) }, { ...axis, size: 52 }],
      series: [
        {},
        ...series.map(({ number }) => ({
          label: `sample ${number}`,
          stroke: () => colour(number === given.worst ? "fail" : "dot"),
          alpha: number === given.worst ? 1 : 0.5,
          width: number === given.worst ? 1.8 : 1,
          points: { show: false },
          spanGaps: false,
        })),
      ],
      hooks: {
        drawAxes: [mark(levels)],
        setCursor: [
          (u) => {
            const at = u.cursor.idx;
            if (at == null) return;
            const values = series.map(({ number }, i) => [number, u.series[i + 1].show ? u.data[i + 1][at] : null]);
            const known = values.filter(([, value]) => value != null).map(([number, value]) => `${number}: ${value.toFixed(3)}`);
            read.textContent = `${u.data[0][at].toFixed(3)} s   ${known.join("   ")} MB/s`;
          },
        ],
      },
    };
    figure.classList.add("live");
    figure.append(tools, place, read);
    const chart = (figure.chart = new uPlot(options, data(), place));
    charts.push(chart);
    const toggle = (text, label, pressed, act) => {
      const made = tools.appendChild(make("button", text, { type: "button" }));
      made.setAttribute("aria-pressed", pressed);
      made.setAttribute("aria-label", label);
      made.addEventListener("click", () => act(made));
      return made;
    };
    tools.append(make("span", "Samples"));
    series.forEach(({ number }, i) =>
      toggle(String(number), `sample ${number}${number === given.worst ? ", the worst" : ""}`, true, (made) => {
        const show = made.getAttribute("aria-pressed") !== "true";
        made.setAttribute("aria-pressed", show);
        chart.setSeries(i + 1, { show });
      }),
    );
    tools.append(make("span", "Mean over"));
    const widths = kept.map((each) =>
      toggle(`${each} ms`, `mean over ${each} ms`, each === step, (made) => {
        step = each;
        for (const other of widths) other.setAttribute("aria-pressed", other === made);
        const { min, max } = chart.scales.x;
        chart.setData(data(), false);
        chart.setScale("x", { min, max });
      }),
    );
    const reset = tools.appendChild(make("button", "Whole", { type: "button" }));
    reset.addEventListener("click", () => chart.setScale("x", { min: chart.data[0][0], max: chart.data[0].at(-1) }));
    const worst = given.worst === null ? "" : ` Red: sample ${given.worst}, the worst.`;
    const far = beyond.map(([name, value]) => ` Above the plot: ${name}, ${(value / 1e6).toFixed(3)}.`).join("");
    figure.querySelector("figcaption").append(worst + far);
    const canvas = place.querySelector("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Goodput over time of ${series.length} samples`);
    new ResizeObserver(() => {
      if (figure.clientWidth > 0 && figure.clientWidth !== chart.width) chart.setSize({ width: figure.clientWidth, height: 240 });
    }).observe(figure);
  }

  const cells = all("details.cell");
  for (const cell of cells) {
    cell.addEventListener("toggle", () => {
      if (cell.open) for (const figure of all(".goodput", cell)) draw(figure);
    });
  }

  function follow() {
    let name = location.hash.slice(1);
    try {
      name = decodeURIComponent(name);
    } catch {
      return;
    }
    const cell = document.getElementById(name);
    if (!cell || !cell.matches("details.cell")) return;
    cell.hidden = false;
    cell.open = true;
    requestAnimationFrame(() => {
      cell.scrollIntoView({ block: "start", behavior: "instant" });
      cell.querySelector("summary").focus({ preventScroll: true });
    });
  }
  addEventListener("hashchange", follow);
  // The same link again is no change of the address.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    if (link && link.hash === location.hash) follow();
  });

  // Paper: the evidence of what failed, all of it.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = cells.filter((cell) => cell.classList.contains("FAIL") && !cell.open);
    for (const cell of opened) cell.open = true;
  });
  addEventListener("afterprint", () => {
    for (const cell of opened) cell.open = false;
    opened = [];
  });

  for (const copy of all(".copy button")) {
    copy.addEventListener("click", async () => {
      const text = copy.previousElementSibling;
      try {
        await navigator.clipboard.writeText(text.textContent);
        copy.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(text);
        copy.textContent = "Selected";
      }
    });
  }

  const form = document.getElementById("filter");
  if (form) {
    const keys = ["client", "link", "protocol", "direction", "verdict"];
    const texts = new Map(
      cells.map((cell) => [cell, ["h3", ".reason", ".warnings", ".copy pre", ".facts code"].map((query) => cell.querySelector(query)?.textContent ?? "").join("\n").toLowerCase()]),
    );
    for (const link of all("#grid td > a")) link.parentElement.dataset.cell = decodeURIComponent(link.hash.slice(1));
    const filter = () => {
      const wanted = Object.fromEntries(new FormData(form));
      const text = wanted.text.trim().toLowerCase();
      const shown = new Set();
      for (const cell of cells) {
        const fits = keys.every((key) => !wanted[key] || cell.dataset[key] === wanted[key]) && texts.get(cell).includes(text);
        cell.hidden = !fits;
        if (fits) shown.add(cell.id);
      }
      for (const body of all("#grid tbody")) {
        let some = false;
        for (const row of all("tr:not(.group)", body)) {
          const own = all("td", row);
          for (const each of own) {
            each.classList.toggle("dim", each.dataset.cell ? !shown.has(each.dataset.cell) : shown.size < cells.length);
          }
          row.hidden = !own.some((each) => shown.has(each.dataset.cell)) && shown.size < cells.length;
          some ||= !row.hidden;
        }
        body.hidden = !some;
      }
      for (const head of all("#grid [data-client]")) head.hidden = Boolean(wanted.client) && head.dataset.client !== wanted.client;
      document.getElementById("shown").textContent = `${shown.size} of ${cells.length} cells`;
      document.getElementById("nothing").hidden = shown.size > 0;
    };
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(filter));
    document.getElementById("open-all").addEventListener("click", () => {
      for (const cell of cells) if (!cell.hidden) cell.open = true;
    });
    document.getElementById("close-all").addEventListener("click", () => {
      for (const cell of cells) cell.open = false;
    });
    filter();
  }

  setTheme(remember());
  follow();
})();
