"""Measures of a page in a browser: flaws that a reader would see, as lists that have to be empty."""

from typing import Final

_COMMON: Final = """
(() => {
const shown = element => { const box = element.getBoundingClientRect(); return box.width > 0 && box.height > 0 };
const said = element => `${element.tagName} ${element.textContent.trim().slice(0, 60)}`;
const scrolls = element => {
  for (let each = element; each && each !== document.body; each = each.parentElement)
    if (/auto|scroll/.test(getComputedStyle(each).overflowX)) return true;
  return false;
};
const channels = colour => colour.match(/[\\d.]+/g).map(Number);
const luminance = colour => {
  const [r, g, b] = channels(colour).slice(0, 3).map(each => {
    const share = each / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const isSolid = colour => channels(colour).length < 4 || channels(colour)[3] > 0.99;
const ground = element => {
  const boxed = element.closest('svg') && element.parentElement.querySelector(':scope > rect');
  if (boxed) return getComputedStyle(boxed).fill;
  for (let each = element; each; each = each.parentElement) {
    const colour = getComputedStyle(each).backgroundColor;
    if (isSolid(colour)) return colour;
  }
  return 'rgb(255, 255, 255)';
};
const texts = [...document.body.querySelectorAll('*')].filter(each => shown(each) && !/^(title|style)$/i
  .test(each.tagName) && [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim()));
"""

MEASURES: Final = {
    "wider than the screen": "return document.documentElement.scrollWidth > innerWidth ? [said(document.body)] : []",
    "beyond the right edge": """
        return [...document.body.querySelectorAll('*')].filter(each => shown(each) && !scrolls(each)
            && each.getBoundingClientRect().right > innerWidth + 0.5).map(said)""",
    "cut off": """
        return [...document.body.querySelectorAll('*')].filter(each => shown(each)
            && /hidden|clip/.test(getComputedStyle(each).overflowX) && each.scrollWidth > each.clientWidth + 1
            && !each.closest('svg')).map(said)""",
    "hard to read": """
        return texts.map(each => {
            const style = getComputedStyle(each);
            const [one, other] = [luminance(each.closest('svg') ? style.fill : style.color), luminance(ground(each))];
            const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
            return contrast >= 4.5 ? '' : `${contrast.toFixed(2)} ${said(each)}`;
        }).filter(Boolean)""",
    "too small": "return texts.filter(each => parseFloat(getComputedStyle(each).fontSize) < 11).map(said)",
    "over each other": """
        const boxes = [...document.querySelectorAll('svg.sequence text')].map(each => [each, each.getBBox()]);
        const meet = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width
            && a.y + 1 < b.y + b.height && b.y + 1 < a.y + a.height;
        return boxes.flatMap(([one, box], index) => boxes.slice(index + 1)
            .filter(([_, other]) => meet(box, other)).map(([other]) => `${said(one)} / ${said(other)}`))""",
    "outside of its box": """
        return [...document.querySelectorAll('svg.topology g, svg.sequence g')].flatMap(group => {
            const rect = group.querySelector(':scope > rect');
            if (!rect) return [];
            const box = rect.getBBox();
            return [...group.querySelectorAll(':scope > text')].filter(text => {
                const own = text.getBBox();
                return own.x < box.x || own.x + own.width > box.x + box.width || own.y < box.y
                    || own.y + own.height > box.y + box.height;
            }).map(said);
        })""",
    "outside of its drawing": """
        return [...document.querySelectorAll('svg')].flatMap(drawing => {
            const {width, height} = drawing.viewBox.baseVal;
            return [...drawing.querySelectorAll('text, rect')].filter(each => {
                const own = each.getBBox();
                return own.x < 0 || own.y < 0 || own.x + own.width > width + 1 || own.y + own.height > height + 1;
            }).map(said);
        })""",
    "a section without content": """
        return [...document.querySelectorAll('section')].filter(each => !shown(each.querySelector('h2'))
            || each.children.length < 2 || each.getBoundingClientRect().height < 60).map(said)""",
}
"""Functions in JavaScript by the flaw that they find; every one returns a list of texts."""

MEASURES.update({name: f"{_COMMON}{text}\n}})()" for name, text in MEASURES.items()})
