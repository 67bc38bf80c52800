// How the search ranks: pages whose title has all words of the query, then public names, then
// headings, then text. Sphinx alone gives a page with such a heading as much as one with the title.
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: ([page, title, anchor, description, score]) => {
    const query = new URLSearchParams(window.location.search).get("q") || "";
    const words = query.toLowerCase().split(/\W+/).filter((word) => word);
    const shown = title.toLowerCase();
    if (!words.every((word) => shown.includes(word))) return score;
    const closeness = query.length / Math.max(title.length, 1); // Short titles say it alone.
    if (description !== null) return score + 200 + 50 * closeness;
    return score + (anchor ? 100 : 300) + 50 * closeness;
  },
};
