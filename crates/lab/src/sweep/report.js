// Draws what stands in the page: the reader chooses axis, series and figure.
(() => {
  const data = JSON.parse(document.getElementById('data').textContent).filter((one) => one.figures);
  const axes = ['level', 'layout', 'members', 'chunk', 'rw', 'rwmixread', 'random_distribution', 'bs', 'iodepth', 'numjobs'];
  const figures = ['mb_s', 'iops', 'mean_us', 'p50_us', 'p99_us', 'max_us', 'utilisation', 'cpu_share', 'to_jbod', 'to_limit'];
  const values = (axis) => [...new Set(data.map((one) => one.point[axis]))];
  const varied = axes.filter((axis) => values(axis).length > 1);
  const colours = ['#1b6ca8', '#c0392b', '#1e8449', '#8e44ad', '#b9770e', '#148f77', '#566573', '#d35400'];
  const element = (id) => document.getElementById(id);
  const fill = (id, list, chosen) => {
    for (const value of list) element(id).add(new Option(value, value, false, value === chosen));
    element(id).onchange = draw;
  };
  const shape = (name, attributes, text) => {
    const made = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const held = () => varied.filter((axis) => axis !== element('x').value && axis !== element('series').value);
  function choices() {
    const box = element('held');
    const before = {};
    for (const select of box.querySelectorAll('select')) before[select.dataset.axis] = select.value;
    box.replaceChildren();
    for (const axis of held()) {
      const label = document.createElement('label');
      const select = document.createElement('select');
      select.dataset.axis = axis;
      for (const value of values(axis)) select.add(new Option(value || '(own)', value, false, value === before[axis]));
      select.onchange = draw;
      label.append(axis + ' ', select);
      box.append(label, ' ');
    }
  }
  function shown() {
    const selects = [...element('held').querySelectorAll('select')];
    return data.filter((one) => selects.every((select) => one.point[select.dataset.axis] === select.value));
  }
  function draw() {
    choices();
    const [x, series, figure] = ['x', 'series', 'figure'].map((id) => element(id).value);
    const points = shown();
    const steps = values(x);
    const lines = series === x || series === 'none' ? [''] : values(series);
    const most = Math.max(...points.map((one) => one.figures[figure] ?? 0), 1e-9);
    lineChart(points, x, series, figure, steps, lines, most);
    heatMap(points, x, series, figure, steps, lines, most);
    const at = element('at').value;
    element('at').replaceChildren(...steps.map((step) => new Option(step || '(own)', step, false, step === at)));
    element('at').onchange = draw;
    latencyChart(points, x, element('at').value, series, lines);
    const then = element('then').value;
    element('then').replaceChildren(...steps.map((step) => new Option(step || '(own)', step, false, step === then)));
    element('then').onchange = draw;
    timeChart(points, x, element('then').value, series, lines);
  }
  const find = (points, x, step, series, line) =>
    points.find((one) => one.point[x] === step && (line === '' || one.point[series] === line));
  function lineChart(points, x, series, figure, steps, lines, most) {
    const chart = element('lines');
    chart.replaceChildren();
    const at = (n) => 70 + (steps.length < 2 ? 300 : (n * 600) / (steps.length - 1));
    const up = (value) => 310 - (value / most) * 280;
    for (let n = 0; n <= 4; n++) {
      const y = 310 - n * 70;
      chart.append(shape('line', { x1: 70, x2: 670, y1: y, y2: y, stroke: '#ddd' }));
      chart.append(shape('text', { x: 64, y: y + 4, 'text-anchor': 'end' }, ((most * n) / 4).toPrecision(3)));
    }
    steps.forEach((step, n) => chart.append(shape('text', { x: at(n), y: 330, 'text-anchor': 'middle' }, step)));
    lines.forEach((line, number) => {
      const colour = colours[number % colours.length];
      const path = [];
      steps.forEach((step, n) => {
        const one = find(points, x, step, series, line);
        const value = one && one.figures[figure];
        if (value === undefined || value === null) return;
        path.push(`${at(n)},${up(value)}`);
        const dot = shape('circle', { cx: at(n), cy: up(value), r: 4, fill: colour });
        dot.append(shape('title', {}, `${line} ${step}: ${value.toPrecision(5)}; p50 ${one.figures.p50_us} us, p99 ${one.figures.p99_us} us`));
        chart.append(dot);
      });
      chart.append(shape('polyline', { points: path.join(' '), fill: 'none', stroke: colour, 'stroke-width': 2 }));
      chart.append(shape('text', { x: 690, y: 40 + number * 18, fill: colour }, line));
    });
  }
  function heatMap(points, x, series, figure, steps, lines, most) {
    const map = element('heat');
    map.replaceChildren();
    const width = Math.min(80, 600 / steps.length);
    lines.forEach((line, row) => {
      map.append(shape('text', { x: 64, y: 40 + row * 24, 'text-anchor': 'end' }, line));
      steps.forEach((step, column) => {
        const one = find(points, x, step, series, line);
        const value = one && one.figures[figure];
        if (value === undefined || value === null) return;
        const place = { x: 70 + column * width, y: 24 + row * 24, width: width - 2, height: 22 };
        map.append(shape('rect', { ...place, fill: `hsl(${210 - (value / most) * 190} 60% 70%)` }));
        map.append(shape('text', { x: place.x + width / 2, y: place.y + 16, 'text-anchor': 'middle' }, value.toPrecision(3)));
      });
    });
    steps.forEach((step, column) =>
      map.append(shape('text', { x: 70 + (column + 0.5) * width, y: 16, 'text-anchor': 'middle' }, step)));
    map.setAttribute('height', 40 + lines.length * 24);
    map.setAttribute('viewBox', `0 0 900 ${40 + lines.length * 24}`);
  }
  // Both axes grow by powers of ten: of the time, and of how few requests took longer.
  function latencyChart(points, x, step, series, lines) {
    const chart = element('latency');
    chart.replaceChildren();
    const shown = lines.map((line) => [line, find(points, x, step, series, line)]).filter(([, one]) => one);
    const all = shown.flatMap(([, one]) => one.figures.percentiles_us.map(([, us]) => Math.log10(Math.max(us, 0.01))));
    if (all.length === 0) return;
    const least = Math.floor(Math.min(...all));
    const most = Math.max(Math.ceil(Math.max(...all)), least + 1);
    const up = (log) => 310 - ((log - least) / (most - least)) * 280;
    const nines = (percent) => -Math.log10(1 - percent / 100);
    const at = (percent) => 70 + nines(percent) * 150;
    for (let log = least; log <= most; log++) {
      chart.append(shape('line', { x1: 70, x2: 670, y1: up(log), y2: up(log), stroke: '#ddd' }));
      chart.append(shape('text', { x: 64, y: up(log) + 4, 'text-anchor': 'end' }, `${Number((10 ** log).toPrecision(1))} us`));
    }
    for (const percent of [50, 90, 99, 99.9, 99.99])
      chart.append(shape('text', { x: at(percent), y: 330, 'text-anchor': 'middle' }, `${percent} %`));
    shown.forEach(([line, one], number) => {
      const colour = colours[number % colours.length];
      const path = one.figures.percentiles_us.map(([percent, us]) => `${at(percent)},${up(Math.log10(Math.max(us, 0.01)))}`);
      const drawn = shape('polyline', { points: path.join(' '), fill: 'none', stroke: colour, 'stroke-width': 2 });
      drawn.append(shape('title', {}, one.figures.percentiles_us.map(([percent, us]) => `${percent} %: ${us} us`).join('\n')));
      chart.append(drawn, shape('text', { x: 690, y: 40 + number * 18, fill: colour }, line));
    });
  }
  function timeChart(points, x, step, series, lines) {
    const chart = element('time');
    chart.replaceChildren();
    const figure = element('over').value;
    const shown = lines.map((line) => [line, find(points, x, step, series, line)]).filter(([, one]) => one && one.figures.series.length > 1);
    const all = shown.flatMap(([, one]) => one.figures.series);
    if (all.length === 0) return;
    const longest = Math.max(...all.map((of) => of.seconds));
    const most = Math.max(...all.map((of) => of[figure]), 1e-9);
    const at = (seconds) => 70 + (seconds / longest) * 600;
    const up = (value) => 310 - (value / most) * 280;
    for (let n = 0; n <= 4; n++) {
      chart.append(shape('line', { x1: 70, x2: 670, y1: up((most * n) / 4), y2: up((most * n) / 4), stroke: '#ddd' }));
      chart.append(shape('text', { x: 64, y: up((most * n) / 4) + 4, 'text-anchor': 'end' }, ((most * n) / 4).toPrecision(3)));
      const seconds = (longest * n) / 4;
      chart.append(shape('text', { x: at(seconds), y: 330, 'text-anchor': 'middle' }, `${Number(seconds.toPrecision(3))} s`));
    }
    shown.forEach(([line, one], number) => {
      const colour = colours[number % colours.length];
      const path = one.figures.series.map((of) => `${at(of.seconds)},${up(of[figure])}`);
      chart.append(shape('polyline', { points: path.join(' '), fill: 'none', stroke: colour, 'stroke-width': 2 }));
      chart.append(shape('text', { x: 690, y: 40 + number * 18, fill: colour }, line));
    });
  }
  if (data.length === 0) return;
  fill('x', axes, varied[0] ?? 'bs');
  fill('series', ['none', ...axes], varied[1] ?? 'none');
  fill('figure', figures, 'mb_s');
  fill('over', ['iops', 'mb_s', 'mean_us', 'max_us'], 'iops');
  draw();
})();
