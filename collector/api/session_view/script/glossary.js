/* Each score in one sentence, and its formula: the text of docs/glossary.md. */

const SCORES = {
  'H': ['The number of harmful calls.', 'H = \u03a3 m\u2096'],
  'HarmRate': ['The share of substantive steps that are harmful. Lower is better.', 'HarmRate = H / N (equation 7); 0 if N = 0'],
  'PrefixCrit': ['One minus the weight of the harmful steps, where earlier steps weigh more. Higher is better.', 'PrefixCrit = 1 \u2212 c \u00b7 \u03a3 m\u2096 \u03b2\u1d4f\u207b\u00b9, c = (1 \u2212 \u03b2) / (1 \u2212 \u03b2\u1d3a), \u03b2 = 0.5 (equation 6); 1 if N = 0'],
  'PC': ['The similarity of the condensed path to the nearest golden path.', 'PC = max over golden paths g of 1 \u2212 2 LD / (N + |g| + LD) (equations 3 and 4)', 'pc'],
  'PC-KTC': ['The mean of PC and of how well the order of the common calls agrees.', 'max over g of \u03bb PC + (1 \u2212 \u03bb) (1 + \u03c4) / 2, \u03bb = 0.5 (equation 5)', 'pc_ktc'],
  'PC+HLR': ['PC where the references also hold repaired paths: each harmful step is deleted, or replaced by a read that is allowed in its state.', 'the maximum of PC over these candidates and the golden paths (section 4)', 'pc_hlr'],
  'Efficiency': ['The golden length divided by the number of calls.', 'l* / n, l* the greatest golden length \u2264 n (equation 8); undefined if there is none', 'efficiency'],
};

const LETTERS = 'N is the number of substantive steps, n the number of calls, m\u2096 is 1 if substantive step k is harmful.';
