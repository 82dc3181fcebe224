// The order of cards: those that need attention first.

// Cards keep their positions for this long, in milliseconds, after the pointer or the keyboard
// was used on them, so that a button does not move away.
const inUse = 5000;

const used = new WeakMap(); // parents → when they were used last

// order returns items sorted by rank, the highest first, and in their own order where ranks
// are equal. While parent is in use, the items that it shows keep their positions.
export function order(parent, items, key, rank) {
  if (!used.has(parent)) {
    used.set(parent, -Infinity);
    for (const event of ["pointermove", "pointerdown", "keydown"]) {
      parent.addEventListener(event, () => used.set(parent, performance.now()), { passive: true });
    }
  }
  if (performance.now() - used.get(parent) < inUse) {
    const positions = new Map([...parent.children].map((child, i) => [child.dataset.key, i]));
    return items.toSorted((a, b) => (positions.get(key(a)) ?? Infinity) - (positions.get(key(b)) ?? Infinity) || 0);
  }
  return items.toSorted((a, b) => rank(b) - rank(a));
}
