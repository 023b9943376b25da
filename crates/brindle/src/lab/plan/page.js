// A plan: what each array has, against what it costs.
(() => {
  const { data, element, make, figure: text, tick } = brindle;
  const rows = data.configurations;
  const hidden = new Set();
  const tb = (bytes) => bytes === null ? null : bytes / 1e12;
  const figures = {
    net: ['Room, TB', (one) => tb(one.net)],
    loss: ['Probability of loss', (one) => one.loss?.probability.value ?? null],
    load: ['Requests of the load, IOPS', (one) => one.workload_iops],
    reads: ['Random reads, IOPS', (one) => one.random_read_iops],
    writes: ['Random writes, IOPS', (one) => one.random_write_iops],
    seq_read: ['Reads in order, MB/s', (one) => one.seq_read === null ? null : one.seq_read / 1e6],
    seq_write: ['Writes in order, MB/s', (one) => one.seq_write === null ? null : one.seq_write / 1e6],
    tolerates: ['Drives that may fail', (one) => one.tolerates],
    rebuild: ['Rebuild, hours', (one) => one.rebuild_seconds === null ? null : one.rebuild_seconds / 3600],
    price: ['Price of all drives', (one) => one.price],
    per_tb: ['Price per TB', (one) => one.price_per_tb],
  };
  const known = Object.keys(figures).filter((name) => rows.some((one) => (figures[name][1](one) ?? null) !== null));
  const fill = (id, chosen) => {
    element(id).replaceChildren(...known.map((name) => new Option(figures[name][0], name, false, name === chosen)));
    element(id).onchange = all;
  };

  // Fractions and powers as numbers, so that they sort as such.
  function number(cell) {
    const [above, below] = cell.split('/');
    const found = below === undefined ? parseFloat(cell) : above / below;
    return Number.isNaN(found) ? null : found;
  }
  const last = data.columns.length - 1;
  brindle.table(element('rows'), {
    count: rows.length, noun: 'configurations', taken: (row) => rows[row].recommended,
    columns: data.columns.map((column, at) => ({
      name: column.name, figure: !column.word, wide: at === last && column.word,
      choices: column.name === 'level' || column.name === 'disks' ? [...new Set(column.cells)] : null,
      text: (row) => column.cells[row], value: (row) => column.word ? column.cells[row] : number(column.cells[row]),
    })),
  });
  if (rows.length === 0 || known.length < 2) {
    for (const gone of document.querySelectorAll('#title, #main, #names, #reading, section')) gone.remove();
    element('y').closest('.tools').remove();
    return;
  }

  const levels = [...new Set(rows.map((one) => one.level))].sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  const least = (name) => Math.min(...rows.map(figures[name][1]).filter((one) => one !== null));
  // What differs by powers of ten, as probabilities do, is drawn by powers of ten.
  const logs = (name) => {
    const all = rows.map(figures[name][1]).filter((one) => one !== null);
    return name === 'loss' && least(name) >= 0 && Math.max(...all) > 0;
  };
  fill('x', 'net');
  fill('y', known.includes('loss') ? 'loss' : known.includes('load') ? 'load' : 'writes');

  function spots() {
    const [x, y] = ['x', 'y'].map((id) => element(id).value);
    const found = new Map();
    rows.forEach((one, row) => {
      const [right, up] = [figures[x][1](one), figures[y][1](one)];
      if (right === null || up === null || hidden.has(one.level)) return;
      if ((logs(x) && right <= 0) || (logs(y) && up <= 0)) return;
      const key = `${right} ${up} ${one.level}`;
      const spot = found.get(key) ?? { right, up, level: one.level, names: [], recommended: false };
      spot.names.push(`${one.level} ${one.config} of ${one.disks}`);
      spot.recommended ||= one.recommended;
      found.set(key, spot);
    });
    return { x, y, list: [...found.values()].sort((a, b) => a.right - b.right) };
  }
  function main(width) {
    const { x, y, list } = spots();
    if (list.length === 0) return make('p', { class: 'note' }, 'Nothing to draw here: all levels are hidden, or this figure is not known.');
    const power = (value) => { const at = Math.log10(value); return Number.isInteger(+at.toFixed(9)) ? `1e${Math.round(at)}` : ''; };
    const form = (name) => logs(name) ? power : tick;
    const left = Math.max(48, brindle.wide(list.map((one) => form(y)(one.up) || '1e-10')) + 22);
    const scale = (name) => ({ label: figures[name][0], labelArrow: 'none', grid: true, nice: true, zero: !logs(name), type: logs(name) ? 'log' : 'linear', tickFormat: form(name) });
    const tell = (one) => [...one.names.slice(0, 6), one.names.length > 6 ? `and ${one.names.length - 6} more` : '', `${figures[x][0]}: ${text(one.right)}`, `${figures[y][0]}: ${text(one.up)}`].filter(Boolean).join('\n');
    const taken = list.filter((one) => one.recommended);
    const middle = (list[0].right + list.at(-1).right) / 2;
    return Plot.plot({
      width, height: Math.min(460, Math.max(320, width * 0.5)), marginLeft: left, marginRight: 20, marginBottom: 46, marginTop: 30, ariaLabel: `${figures[y][0]} by ${figures[x][0]}`,
      x: { ...scale(x), ticks: Math.max(3, width / 90), labelAnchor: 'right', labelOffset: 42 }, y: { ...scale(y), ticks: 6 },
      color: { type: 'ordinal', domain: levels, range: levels.map((_, at) => brindle.colour(at)) }, symbol: { domain: levels, range: levels.map((_, at) => brindle.symbol(at)) },
      marks: [
        Plot.dot(taken, { x: 'right', y: 'up', r: 12, stroke: 'currentColor', strokeWidth: 2 }),
        Plot.dot(list, { x: 'right', y: 'up', stroke: 'level', symbol: 'level', strokeWidth: 2, r: (one) => 4 + Math.min(4, one.names.length - 1), fill: 'var(--ground)', className: 'spots' }),
        ...taken.map((one) => Plot.text([one], { x: 'right', y: 'up', text: () => 'recommended', textAnchor: one.right > middle ? 'end' : 'start', dx: one.right > middle ? 12 : -12, dy: -21, fontWeight: 600, fill: 'currentColor', stroke: 'var(--ground)', strokeWidth: 5 })),
        Plot.tip(list, Plot.pointer({ x: 'right', y: 'up', title: tell, fill: 'var(--raised)' })),
      ],
    });
  }
  const tried = data.recommended?.chunks_tried ?? null;
  element('chunks').hidden = !tried;
  function chunk(width) {
    if (!tried) return null;
    const name = (size) => size >= 1048576 ? `${size / 1048576} MiB` : `${size / 1024} KiB`;
    const list = tried.map((one) => ({ name: name(one.chunk), iops: one.iops, best: one.chunk === data.recommended.chunk }));
    const left = Math.max(44, brindle.wide(list.map((one) => tick(one.iops))) + 22);
    const names = list.map((one) => one.name);
    return Plot.plot({
      width, height: 260, marginLeft: left, marginRight: 10, marginBottom: 44, marginTop: 30, ariaLabel: 'Requests of the load by chunk',
      x: { type: 'band', domain: names, label: 'chunk', ticks: brindle.thinned(names, width - left - 10), labelArrow: 'none', labelAnchor: 'right', labelOffset: 40 },
      y: { label: 'Requests of the load, IOPS', grid: true, zero: true, nice: true, ticks: 5, tickFormat: tick, labelArrow: 'none' },
      marks: [Plot.barY(list, { x: 'name', y: 'iops', fill: (one) => one.best ? 'var(--s0)' : 'color-mix(in srgb, var(--s0) 45%, var(--ground))', title: (one) => `${one.name}: ${text(one.iops)} IOPS` }), Plot.ruleY([0])],
    });
  }
  const again = [brindle.chart(element('main'), main), brindle.chart(element('chunk'), chunk)];
  function all() {
    again.forEach((draw) => draw());
  }
  brindle.legend(element('names'), levels, hidden, all, { line: false, dot: true });
  brindle.reader(element('main'), element('reading'), () => spots().list.length, (at) => {
    const { x, y, list } = spots();
    const one = list[at];
    return `${one.names.join(', ')}: ${figures[x][0]} ${text(one.right)}, ${figures[y][0]} ${text(one.up)}`;
  });
})();
