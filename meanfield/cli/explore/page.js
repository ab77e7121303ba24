"use strict";
(() => {
  const form = document.getElementById("controls"), said = document.getElementById("said");
  const time = document.getElementById("time"), grace = 300; // milliseconds of a run that is late
  const moved = {}; // values of the controls that were moved
  let text = "", isFirst = true;

  const say = (words, isBad = false) => {
    said.textContent = words;
    said.className = isBad ? "bad" : "";
  };
  const ask = (path, signal) =>
    fetch(path + location.search, { method: "POST", body: JSON.stringify(moved), signal });

  const take = async (line) => {
    if (line.said) say(line.said, line.bad);
    if (line.toml) {
      text = line.toml;
      for (const one of form.elements) if (one.name) one.parentElement.hidden = !line.used.includes(one.name);
      const bumps = form.elements["law.bumps"];
      bumps.max = line.bumps;
      bumps.previousElementSibling.textContent = bumps.value;
    }
    if (line.views) {
      const last = line.t.length - 1;
      line.start = isFirst ? Math.round(last / 2) : Math.min(Number(time.value), last);
      isFirst = false;
      document.getElementById("notes").textContent = line.notes.join(" ");
      await show(line);
    }
  };

  // lines of JSON, as they come
  const run = async (signal) => {
    const reader = (await ask("run", signal)).body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const lines = (rest + part.value).split("\n");
      rest = lines.pop();
      for (const line of lines) await take(JSON.parse(line));
    }
  };

  // one run at a time, and after it the last that was asked for
  let running = null, waits = false;
  const start = async () => {
    waits = true;
    const mine = running;
    if (mine) {
      setTimeout(() => { if (waits && running === mine) mine.abort(); }, grace);
      return;
    }
    while (waits) {
      waits = false;
      running = new AbortController();
      try {
        await run(running.signal);
      } catch (error) {
        if (error.name !== "AbortError") say(`no answer: ${error.message}`, true);
      }
    }
    running = null;
    document.body.dataset.ready = "yes";
  };

  form.addEventListener("input", ({ target }) => {
    const isNumber = target.type === "range";
    moved[target.name] = isNumber ? Number(target.value) : target.value;
    if (isNumber) target.previousElementSibling.textContent = target.value;
    delete document.body.dataset.ready;
    start();
  });
  form.addEventListener("submit", (event) => event.preventDefault());

  const save = (name, content) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(content);
    link.download = name;
    link.click();
  };
  document.getElementById("case.toml").addEventListener("click", () => save("case.toml", new Blob([text])));
  document.getElementById("figure.pdf").addEventListener("click", async () => {
    const answer = await ask("figure");
    if (answer.ok) save("figure.pdf", await answer.blob()); else say(await answer.text(), true);
  });
  start();
})();
