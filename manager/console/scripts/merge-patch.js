/** JSON merge patches (RFC 7396), which REST takes for changes of configs. */

/** The patch that makes `after` of `before`, two objects; empty if they are equal. A null counts as a missing field. */
export function patchOf(before, after) {
  const patch = {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [was, is] = [before[name] ?? null, after[name] ?? null];
    if (isObject(was) && isObject(is)) {
      const inner = patchOf(was, is);
      if (Object.keys(inner).length > 0) {
        patch[name] = inner;
      }
    } else if (!isSame(was, is)) {
      patch[name] = is;
    }
  }
  return patch;
}

/** Two JSON values are equal; the order of fields does not matter. */
export function isSame(one, other) {
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((each, place) => isSame(each, other[place]));
  }
  if (isObject(one) && isObject(other)) {
    const names = Object.keys(one);
    return names.length === Object.keys(other).length
      && names.every((name) => Object.hasOwn(other, name) && isSame(one[name], other[name]));
  }
  return one === other;
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
