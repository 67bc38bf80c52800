// What the steps of a run tell: how many a second, and what each lane does with its time.

const SLACK = 1000; // Stages begin to be traced as early as main, or later; by this many milliseconds at most before.
const WARM_UP = 10; // So many steps of main at most: much is set up in the first ones.

/** Whether its waits were recorded, which takes a step longer. */
function isTraced(step) {
  return step.length > 3;
}

/** Whether its waits are known: not of steps in which tracing was set up. */
function hasWaits(step) {
  return Array.isArray(step[3]);
}

/**
 * Forgets the waits of steps in which tracing was set up, and of the two after them. The first
 * traced step of each thread takes long, and others wait for it.
 */
function leaveOutSetUp(data) {
  const pacing = pacingLanes(data)[0];
  const settled = [];
  for (const span of spansOf(pacing, isTraced)) {
    const first = data.lanes.map((lane) => lane.steps.find((step) => isTraced(step) && step[0] >= span.start - SLACK && step[0] < span.end));
    const ready = Math.max(...first.filter(Boolean).map(([, end]) => end));
    const place = pacing.steps.findIndex(([start]) => start >= ready) + 2;
    const isLong = place > 1 && place <= span.last;
    settled.push({ start: isLong ? pacing.steps[place][0] : span.start, end: span.end });
  }
  const isSettled = ([start, end]) => settled.some((span) => end > span.start && start < span.end);
  for (const { steps } of data.lanes) for (const step of steps) if (isTraced(step) && !isSettled(step)) step[3] = null;
}

/** The lanes of the part that paces the run: of main, or of what has most steps. */
function pacingLanes(data) {
  const main = data.lanes.filter((lane) => lane.region === "main");
  if (main.length) return main;
  return [data.lanes.reduce((most, lane) => (lane.steps.length > most.steps.length ? lane : most), data.lanes[0])];
}

/**
 * How fast a run went once it had warmed up: steps a second by the time from one step's start to the
 * next one's, without those that were traced.
 */
function paceOf(data) {
  const steps = pacingLanes(data).flatMap((lane) => lane.steps).sort((one, other) => one[0] - other[0]);
  const warmUp = steps.length > 1 ? Math.max(Math.min(WARM_UP, Math.floor(steps.length / 10)), 1) : 0;
  const isSteady = (step, place) => place >= warmUp && !isTraced(step);
  let intervals = 0;
  let total = 0;
  for (let place = 1; place < steps.length; place++) {
    if (!isSteady(steps[place], place) || !isSteady(steps[place - 1], place - 1)) continue;
    intervals++;
    total += steps[place][0] - steps[place - 1][0];
  }
  return { steps: steps.length, warmUp, from: warmUp ? steps[warmUp - 1][1] : 0, traced: steps.filter(isTraced).length, perSecond: total ? (1000 * intervals) / total : null };
}

/** Median and longest of a lane's steps after the warm-up that were not traced; of the traced ones if there are no others. */
function lengthsOf(lane, from) {
  const warm = lane.steps.filter(([start]) => start >= from);
  const plain = warm.filter((step) => !isTraced(step));
  const lengths = (plain.length ? plain : warm).map(([start, end]) => end - start).sort((one, other) => one - other);
  return { count: lengths.length, median: lengths[lengths.length >> 1], longest: lengths[lengths.length - 1] };
}

/** Times that some steps of a lane span: of those that follow each other, from the first one's start to the last one's end. */
function spansOf(lane, isOne) {
  const spans = [];
  lane.steps.forEach((step, place) => {
    if (!isOne(step)) return;
    const follows = place > 0 && isOne(lane.steps[place - 1]);
    if (follows) spans[spans.length - 1].end = step[1];
    else spans.push({ start: step[0], end: step[1], first: place });
    spans[spans.length - 1].last = place;
  });
  return spans;
}

/**
 * What a lane did between two times, in milliseconds, as far as its waits are known: worked,
 * waited for a batch, waited for room, and was in no step. They add up to `known`.
 */
function useOf(lane, from = -Infinity, to = Infinity) {
  const use = { known: 0, works: 0, batch: 0, room: 0, between: 0 };
  const inside = (start, end) => Math.max(Math.min(end, to) - Math.max(start, from), 0);
  for (const span of spansOf(lane, hasWaits)) use.known += inside(span.start, span.end);
  let steps = 0;
  for (const step of lane.steps.filter(hasWaits)) {
    steps += inside(step[0], step[1]);
    for (const { start, end, kind } of waitsOf(step)) use[kind] += inside(start, end);
  }
  use.works = steps - use.batch - use.room;
  use.between = Math.max(use.known - steps, 0);
  return use;
}

/** The waits of a step, which may lie over each other, one after the other. */
function waitsOf(step) {
  const found = [];
  let until = step[0];
  for (const [start, end, forRoom] of [...(step[3] || [])].sort((one, other) => one[0] - other[0])) {
    const from = Math.max(start, until);
    const to = Math.min(end, step[1]);
    if (to <= from) continue;
    found.push({ start: from, end: to, kind: forRoom ? "room" : "batch" });
    until = to;
  }
  return found;
}

/** The same of several lanes, such as the threads of a stage. */
function useOfAll(lanes) {
  const uses = lanes.map((lane) => useOf(lane));
  const total = (name) => uses.reduce((sum, use) => sum + use[name], 0);
  return { known: total("known"), works: total("works"), batch: total("batch"), room: total("room"), between: total("between") };
}
