{
  const seen = { wrong: window.wrong, asked: performance.getEntriesByType('resource').map((one) => one.name) };
  document.querySelectorAll('details').forEach((one) => { one.open = true; });
  seen.wide = [document.documentElement.scrollWidth, innerWidth];
  const visible = (one) => one.getClientRects().length > 0 && getComputedStyle(one).visibility !== 'hidden';
  const short = (text) => text.trim().slice(0, 60);
  seen.cut = [...document.querySelectorAll('h1, h2, p, td, th, button, label, dt, dd, li, summary, pre, select, .chart, .frame')]
    .filter((one) => visible(one) && one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline')
    .map((one) => `${one.tagName} ${one.className} ${short(one.textContent)}`);
  for (const text of document.querySelectorAll('.chart svg text')) {
    if (!text.textContent.trim() || !visible(text)) continue;
    const [own, box] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
    if (own.left < box.left - 1 || own.right > box.right + 1 || own.top < box.top - 1 || own.bottom > box.bottom + 1) seen.cut.push(`svg ${short(text.textContent)}`);
  }
  seen.broken = [];
  const walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    if (!visible(node.parentElement)) continue;
    for (const found of node.textContent.matchAll(/(?:--?)?(?:[^\s\/-]|-(?=[\d.]))+/g)) {
      const range = document.createRange();
      range.setStart(node, found.index);
      range.setEnd(node, found.index + found[0].length);
      if (new Set([...range.getClientRects()].map((rect) => Math.round(rect.top))).size > 1) seen.broken.push(found[0]);
    }
  }
  seen.mixed = [];
  for (const axis of document.querySelectorAll('.chart svg g[aria-label$="tick label"]')) {
    const boxes = [...axis.querySelectorAll('text')].map((text) => [text.textContent, text.getBoundingClientRect()]);
    boxes.forEach(([name, a], at) => boxes.slice(at + 1).forEach(([other, b]) => {
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1) seen.mixed.push(`${name} ${other}`);
    }));
  }
  /* LOOK */
  parent.document.title = 'SEEN' + JSON.stringify(seen) + 'NEES';
}
