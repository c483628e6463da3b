"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const heads = data.heads;
  const $ = id => document.getElementById(id);

  // Elements. Text goes in as text alone.
  function make(name, properties = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
      if (key === "class") element.className = value;
      else if (key.includes("-") || key === "scope" || key === "role") element.setAttribute(key, value);
      else element[key] = value;
    }
    element.append(...children);
    return element;
  }
  function draw(name, attributes = {}, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }
  function svg(width, height, label, ...children) {
    return draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...children);
  }

  // Numbers. What JSON cannot hold comes as text.
  function numberText(value, digits = 3) {
    if (typeof value !== "number") return value === "Infinity" ? "∞" : value === "-Infinity" ? "−∞" : "none";
    if (value !== 0 && Math.abs(value) < 0.5 * 10 ** -digits || Math.abs(value) >= 1e6) return value.toExponential(1).replace("-", "−");
    return value.toFixed(digits).replace("-", "−");
  }
  function range(first, last) {
    return first === last ? `${first}` : `${first}–${last}`;
  }
  function tokenOf(key) {
    return key >= 0 && key < data.tokens.length ? data.tokens[key] : null;
  }
  function named(number, key) {
    const token = tokenOf(key);
    return token === null ? `${number}` : `${number} “${token}”`;
  }
  function kindTag(kind) {
    return make("span", { class: "kind" }, make("span", { class: `dot ${kind}` }), kind);
  }

  // Colours: of a map, red for what is not a number, grey for what is hidden.
  const maps = {};
  for (const [name, hex] of Object.entries(data.maps))
    maps[name] = Array.from({ length: 256 }, (_, n) => [0, 2, 4].map(at => parseInt(hex.substr(n * 6 + at, 2), 16)));
  const state = { own: false, map: "viridis", kind: null, head: 0, row: 0, column: 0, trigger: null };
  function cssColour(name) {
    const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    return [1, 3, 5].map(at => parseInt(hex.substr(at, 2), 16));
  }
  function entry(value, largest) {
    return maps[state.map][largest > 0 ? Math.round(Math.min(Math.max(value / largest, 0), 1) * 255) : 0];
  }
  function endOf(head) {
    return state.own ? head.largest : data.largest;
  }

  // Cells of a head: codes 0 hidden, 1 not a number, from 2 on the share of the head's largest.
  const mostCode = [0, 255, 65535];
  function cellOf(head, n) {
    const code = head.codes[n];
    return code < 2 ? null : (code - 2) / (mostCode[head.valueBytes] - 2) * head.largest;
  }
  async function unpack() {
    const packed = Uint8Array.from(atob($("payload").textContent.trim()), letter => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    let at = 0;
    const planes = (count, cells) => {
      if (count === 0) return null;
      const values = new Uint32Array(cells);
      for (let plane = 0; plane < count; plane++)
        for (let n = 0; n < cells; n++) values[n] |= bytes[at++] << 8 * plane;
      return values;
    };
    for (const head of heads) {
      const cells = head.rows * head.columns;
      head.codes = planes(head.valueBytes, cells);
      head.places = planes(head.placeBytes, cells);
    }
  }
  function paint(canvas, head) {
    if (!head.codes || head.rows * head.columns === 0) return;
    canvas.width = head.columns;
    canvas.height = head.rows;
    const context = canvas.getContext("2d"), image = context.createImageData(head.columns, head.rows);
    const grey = cssColour("--hidden"), red = cssColour("--bad"), end = endOf(head);
    for (let n = 0; n < head.codes.length; n++) {
      const code = head.codes[n], colour = code === 0 ? grey : code === 1 ? red : entry(cellOf(head, n), end);
      image.data.set(colour, 4 * n);
      image.data[4 * n + 3] = 255;
    }
    context.putImageData(image, 0, 0);
  }

  // The head of the page.
  $("title").textContent = document.title;
  $("facts").textContent = data.facts.join(" ");
  const blocks = new Set(heads.filter(head => head.block > 1).map(head => head.block));
  if (blocks.size) $("pooling").textContent = `Each cell is the maximum of ${[...blocks].map(block => `${block} × ${block}`).join(" or ")} weights.`;
  $("red-key").hidden = !data.notFinite;
  function paintTools() {
    const colours = maps[state.map];
    $("ramp").style.background = `linear-gradient(to right, ${Array.from({ length: 33 }, (_, n) => `rgb(${colours[Math.min(n * 8, 255)]})`).join()})`;
    $("middle").textContent = state.own ? "" : numberText(data.largest / 2);
    $("end").textContent = state.own ? "largest of the head" : numberText(data.largest);
  }

  // The sheet.
  const kinds = ["diagonal", "local", "global", "sparse"];
  const few = data.figures.slice(0, 4);
  for (const [index, head] of heads.entries()) {
    const canvas = make("canvas", { width: Math.max(head.columns, 1), height: Math.max(head.rows, 1) });
    canvas.setAttribute("aria-hidden", "true");
    canvas.style.aspectRatio = `${head.columns} / ${head.rows}`;
    const figures = make("dl");
    few.forEach((figure, n) => figures.append(make("dt", {}, figure.name), make("dd", {}, numberText(head.figures[n], figure.digits))));
    head.card = make("button", { class: "card", type: "button", "aria-label": `${head.name}, ${head.kind}: open` },
      make("div", { class: "name" }, make("span", {}, head.name), kindTag(head.kind)), canvas, figures);
    head.canvas = canvas;
    head.card.addEventListener("click", () => open(index, head.card));
    $("sheet").append(head.card);
  }
  for (const id of ["sheet", "distances"])
    if (data.inARow > 1 && data.inARow <= 8) {
      $(id).classList.add("rowed");
      $(id).style.setProperty("--in-a-row", data.inARow);
    }
  function addChip(kind, label, count) {
    const chip = make("button", { type: "button", "aria-pressed": String(state.kind === kind), disabled: count === 0 }, make("span", { class: `dot ${kind || ""}` }), `${label} ${count}`);
    chip.addEventListener("click", () => {
      state.kind = kind;
      for (const other of $("kinds").children) other.setAttribute("aria-pressed", String(other === chip));
      for (const head of heads) head.card.hidden = kind !== null && head.kind !== kind;
    });
    $("kinds").append(chip);
  }
  addChip(null, "all", heads.length);
  for (const kind of kinds) addChip(kind, kind, heads.filter(head => head.kind === kind).length);

  // Charts are drawn for the width that they have, and again where it changes.
  const charts = [];
  function chart(box, drawFor) {
    charts.push(() => box.clientWidth > 0 && box.replaceChildren(drawFor(Math.floor(box.clientWidth))));
    charts.at(-1)();
  }
  function bars(bins, label, width, height = 74) {
    const bottom = height - 14, most = Math.max(...bins.map(bin => bin.mass), 1e-9), step = width / bins.length;
    const parts = bins.map((bin, n) => {
      const size = bin.mass / most * (bottom - 2);
      return draw("rect", { class: "bars", x: n * step, y: bottom - size, width: Math.max(step - 1.5, 1), height: size },
        draw("title", {}, `distance ${range(bin.first, bin.last)}: ${numberText(bin.mass)}`));
    });
    const last = bins.at(-1);
    return svg(width, height, label, ...parts, draw("path", { class: "axis", d: `M0 ${bottom + .5}H${width}` }),
      draw("text", { x: 0, y: height - 2 }, `${bins[0].first}`), draw("text", { x: width, y: height - 2, "text-anchor": "end" }, range(last.first, last.last)));
  }
  function distanceLabel(head) {
    return `${head.name}, weight by distance: ${head.distances.map(bin => `${range(bin.first, bin.last)} ${numberText(bin.mass)}`).join(", ")}`;
  }
  function curves(shown, width, height, readout) {
    const left = 46, bottom = height - 20, all = shown.flatMap(head => head.singular).filter(value => value > 0);
    const least = Math.max(Math.min(...all), Math.max(...all) * 1e-8), low = Math.floor(Math.log10(least)), high = Math.log10(Math.max(...all) * 1.1);
    const longest = Math.max(...shown.map(head => head.singular.length), 2);
    const x = n => left + n / (longest - 1) * (width - left - 6), y = value => 4 + (high - Math.log10(Math.max(value, least))) / (high - low) * (bottom - 4);
    const parts = [];
    for (let power = Math.ceil(high) - 1; power >= low; power -= Math.max(1, Math.ceil((high - low) / 5)))
      parts.push(draw("path", { class: "axis", d: `M${left} ${y(10 ** power)}H${width}` }),
        draw("text", { x: left - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, power >= -3 ? `${+(10 ** power).toPrecision(1)}` : `1e−${-power}`));
    parts.push(draw("text", { x: left, y: height - 4 }, "1"), draw("text", { x: width - 6, y: height - 4, "text-anchor": "end" }, `${longest}`));
    for (const head of shown) {
      const line = draw("path", { class: `curve ${head.kind}`, d: head.singular.map((value, n) => `${n ? "L" : "M"}${x(n).toFixed(1)} ${y(value).toFixed(1)}`).join("") });
      if (readout) {
        line.addEventListener("pointerenter", () => { line.classList.add("lit"); readout.textContent = `${head.name} (${head.kind}): largest ${numberText(head.singular[0])}, ${head.singular.length} values`; });
        line.addEventListener("pointerleave", () => { line.classList.remove("lit"); readout.textContent = "\u00a0"; });
      }
      parts.push(line);
    }
    return svg(width, height, `Singular values, largest first: ${shown.map(head => `${head.name} from ${numberText(head.singular[0])} to ${numberText(head.singular.at(-1))}`).join("; ")}`, ...parts);
  }
  function table(headings, rows) {
    return make("div", { class: "box", tabIndex: 0 }, make("table", {}, make("thead", {}, make("tr", {}, ...headings.map(text => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...rows.map(cells => make("tr", {}, ...cells.map((cell, n) => make(n ? "td" : "th", n ? {} : { scope: "row" }, cell)))))));
  }

  // What keys receive.
  const receiving = heads.filter(head => head.received.length);
  $("received-section").hidden = !receiving.length;
  const mostReceived = Math.max(...receiving.flatMap(head => head.received), 1e-12);
  const pooledKeys = receiving.find(head => head.receivedBlock > 1);
  if (pooledKeys) $("received-note").textContent = `Each cell is the maximum of ${pooledKeys.receivedBlock} keys.`;
  function strip(canvas, head) {
    canvas.width = head.received.length;
    canvas.height = 1;
    const context = canvas.getContext("2d"), image = context.createImageData(head.received.length, 1);
    head.received.forEach((value, n) => image.data.set([...entry(value, state.own ? Math.max(...head.received) : mostReceived), 255], 4 * n));
    context.putImageData(image, 0, 0);
  }
  function receivedText(head, event, canvas) {
    const box = canvas.getBoundingClientRect(), n = Math.min(Math.max(Math.floor((event.clientX - box.left) / box.width * head.received.length), 0), head.received.length - 1);
    const first = n * head.receivedBlock, last = Math.min(first + head.receivedBlock, head.keys) - 1;
    return `${head.name}, ${first === last ? `key ${named(first, first)} receives` : `keys ${first}–${last} receive at most`} ${numberText(head.received[n], 4)}`;
  }
  for (const head of receiving) {
    const canvas = make("canvas", { height: 1 });
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${head.name}: largest ${numberText(Math.max(...head.received))}`);
    canvas.addEventListener("pointermove", event => { $("received-readout").textContent = receivedText(head, event, canvas); });
    head.strip = canvas;
    $("received").append(make("div", { class: "strip" }, make("span", { title: head.name }, head.name), canvas));
  }

  // Distances.
  const reaching = heads.filter(head => head.distances.length);
  $("distances-section").hidden = !reaching.length;
  for (const head of reaching) {
    const box = make("div");
    $("distances").append(make("figure", {}, make("figcaption", {}, head.name), box));
    chart(box, width => bars(head.distances, distanceLabel(head), width));
  }

  // Likeness.
  $("likeness-section").hidden = !data.likeness.length;
  const repaintLikeness = [];
  for (const group of data.likeness) {
    const count = group.heads.length, box = make("div");
    $("likeness").append(make("figure", {}, make("figcaption", {}, group.name), box));
    const drawFor = width => {
      const left = 22, size = Math.min(width - left, 20 + 44 * count, 420), step = size / count, parts = [];
      for (let a = 0; a < count; a++) {
        if (count <= 16 || a % 4 === 0) {
          parts.push(draw("text", { x: left - 5, y: 16 + (a + .5) * step + 4, "text-anchor": "end" }, `${a}`), draw("text", { x: left + (a + .5) * step, y: 11, "text-anchor": "middle" }, `${a}`));
        }
        for (let b = 0; b < count; b++) {
          const value = group.divergence[a * count + b], known = typeof value === "number";
          const cell = draw("rect", { class: "cell", x: left + b * step, y: 16 + a * step, width: step - (count <= 16 ? 1 : 0), height: step - (count <= 16 ? 1 : 0),
            fill: known ? `rgb(${entry(value, Math.LN2)})` : "var(--hidden)" });
          cell.addEventListener("pointerenter", () => {
            cell.classList.add("lit");
            $("likeness-readout").textContent = `${heads[group.heads[a]].name} and ${heads[group.heads[b]].name}: ${known ? numberText(value) : "no row to compare"}`;
          });
          cell.addEventListener("pointerleave", () => cell.classList.remove("lit"));
          parts.push(cell);
        }
      }
      return svg(left + size, 16 + size, `Divergence of each two heads${group.name ? " of " + group.name : ""}`, ...parts);
    };
    chart(box, drawFor);
  }

  // Singular values.
  const spectral = heads.filter(head => head.singular.length);
  $("singular-section").hidden = !spectral.length;
  if (spectral.length) {
    chart($("singular"), width => curves(spectral, Math.min(width, 900), 260, $("singular-readout")));
    if (spectral.some(head => !head.allSingular)) $("singular-note").textContent = "Of large heads the leading values alone are known.";
  }

  // Masks.
  const masks = [...new Set(heads.flatMap(head => head.flows.map(flow => flow.mask)))];
  $("flows-section").hidden = !masks.length;
  const mean = values => values.reduce((sum, value) => sum + value, 0) / values.length;
  const flowNames = ["kept", "distance", "entropy", "reach"];
  function flowRow(mask, flows) {
    return [mask, ...flowNames.map(name => numberText(mean(flows.map(flow => flow[name])), name === "kept" || name === "entropy" ? 3 : 1))];
  }
  if (masks.length)
    $("flows").append(table(["mask", "weight kept", "distance", "entropy", "reach"], masks.map(mask => flowRow(mask, heads.flatMap(head => head.flows.filter(flow => flow.mask === mask))))));

  // The table, which sorts.
  {
    const columns = [{ name: "head", of: (head, index) => index }, { name: "class", of: head => kinds.indexOf(head.kind) },
      ...data.figures.map((figure, n) => ({ name: figure.name, meaning: figure.meaning, of: head => head.figures[n] }))];
    const body = make("tbody"), headings = [];
    const rows = heads.map((head, index) => {
      const button = make("button", { type: "button" }, head.name);
      button.addEventListener("click", () => open(index, button));
      return make("tr", {}, make("th", { scope: "row" }, button), make("td", { class: "left" }, kindTag(head.kind)),
        ...data.figures.map((figure, n) => make("td", {}, numberText(head.figures[n], figure.digits))));
    });
    body.append(...rows);
    for (const [place, column] of columns.entries()) {
      const button = make("button", { type: "button", title: column.meaning || "" }, column.name), heading = make("th", { scope: "col", class: place === 1 ? "left" : "" }, button);
      button.addEventListener("click", () => {
        const descending = heading.getAttribute("aria-sort") === "ascending" || place > 1 && heading.getAttribute("aria-sort") !== "descending";
        for (const other of headings) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
        const keys = heads.map((head, index) => { const key = column.of(head, index); return typeof key === "number" ? key : key === "Infinity" ? Infinity : -Infinity; });
        const order = heads.map((_, index) => index).sort((a, b) => (keys[a] === keys[b] ? 0 : keys[a] < keys[b] ? -1 : 1) * (descending ? -1 : 1) || a - b);
        body.append(...order.map(index => rows[index]));
      });
      headings.push(heading);
    }
    headings[0].setAttribute("aria-sort", "ascending");
    $("table").append(make("div", { class: "box", tabIndex: 0 }, make("table", {}, make("thead", {}, make("tr", {}, ...headings)), body)));
  }

  // One head, large.
  const view = $("view"), plot = $("plot"), mostLabels = 20;
  function labelAxis(box, length, block, nameOf, vertical) {
    box.replaceChildren();
    const cells = Math.ceil(length / block), words = cells <= mostLabels && block === 1 && data.tokens.length > 0;
    const step = words ? 1 : Math.max(1, 10 ** Math.floor(Math.log10(Math.max(length / 4, 1)))) * ([5, 2, 1].find(factor => length / (10 ** Math.floor(Math.log10(Math.max(length / 4, 1))) * factor) >= 4) || 1);
    let longest = 1;
    for (let position = 0; position < length; position += step) {
      const text = words ? nameOf(position) : `${position}`;
      const label = make("span", {}, text), share = `${100 * (Math.floor(position / block) + .5) / cells}%`;
      label.style[vertical ? "top" : "left"] = share;
      box.append(label);
      longest = Math.max(longest, [...text].length);
    }
    if (vertical) box.style.width = `${Math.min(longest, 14) * .62}em`;
    else {
      box.className = `x-ticks ${words ? "turned" : "plain"}`;
      box.style.height = words ? `${Math.min(longest, 14) * .62 + .3}em` : "1em";
    }
  }
  function select(row, column) {
    const head = heads[state.head];
    if (head.rows * head.columns === 0) return;
    state.row = Math.min(Math.max(row, 0), head.rows - 1);
    state.column = Math.min(Math.max(column, 0), head.columns - 1);
    $("row-mark").style.cssText = `top: ${100 * state.row / head.rows}%; height: ${100 / head.rows}%`;
    $("column-mark").style.cssText = `left: ${100 * state.column / head.columns}%; width: ${100 / head.columns}%`;
    if (!head.codes) return;
    const n = state.row * head.columns + state.column, code = head.codes[n], value = cellOf(head, n);
    const query = state.row * head.block, key = state.column * head.block;
    const what = code === 0 ? "hidden" : code === 1 ? "not a number" : numberText(value, head.valueBytes === 2 ? 4 : 3);
    if (head.block === 1) {
      $("readout").textContent = `Query ${named(query, query + head.shift)} → key ${named(key, key)}: ${what}`;
    } else {
      const lastQuery = Math.min(query + head.block, head.queries) - 1, lastKey = Math.min(key + head.block, head.keys) - 1;
      const at = head.places[n], atQuery = query + Math.floor(at / head.block), atKey = key + at % head.block;
      $("readout").textContent = `Queries ${range(query, lastQuery)} → keys ${range(key, lastKey)}: ` +
        (code < 2 ? what : `at most ${what}, at query ${named(atQuery, atQuery + head.shift)}, key ${named(atKey, atKey)}`);
    }
    ribbon(head);
  }
  function ribbon(head) {
    const shown = head.block === 1 && data.tokens.length > 0 && head.keys <= 600 && head.codes;
    $("ribbon-box").hidden = !shown;
    if (!shown) return;
    const row = Array.from({ length: head.keys }, (_, key) => cellOf(head, state.row * head.columns + key)), most = Math.max(...row.map(value => value || 0), 1e-12);
    $("ribbon-title").textContent = `Where query ${named(state.row, state.row + head.shift)} looks`;
    if ($("ribbon").childElementCount !== head.keys || $("ribbon").dataset.head !== String(state.head)) {
      $("ribbon").dataset.head = state.head;
      $("ribbon").replaceChildren(...row.map((_, key) => {
        const word = make("button", { type: "button", tabIndex: -1 }, tokenOf(key) ?? `${key}`);
        word.addEventListener("click", () => select(key - head.shift, key));
        return word;
      }));
    }
    [...$("ribbon").children].forEach((word, key) => {
      word.className = (row[key] === null ? "unseen" : "") + (key === state.row + head.shift ? " asking" : "");
      word.style.backgroundColor = row[key] === null ? "" : `rgba(var(--accent-soft), ${(.6 * row[key] / most).toFixed(3)})`;
      word.title = row[key] === null ? "hidden" : numberText(row[key], 4);
    });
  }
  let detail = [];
  function show(index) {
    state.head = (index + heads.length) % heads.length;
    const head = heads[state.head];
    $("view-title").textContent = head.name;
    $("view-kind").replaceChildren(kindTag(head.kind));
    $("large").style.aspectRatio = `${head.columns} / ${head.rows}`;
    paint($("large"), head);
    labelAxis($("y-ticks"), head.queries, head.block, query => tokenOf(query + head.shift) ?? `${query}`, true);
    labelAxis($("x-ticks"), head.keys, head.block, key => tokenOf(key) ?? `${key}`, false);
    $("view-note").textContent = (head.block > 1 ? `Each cell is the maximum of ${head.block} × ${head.block} weights. ` : "") +
      (state.own ? `Colours end at this head's largest, ${numberText(head.largest)}.` : `Colours end at the largest of all heads, ${numberText(data.largest)}.`);
    $("view-figures").replaceChildren(...data.figures.flatMap((figure, n) => [make("dt", { title: figure.meaning }, figure.name), make("dd", {}, numberText(head.figures[n], figure.digits))]));
    $("view-distances-box").hidden = !head.distances.length;
    $("view-received-box").hidden = !head.received.length;
    $("view-singular-box").hidden = !head.singular.length;
    $("view-flows-box").hidden = !head.flows.length;
    detail = [];
    if (head.distances.length) detail.push(() => $("view-distances").replaceChildren(bars(head.distances, distanceLabel(head), $("view-distances").clientWidth, 90)));
    if (head.received.length) detail.push(() => {
      const canvas = make("canvas", { height: 1 });
      canvas.style.cssText = "display: block; width: 100%; height: 1.4rem; image-rendering: pixelated";
      strip(canvas, head);
      $("view-received").replaceChildren(canvas);
      canvas.addEventListener("pointermove", event => { $("readout").textContent = receivedText(head, event, canvas); });
    });
    if (head.singular.length) detail.push(() => $("view-singular").replaceChildren(curves([head], $("view-singular").clientWidth, 150, null)));
    if (head.flows.length) $("view-flows").replaceChildren(table(["mask", "kept", "distance", "entropy", "reach"], head.flows.map(flow => flowRow(flow.mask, [flow]))));
    for (const each of detail) each();
    select(Math.min(state.row, head.rows - 1), state.column);
  }
  function open(index, trigger) {
    state.trigger = trigger;
    const head = heads[index];
    state.row = head.rows - 1;
    state.column = 0;
    view.showModal();
    document.documentElement.style.overflow = "hidden";
    show(index);
    view.scrollTop = 0;
  }
  view.addEventListener("close", () => {
    document.documentElement.style.overflow = "";
    if (state.trigger) state.trigger.focus();
  });
  view.addEventListener("click", event => { if (event.target === view) view.close(); });
  $("close").addEventListener("click", () => view.close());
  $("before").addEventListener("click", () => show(state.head - 1));
  $("after").addEventListener("click", () => show(state.head + 1));
  plot.addEventListener("keydown", event => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -1e9], End: [0, 1e9], PageUp: [-10, 0], PageDown: [10, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    select(state.row + move[0], state.column + move[1]);
  });
  const point = event => {
    const head = heads[state.head], box = $("large").getBoundingClientRect();
    select(Math.floor((event.clientY - box.top) / box.height * head.rows), Math.floor((event.clientX - box.left) / box.width * head.columns));
  };
  plot.addEventListener("pointermove", point);
  plot.addEventListener("pointerdown", point);

  function paintAll() {
    paintTools();
    for (const head of heads) paint(head.canvas, head);
    for (const head of receiving) strip(head.strip, head);
    for (const each of charts) each();
    if (view.open) show(state.head);
  }
  document.querySelectorAll("input[name=range]").forEach(input => input.addEventListener("change", () => { state.own = input.value === "own" && input.checked; paintAll(); }));
  document.querySelectorAll("input[name=map]").forEach(input => input.addEventListener("change", () => { if (input.checked) { state.map = input.value; paintAll(); } }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paintAll);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    for (const each of [...charts, ...(view.open ? detail : [])]) each();
  });
  paintTools();
  for (const head of receiving) strip(head.strip, head);
  unpack().then(() => { paintAll(); document.documentElement.dataset.ready = "yes"; });
})();
