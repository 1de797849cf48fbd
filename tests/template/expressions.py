"""Random expressions and statements of the subset, for the comparison with jinja2."""
CONTEXT = {
    "n": 3, "zero": 0, "neg": -7, "f": 2.5, "big": 1e22, "s": "Hello World", "e": "", "u": "naïve ß İΣ ﬁ", "yes": True, "nothing": None,
    "l": [1, 2.0, "a", None, True], "words": ["b", "A", "c", "a"], "ints": [3, 1, 2],
    "d": {"a": 1, "items": "x", "B": [1, 2], "n": None, "get": 5}, "nd": {}, "nl": [],
    "rows": [{"role": "user", "content": "hi <b>", "k": 2}, {"role": "assistant", "content": None, "k": 1},
             {"role": "user", "content": "  x\n", "t": {"u": [1]}}],
    "j": {"q": "a\"b\\c\u2028\u007f\n", "x": [1.0, {"y": None}], "é": "😀"}, "lines": "a\nb\n\n  c\r\nd", "ws": " \t x \u00a0\u3000",
}
NAMES = [*CONTEXT, "undef"]
LITERALS = ["1.5", "0.0", "2e3", "1e16", "0.1", "3.7", "true", "false", "none", "'a'", "''", "'x y'", "\"it's\"", "'a-b'", "', '", "'%s-%s'",
            "'k'", "'role'", "'content'", "'Ab'", "'é'", "'\\n'", "'3'", "'2.5'"]
FILTERS = """upper lower title capitalize trim trim('ab ') length string list first last reverse join join(',') join('-',attribute='role') sort
sort(reverse=true) sort(attribute='k') unique|list min max sum abs int int(5) float round round(1) round(1,'floor') round(-1) round(0,'ceil')
tojson tojson(indent=2) tojson(ensure_ascii=true) tojson(separators=(',',':')) tojson(sort_keys=true) default('D') default('D',true) d
items|list dictsort dictsort(false,'value') map('upper')|list map(attribute='role')|list map(attribute='t.u.0',default='Q')|list select|list
select('string')|list reject('number')|list selectattr('k')|list selectattr('role','equalto','user')|list rejectattr('content','none')|list
replace('a','bb') replace('','-') replace('l','L',1) indent indent(2,true) indent('>',blank=true) safe escape format(1) format('a','b')
batch(2)|list batch(2,'x')|list count e|string select('odd')|list map('tojson')|join string|length""".split()
TESTS = """defined undefined none string number mapping sequence iterable true false boolean integer float odd even divisibleby(2) eq(1) ne(1)
in([1,2]) sameas(none) callable lower upper escaped gt(1) lt(2)""".split()
METHODS = """upper() lower() title() capitalize() swapcase() strip() lstrip() rstrip() strip('ab') split() split('l',1) rsplit(',',1) rsplit()
split(none,1) rsplit(none,1) splitlines() splitlines(true) startswith('H') startswith(('a','H')) endswith('d') endswith('d',2,9) find('l')
rfind('l') find('l',4) count('l') count('') replace('l','LL') replace('l','',1) replace('','.') join(words) join(l) isdigit() isalpha()
isspace() isalnum() islower() isupper() partition('o') rpartition('o') removeprefix('He') removesuffix('ld') zfill(8) center(15,'*')
ljust(14) rjust(14,'.') format(1,2) format(s) keys()|list values()|list items()|list get('a') get('zz') get('zz',7) index('l') index(1)
append(1) copy()""".split()
FORMATS = ["'%s' % ", "'%5s|%-5s|' % ", "'%d' % ", "'%05.1f' % ", "'%r' % ", "'%x' % ", "'%+d%%' % ", "'%.2s' % ", "'%(a)s' % "]


def expression(r, depth=0):
    """An expression; most are wrong for one reason or another, which both sides must see."""
    if depth > 4 or r.random() < 0.25:
        return r.choice([r.choice(NAMES), str(r.randint(-3, 12)), r.choice(LITERALS)])

    def sub():
        return expression(r, depth + 1)

    def bound():
        return r.choice(["", "", "1", "-1", "2", "-2", "n", "0"])

    kinds = [
        lambda: f"({sub()} {r.choice(['+', '-', '*', '/', '//', '%', '**', '~'])} {sub()})",
        lambda: f"{sub()} {r.choice(['+', '-', '*', '/', '//', '%', '~'])} {sub()}",
        lambda: f"({sub()} {r.choice(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'])} {sub()})",
        lambda: f"{sub()} {r.choice(['and', 'or'])} {sub()}",
        lambda: f"not {sub()}",
        lambda: f"({sub()} if {sub()} else {sub()})",
        lambda: f"({sub()} if {sub()})",
        lambda: "[" + ", ".join(sub() for _ in range(r.randint(0, 3))) + "]",
        lambda: f"({sub()}, {sub()})",
        lambda: "{" + ", ".join(r.choice(["'a'", "'b'", "1", "1.0", "true", "none"]) + ": " + sub() for _ in range(r.randint(0, 3))) + "}",
        lambda: f"{sub()}[{sub()}]",
        lambda: f"{r.choice(NAMES)}[{bound()}:{bound()}{r.choice(['', ':', ':-1', ':2'])}]",
        lambda: f"({sub()}).{r.choice(['a', 'items', 'role', 'content', 'k', '0', 'n', 'nope', 'keys'])}",
        lambda: f"({sub()})|{r.choice(FILTERS)}",
        lambda: f"{r.choice(NAMES)}|{r.choice(FILTERS)}",
        lambda: f"({sub()} is {r.choice(['', 'not '])}{r.choice(TESTS)})",
        lambda: f"{r.choice(NAMES)}.{r.choice(METHODS)}",
        lambda: f"({sub()}).{r.choice(METHODS)}",
        lambda: r.choice(FORMATS) + sub(),
        lambda: r.choice(["'{}-{}'", "'{:>6}'", "'{0:.2f}'", "'{!r:^9}'", "'{:,}'", "'{:05d}'"]) + f".format({sub()}, {sub()})",
        lambda: f"range({r.randint(-2, 5)}, {r.randint(-5, 9)}, {r.choice([1, 2, -1])})|list",
        lambda: f"dict(a={sub()})",
        lambda: f"namespace(a={sub()}).a",
    ]
    return r.choice(kinds)()


