"use strict";
// Shows what a report has, its times `t` and its `views`, in the figures of the page, in place of
// what they showed; the slider begins at `start`. It resolves once all is drawn.
const show = (() => {
  let report = { t: [0], views: [] };
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

  // the frame that a figure shows at one of the slider's times; a logarithmic axis has no time 0
  const redrawn = (view, index) => {
    const { type, range } = view.layout.xaxis ?? {};
    const t = type === "log" ? Math.max(report.t[index], 10 ** range[0]) : report.t[index];
    return view.frames.length
      ? Plotly.restyle(place(view), ...changes(view.frames[index]))
      : Plotly.relayout(place(view), { "shapes[0].x0": t, "shapes[0].x1": t });
  };

  let shown = -1;
  let drawing = Promise.resolve();
  const move = (index) => {
    slider.value = index;
    now.textContent = `t = ${report.t[index].toPrecision(5)}`;
    slider.setAttribute("aria-valuetext", now.textContent);
    if (report.numbers) document.getElementById("numbers").innerHTML = report.numbers[index];
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
    if (Number(slider.value) === last) move(0);
    play.textContent = "Pause";
    playing = setInterval(() => {
      const next = Number(slider.value) + 1;
      if (next > last) stop(); else move(next);
    }, wait);
  });
  slider.addEventListener("input", () => { stop(); move(Number(slider.value)); });

  let turning = false;
  const rest = () => {
    turning = false;
    turn.textContent = "Turn";
  };
  const spheres = () => report.views.filter((view) => view.layout.scene);
  const turned = (view) => {
    const { x, y, z } = place(view).layout.scene.camera.eye;
    const eye = {
      x: x * Math.cos(angle) - y * Math.sin(angle), y: x * Math.sin(angle) + y * Math.cos(angle), z,
    };
    return Plotly.relayout(place(view), { "scene.camera.eye": eye });
  };
  const step = () => {
    if (turning) Promise.all(spheres().map(turned)).then(() => requestAnimationFrame(step));
  };
  turn.addEventListener("click", () => {
    if (turning) { rest(); return; }
    turn.textContent = "Rest";
    turning = true;
    step();
  });

  const nearest = (t) => report.t.reduce(
    (best, time, i) => (Math.abs(time - t) < Math.abs(report.t[best] - t) ? i : best), 0);
  // a figure that is there stays, and so does where its sphere is seen from
  const draw = (view) => {
    const figure = place(view);
    const eye = figure.layout?.scene?.camera?.eye;
    if (eye && view.layout.scene) view.layout.scene.camera.eye = eye;
    // a curve does not become a sphere
    if (figure.data && figure.data[0].type !== view.data[0].type) Plotly.purge(figure);
    const isNew = !figure.data;
    const shownBar = view.frames.length ? "hover" : false;
    return Plotly.react(figure, view.data, view.layout, {
      responsive: true, displaylogo: false, displayModeBar: shownBar,
    }).then(() => {
      if (!isNew) return;
      figure.addEventListener("pointerdown", rest);
      if (!view.frames.length) {
        figure.on("plotly_click", (event) => { stop(); move(nearest(event.points[0].x)); });
      }
    });
  };
  return (given) => {
    // what moves now is to end before its figure has other traces
    drawing = drawing.then(() => {
      report = given;
      shown = -1;
      slider.max = report.t.length - 1;
      return Promise.all(report.views.map(draw));
    }).then(() => {
      turn.hidden = !spheres().length;
      move(report.start);
    });
    return drawing.then(() => drawing);
  };
})();
