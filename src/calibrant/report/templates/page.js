"use strict";
(() => {
  const NUMBER = /^[+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?(?=%?$|%? to |%?\u2013)/;

  // What a cell is sorted by: a number, a text, or null where it holds nothing to compare.
  const keyOf = cell => {
    const text = cell.textContent.trim().replace(/\u2212/g, "-").replace(/^< /, "");
    if (text === "infinite") return Infinity;
    if (text === "" || cell.classList.contains("undefined-value")) return null;
    if (cell.dataset.key) return Number(cell.dataset.key);
    const found = NUMBER.exec(text);
    return found ? Number(found[0].replace(/,/g, "")) : text;
  };

  // A row and the note below it move together.
  const groupsOf = body => {
    const groups = [];
    for (const row of body.rows) {
      if (row.className === "meaning") groups[groups.length - 1].push(row);
      else groups.push([row]);
    }
    return groups;
  };

  const sorted = (groups, i, sign) => {
    const items = groups.map(rows => ({ rows, key: keyOf(rows[0].cells[i]) }));
    const isText = items.some(each => typeof each.key === "string");
    const compare = (a, b) => isText
      ? String(a).localeCompare(String(b), "en", { numeric: true })
      : a - b || 0;
    const known = items.filter(each => each.key !== null).sort((a, b) => sign * compare(a.key, b.key));
    return [...known, ...items.filter(each => each.key === null)].map(each => each.rows);
  };

  for (const table of document.querySelectorAll("table[data-sort]")) {
    const body = table.tBodies[0], groups = groupsOf(body), heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, i) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const next = { ascending: "descending", descending: "" }[head.getAttribute("aria-sort")] ?? "ascending";
        for (const each of heads) each.removeAttribute("aria-sort");
        if (next) head.setAttribute("aria-sort", next);
        const order = next ? sorted(groups, i, next === "ascending" ? 1 : -1) : groups;
        body.append(...order.flat());
      });
    });
  }

  const points = [...document.querySelectorAll("[data-tell]")];
  if (!points.length) return;
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);
  const hide = () => { tip.hidden = true; };
  const show = (point, text) => {
    tip.textContent = text;
    tip.hidden = false;
    const at = point.getBoundingClientRect(), width = document.documentElement.clientWidth;
    const left = at.left + at.width / 2 - tip.offsetWidth / 2, top = at.top - tip.offsetHeight - 6;
    tip.style.left = Math.max(8, Math.min(left, width - tip.offsetWidth - 8)) + "px";
    tip.style.top = (top < 4 ? at.bottom + 6 : top) + "px";
  };
  for (const point of points) {
    const svg = point.ownerSVGElement, spot = document.createElementNS(svg.namespaceURI, "circle");
    const own = { cx: point.getAttribute("x"), cy: point.getAttribute("y"), r: 9, class: "spot", role: "img" };
    own["aria-label"] = point.dataset.tell;
    own.tabindex = svg.closest(".main") ? 0 : -1;
    for (const name in own) spot.setAttribute(name, own[name]);
    svg.setAttribute("role", "group");
    point.parentNode.append(spot);
    for (const event of ["pointerenter", "focus"]) spot.addEventListener(event, () => show(spot, point.dataset.tell));
    for (const event of ["pointerleave", "blur"]) spot.addEventListener(event, hide);
  }
  addEventListener("scroll", hide, { passive: true });
  addEventListener("keydown", event => { if (event.key === "Escape") hide(); });
})();
