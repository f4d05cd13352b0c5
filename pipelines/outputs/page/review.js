// Review of scene ends, as in pipelines/models/calibration.py: where to look next, and what answers tell about the rest of the
// video. Nothing here touches the page. The cut i is the one after shot i; answers: a Map from cuts to whether a scene
// ends there.

const SHOTS_PER_LOOK = 8;
const PRIOR = { slope: 1, offset: -1.3, slopeDeviation: 0.2, offsetDeviation: 0.5 };
const sigmoid = (value) => 1 / (1 + Math.exp(-Math.min(Math.max(value, -700), 700)));
const sum = (values) => values.reduce((total, value) => total + value, 0);

/** The probabilities of the cuts, the threshold with the best expected F1, that F1, and the shots to look at next. */
function review(scores, answers, shotsPerLook = SHOTS_PER_LOOK, credits = new Map()) {
  const logOdds = scores.slice(0, -1).map(logit);
  const { slope, offset } = fitPlatt(logOdds, answers);
  const probabilities = logOdds.map((x, cut) => Number(answers.get(cut) ?? credits.get(cut) ?? sigmoid(slope * x + offset)));
  const [best, least] = bestExpectedF1(probabilities);
  return {
    probabilities,
    threshold: Math.min(Math.max(sigmoid((logit(least) - offset) / slope), 0.001), 0.999),
    expectedF1: best,
    least,
    window: nextWindow(probabilities, new Map([...credits, ...answers]), least, shotsPerLook),
  };
}

/** The most likely slope and offset, given the answers and the prior: logistic regression by Newton's method. */
function fitPlatt(logOdds, answers) {
  const cuts = [...answers.keys()].sort((a, b) => a - b);
  let { slope, offset } = PRIOR;
  const [slopeWeight, offsetWeight] = [1 / PRIOR.slopeDeviation ** 2, 1 / PRIOR.offsetDeviation ** 2];
  for (let step = 0; step < 50; step += 1) {
    let [ofSlope, ofOffset, a, b, c] = [slopeWeight * (slope - PRIOR.slope), offsetWeight * (offset - PRIOR.offset), slopeWeight, 0, offsetWeight];
    for (const cut of cuts) {
      const x = logOdds[cut];
      const p = sigmoid(slope * x + offset);
      const [wrong, spread] = [p - Number(answers.get(cut)), p * (1 - p)];
      ofSlope += wrong * x;
      ofOffset += wrong;
      a += spread * x * x;
      b += spread * x;
      c += spread;
    }
    const steps = [(c * ofSlope - b * ofOffset) / (a * c - b * b), (a * ofOffset - b * ofSlope) / (a * c - b * b)];
    const largest = Math.max(...steps.map(Math.abs));
    const part = 1 / Math.max(1, largest);
    slope -= part * steps[0];
    offset -= part * steps[1];
    if (largest < 1e-10) break;
  }
  return { slope: Math.max(slope, 0.1), offset };
}

/** The F1 to expect of the cuts in `ends`: 2 E[hits] / (chosen + E[scene ends]). */
function expectedF1(probabilities, ends) {
  if (!ends.length) return probabilities.reduce((none, p) => none * (1 - p), 1);
  return (2 * sum(ends.map((cut) => probabilities[cut]))) / (ends.length + sum(probabilities));
}

/** The best expected F1 of all choices, and the least probability of a cut that is chosen for it. */
function bestExpectedF1(probabilities) {
  const none = expectedF1(probabilities, []);
  const total = sum(probabilities);
  let [hits, best] = [0, 0];
  [...probabilities].sort((a, b) => b - a).forEach((p, i) => {
    hits += p;
    best = Math.max(best, (2 * hits) / (i + 1 + total));
  });
  return none > best ? [none, 0.5] : [best, best / 2];
}

/**
 * The F1 to expect after more looks, of the best choice then, and how many looks there are: each answer comes as its
 * probability says, and moves no other one.
 */
function expectedAfter(probabilities, answers, least, looks, shotsPerLook = SHOTS_PER_LOOK) {
  const answered = new Map(answers);
  let made = 0;
  for (; made < looks; made += 1) {
    const window = nextWindow(probabilities, answered, least, shotsPerLook);
    if (!window) break;
    for (let cut = window[0]; cut < window[1] - 1; cut += 1) answered.set(cut, true);
  }
  const total = sum(probabilities);
  let hits = sum([...answered.keys()].map((cut) => probabilities[cut]));
  let chosen = hits;
  const f1 = () => (chosen + total ? (2 * hits) / (chosen + total) : 1);
  let best = f1();
  for (const p of probabilities.filter((_, cut) => !answered.has(cut)).sort((a, b) => b - a)) {
    hits += p;
    chosen += 1;
    best = Math.max(best, f1());
  }
  return { looks: made, f1: best };
}

/** The half-open range of shots whose answers are expected to raise F1 most; null if all cuts are answered. */
function nextWindow(probabilities, answers, least, shotsPerLook) {
  const gains = probabilities.map((p, cut) => (answers.has(cut) ? 0 : Math.min(least * (1 - p), (1 - least) * p)));
  const cuts = Math.min(shotsPerLook - 1, gains.length);
  if (!gains.some(Boolean)) return null;
  const totals = Array.from({ length: gains.length - cuts + 1 }, (_, start) => sum(gains.slice(start, start + cuts)));
  const limit = Math.max(...totals) * (1 - 1e-9);
  const first = totals.findIndex((total) => total >= limit);
  let after = first;
  while (totals[after] >= limit) after += 1;
  const start = (first + after - 1) >> 1;
  return [start, start + cuts + 1];
}
