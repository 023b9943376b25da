// What happened over time: a chart for each figure, one cursor over all.
(() => {
  const { data, element, make, figure: text, tick, micros } = brindle;
  const hidden = new Set();
  const lines = data.lines.filter((line) => line.seconds.length);
  if (lines.length === 0) {
    element('summary').textContent = 'Nothing was done.';
    return;
  }
  const units = data.figures.map(([, unit]) => unit === 'us' ? '\u00b5s' : unit);
  const points = lines.reduce((sum, line) => sum + line.seconds.length, 0);
  element('summary').textContent = `${text(lines.length)} ${lines.length === 1 ? 'line' : 'lines'}, ${text(points)} ${points === 1 ? 'point' : 'points'}` + (data.joined > 1 ? `; ${data.joined} intervals are one point, their longest latency its longest: --series FILE.csv has each.` : '.');
  element('whole').textContent = 'Whole intervals only, each at its end: the last one of a job, which is cut short, is left out. Drag over a chart to look closer, double-click or press 0 to see all. With the keys left and right the cursor moves.';

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const plots = [];
  const dashes = (at) => brindle.dash(at) ? brindle.dash(at).split(' ').map(Number) : undefined;
  // One axis of time for all lines: where all have the same, nothing is to be joined.
  const same = lines.every((line) => line.seconds.length === lines[0].seconds.length && line.seconds.every((at, n) => at === lines[0].seconds[n]));
  const joined = (at) => same ? [lines[0].seconds, ...lines.map((line) => line.values[at])] : uPlot.join(lines.map((line) => [line.seconds, line.values[at]]));
  const single = lines.every((line) => line.seconds.length === 1);
  const seconds = (value) => `${+value.toPrecision(6)} s`;
  const value = (at, one) => at < 2 ? `${text(one)} ${units[at]}` : micros(one);

  function options(at, width) {
    const axis = { stroke: () => css('--ink'), grid: { stroke: () => css('--edge'), width: 1 }, ticks: { stroke: () => css('--edge'), width: 1 }, font: '12px system-ui, "Liberation Sans", sans-serif' };
    const names = (values) => values.map((one) => one === null ? '' : at < 2 ? tick(one) : one === 0 ? '0' : micros(one));
    return {
      width, height: 220, legend: { show: false }, cursor: { sync: { key: 'time' }, points: { size: 7 } },
      scales: {
        x: { time: false, range: (_, least, most) => least === most ? [0, most * 2 || 1] : [least, most] },
        y: { range: (_, least, most) => [0, (most || 1) * 1.08] },
      },
      axes: [
        { ...axis, space: 70, values: (_, values) => values.map((one) => seconds(one)) },
        { ...axis, space: 36, size: 64, values: (_, values) => names(values) },
      ],
      series: [{}, ...lines.map((line, n) => ({
        label: line.name, stroke: () => css(`--s${n % 8}`), width: n === 0 ? 2.5 : 1.5, dash: dashes(n), show: !hidden.has(line.name), spanGaps: false, points: { show: single ? true : undefined, size: 6 },
      }))],
      hooks: { setCursor: [(plot) => { if (plot.cursor.idx !== null && plot.cursor.event) read(plot.cursor.idx); }] },
    };
  }
  function read(at) {
    const time = plots[0].data[0][at];
    const told = lines.map((line, n) => [line, plots[0].data[n + 1][at], plots[2].data[n + 1][at]]).filter(([line, one]) => one !== null && one !== undefined && !hidden.has(line.name));
    element('reading').textContent = `${seconds(time)}: ` + told.slice(0, 8).map(([line, ios, mean]) => `${line.name} ${value(0, ios)}${mean === null ? '' : `, ${value(2, mean)}`}`).join('; ');
  }
  data.figures.forEach(([name], at) => {
    const box = make('div', { class: 'chart', role: 'group', 'aria-label': `${name} over time, ${units[at]}` });
    element('charts').append(make('h2', {}, at < 2 ? `${name}, ${units[at]}` : name), box);
    const plot = new uPlot(options(at, box.clientWidth), joined(at), box);
    plots.push(plot);
    box.plot = plot;
    new ResizeObserver(() => { if (box.clientWidth !== plot.width) plot.setSize({ width: box.clientWidth, height: 220 }); }).observe(box);
    brindle.reader(box, element('reading'), () => plot.data[0].length, (step) => {
      plot.setCursor({ left: plot.valToPos(plot.data[0][step], 'x'), top: 10 });
      read(step);
      return element('reading').textContent;
    });
    box.addEventListener('keydown', (event) => {
      if (event.key === '0') plots.forEach((plot) => plot.setData(plot.data, true));
    });
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => plots.forEach((plot) => plot.redraw()));
  brindle.legend(element('names'), lines.map((line) => line.name), hidden, () => plots.forEach((plot) => lines.forEach((line, n) => plot.setSeries(n + 1, { show: !hidden.has(line.name) }))));

  const sums = lines.map((line) => line.values.map((list, at) => {
    const some = list.filter((one) => one !== null);
    if (some.length === 0) return null;
    return at === 3 ? some.reduce((most, one) => Math.max(most, one), 0) : some.reduce((sum, one) => sum + one, 0) / some.length;
  }));
  brindle.table(element('rows'), {
    count: lines.length, noun: 'lines',
    columns: [
      { name: 'Job', wide: true, choices: [...new Set(lines.map((line) => line.job))], text: (row) => lines[row].job, value: (row) => lines[row].job },
      { name: 'Direction', choices: [...new Set(lines.map((line) => line.direction))], text: (row) => lines[row].direction, value: (row) => lines[row].direction },
      { name: 'Intervals', figure: true, text: (row) => text(lines[row].seconds.length), value: (row) => lines[row].seconds.length },
      ...['Requests', 'Throughput', 'Mean latency', 'Longest latency'].map((name, at) => ({ name, unit: at === 3 ? `${units[at]}, most` : `${units[at]}, mean`, figure: true, match: false, text: (row) => text(sums[row][at]), value: (row) => sums[row][at] })),
    ],
  });
})();
