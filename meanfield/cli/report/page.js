"use strict";
(() => {
  const report = JSON.parse(document.getElementById("data").textContent);
  const slider = document.getElementById("time");
  const now = document.getElementById("now");
  const play = document.getElementById("play");
  const turn = document.getElementById("turn");
  const place = (view) => document.getElementById(view.name);
  const wait = 120; // milliseconds between two times while playing
  const angle = 0.012; // of a turning sphere, between two pictures

  // numbers in base64 as typed arrays, a matrix as its rows
  const decode = (given) => {
    const bytes = Uint8Array.from(atob(given.bdata), (c) => c.charCodeAt(0));
    const flat = given.dtype === "f8" ? new Float64Array(bytes.buffer) : new Float32Array(bytes.buffer);
    if (!given.shape) return flat;
    const [rows, columns] = given.shape.split(",").map(Number);
    return Array.from({ length: rows }, (_, i) => flat.subarray(i * columns, (i + 1) * columns));
  };

  // what plotly wants to be told: for each property its value for each of the traces
  const changes = (frame) => {
    const traces = Object.keys(frame).map(Number);
    const update = {};
    traces.forEach((trace, position) => {
      for (const [name, value] of Object.entries(frame[trace])) {
        update[name] ??= new Array(traces.length).fill(undefined);
        update[name][position] = decode(value);
      }
    });
    return [update, traces];
  };

  // the frame that a figure shows at one of the slider's times
  const redrawn = (view, index) => {
    const t = report.t[index];
    return view.frames.length
      ? Plotly.restyle(place(view), ...changes(view.frames[index]))
      : Plotly.relayout(place(view), { "shapes[0].x0": t, "shapes[0].x1": t });
  };

  let shown = -1;
  let drawing = Promise.resolve();
  const show = (index) => {
    slider.value = index;
    now.textContent = `t = ${report.t[index].toPrecision(5)}`;
    slider.setAttribute("aria-valuetext", now.textContent);
    if (index === shown) return;
    shown = index;
    // one after the other, and only the last of those that wait
    drawing = drawing.then(() => {
      if (index !== shown) return undefined;
      return Promise.all(report.views.map((view) => redrawn(view, index)));
    });
  };

  let playing = null;
  const stop = () => {
    clearInterval(playing);
    playing = null;
    play.textContent = "Play";
  };
  play.addEventListener("click", () => {
    if (playing) { stop(); return; }
    const last = report.t.length - 1;
    if (Number(slider.value) === last) show(0);
    play.textContent = "Pause";
    playing = setInterval(() => {
      const next = Number(slider.value) + 1;
      if (next > last) stop(); else show(next);
    }, wait);
  });
  slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });

  let turning = false;
  const rest = () => {
    turning = false;
    turn.textContent = "Turn";
  };
  const spheres = report.views.filter((view) => view.layout.scene);
  const turned = (view) => {
    const { x, y, z } = place(view).layout.scene.camera.eye;
    const eye = {
      x: x * Math.cos(angle) - y * Math.sin(angle), y: x * Math.sin(angle) + y * Math.cos(angle), z,
    };
    return Plotly.relayout(place(view), { "scene.camera.eye": eye });
  };
  const step = () => {
    if (turning) Promise.all(spheres.map(turned)).then(() => requestAnimationFrame(step));
  };
  turn.addEventListener("click", () => {
    if (turning) { rest(); return; }
    turn.textContent = "Rest";
    turning = true;
    step();
  });
  spheres.forEach((view) => place(view).addEventListener("pointerdown", rest));

  const nearest = (t) => report.t.reduce(
    (best, time, i) => (Math.abs(time - t) < Math.abs(report.t[best] - t) ? i : best), 0);
  const options = { responsive: true, displaylogo: false };
  Promise.all(report.views.map((view) => Plotly.newPlot(place(view), view.data, view.layout, {
    ...options, displayModeBar: view.frames.length ? "hover" : false,
  }))).then(() => {
    report.views.filter((view) => !view.frames.length).forEach((view) => {
      place(view).on("plotly_click", (event) => { stop(); show(nearest(event.points[0].x)); });
    });
    show(report.start);
    return drawing;
  }).then(() => { document.body.dataset.ready = "yes"; });
})();