VARIABLES = ["v", "w", "n", "s", "ns.a", "i", "k", "'q'", "1", "v|default('D')", "m(1)", "m(v)", "m(a=2)", "m(1, b=w)", "w is defined",
             "w ~ '.'", "caller is defined", "cy.next()", "j()", "ns.a == 1", "not v"]
LOOP = ["loop.index", "loop.last", "loop.first", "loop.length", "loop.index0", "loop.previtem", "loop.nextitem", "loop.revindex",
        "loop.cycle('a', 'b')", "loop.changed(v)", "loop.depth"]
PRELUDE = ("{% set ns = namespace(a=1) %}{% set cy = cycler(1, 2) %}{% set j = joiner() %}"
           "{% macro m(a, b=2) %}({{ a }},{{ b }}{% if caller is defined %}{{ caller(7) }}{% endif %}){% endmacro %}")


def statements(r, depth=0, in_loop=False):
    """A few statements in a row: scopes, loops, macros, white space control."""
    return "".join(statement(r, depth, in_loop) for _ in range(r.randint(1, 4)))


def statement(r, depth, in_loop):
    def tag(inside):
        return "{%" + r.choice(["", "-"]) + f" {inside} " + r.choice(["", "-"]) + "%}" + r.choice(["", " ", "\n", "\n  "])

    def value():
        return r.choice(VARIABLES + LOOP if in_loop else VARIABLES)

    def body(loop=in_loop):
        return statements(r, depth + 1, loop)

    def conditional():
        text = tag(f"if {value()}") + body()
        if r.random() < 0.4:
            text += tag(f"elif {value()}") + body()
        if r.random() < 0.5:
            text += tag("else") + body()
        return text + tag("endif")

    def loop():
        target, items = r.choice([("i", "ints"), ("v", "l"), ("k", "d"), ("i", "[]"), ("v", "s[:3]"), ("i", "undef"), ("k", "[v, w, n]"),
                                  ("i", "ints|select('odd')"), ("k", "words|reverse"), ("i, k", "d.items()"), ("i, k", "d|items")])
        test = r.choice(["", "", f" if {target.split(',')[0]} != 1", " if ns.a != 2"])
        inside = body(True)
        text = tag(f"for {target} in {items}{test}") + inside
        if r.random() < 0.2 and "break" not in inside:
            text += tag("else") + body()
        return text + tag("endfor")

    simple = [
        lambda: r.choice(["t", "\n", " a ", "[", "]\n"]),
        lambda: "{{ " + value() + " }}" + r.choice(["", "|", "\n"]),
        lambda: "{{ " + value() + " }}",
        lambda: tag(f"set {r.choice(['v', 'w', 'ns.a', 'n'])} = {value()}"),
        lambda: tag(f"set v, w = {r.choice(['1, 2', 'ints[:2]'])}"),
        lambda: tag(f"if {value()}") + tag(r.choice(["continue", "break"])) + tag("endif") if in_loop else "",
        lambda: "{#" + r.choice(["", "-"]) + " c " + r.choice(["", "-"]) + "#}\n",
    ]
    nested = [
        conditional, loop, loop,
        lambda: tag(f"set {r.choice(['v', 'w'])}" + r.choice(["", " | upper"])) + body(False) + tag("endset"),
        lambda: tag(f"macro {r.choice(['p', 'q'])}({r.choice(['a, b=1', 'a=v, b=a', ''])})") + body(False) + tag("endmacro"),
        lambda: tag("call(i=0) m(1)") + body(False) + tag("endcall"),
        lambda: tag("filter " + r.choice(["upper", "trim", "replace('a', v|string)"])) + body(False) + tag("endfilter"),
        lambda: tag(f"with {r.choice(['v', 'i'])} = {value()}") + body(False) + tag("endwith"),
        lambda: tag("generation") + body(False) + tag("endgeneration"),
    ]
    return r.choice(simple if depth > 3 or r.random() < 0.5 else nested)()
