"use strict";
(() => {
  const form = document.getElementById("controls"), said = document.getElementById("said");
  const time = document.getElementById("time"), grace = 300; // milliseconds of a run that is late
  const gone = "The explorer does not answer. Start it again with: meanfield explore";
  const controls = [...form.elements].filter((one) => one.name);
  const isNumber = (control) => control.type === "range";
  // the first value of each control, and the words beside it, which may have more digits
  const first = new Map(controls.map((one) => [one.name, {
    value: one.value, words: isNumber(one) ? one.previousElementSibling.textContent : "",
  }]));
  let moved = {}; // values of the controls that were moved
  let text = "", kept = null, isEarly = false;
  let isLog = false, isHeld = false; // the scale, which does not change while a slider moves

  const say = (words, isBad = false) => {
    said.textContent = words;
    said.className = isBad ? "bad" : "";
  };
  const ask = (path, signal) => {
    const scale = path === "run" && isHeld ? `&log=${isLog}` : "";
    return fetch(path + location.search + scale, { method: "POST", body: JSON.stringify(moved), signal });
  };

  const note = (control) => {
    const { name, value } = control, start = first.get(name);
    const isBack = value === start.value;
    if (isBack) delete moved[name]; else moved[name] = isNumber(control) ? Number(value) : value;
    if (isNumber(control)) control.previousElementSibling.textContent = isBack ? start.words : value;
  };
  // the setting is in the address, behind the #
  const read = () => {
    const asked = new URLSearchParams(location.hash.slice(1));
    moved = {};
    for (const control of controls) {
      control.value = asked.get(control.name) ?? first.get(control.name).value;
      if (!control.value && control.type !== "text") control.value = first.get(control.name).value;
      note(control);
    }
  };
  const write = () => {
    const setting = new URLSearchParams(moved).toString();
    history.replaceState(null, "", setting ? `#${setting}` : location.pathname + location.search);
  };

  const take = async (line) => {
    if (line.said) say(line.said, line.bad);
    if (line.toml) {
      text = line.toml;
      for (const one of controls) one.parentElement.hidden = !line.used.includes(one.name);
      const bumps = form.elements["law.bumps"];
      bumps.max = line.bumps;
      bumps.previousElementSibling.textContent = bumps.value;
    }
    if (line.views) {
      const last = line.t.length - 1;
      if (!isEarly && document.body.dataset.drawn) kept = Number(time.value);
      isEarly = Boolean(line.early);
      // the newest save while they come
      line.start = isEarly ? last : Math.min(kept ?? Math.round(last / 2), last);
      isLog = line.log;
      document.getElementById("notes").textContent = line.notes.join(" ");
      await show(line);
      document.body.dataset.drawn = "yes";
      // a control may have moved while this picture was drawn
      if (current === version) document.body.classList.remove("stale");
    }
    return line.done;
  };

  // lines of JSON, as they come
  const run = async (signal) => {
    const answer = await ask("run", signal);
    if (!answer.ok) throw new Error(answer.statusText);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "", isDone = false;
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const lines = (rest + part.value).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        // a picture of a setting that was left is not drawn
        signal.throwIfAborted();
        isDone = await take(JSON.parse(line));
      }
    }
    if (!isDone) throw new Error("the run was cut off");
  };

  // one run at a time, and after it the last that was asked for; settings are counted
  let running = null, waits = false, version = 0, current = 0;
  const start = async () => {
    waits = true;
    const mine = running;
    if (mine) {
      setTimeout(() => { if (waits && running === mine) mine.abort(); }, grace);
      return;
    }
    while (waits) {
      waits = false;
      current = version;
      running = new AbortController();
      try {
        await run(running.signal);
      } catch (error) {
        if (error.name !== "AbortError") say(`${gone} (${error.message})`, true);
      }
    }
    running = null;
    document.body.dataset.ready = "yes";
  };

  const restart = () => {
    write();
    delete document.body.dataset.ready;
    document.body.classList.add("stale");
    version += 1;
    say("computes …");
    start();
  };
  form.addEventListener("input", ({ target }) => {
    isHeld = isNumber(target) && Boolean(document.body.dataset.drawn);
    note(target);
    restart();
  });
  // a hand that rests lets the scale go; the run stays, and is drawn anew
  form.addEventListener("change", () => {
    if (!isHeld) return;
    isHeld = false;
    delete document.body.dataset.ready;
    if (running) waits = true; else start();
  });
  window.addEventListener("hashchange", () => { read(); restart(); });
  document.getElementById("reset").addEventListener("click", () => { location.hash = ""; });
  form.addEventListener("submit", (event) => event.preventDefault());

  const save = (name, content) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(content);
    link.download = name;
    link.click();
  };
  document.getElementById("case.toml").addEventListener("click", () => save("case.toml", new Blob([text])));
  document.getElementById("figure.pdf").addEventListener("click", async () => {
    try {
      const answer = await ask("figure");
      if (answer.ok) save("figure.pdf", await answer.blob()); else say(await answer.text(), true);
    } catch (error) {
      say(`${gone} (${error.message})`, true);
    }
  });
  read();
  start();
})();
