// A sweep: the reader chooses figure, axis and series.
(() => {
  const { data, element, make, figure: text, tick, micros } = brindle;
  const names = {
    level: 'level', layout: 'layout', members: 'members', chunk: 'chunk', rw: 'load', rwmixread: 'reads of 100',
    random_distribution: 'distribution', bs: 'request size', iodepth: 'in flight', numjobs: 'jobs',
  };
  const units = {
    mb_s: ['Throughput', 'MiB/s'], iops: ['Requests', 'IOPS'], mean_us: ['Mean latency', '\u00b5s'], p50_us: ['Median latency', '\u00b5s'],
    p99_us: ['99 % latency', '\u00b5s'], max_us: ['Longest', '\u00b5s'], utilisation: ['Busiest drive', 'share of time'],
    cpu_share: ['Processor', 'share of time'], to_jbod: ['To JBOD', 'times'], to_limit: ['To limit', 'times'],
  };
  const shown = (value) => value === '' ? '(own)' : value;
  const figures = new Map(data.figures);
  const count = data.axes.length ? data.axes[0].of.length : 0;
  const refused = new Map(data.refused);
  const axes = new Map(data.axes.map((axis) => [axis.name, axis]));
  const value = (axis, row) => axes.get(axis).values[axes.get(axis).of[row]];
  const hidden = new Set();

  // Sizes and counts in their order; what is no number stays in the order of the sweep.
  function size(word) {
    const found = /^(\d+(?:\.\d+)?)([kmgt]?)$/i.exec(word);
    return found ? found[1] * 1024 ** ' kmgt'.indexOf(found[2].toLowerCase() || ' ') : NaN;
  }
  const ordered = new Set(['members', 'chunk', 'rwmixread', 'bs', 'iodepth', 'numjobs']);
  const isOrdered = (axis) => ordered.has(axis) && axes.get(axis).values.every((word) => !Number.isNaN(size(word)));
  function values(axis) {
    const all = [...axes.get(axis).values];
    return isOrdered(axis) ? all.sort((a, b) => size(a) - size(b)) : all;
  }
  const varied = [...axes.keys()].filter((axis) => axes.get(axis).values.length > 1);

  function table() {
    const parts = [...axes.keys()].filter((axis) => varied.includes(axis) || axes.get(axis).values.some(Boolean));
    const columns = parts.map((axis) => ({
      name: names[axis], choices: values(axis), text: (row) => value(axis, row),
      value: (row) => isOrdered(axis) ? size(value(axis, row)) : value(axis, row), figure: isOrdered(axis),
    }));
    for (const [name, list] of figures) {
      if (!list.some((one) => one !== null)) continue;
      columns.push({ name: units[name][0], unit: units[name][1], figure: true, match: false, text: (row) => text(list[row]), value: (row) => list[row] });
    }
    const command = (row) => data.command + parts.filter((axis) => value(axis, row)).map((axis) => ` --${axis} ${value(axis, row)}`).join('');
    columns.push({
      name: 'Command', wide: true, text: (row) => refused.get(row) ?? '', value: (row) => refused.get(row) ?? '',
      node: (row) => refused.get(row) ?? make('details', {}, make('summary', {}, 'show'), make('code', {}, ...command(row).split(' ').flatMap((word) => [make('span', { class: 'word' }, word), ' ']))),
    });
    brindle.table(element('points'), { columns, count, noun: 'points', taken: (row) => row === best });
  }

  let best = -1;
  function verdict(figure) {
    const list = figures.get(figure);
    const lower = figure.endsWith('_us');
    best = -1;
    list.forEach((one, row) => { if (one !== null && (best < 0 || (lower ? one < list[best] : one > list[best]))) best = row; });
    if (best < 0) return;
    const where = (varied.length ? varied : ['level', 'rw']).map((axis) => `${names[axis]} ${shown(value(axis, best))}`).join(', ');
    const [name, unit] = units[figure];
    element('best').replaceChildren(make('strong', {}, `${lower ? 'Least' : 'Most'}: ${text(list[best])} ${unit}`), ` (${name.toLowerCase()}) at ${where}; ${text(count)} ${count === 1 ? 'point' : 'points'}${refused.size ? `, ${text(refused.size)} that cannot be` : ''}.`);
  }

  if (![...figures.values()].some((list) => list.some((one) => one !== null))) {
    for (const gone of document.querySelectorAll('.tools, section, #title')) gone.remove();
    element('best').textContent = count ? 'No point of this sweep has figures.' : 'There are no points.';
    if (count) table();
    return;
  }

  const fill = (id, list, chosen) => {
    element(id).replaceChildren(...list.map(([key, name]) => new Option(name, key, false, key === chosen)));
  };
  const steps = (axis) => axes.get(axis).values.length;
  const sizes = varied.includes('bs') || varied.includes('rw');
  const shownFirst = sizes ? 'mb_s' : 'iops';
  // How many times the mean figure of one value of an axis goes into that of another, over all other axes, as a logarithm.
  function effect(axis) {
    const list = figures.get(shownFirst) ?? [];
    const { of } = axes.get(axis);
    const sums = axes.get(axis).values.map(() => [0, 0]);
    list.forEach((one, row) => {
      if (!(one > 0)) return;
      sums[of[row]][0] += Math.log(one);
      sums[of[row]][1] += 1;
    });
    const means = sums.filter(([, all]) => all).map(([sum, all]) => sum / all);
    return means.reduce((most, one) => Math.max(most, one), -Infinity) - means.reduce((least, one) => Math.min(least, one), Infinity);
  }
  // The same beside the best point, where all that is not drawn stands at first.
  function effectAtBest(axis, x) {
    const list = figures.get(shownFirst) ?? [];
    const others = varied.filter((one) => one !== axis && one !== x).map((one) => axes.get(one).of);
    const [along, over] = [axes.get(axis).of, x === undefined ? null : axes.get(x).of];
    const ranges = new Map();
    list.forEach((one, row) => {
      if (!(one > 0) || !others.every((of) => of[row] === of[best])) return;
      const [least, most] = ranges.get(over?.[row]) ?? [one, one];
      ranges.set(over?.[row], [Math.min(least, one), Math.max(most, one)]);
    });
    return Math.max(0, ...[...ranges.values()].map(([least, most]) => Math.log(most / least)));
  }
  // The axis is what changes the figure most. Series are levels, unless those lie on each other there: then what changes it next.
  if (figures.has(shownFirst)) verdict(shownFirst);
  const effects = new Map(varied.map((axis) => [axis, effect(axis)]));
  const isLevel = (axis) => axis === 'level' || axis === 'layout';
  const most = (list) => [...list].sort((a, b) => effects.get(b) - effects.get(a));
  const others = varied.filter((axis) => !isLevel(axis));
  const along = others.length ? others : varied.slice(1);
  const ordinals = along.filter(isOrdered);
  const [first] = most(ordinals.length ? ordinals : along);
  const few = varied.filter((axis) => axis !== first && steps(axis) <= 8);
  const levels = varied.find((axis) => isLevel(axis) && (few.length < 2 || effectAtBest(axis, first) > Math.log(1.1)));
  const series = levels ?? most(few)[0];
  const every = [...axes.keys()].map((axis) => [axis, names[axis]]);
  fill('figure', [...figures.keys()].filter((name) => figures.get(name).some((one) => one !== null)).map((name) => [name, `${units[name][0]}, ${units[name][1]}`]), shownFirst);
  fill('x', every, first ?? series ?? 'bs');
  fill('series', [['none', 'none'], ...every], first ? series ?? 'none' : 'none');
  fill('over', ['iops', 'mb_s', 'mean_us', 'max_us'].map((name) => [name, `${units[name][0]}, ${units[name][1]}`]), 'iops');

  // The points that agree with what is held, by step and series.
  const state = { grid: new Map() };
  function choose() {
    const x = element('x').value;
    const series = element('series').value === x ? 'none' : element('series').value;
    const box = element('held');
    const before = new Map([...box.querySelectorAll('select')].map((select) => [select.dataset.axis, select.value]));
    const held = varied.filter((axis) => axis !== x && axis !== series).map((axis) => {
      const kept = before.get(axis) ?? (best < 0 ? undefined : value(axis, best));
      const select = make('select', { 'data-axis': axis }, ...values(axis).map((one) => new Option(shown(one), one, false, one === kept)));
      select.onchange = all;
      return [axis, select];
    });
    box.replaceChildren(...held.map(([axis, select]) => make('label', {}, names[axis], select)));
    const wanted = held.map(([axis, select]) => [axes.get(axis).of, axes.get(axis).values.indexOf(select.value)]);
    const key = (row) => `${axes.get(x).of[row]}/${series === 'none' ? 0 : axes.get(series).of[row]}`;
    state.grid.clear();
    for (let row = 0; row < count; row++) if (wanted.every(([of, at]) => of[row] === at)) state.grid.set(key(row), row);
    Object.assign(state, { x, series, steps: values(x), lines: series === 'none' ? [''] : values(series), figure: element('figure').value });
    const most = 300;
    state.cut = Math.max(0, state.steps.length - most);
    state.steps = state.steps.slice(0, most);
    state.label = (line) => state.series === 'none' ? '' : state.series === 'level' ? `level ${shown(line)}` : `${names[state.series]} ${shown(line)}`;
  }
  const find = (step, line) => state.grid.get(`${axes.get(state.x).values.indexOf(step)}/${state.series === 'none' ? 0 : axes.get(state.series).values.indexOf(line)}`);
  const shownLines = () => state.lines.filter((line) => !hidden.has(state.label(line))).slice(0, 24);
  function rows() {
    const list = figures.get(state.figure);
    const found = [];
    for (const line of shownLines()) for (const step of state.steps) {
      const row = find(step, line);
      if (row !== undefined && list[row] !== null) found.push({ step: shown(step), line: state.label(line), value: list[row], row });
    }
    return found;
  }
  const scale = () => {
    const all = state.lines.map(state.label);
    return { type: 'ordinal', domain: all, range: all.map((_, at) => brindle.colour(at)) };
  };
  const place = (line) => state.lines.map(state.label).indexOf(line);
  const aria = () => `${units[state.figure][0]} over ${names[state.x]}${state.series === 'none' ? '' : `, by ${names[state.series]}`}`;

  function main(width) {
    const drawn = rows();
    if (drawn.length === 0) return make('p', { class: 'note' }, 'No figures here: all series are hidden, or none of these points can be.');
    return isOrdered(state.x) && state.steps.length > 1 ? lines(width, drawn) : bars(width, drawn);
  }
  function lines(width, drawn) {
    const [name, unit] = units[state.figure];
    const list = shownLines().map(state.label);
    const left = Math.max(44, brindle.wide(drawn.map((one) => tick(one.value))) + 22);
    const steps = state.steps.map(shown);
    return Plot.plot({
      width, height: 360, marginLeft: left, marginRight: 24, marginBottom: 44, marginTop: 30, ariaLabel: aria(),
      x: { type: 'point', domain: steps, label: names[state.x], ticks: brindle.thinned(steps, width - left - 24), labelArrow: 'none', labelAnchor: 'right', labelOffset: 40 },
      y: { label: `${name}, ${unit}`, grid: true, zero: true, nice: true, ticks: 6, tickFormat: tick, labelArrow: 'none' },
      color: scale(), symbol: { domain: state.lines.map(state.label), range: state.lines.map((_, at) => brindle.symbol(at)) },
      marks: [
        Plot.ruleY([0]),
        ...list.map((line, at) => Plot.lineY(drawn.filter((one) => one.line === line), {
          x: 'step', y: 'value', stroke: 'line', strokeDasharray: brindle.dash(place(line)) || null, strokeWidth: at === 0 ? 4 : 2,
        })),
        Plot.dot(drawn, { x: 'step', y: 'value', stroke: 'line', symbol: 'line', fill: 'var(--ground)', r: 4.5, strokeWidth: 2 }),
        Plot.tip(drawn, Plot.pointer({ x: 'step', y: 'value', title: (one) => `${one.line}\n${names[state.x]} ${one.step}\n${text(one.value)} ${unit}`, fill: 'var(--raised)' })),
      ],
    });
  }
  // What has no order is compared by bars, each with its name above it, so that names may be long.
  function bars(width, all) {
    const drawn = all.slice(0, 60);
    const [name, unit] = units[state.figure];
    const label = (one) => [`${state.x === 'level' ? 'level ' : ''}${one.step}`, one.line].filter(Boolean).join(', ');
    const bars = drawn.map((one) => ({ ...one, name: label(one), told: `${text(one.value)}` }));
    const right = brindle.wide(bars.map((one) => one.told)) + 14;
    const least = Math.max(width, brindle.wide(bars.map((one) => one.name)) + 24);
    return Plot.plot({
      width: least, height: 64 + bars.length * 44, marginLeft: 8, marginRight: right, marginTop: 40, marginBottom: 10, ariaLabel: aria(),
      x: { axis: 'top', label: `${name}, ${unit}`, grid: true, zero: true, nice: true, ticks: Math.min(8, width / 80), tickFormat: tick, labelArrow: 'none', labelOffset: 36 },
      y: { axis: null, domain: bars.map((one) => one.row), padding: 0.1 }, color: scale(),
      marks: [
        Plot.barX(bars, { x: 'value', y: 'row', fill: state.series === 'none' ? 'var(--s0)' : 'line', insetTop: 19, title: (one) => `${one.name}: ${one.told} ${unit}` }),
        Plot.text(bars, { x: 0, y: 'row', text: 'name', textAnchor: 'start', dy: -10, dx: 2, fill: 'currentColor', stroke: 'var(--ground)', strokeWidth: 4 }),
        Plot.text(bars, { x: 'value', y: 'row', text: 'told', textAnchor: 'start', dx: 5, dy: 10, fill: 'currentColor' }),
        Plot.ruleX([0]),
      ],
    });
  }
  function heat(width) {
    const drawn = rows();
    const lines = shownLines().map(state.label);
    const left = Math.min(brindle.wide(lines) + 14, width * 0.6);
    const each = (width - left - 8) / state.steps.length;
    const steps = state.steps.map(shown);
    const most = Math.max(...drawn.map((one) => one.value));
    const told = (one) => one.value >= 1e4 ? tick(+one.value.toPrecision(3)) : text(one.value);
    return Plot.plot({
      width, height: 60 + lines.length * 30, marginLeft: left, marginRight: 8, marginTop: 8, marginBottom: 44, ariaLabel: `${aria()}, as a table of shades`,
      x: { type: 'band', domain: steps, label: names[state.x], ticks: brindle.thinned(steps, width - left - 8), labelArrow: 'none', labelAnchor: 'right', labelOffset: 40, padding: 0.02 },
      y: { type: 'band', domain: lines, label: null, padding: 0.05, tickSize: 0 },
      marks: [
        Plot.cell(drawn, { x: 'step', y: 'line', fill: (one) => `color-mix(in srgb, var(--accent) ${most > 0 ? Math.round(55 * one.value / most) : 0}%, var(--raised))`, title: (one) => `${one.line}, ${names[state.x]} ${one.step}: ${text(one.value)} ${units[state.figure][1]}` }),
        each > brindle.wide(drawn.map(told)) + 4 ? Plot.text(drawn, { x: 'step', y: 'line', text: told, fill: 'currentColor' }) : null,
      ],
    });
  }

  // Powers of ten, and steps between them where there are few.
  function decades(least, most) {
    const all = [];
    const parts = most / least > 1000 ? [1] : [1, 2, 5];
    for (let log = Math.floor(Math.log10(least)); log <= Math.ceil(Math.log10(most)); log++)
      for (const part of parts) if (part * 10 ** log >= least * 0.999 && part * 10 ** log <= most * 1.001) all.push(part * 10 ** log);
    return all;
  }
  function latency(width) {
    const found = [];
    for (const line of shownLines()) {
      const row = find(element('at').value, line);
      for (const [percent, us] of data.percentiles[row] ?? []) if (us > 0) found.push({ percent: `${percent} %`, us, line: state.label(line) });
    }
    if (found.length === 0) return make('p', { class: 'note' }, 'No latencies are known here.');
    const all = found.map((one) => one.us);
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const floor = (us, up) => { const power = 10 ** Math.floor(Math.log10(us)); const steps = [1, 2, 5, 10].map((part) => part * power); return up ? steps.find((step) => step >= us * 0.999) : steps.findLast((step) => step <= us * 1.001); };
    const domain = [floor(low, false), floor(high, true)];
    if (domain[0] === domain[1]) domain[1] *= 2;
    const percents = [...new Set(found.map((one) => one.percent))];
    return Plot.plot({
      width, height: 320, marginLeft: 66, marginRight: 28, marginBottom: 44, marginTop: 30, ariaLabel: 'Latency by share of requests',
      x: { type: 'point', domain: percents, label: 'share of requests', ticks: brindle.thinned(percents, width - 94), labelArrow: 'none', labelAnchor: 'right', labelOffset: 40 },
      y: { type: 'log', domain, label: 'took at most', grid: true, ticks: decades(...domain), tickFormat: micros, labelArrow: 'none' },
      color: scale(),
      marks: [
        ...shownLines().map(state.label).map((line, at) => Plot.lineY(found.filter((one) => one.line === line), { x: 'percent', y: 'us', stroke: 'line', strokeDasharray: brindle.dash(place(line)) || null, strokeWidth: at === 0 ? 4 : 2 })),
        Plot.tip(found, Plot.pointer({ x: 'percent', y: 'us', title: (one) => `${one.line}\n${one.percent}: ${micros(one.us)}`, fill: 'var(--raised)' })),
      ],
    });
  }
  function time(width) {
    const over = element('over').value;
    const found = [];
    for (const line of shownLines()) {
      const row = find(element('then').value, line);
      for (const step of data.series[row] ?? []) found.push({ seconds: step.seconds, value: step[over], line: state.label(line) });
    }
    if (found.length === 0) return make('p', { class: 'note' }, 'No whole interval is known here.');
    const left = Math.max(44, brindle.wide(found.map((one) => tick(one.value))) + 22);
    const [name, unit] = units[over];
    return Plot.plot({
      width, height: 300, marginLeft: left, marginRight: 24, marginBottom: 44, marginTop: 30, ariaLabel: `${name} over time`,
      x: { label: 'seconds, to the end of each interval', labelArrow: 'none', labelAnchor: 'right', labelOffset: 40, ticks: width / 90, zero: true, nice: true },
      y: { label: `${name}, ${unit}`, grid: true, zero: true, nice: true, ticks: 5, tickFormat: tick, labelArrow: 'none' }, color: scale(),
      marks: [Plot.ruleY([0]), ...shownLines().map(state.label).map((line, at) => Plot.lineY(found.filter((one) => one.line === line), { x: 'seconds', y: 'value', stroke: 'line', strokeDasharray: brindle.dash(place(line)) || null, strokeWidth: at === 0 ? 4 : 2, marker: found.length < 60 ? 'dot' : null }))],
    });
  }

  // Series that lie on each other, which a chart can't tell apart.
  function alike() {
    const list = figures.get(state.figure);
    const found = [];
    const curve = (line) => state.steps.map((step) => list[find(step, line)] ?? null);
    const lines = shownLines().map((line) => [line, curve(line)]);
    const most = Math.max(...lines.flatMap(([, curve]) => curve.map((one) => one ?? 0)));
    lines.forEach(([line, own], at) => lines.slice(at + 1).forEach(([other, theirs]) => {
      const same = own.every((one, n) => one === null || theirs[n] === null || Math.abs(one - theirs[n]) <= most * 0.004);
      if (same && own.some((one, n) => one !== null && theirs[n] !== null)) found.push(`${state.label(line)} and ${state.label(other)}`);
    }));
    const told = [];
    if (found.length) told.push(`These lie on each other: ${found.slice(0, 6).join('; ')}${found.length > 6 ? `, and ${found.length - 6} more pairs` : ''}.`);
    if (state.lines.length > 24) told.push(`24 series of ${state.lines.length} are drawn at once: hide some to see others.`);
    if (state.cut) told.push(`${state.cut} steps more stand in the table only.`);
    const gone = state.lines.filter((line) => hidden.has(state.label(line))).length;
    if (gone) told.push(`${gone} series hidden.`);
    if (data.percentiles.length === 0) told.push('So many points come without their latencies by share and their course over time: sweep.json has them.');
    element('alike').textContent = told.join(' ');
  }

  const again = [];
  function redraw() {
    again.forEach((draw) => draw());
    alike();
  }
  function all() {
    choose();
    verdict(state.figure);
    table();
    element('title').textContent = `${units[state.figure][0]} over ${names[state.x]}`;
    for (const [id, name] of [['at', 'atname'], ['then', 'thenname']]) {
      const before = element(id).value;
      fill(id, state.steps.map((step) => [step, shown(step)]), state.steps.includes(before) ? before : state.steps[0]);
      element(name).firstChild.textContent = names[state.x];
      element(id).onchange = redraw;
    }
    element('grid').hidden = state.series === 'none' || state.steps.length < 2 || state.steps.length > 40;
    const used = [...state.grid.values()];
    element('tails').hidden = !used.some((row) => data.percentiles[row]?.length);
    element('course').hidden = !used.some((row) => data.series[row]?.length);
    const list = state.lines.map(state.label);
    brindle.legend(element('names'), state.series === 'none' ? [] : list.slice(0, 200), hidden, redraw, { dot: isOrdered(state.x) });
    redraw();
  }
  for (const id of ['figure', 'x', 'series']) element(id).onchange = all;
  element('over').onchange = redraw;
  choose();
  for (const [id, draw] of [['main', main], ['heat', heat], ['latency', latency], ['time', time]])
    again.push(brindle.chart(element(id), (width) => element(id).closest('section')?.hidden ? null : draw(width)));
  brindle.reader(element('main'), element('reading'), () => state.steps.length, (at) => `${names[state.x]} ${shown(state.steps[at])}: ` + shownLines().map((line) => {
    const row = find(state.steps[at], line);
    return `${state.label(line)} ${row === undefined ? 'none' : text(figures.get(state.figure)[row])}`.trim();
  }).join(', ') + ` ${units[state.figure][1]}`);
  all();
})();
