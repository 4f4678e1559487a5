/** Rates of sources: events a second, from two readings of what their hosts have counted. */

/** The seconds that two readings lie apart at most: hosts report every few seconds. */
const WINDOW = 20;

/** Readings of sources; `of(source)` reads one, and returns its rate, or null after the first reading. */
export function rates(now = () => performance.now() / 1000) {
  const readings = new Map();

  function of({ name, received }) {
    if (!received) {
      readings.delete(name);
      return null;
    }
    const reading = { at: now(), since: received.since, count: received.accepted + received.rejected };
    // A host that begins anew counts from 0.
    const known = (readings.get(name) ?? []).filter((each) => each.since === reading.since && each.count <= reading.count);
    const recent = known.filter((each, place) => reading.at - each.at <= WINDOW || place === known.length - 1);
    readings.set(name, [...recent, reading]);
    const [first] = recent;
    return first === undefined || first.at === reading.at ? null : (reading.count - first.count) / (reading.at - first.at);
  }

  return { of };
}
