"""A vocabulary of mathematical methods, and how to find them in a solution.

Each entry is a verb phrase that says what is done, how telling it is, and the words that give it
away. Formulas count too: LaTeX commands are read as words (`\\binom` as "binomial coefficient"),
and some methods are recognised by their notation. The vocabulary covers school and competition
mathematics in English; it knows nothing of context, so "we cannot use the law of sines" counts as
a mention of it.

The weights are rarities, ln((N + 1) / (n + 1)), of the methods among N = 8,235 unlabelled
solutions to competition problems (of which n mention the method): what nearly every solution does
says little about how it differs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

# Phrase, weight, triggers. A trigger is one or more words; `*` stands for any ending.
_TABLE: tuple[tuple[str, float, str], ...] = (
    ("Substitute one expression into another", 1.4, "substitut*, plug, plugging"),
    (
        "Factor the expression",
        2.4,
        "factoring, factored, factoris*, factorize the, factorize it, factor the, factor out, "
        "factor this, factor by, factors as, can factor, we factor, common factor",
    ),
    ("Use the difference of squares", 5.1, "difference of squares, difference of two squares"),
    ("Factor a sum or difference of cubes", 5.5, "sum of cubes, difference of cubes"),
    ("Complete the square", 3.7, "complet* the square"),
    ("Apply the quadratic formula", 3.5, "quadratic formula"),
    ("Examine the discriminant", 3.8, "discriminant*"),
    (
        "Relate roots and coefficients by Vieta's formulas",
        3.6,
        "vieta*, sum of the roots, product of the roots, sum of roots",
    ),
    ("Expand the product", 2.6, "expand*, foil"),
    ("Simplify the expression", 1.3, "simplif*"),
    ("Collect like terms", 3.9, "like terms, combin* terms, collect* terms"),
    ("Pair or group terms", 5.5, "group* the terms, regroup*, pair* the terms, pairing"),
    ("Multiply by the conjugate", 4.2, "conjugate*, rationaliz*, rationalis*"),
    (
        "Compare coefficients",
        4.4,
        "compar* coefficients, compar* the coefficients, equat* coefficients, equat* the "
        "coefficients, match* coefficients, match* the coefficients",
    ),
    (
        "Divide polynomials",
        4.7,
        "long division, synthetic division, polynomial division, remainder theorem, factor theorem",
    ),
    ("Test rational roots", 5.8, "rational root*"),
    (
        "Solve a system of equations",
        3.0,
        "system of, simultaneous*, two equations, three equations",
    ),
    (
        "Add or subtract equations",
        3.0,
        "add* the two equations, add* these equations, add* these two, add* the equations, "
        "subtract* the first, subtract* the second, subtract* the equations, subtract* these, "
        "adding these, summing the equations, adding all, adding equation*, subtracting "
        "equation*, adding the equations, add* them",
    ),
    ("Eliminate a variable", 3.7, "eliminat*"),
    ("Solve a linear equation", 5.7, "linear equation*"),
    ("Work with a quadratic equation", 1.8, "quadratic*"),
    ("Square both sides", 3.8, "squar* both, squaring"),
    ("Multiply or divide both sides", 2.9, "both sides by"),
    (
        "Clear denominators",
        3.5,
        "common denominator, clear* the denominator*, cross mult*, clear* denominator*, "
        "clear* the fraction*, eliminat* the fraction*",
    ),
    ("Take logarithms", 4.3, "logarithm*, log, ln"),
    ("Use exponent rules", 3.7, "exponents, exponential*"),
    ("Introduce a new variable", 4.6, "change of variable*, new variable*, substitution, let u"),
    ("Decompose into partial fractions", 6.5, "partial fraction*"),
    ("Telescope the sum", 5.9, "telescop*"),
    (
        "Sum an arithmetic series",
        3.8,
        "arithmetic sequence*, arithmetic series, arithmetic progression*, common difference",
    ),
    (
        "Sum a geometric series",
        4.2,
        "geometric sequence*, geometric series, geometric progression*, common ratio, "
        "infinite series",
    ),
    ("Set up a recurrence", 5.3, "recurren*, recursi*"),
    ("Argue by induction", 5.6, "induction, inductive*"),
    ("Use generating functions", 7.6, "generating function*"),
    ("Apply the binomial theorem", 4.8, "binomial theorem, binomial expansion, pascal*"),
    ("Apply the AM-GM inequality", 4.3, "am gm, arithmetic mean geometric mean, amgm"),
    ("Apply the Cauchy-Schwarz inequality", 5.5, "cauchy*, schwarz"),
    ("Use convexity", 7.6, "jensen*, convexity, concav*, convex function"),
    ("Apply the triangle inequality", 5.1, "triangle inequality"),
    ("Work with inequalities", 1.7, "inequalit*, upper bound, lower bound, bounded, bounds"),
    ("Use nonnegativity", 3.3, "sum of squares, nonnegative, non negative"),
    ("Split the absolute value into pieces", 3.2, "absolute value*, piecewise"),
    ("Differentiate", 3.7, "derivative*, differentiat*, critical point*"),
    ("Use Lagrange multipliers", 5.5, "lagrange multiplier*"),
    ("Integrate", 5.8, "integral*, integrat*"),
    ("Take a limit", 4.8, "limit, limits, arbitrarily close, tends to, approaches"),
    ("Maximize or minimize a quantity", 3.2, "maximiz*, minimiz*"),
    (
        "Find the vertex of a parabola",
        4.4,
        "vertex of the parabola, vertex form, axis of symmetry, vertex of this parabola",
    ),
    ("Use symmetry", 3.5, "symmetr*, without loss of generality, wlog"),
    ("Argue by contradiction", 4.6, "contradict*"),
    ("Split into cases", 2.2, "case, cases, casework, subcase*"),
    ("Use the pigeonhole principle", 7.4, "pigeonhole"),
    ("Use an invariant", 7.6, "invarian*"),
    ("Find a bijection", 7.6, "bijecti*, one to one correspondence"),
    ("Count in two ways", 9.0, "count in two ways"),
    ("Use a functional equation", 5.6, "functional equation"),
    ("Interpolate a polynomial", 6.2, "interpolat*"),
    ("Use symmetric sums", 6.1, "newton*, symmetric polynomial*, elementary symmetric, power sums"),
    (
        "Study the roots of a polynomial",
        4.8,
        "polynomial with roots, whose roots are, roots of the polynomial, roots of a polynomial",
    ),
    (
        "Use monotonicity",
        6.2,
        "monoton*, strictly increasing, increasing function, decreasing function",
    ),
    ("Analyze the domain and range", 3.5, "domain, range of"),
    ("Invert the function", 4.7, "inverse function, inverse of the function"),
    ("Compose functions", 6.0, "composition*"),
    ("Use a graph", 3.5, "graph, graphs, graphing, sketch*, plot*"),
    ("Work backwards", 5.1, "backward*"),
    (
        "Guess and check values",
        3.0,
        "trial and error, guess*, try, trying, test values, testing, test each, by "
        "inspection, experiment*, plug in values",
    ),
    ("Check the answer choices", 7.9, "answer choice*, given options"),
    ("Verify the result", 3.8, "verif*, double check"),
    ("Approximate numerically", 3.7, "approximat*, numerically, calculator"),
    ("Run a program", 7.1, "python, sympy, brute force"),
    (
        "Count the complement",
        4.9,
        "complement*, subtract from the total, from the total number, opposite event, unwanted",
    ),
    (
        "Use inclusion-exclusion",
        4.0,
        "inclusion exclusion, overcount*, counted twice, double counted, double counting",
    ),
    (
        "Count choices with binomial coefficients",
        2.5,
        "combinations, binomial coefficient*, ways to choose, choose",
    ),
    ("Count arrangements with factorials", 2.8, "permut*, factorial*, arrangements, arranged"),
    (
        "Multiply independent choices",
        4.7,
        "multiplication principle, counting principle, independent*",
    ),
    ("Use stars and bars", 5.2, "stars and bars, balls and urns, dividers"),
    ("List the possibilities", 3.0, "list, listing, enumerat*"),
    ("Treat items as a block", 5.5, "as a block, single unit, as one unit, one block"),
    ("Apply Burnside's lemma", 6.1, "burnside*, orbit*, group action*"),
    ("Compute probabilities", 4.7, "probabilit*"),
    (
        "Compare favorable and total outcomes",
        5.6,
        "favorable, favourable, total outcomes, number of outcomes, equally likely",
    ),
    ("Use conditional probability", 9.0, "conditional prob*, bayes*"),
    ("Compute an expected value", 7.9, "expected value*, linearity of expectation"),
    ("Set up states", 6.8, "markov, transition*"),
    ("Use geometric probability", 9.0, "geometric probability"),
    ("Find the prime factorization", 2.7, "prime factor*, factorization of"),
    ("Work modulo a number", 2.3, "modulo, mod, congruen*, modular, residue*"),
    ("Use the Chinese remainder theorem", 5.3, "chinese remainder, crt"),
    ("Apply Fermat's little theorem", 5.6, "fermat*"),
    ("Apply Euler's totient theorem", 5.6, "totient, euler theorem, phi function"),
    ("Find a modular inverse", 3.4, "modular inverse*, multiplicative inverse*, inverse modulo"),
    (
        "Use the greatest common divisor",
        2.8,
        "gcd, greatest common divisor, greatest common factor, coprime, relatively prime",
    ),
    ("Run the Euclidean algorithm", 3.9, "euclidean algorithm"),
    ("Use the least common multiple", 3.7, "lcm, least common multiple, common multiple*"),
    ("Use divisibility", 1.8, "divisib*, divisor*, multiple of, multiples of"),
    ("Lift the exponent", 7.9, "lifting the exponent, lte"),
    ("Count prime powers with Legendre's formula", 6.9, "legendre*"),
    ("Use the floor function", 3.8, "floor"),
    ("Find a pattern or a cycle", 3.2, "cycle, cycles, repeating, repeats, periodic*, pattern"),
    ("Reason about digits", 2.5, "digit*"),
    ("Convert between number bases", 3.4, "base ten, base two, number base*, binary, in base"),
    ("Use parity", 6.2, "parity, even and odd, odd and even"),
    ("Use perfect squares", 3.3, "perfect square*, perfect cube*"),
    ("Find integer solutions", 4.2, "diophantine, integer solutions"),
    ("Count divisors", 3.3, "number of divisors, divisors of"),
    ("Use Simon's factoring trick", 6.7, "simon*, sfft"),
    ("Use Bezout's identity", 8.3, "bezout*"),
    ("Use consecutive integers", 3.8, "consecutive"),
    ("Place coordinates", 3.0, "coordinate*, origin"),
    ("Use the distance formula", 4.0, "distance formula"),
    ("Use slopes", 4.4, "slope*"),
    ("Use midpoints", 3.9, "midpoint*"),
    ("Use vectors", 5.5, "vector*"),
    ("Take a dot product", 7.1, "dot product, scalar product, orthogonal*"),
    ("Take a cross product", 8.3, "cross product"),
    ("Compute a determinant", 5.2, "determinant*"),
    ("Use matrices", 5.4, "matri*, row reduc*"),
    ("Use eigenvalues", 7.6, "eigen*, characteristic polynomial"),
    (
        "Use similar triangles",
        4.5,
        "similar triangle*, similarity, are similar, is similar to triangle, similar to",
    ),
    ("Use congruent triangles", 5.9, "congruent triangle*, sss, sas"),
    ("Apply the Pythagorean theorem", 3.2, "pythagorean theorem, pythagoras, hypotenuse"),
    ("Apply the law of cosines", 6.8, "law of cosines, cosine rule, cosine law"),
    ("Apply the law of sines", 6.1, "law of sines, sine rule, sine law"),
    (
        "Use trigonometric functions",
        4.1,
        "trigonometr*, sine, cosine, cotangent, cosecant, arctangent, arcsine, arccosine, tan",
    ),
    ("Use double or half angle formulas", 7.9, "double angle, half angle, triple angle"),
    (
        "Use angle sum formulas",
        6.2,
        "angle addition, sum to product, product to sum, angle sum formula, addition "
        "formula*, angle subtraction",
    ),
    (
        "Use a trigonometric identity",
        6.5,
        "trigonometric identit*, trig identit*, pythagorean identity",
    ),
    ("Compute areas", 2.7, "area, areas"),
    ("Apply Heron's formula", 6.4, "heron*, semiperimeter"),
    ("Apply the shoelace formula", 7.1, "shoelace"),
    ("Use arcs and inscribed angles", 6.2, "inscribed angle*, subtend*, arc, arcs"),
    ("Use power of a point", 7.6, "power of a point, power of the point"),
    ("Use a cyclic quadrilateral", 7.6, "cyclic quadrilateral*, concyclic"),
    ("Apply Ptolemy's theorem", 9.0, "ptolemy*"),
    (
        "Chase angles",
        3.9,
        "angle chas*, sum of the angles, exterior angle*, interior angle*, supplementary, "
        "isosceles",
    ),
    ("Use bisectors", 5.1, "bisector*"),
    ("Use medians and centroids", 4.3, "median*, centroid*"),
    ("Drop a perpendicular", 4.4, "altitude*, perpendicular from, foot of"),
    ("Use the circumscribed circle", 5.8, "circumradius, circumcircle, circumcenter, circumscrib*"),
    ("Use the inscribed circle", 6.1, "inradius, incircle, incent*, inscribed circle"),
    ("Use tangency", 4.7, "tangent line*, tangent to, tangenc*, tangents"),
    ("Apply Stewart's theorem", 9.0, "stewart*"),
    ("Apply Menelaus or Ceva", 7.4, "menelaus, ceva"),
    ("Use mass points", 8.3, "mass point*, barycentric*"),
    ("Reflect the figure", 5.2, "reflection, reflecting, reflected, reflect the"),
    ("Consider rotations", 4.3, "rotation*, rotate*, rotating"),
    ("Use a homothety", 8.3, "homothet*, dilat*"),
    ("Use inversion", 7.9, "inversion"),
    (
        "Draw an auxiliary line",
        5.8,
        "auxiliary, extend the line, extend side, draw a line, draw the line, draw line, construct",
    ),
    ("Use complex numbers", 3.9, "complex number*, complex plane, imaginary"),
    ("Use polar form", 5.9, "polar, cis, moivre*"),
    ("Use roots of unity", 5.6, "roots of unity, root of unity"),
    ("Compute volumes", 4.5, "volume*"),
    ("Dissect the figure", 6.7, "dissect*, cut into, decompos*"),
    ("Project onto a line or plane", 8.3, "projection*, projecting, cross section*"),
    ("Parametrize", 7.9, "parametri*, parameter*"),
    ("Use the unit circle", 5.7, "unit circle"),
    ("Use special right triangles", 5.1, "special right, equilateral"),
    ("Use conic properties", 6.1, "ellipse*, hyperbola*, foci, directrix"),
    ("Use proportions", 4.4, "proportion*"),
    ("Use rates", 4.8, "rates, speed*, constant rate"),
    ("Use averages", 3.8, "average*"),
    ("Use successive differences", 7.9, "finite difference*, successive difference*"),
    ("Take square roots", 1.7, ""),
    ("Work with a product of factors", 1.9, ""),
    ("Evaluate the function", 2.5, ""),
    ("Sum the terms of a series", 2.8, ""),
)

# Notation that gives a method away. Every repetition is bounded, so that a search is linear.
_NOTATION: tuple[tuple[str, str], ...] = (
    ("Take square roots", r"\\pm\b|±|\\sqrt|√|\bsqrt"),
    ("Work with a quadratic equation", r"(?:\^\{?2\}?|²)[^\n$]{0,40}=\s{0,3}0"),
    (
        "Work with inequalities",
        r"\\(?:leq?|geq?|lt|gt|leqslant|geqslant)\b|[≤≥<]|(?<![=\-])>",
    ),
    ("Work with a product of factors", r"(?<!\\)\)\s?\(\s{0,3}[a-z\d]"),
    ("Count arrangements with factorials", r"[\dnk]!"),
    ("Count choices with binomial coefficients", r"\bC\(\d+, ?\d+\)|\d[Cc]\d"),
    ("Evaluate the function", r"\bf\("),
    ("Differentiate", r"\bf'\(|frac\{d"),
    ("Split the absolute value into pieces", r"\|[a-z][^|\n]{0,15}\|"),
    ("Sum the terms of a series", r"\\(?:cdots|ldots|dots)|\+\s{0,3}\.\.\."),
)

# What a LaTeX command or environment says in words; other commands say nothing.
_LATEX_WORDS = {
    "\\cos": "cosine",
    "\\sin": "sine",
    "\\tan": "tan",
    "\\cot": "cotangent",
    "\\csc": "cosecant",
    "\\arctan": "arctangent",
    "\\arcsin": "arcsine",
    "\\arccos": "arccosine",
    "\\binom": "binomial coefficient",
    "\\dbinom": "binomial coefficient",
    "\\tbinom": "binomial coefficient",
    "\\choose": "choose",
    "\\int": "integral",
    "\\log": "log",
    "\\ln": "ln",
    "\\pmod": "modulo",
    "\\bmod": "modulo",
    "\\mod": "modulo",
    "\\equiv": "modulo",
    "\\lim": "limit",
    "\\vec": "vector",
    "\\overrightarrow": "vector",
    "\\det": "determinant",
    "\\lfloor": "floor",
    "\\gcd": "gcd",
    "\\sim": "similar to",
    "pmatrix": "matrix",
    "bmatrix": "matrix",
    "vmatrix": "determinant",
}

_TOKEN = re.compile(r"\\[a-zA-Z]+|[a-z]+(?:['’]s\b)?", re.IGNORECASE)


@dataclass(frozen=True)
class Method:
    """One entry of the vocabulary.

    Args:
        phrase (`str`): What is done, verb first.
        weight (`float`): How telling it is; see the module's docstring.
    """

    phrase: str
    weight: float


@dataclass(frozen=True)
class Mention:
    """A method that a text mentions.

    Args:
        method ([`Method`]): Which.
        count (`int`): How often in words; 1 when only notation tells of it.
        position (`int`): Index of the first character of the first mention.
    """

    method: Method
    count: int
    position: int


METHODS: tuple[Method, ...] = tuple(Method(phrase, weight) for phrase, weight, _ in _TABLE)

_Trigger = tuple[tuple[tuple[str, bool], ...], int]


def _index() -> dict[str, list[_Trigger]]:
    # By the first three letters of the first word: a token meets the few triggers that can match.
    index: dict[str, list[_Trigger]] = defaultdict(list)
    for row, (_, _, triggers) in enumerate(_TABLE):
        for trigger in filter(None, triggers.split(", ")):
            words = tuple((word.rstrip("*"), word.endswith("*")) for word in trigger.split())
            index[words[0][0][:3]].append((words, row))
    return dict(index)


_INDEX = _index()
_ROW = {phrase: row for row, (phrase, _, _) in enumerate(_TABLE)}
_PATTERNS = tuple((re.compile(pattern), _ROW[phrase]) for phrase, pattern in _NOTATION)


def find_methods(text: str) -> list[Mention]:
    """Find the methods that a text mentions, in time linear in its length.

    Args:
        text (`str`): A solution or part of one, LaTeX and all.

    Returns:
        `list[Mention]`: One per method, by first mention.

    Example:

    ```python
    >>> from rpd_metric.steps.vocabulary import find_methods
    >>> found = find_methods("By Vieta's formulas the sum is 4. Completing the square also works.")
    >>> [mention.method.phrase for mention in found]
    ["Relate roots and coefficients by Vieta's formulas", 'Complete the square']

    ```
    """
    words: list[tuple[str, int]] = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token[0] == "\\":
            said = _LATEX_WORDS.get(token, "")
        else:
            plain = token.lower()
            if plain[-2:] in ("'s", "’s"):
                plain = plain[:-2]
            said = _LATEX_WORDS.get(plain, plain)
        words.extend((word, match.start()) for word in said.split())
    counts: dict[int, int] = defaultdict(int)
    first: dict[int, int] = {}
    for at, (word, position) in enumerate(words):
        for trigger, row in _INDEX.get(word[:3], ()):
            if _matches(trigger, words, at):
                counts[row] += 1
                first.setdefault(row, position)
    for pattern, row in _PATTERNS:
        symbol = pattern.search(text)
        if symbol is not None:
            counts.setdefault(row, 1)
            first[row] = min(first.get(row, symbol.start()), symbol.start())
    return sorted(
        (Mention(METHODS[row], counts[row], first[row]) for row in counts),
        key=lambda mention: (mention.position, mention.method.phrase),
    )


def _matches(
    trigger: tuple[tuple[str, bool], ...], words: list[tuple[str, int]], start: int
) -> bool:
    if start + len(trigger) > len(words):
        return False
    for offset, (stem, any_ending) in enumerate(trigger):
        word = words[start + offset][0]
        if not (word.startswith(stem) if any_ending else word == stem):
            return False
    return True
