// Keeps what is on the page up to date while somebody looks at it. Everything works without it.
//
// A part is <section data-live="NAME">; data-every="10" asks for it that seldom. Nodes are patched in place, so that
// focus, scroll and open details stay. In an element with data-steady, whose children have a data-key each, nothing
// moves by itself: a button says how many there are that are not shown.
"use strict";

(() => {
  const OFTEN_S = 2;
  const SELDOM_S = 10;
  const BACK_OFF = 1.5;
  const STALE_S = 15;
  const PATIENCE_S = 8;
  const KEPT = new Set(["open", "value", "checked", "data-live", "data-every", "hidden"]);

  const sections = () => [...document.querySelectorAll("section[data-live]")];
  if (!sections().length) return;

  const button = document.getElementById("refresh");
  const stale = document.getElementById("stale");
  const announce = document.getElementById("announce");
  const due = new Map(); // when each part is asked for again, by its name
  const tags = new Map(); // the ETag of the last answer, by its address
  let pause_s = OFTEN_S;
  let timer = 0;
  let asking = false;
  let stopped = false;
  let signedOut = false;
  let answered = performance.now();

  const isWatched = () => !document.hidden && !stopped && !signedOut;

  function wait(seconds) {
    clearTimeout(timer);
    if (isWatched()) timer = setTimeout(ask, 1000 * seconds);
  }

  function parts(now) {
    const names = [];
    for (const section of sections()) {
      const name = section.dataset.live;
      const every = Number(section.dataset.every || OFTEN_S);
      if (every > OFTEN_S && now < (due.get(name) ?? answered + 1000 * every)) continue;
      due.set(name, now + 1000 * every);
      names.push(name);
    }
    return names;
  }

  function address(names) {
    const url = new URL(location.href);
    url.hash = "";
    url.searchParams.set("live", names.join(","));
    return url;
  }

  async function ask() {
    if (asking || !isWatched()) return;
    const names = parts(performance.now());
    if (!names.length) return wait(pause_s);
    asking = true;
    try {
      const url = address(names);
      const headers = { Accept: "text/html" };
      if (tags.has(url.href)) headers["If-None-Match"] = tags.get(url.href);
      const signal = AbortSignal.timeout(1000 * PATIENCE_S);
      const answer = await fetch(url, { headers, signal, cache: "no-store", redirect: "manual" });
      await take(answer, url.href);
    } catch {
      pause_s = Math.min(SELDOM_S, pause_s * BACK_OFF); // it does not answer: say so once that has lasted
    } finally {
      asking = false;
      showAge();
      wait(pause_s);
    }
  }

  async function take(answer, href) {
    if (answer.status === 401 || answer.type === "opaqueredirect") {
      signedOut = true;
      return;
    }
    if (answer.status === 304) {
      answered = performance.now();
      pause_s = Math.min(SELDOM_S, pause_s * BACK_OFF);
      return;
    }
    if (!answer.ok) throw new Error(answer.status);
    const text = await answer.text();
    tags.clear(); // of other sets of parts: what they were compared with is on the page no more
    if (answer.headers.has("ETag")) tags.set(href, answer.headers.get("ETag"));
    answered = performance.now();
    pause_s = OFTEN_S;
    show(new DOMParser().parseFromString(text, "text/html"));
  }

  function show(fresh) {
    const before = verdict();
    for (const part of fresh.querySelectorAll("section[data-live]")) {
      const place = sections().find((section) => section.dataset.live === part.dataset.live);
      if (place) patchChildren(place, part);
    }
    const after = verdict();
    if (after !== before) announce.textContent = after;
  }

  function verdict() {
    const found = document.querySelector("main .verdict");
    return found ? found.textContent.trim() : "";
  }

  function patch(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || key(old) !== key(fresh)) {
      old.replaceWith(document.adoptNode(fresh));
    } else if (old.nodeType !== Node.ELEMENT_NODE) {
      old.nodeValue = fresh.nodeValue;
    } else if (old instanceof SVGElement) {
      old.replaceWith(document.adoptNode(fresh)); // whole: nobody has the focus in a drawing
    } else {
      patchAttributes(old, fresh);
      if (old === document.activeElement && old.matches("input, select, textarea")) return;
      if (old.hasAttribute("data-steady")) patchSteady(old, fresh);
      else patchChildren(old, fresh);
    }
  }

  function patchAttributes(old, fresh) {
    for (const { name } of [...old.attributes]) {
      if (!KEPT.has(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (!KEPT.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
  }

  function patchChildren(old, fresh) {
    const mine = [...old.childNodes].filter((node) => !isNews(node));
    const theirs = [...fresh.childNodes];
    theirs.forEach((node, at) => {
      if (at < mine.length) patch(mine[at], node);
      else old.appendChild(document.adoptNode(node));
    });
    mine.slice(theirs.length).forEach((node) => node.remove());
  }

  function patchSteady(old, fresh) {
    const rows = new Map([...fresh.children].map((row) => [key(row), row]));
    let found = 0;
    for (const row of [...old.children]) {
      const same = rows.get(key(row));
      if (!same) continue;
      found += 1;
      patch(row, same.cloneNode(true));
    }
    const isSame = found === rows.size && found === old.children.length && sameOrder(old, rows);
    const news = newsOf(old);
    if (isSame) {
      news?.remove();
      return;
    }
    const more = rows.size - found;
    const shown = news ?? document.createElement("button");
    shown.type = "button";
    shown.className = "button news";
    shown.textContent = more ? `${more} new: show` : "Changed: show";
    shown.onclick = () => {
      old.replaceChildren(...[...rows.values()].map((row) => document.adoptNode(row)));
      shown.remove();
      old.querySelector("a, button, summary")?.focus();
    };
    if (!news) (old.closest("table, .list, ul, ol") ?? old).before(shown);
  }

  function sameOrder(old, rows) {
    const keys = [...rows.keys()];
    return [...old.children].every((row, at) => key(row) === keys[at]);
  }

  function newsOf(list) {
    const before = (list.closest("table, .list, ul, ol") ?? list).previousElementSibling;
    return before && isNews(before) ? before : null;
  }

  function isNews(node) {
    return node.nodeType === Node.ELEMENT_NODE && node.matches("button.news");
  }

  function key(node) {
    return node.nodeType === Node.ELEMENT_NODE ? (node.dataset.key ?? node.id ?? "") : "";
  }

  function showAge() {
    const age_s = Math.round((performance.now() - answered) / 1000);
    let said = "";
    if (signedOut) said = "You are signed out: ask for a new link, then load this page again.";
    else if (!stopped && age_s > STALE_S) said = `This is ${age_s} s old: the dashboard does not answer.`;
    else if (stopped && age_s > STALE_S) said = `This is ${age_s} s old: refreshing is stopped.`;
    if (stale.textContent.replace(/\d+/, "") !== said.replace(/\d+/, "")) stale.textContent = said;
    else if (said && stale.textContent !== said) stale.firstChild.nodeValue = said;
    stale.hidden = !said;
  }

  function wake() {
    if (!isWatched()) return clearTimeout(timer);
    pause_s = OFTEN_S;
    ask();
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    stopped = !stopped;
    button.textContent = stopped ? "Refresh again" : "Stop refreshing";
    wake();
    showAge();
  });
  document.addEventListener("visibilitychange", wake);
  window.addEventListener("focus", wake);
  window.addEventListener("online", wake);
  window.addEventListener("pageshow", (event) => event.persisted && wake());
  setInterval(() => document.hidden || showAge(), 1000);
  wait(pause_s);
})();
